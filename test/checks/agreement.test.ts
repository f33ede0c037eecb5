import { describe, expect, it } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import { runInProcess } from '../cli/in-process.ts';
import { USUAL } from '../support/databases.ts';
import { ownStage } from '../support/own-stage.ts';
import type { OwnRecord } from '../support/record-service.ts';
import { instant, type Behaviour, type SmallRecord } from '../support/small-service.ts';
import { smallStage } from '../support/small-stage.ts';

const HOUR = 3_600_000;

const at = ({ updated_at }: SmallRecord): number => (updated_at === null ? -Infinity : instant(updated_at));

/** The status that check gives to one of its checks; null if it says nothing of it. */
function statusIn(stdout: string, check: string): string | null {
  return new RegExp(`^ {2}(ok|warn|FAIL) +content ${check}:`, 'm').exec(stdout)?.[1]?.trim() ?? null;
}

/** What check may say of a filter for what a run says of it. */
const FILTER: Readonly<Record<string, string>> = {
  trusted: 'ok',
  filter_ignored: 'warn',
  filter_not_believed: 'FAIL',
  records_without_updated: 'FAIL',
};

/** Every ninth record has no time of change then. */
const UNTIMED = { updated: 'updated_at' };

const SERVICES: readonly [what: string, behaviour: Behaviour, fields: Record<string, unknown>, verdict: string][] = [
  ['is healthy', {}, {}, 'trusted'],
  ['refuses an unknown parameter with 400', { unknown: 400 }, {}, 'trusted'],
  ['refuses an unknown parameter with 403', { unknown: 403 }, {}, 'trusted'],
  ['takes an unknown parameter for a filter', { unknown: 'nothing' }, {}, 'trusted'],
  ['refuses moments to come', { refuses: (value) => instant(value) > Date.parse('2027-01-01') }, {}, 'trusted'],
  [
    'lists only what changed after the moment',
    { filter: (record, value) => at(record) > instant(value) },
    {},
    'trusted',
  ],
  ['ignores the filter', { filter: () => true }, {}, 'filter_ignored'],
  ['matches nothing', { filter: () => false }, {}, 'filter_not_believed'],
  [
    'compares texts',
    { filter: (record, value) => new Date(at(record)).toISOString().replace('T', ' ') >= value },
    {},
    'filter_not_believed',
  ],
  [
    'takes seconds for milliseconds',
    { filter: (record, value) => at(record) >= Number(value) * 1_000 },
    { incremental: { param: 'updated_since', format: 'epoch_ms', overlap: '10m' } },
    'filter_not_believed',
  ],
  ['has records without a time', {}, UNTIMED, 'records_without_updated'],
];

describe('check and a run judge a filter alike', () => {
  it.each(SERVICES)('where the service %s', async (_, behaviour, fields, verdict) => {
    const stage = await smallStage(behaviour, {
      page: { style: 'page', page_param: 'page', size: 100, total: 'total' },
      ...fields,
    });
    const { service } = stage;
    for (let index = 0; index < 100; index += 1) {
      service.now += 3 * HOUR;
      service.put(
        `r${String(index).padStart(2, '0')}`,
        fields === UNTIMED && index % 9 === 0 ? { updated_at: null } : {},
      );
    }
    const { code, stdout } = await runInProcess(checkCommand, ['--config', stage.config], stage.folder);
    await stage.walk('backfill');
    service.put('r50', { title: 'edited' });
    const { warnings = [], status } = await stage.walk();
    const codes = warnings.map((warning) => warning.code);
    expect([status, codes, await stage.unlike()]).toEqual(['ok', verdict === 'trusted' ? [] : [verdict], []]);
    expect([statusIn(stdout, 'filter'), statusIn(stdout, 'updated')]).toContain(FILTER[verdict]);
    expect(code).toBe(stdout.includes('FAIL') ? 1 : 0);
  });
});

const RECORDS: OwnRecord[] = Array.from({ length: 9 }, (_, index) => {
  return { id: index + 1, title: `title ${index}`, updated_at: '2026-03-01T08:00:00Z' };
});

describe('check and a run judge a record fetched individually alike', () => {
  it.each<[what: string, alone: (record: OwnRecord | undefined) => OwnRecord | undefined, isRight: boolean]>([
    ['the same', (record) => record, true],
    ['with further fields', (record) => record && { ...record, body: 'long' }, true],
    ['with a field of another kind', (record) => record && { ...record, title: null }, false],
    ['with another value', (record) => record && { ...record, title: 'another' }, false],
  ])('%s', async (_, alone, isRight) => {
    const stage = await ownStage(USUAL, RECORDS, { behaviour: { alone } });
    const drained = await stage.listen();
    const { stdout } = await runInProcess(checkCommand, ['--config', stage.config], stage.folder);
    stage.service.put({ id: 3, title: 'changed', updated_at: '2026-03-02T08:00:00Z' });
    await drained.hear(3);
    const { status, warnings = [] } = await drained.run('sync');
    expect([statusIn(stdout, 'item'), status]).toEqual(isRight ? ['ok', 'ok'] : ['FAIL', 'partial']);
    expect(warnings.map(({ code }) => code)).toEqual(isRight ? [] : ['item_unproved']);
  });
});
