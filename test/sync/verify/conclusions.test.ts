import { describe, expect, it } from 'vitest';
import type { VerifyReport } from '../../../src/sync/verify/report.ts';
import { eitherDatabase, SQLITE } from '../../support/databases.ts';
import { ownStage, type OwnStage } from '../../support/own-stage.ts';
import type { Behaviour, OwnRecord } from '../../support/record-service.ts';

const records = Array.from({ length: 30 }, (_, index) => record(index + 1));

function record(id: number): OwnRecord {
  return { id, updated_at: '2024-01-01T00:00:00Z', title: `No. ${id}` };
}

async function verify(stage: OwnStage) {
  const { code, stdout, stderr } = await stage.command('verify', '--json');
  if (stdout === '') throw new Error(stderr);
  const report: VerifyReport = JSON.parse(stdout);
  return { code, report, first: report.differences.first };
}

const EXTRA = { code: 3, first: [{ kind: 'extra', id: '7' }] };

describe.for(eitherDatabase(import.meta.filename))('verify of a row that is not listed, on $name', (database) => {
  it.for<[response: string, alone: Behaviour['alone']]>([
    ['404', (found) => found ?? null],
    ['another record', (found) => found ?? record(1)],
    ['an empty object', (found) => found ?? {}],
    ['the record all the same', (_found, _query, id) => record(Number(id))],
  ])('differs if the record alone answers with %s', async ([, alone]) => {
    const stage = await ownStage(database, records, { behaviour: { alone } });
    expect(await verify(stage)).toMatchObject({ code: 0, report: { verdict: 'equal' } });
    stage.service.records.delete('7');
    expect(await verify(stage)).toMatchObject(EXTRA);
    expect((await stage.live()).length).toBe(30);
  });
});

describe('verify', () => {
  it('finds a listed record without a row, although the record alone is not found', async () => {
    const stage = await ownStage(SQLITE, records, { behaviour: { alone: () => null } });
    await stage.write("DELETE FROM content WHERE id = '7'");
    const { code, report } = await verify(stage);
    expect({ code, kinds: report.differences.by_kind }).toMatchObject({ code: 3, kinds: { missing: 1 } });
  });

  it('is undecided if the listing does not reach its total, and judges no missing record by it', async () => {
    const stage = await ownStage(SQLITE, records, { content: { page: { size: 10, total: 'total' } } });
    stage.service.behaviour.total = (listed) => listed + 1;
    stage.service.records.delete('7');
    const { code, report } = await verify(stage);
    expect({ code, report }).toMatchObject({
      code: 1,
      report: { verdict: 'unproved', listing: { records: 29, total: 30 }, differences: { count: 0 }, not_judged: 1 },
    });
    expect(report.listing?.doubts.join()).toMatch(/29.*30/);
    const { stdout } = await stage.command('verify');
    expect(stdout).toMatch(/undecided.*\n.*the listing may be incomplete: .*29.*30/);
  });
});
