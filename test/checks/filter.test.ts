import { describe, expect, it } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import { runInProcess } from '../cli/in-process.ts';
import { instant, type Behaviour, type SmallRecord } from '../support/small-service.ts';
import { smallStage } from '../support/small-stage.ts';

const DAY = 86_400_000;

function at({ updated_at }: SmallRecord): number {
  return updated_at === null ? -Infinity : instant(updated_at);
}

/** Checks a service with twelve records, a day apart, whose times are written as `form` says. */
async function checked(
  behaviour: Behaviour,
  fields: Record<string, unknown> = {},
  form: (epochMs: number) => SmallRecord['updated_at'] = (epochMs) => new Date(epochMs).toISOString(),
) {
  const stage = await smallStage(behaviour, { page: { style: 'page', page_param: 'page', size: 100 }, ...fields });
  for (let index = 0; index < 12; index += 1) {
    stage.service.now += DAY;
    stage.service.put(`r${index}`, { updated_at: form(stage.service.now) });
  }
  const ended = await runInProcess(checkCommand, ['--config', stage.config], stage.folder);
  return { ...ended, asked: stage.service.asked() };
}

function format(name: string) {
  return { incremental: { param: 'updated_since', format: name, lookback: '10m' } };
}

/** `updated_at:>='2026-11-20 12:00:00'`, and nothing else. */
function byExpression(record: SmallRecord, value: string): boolean {
  const [, since] = /^updated_at:>='(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)'$/.exec(value) ?? [];
  return since !== undefined && at(record) >= instant(`${since.replace(' ', 'T')}Z`);
}

describe('check of a filter', () => {
  it.each<[what: string, behaviour: Behaviour, fields: Record<string, unknown>]>([
    ['knows days only', { filter: (record, value) => at(record) >= Date.parse(value.slice(0, 10)) }, format('iso')],
    ['takes Unix seconds', { filter: (record, value) => at(record) >= Number(value) * 1_000 }, format('epoch_s')],
    ['takes Unix milliseconds', { filter: (record, value) => at(record) >= Number(value) }, format('epoch_ms')],
    ['refuses a parameter that it does not know', { unknown: 400 }, {}],
    ['takes an unknown parameter for a filter', { unknown: 'nothing' }, {}],
  ])('is content where the service %s', async (_, behaviour, fields) => {
    const { stdout } = await checked(behaviour, fields);
    expect(stdout).toMatch(/ok {4}content filter: .*none in a year, all since 1970, \d+ since /);
  });

  it('writes the moments as the records have them', async () => {
    const { stdout, asked } = await checked({}, {}, (epochMs) => epochMs / 1_000);
    expect(stdout).toMatch(/ok {4}content filter/);
    const moments = asked.flatMap((path) => /updated_since=([^&]*)/.exec(path)?.[1] ?? []);
    expect(moments).toEqual([expect.stringMatching(/^18\d{8}$/), '86400', expect.stringMatching(/^177\d{7}$/)]);
  });

  // Nothing is missed by these, and the run says the same: every sync reads more than it must.
  it.each<[what: string, behaviour: Behaviour, fields: Record<string, unknown>, finding: RegExp, hint: RegExp]>([
    [
      'ignores its parameter',
      { filter: () => true },
      {},
      /updated_since=2\d{3}-.* still lists 12 records: the service ignores it/,
      /incremental: null/,
    ],
    [
      'takes milliseconds where the profile sends seconds',
      { filter: (record, value) => at(record) >= Number(value) },
      format('epoch_s'),
      /still lists 12 records/,
      /incremental\.format to "epoch_ms"/,
    ],
    [
      'compares by something else than the time of change',
      { filter: (record, value) => at(record) + 5 * DAY >= instant(value) },
      {},
      /also lists what last changed at 2026-/,
      /incremental\.param/,
    ],
  ])('only warns that the service %s', async (_, behaviour, fields, finding, hint) => {
    const { code, stdout } = await checked(behaviour, fields);
    const [told, next] = stdout.slice(stdout.indexOf('warn  content filter')).split('\n');
    expect([code, told, next]).toEqual([0, expect.stringMatching(finding), expect.stringMatching(hint)]);
  });

  it.each<[what: string, behaviour: Behaviour, fields: Record<string, unknown>, finding: RegExp, hint: RegExp]>([
    ['matches nothing, ever', { filter: () => false }, {}, /lists nothing: the filter matches no record/, /format/],
    [
      'takes seconds where the profile sends milliseconds',
      { filter: (record, value) => at(record) >= Number(value) * 1_000 },
      format('epoch_ms'),
      /updated_since=\d+ does not list r\d+, which changed at/,
      /incremental\.format to "epoch_s"/,
    ],
    [
      'reads the moment in a zone that is hours behind, so that changes of a day are missed',
      { filter: (record, value) => at(record) - 30 * 3_600_000 >= instant(value) },
      {},
      /does not list r\d+, which changed at 2026/,
      /incremental\.format/,
    ],
    [
      'refuses the form of the moment',
      { param: 'changed_after', unknown: 400 },
      {},
      /the service refuses updated_since=/,
      /incremental\.param, .* and incremental\.format in/,
    ],
    [
      'compares texts, of which its own have a space where ours have a T',
      { filter: (record, value) => new Date(at(record)).toISOString().replace('T', ' ').slice(0, 19) >= value },
      {},
      /updated_since=.* does not list r\d+, which changed at/,
      /incremental\.format to "yyyy-MM-dd HH:mm:ss"/,
    ],
  ])('tells that the service %s, and what to set', async (_, behaviour, fields, finding, hint) => {
    const { code, stdout } = await checked(behaviour, fields);
    const [told, next] = stdout.slice(stdout.indexOf('FAIL  content filter')).split('\n');
    expect([code, told, next]).toEqual([1, expect.stringMatching(finding), expect.stringMatching(hint)]);
  });

  it('asks by the template as a sync does', async () => {
    const incremental = { param: 'filter', template: "updated_at:>='{since}'", format: 'yyyy-MM-dd HH:mm:ss' };
    const { stdout } = await checked({ param: 'filter', filter: byExpression, unknown: 400 }, { incremental });
    expect(stdout).toMatch(/ok {4}content filter: filter leaves out what did not change/);
    const wrong = await checked(
      { param: 'filter', filter: byExpression, unknown: 400 },
      { incremental: { ...incremental, format: 'iso' } },
    );
    expect(wrong.stdout).toMatch(
      /FAIL {2}content filter: filter=updated_at:>='1970.* lists nothing.*\n.*"yyyy-MM-dd HH:mm:ss"/,
    );
  });

  it('only warns of what the profile accepts', async () => {
    const { code, stdout } = await checked({ filter: () => false }, { accept: ['filter'] });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/warn {2}content filter: .* matches no record/)]);
  });
});

describe('check of records without a time of change', () => {
  it('fails with their number, and with all of them if the service tells totals', async () => {
    let index = 0;
    const everyThird = (epochMs: number) => ((index += 1) % 3 === 0 ? null : new Date(epochMs).toISOString());
    const { code, stdout } = await checked({}, {}, everyThird);
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/FAIL {2}content updated: .*4 of them can never be found/),
    ]);
    expect(stdout).toMatch(/ok {4}content filter/);
    index = 0;
    const page = { style: 'page', page_param: 'page', size: 5, total: 'total' };
    const paged = await checked({}, { page }, everyThird);
    expect(paged.stdout).toMatch(/FAIL {2}content filter: .*lists 8 of 12 records: the other 4 can never be found/);
  });

  it('only warns if the profile asks for no filter, or accepts it', async () => {
    for (const fields of [{ incremental: null }, { accept: ['filter'] }]) {
      const { code, stdout } = await checked({}, fields, () => null);
      expect([code, stdout]).toEqual([
        0,
        expect.stringMatching(/warn {2}content updated: updated_at is a time in 0 of 12/),
      ]);
    }
  });
});
