import { describe, expect, it } from 'vitest';
import { USUAL } from '../../support/databases.ts';
import { sampled } from '../../support/length.ts';
import { instant, type SmallRecord } from '../../support/small-service.ts';
import { smallStage, type SmallStage } from '../../support/small-stage.ts';

const MINUTE = 60_000;

type Filter = (record: SmallRecord, value: string) => boolean;

/** Five records an hour apart, copied, and then one that changes and one that is new. */
async function changed(stage: SmallStage): Promise<void> {
  const { service } = stage;
  for (const id of ['a', 'b', 'c', 'd', 'e']) {
    service.put(id);
    service.now += 60 * MINUTE;
  }
  expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', inserted: 5 });
  service.now += 30 * MINUTE;
  service.put('b', { title: 'changed' });
  service.put('new');
}

function codes({ warnings }: { warnings?: readonly { code: string }[] }): string[] {
  return (warnings ?? []).map(({ code }) => code);
}

const at = ({ updated_at }: SmallRecord): number => (updated_at === null ? -Infinity : instant(updated_at));

const WRONG: readonly [what: string, filter: Filter, profile: Record<string, unknown>][] = [
  ['matches nothing, ever', () => false, {}],
  ['takes milliseconds for seconds', (record, value) => at(record) >= Number(value) * 1_000, { format: 'epoch_ms' }],
  ['knows no such form of a moment', (_, value) => /^\d+$/.test(value), {}],
  [
    'reads the moment in a zone that is hours behind',
    (record, value) => at(record) - 5 * 60 * MINUTE >= instant(value),
    {},
  ],
  [
    'compares texts, of which its own have a space where ours have a T',
    (record, value) => new Date(at(record)).toISOString().replace('T', ' ') >= value,
    {},
  ],
];

// What is believed is decided above the databases: the soak tries the other one.
describe.for([USUAL])('a filter that is not what the profile says, on $name', (database) => {
  it.for(WRONG)('is not trusted if it %s: all is walked, and the run says why', async ([, filter, format]) => {
    const incremental = { param: 'updated_since', lookback: '10m', ...format };
    const stage = await smallStage({ filter }, { incremental }, { database });
    await changed(stage);
    const report = await stage.walk();
    expect(report).toMatchObject({ status: 'ok', mode: 'full', inserted: 1, updated: 1 });
    expect(await stage.unlike()).toEqual([]);
    expect(codes(report)).toEqual(['filter_not_believed']);
    expect(report.warnings?.[0]?.message).toMatch(/updated_since=.* does not list the record e, .* scanned instead/);
  });

  it.for(sampled(WRONG, 3))(
    'is found out although the record that set the cursor is gone, if it %s',
    async ([, filter, format]) => {
      const incremental = { param: 'updated_since', lookback: '10m', ...format };
      const stage = await smallStage({ filter }, { incremental }, { database });
      await changed(stage);
      stage.service.records.delete('e');
      const report = await stage.walk();
      expect(report).toMatchObject({ mode: 'full', inserted: 1, updated: 1 });
      const doubt = report.warnings?.find(({ code }) => code === 'filter_not_believed');
      expect(doubt?.message).toMatch(/does not list the record d, .* scanned instead/);
      expect((await stage.unlike()).filter((line) => !line.startsWith('e '))).toEqual([]);
    },
  );

  it('is believed where the record that set the cursor is gone and the one before it is listed from its time on', async () => {
    const stage = await smallStage({}, {}, { database });
    await changed(stage);
    for (const gone of ['e', 'b', 'new']) stage.service.records.delete(gone);
    const report = await stage.walk();
    expect([report.status, report.mode, codes(report)]).toEqual(['ok', 'incremental', []]);
  });

  it('is accepted by name: nothing else is walked, and every run says so', async () => {
    const stage = await smallStage({ filter: () => false }, { accept: ['filter'] }, { database });
    await changed(stage);
    for (const run of [1, 2]) {
      const report = await stage.walk();
      expect([run, report]).toMatchObject([run, { status: 'ok', mode: 'incremental', inserted: 0 }]);
      expect(report.warnings).toMatchObject([{ code: 'filter_not_believed', accepted: true }]);
    }
  });

  it('is told if it ignores its parameter: the copy is whole, and each sync reads everything', async () => {
    const stage = await smallStage({ filter: () => true }, {}, { database });
    await changed(stage);
    stage.service.put('a', { updated_at: '2026-02-01T00:00:00Z' });
    await stage.walk('backfill');
    stage.service.put('b', { title: 'changed again' });
    stage.service.put('newer');
    const report = await stage.walk();
    expect(report).toMatchObject({ status: 'ok', mode: 'incremental', inserted: 1, updated: 1, unchanged: 5 });
    expect(codes(report)).toEqual(['filter_ignored']);
    expect(await stage.unlike()).toEqual([]);
  });
});

describe.for([USUAL])('a filter that works, on $name', (database) => {
  it('is asked for the look-back again as long as that costs one page, so that a filter that breaks is noticed', async () => {
    const stage = await smallStage({}, {}, { database });
    await changed(stage);
    for (let run = 0; run < 3; run += 1) {
      await stage.walk();
      stage.service.now += 60 * MINUTE;
    }
    stage.service.behaviour.filter = () => false;
    stage.service.put('after');
    expect(codes(await stage.walk())).toEqual(['filter_not_believed']);
    expect(await stage.unlike()).toEqual([]);
  });

  it('is trusted if the record that set the cursor is deleted, and tried by another one from then on', async () => {
    const stage = await smallStage({}, {}, { database });
    await changed(stage);
    await stage.walk();
    stage.service.records.delete('new');
    stage.service.records.delete('b');
    const report = await stage.walk();
    expect([report.status, codes(report)]).toEqual(['ok', []]);
    for (let run = 0; run < 2; run += 1) expect(await stage.walk()).toMatchObject({ requests: 1, mode: 'incremental' });
    stage.service.put('c', { title: 'changed' });
    await stage.walk();
    expect((await stage.unlike()).filter((line) => line.startsWith('c '))).toEqual([]);
  });
});

describe.for([USUAL])('records that come while everything is walked, on $name', (database) => {
  /** Sixty records in pages of ten; when the second page was answered, one comes before the first and the last one goes. */
  async function coming(filter: Filter | undefined, fields: Record<string, unknown> = {}): Promise<SmallStage> {
    const stage = await smallStage(filter === undefined ? {} : { filter }, fields, { database });
    const { service } = stage;
    for (let index = 10; index < 70; index += 1) service.put(`r${index}`);
    let come = 0;
    service.behaviour.afterPage = (page) => {
      if (page !== 2 || come > 3) return;
      come += 1;
      service.records.delete(`r${70 - come}`);
      service.put(`c${come}`);
    };
    return stage;
  }

  it('are brought in by the filter, or the run is partial if that does not list what it must', async () => {
    const healthy = await coming(undefined);
    expect(await healthy.walk('backfill')).toMatchObject({ status: 'ok' });
    expect(await healthy.unlike()).toEqual([]);
    const broken = await coming(() => false);
    const report = await broken.walk('backfill');
    expect([report.status, codes(report)]).toEqual(['partial', ['total_not_reached']]);
    const accepted = await coming(() => false, { accept: ['filter'] });
    expect(await accepted.walk('backfill')).toMatchObject({ status: 'partial' });
  });

  it('are all there by the total, though the filter never lists some; those make the next scan a full one', async () => {
    const stage = await coming(undefined);
    stage.service.put('z', { updated_at: null });
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok' });
    expect(await stage.unlike()).toEqual([]);
    delete stage.service.behaviour.afterPage;
    stage.service.now += 60 * MINUTE;
    expect(await stage.walk()).toMatchObject({ mode: 'full', status: 'ok' });
    expect(await stage.unlike()).toEqual([]);
  });
});

describe.for([USUAL])('what a filter is tried by, on $name', (database) => {
  it('is a record from after the cursor if all that was copied changed in the second in which the walk began', async () => {
    const stage = await smallStage({}, {}, { database });
    const thisSecond = { updated_at: '2026-03-01T12:00:01.500Z' };
    for (let index = 0; index < 60; index += 1) stage.service.put(`r${index}`, thisSecond);
    expect(await stage.walk('backfill')).toMatchObject({ status: 'ok', inserted: 60 });
    const report = await stage.walk();
    expect([report.status, report.mode, codes(report)]).toEqual(['ok', 'incremental', []]);
    stage.service.behaviour.filter = () => false;
    stage.service.put('r7', { title: 'changed' });
    expect(codes(await stage.walk())).toEqual(['filter_not_believed']);
    expect(await stage.unlike()).toEqual([]);
  });
});

describe.for([USUAL])('records without a time of change under a filter, on $name', (database) => {
  it('are counted, and everything is walked as long as they are there', async () => {
    const stage = await smallStage({}, {}, { database });
    const { service } = stage;
    service.put('a');
    for (const id of ['n1', 'n2']) service.put(id, { updated_at: null });
    await stage.walk('backfill');
    service.put('n3', { updated_at: null });
    service.put('n1', { updated_at: null, title: 'changed' });
    const report = await stage.walk();
    expect(report).toMatchObject({ status: 'ok', mode: 'full', inserted: 1, updated: 1 });
    expect(report.warnings).toMatchObject([
      { code: 'records_without_updated', message: expect.stringMatching(/^2 records have no time of change/) },
    ]);
    expect(await stage.unlike()).toEqual([]);
    for (const id of ['n1', 'n2', 'n3']) service.put(id);
    await stage.walk();
    const healed = await stage.walk();
    expect([healed.mode, codes(healed)]).toEqual(['incremental', []]);
  });
});
