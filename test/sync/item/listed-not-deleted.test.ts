import { describe, expect, it } from 'vitest';
import { USUAL } from '../../support/databases.ts';
import { ownStage } from '../../support/own-stage.ts';
import type { Behaviour, OwnRecord } from '../../support/record-service.ts';

/** Drafts are listed, and the path of single records does not serve them. */
const alone: Behaviour['alone'] = (record) => (record?.['state'] === 'draft' ? null : (record ?? null));

function record(id: number, fields: Record<string, unknown> = {}): OwnRecord {
  return { id, title: `title ${id}`, state: 'live', updated_at: '2026-03-01T08:00:00Z', ...fields };
}

const RECORDS = Array.from({ length: 20 }, (_, at) => record(at + 1));
const ALL = RECORDS.map(({ id }) => String(id)).toSorted();
/** Its listing is too long to be asked for one record. */
const LONG = { page: { size: 2 }, incremental: null };

describe.for([USUAL])('a record that is listed and not there when it is read alone, on $name', (database) => {
  it('stays after a change of it was told, and is as it is listed', async () => {
    const stage = await ownStage(database, RECORDS, { behaviour: { alone } });
    const drained = await stage.listen();
    stage.service.put(record(3, { state: 'draft', title: 'withdrawn', updated_at: '2026-03-02T08:00:00Z' }));
    expect(await drained.hear(3)).toEqual(['loaded']);
    expect((await stage.rows())[2]).toMatchObject({ title: 'withdrawn', state: 'draft', _deleted_at: null });
    expect(await drained.run('sync')).toMatchObject({ status: 'ok' });
    expect(await drained.run('backfill')).toMatchObject({ status: 'ok', deleted: 0 });
    expect(await stage.live()).toEqual(ALL);
  });

  it('waits for a whole walk if the listing is too long to be asked, and stays when that meets it', async () => {
    const stage = await ownStage(database, RECORDS, { behaviour: { alone }, content: LONG });
    const drained = await stage.listen();
    stage.service.put(record(3, { state: 'draft' }));
    expect(await drained.hear(3)).toEqual(['unconfirmed']);
    expect(await stage.rows('SELECT record_id, reason, state FROM _sync_suspects')).toEqual([
      { record_id: '3', reason: 'event', state: 'open' },
    ]);
    expect(await drained.run('sync')).toMatchObject({ status: 'ok', deleted: 0 });
    expect(await stage.live()).toEqual(ALL);
    expect(await stage.rows('SELECT * FROM _sync_suspects')).toEqual([]);
  });
});

describe.for([USUAL])('a record that is gone, on $name', (database) => {
  it('is deleted because of the event if the listing is too long to be asked', async () => {
    const stage = await ownStage(database, RECORDS, { content: LONG });
    const drained = await stage.listen();
    stage.service.records.delete('3');
    expect(await drained.hear(3, 'deleted')).toEqual(['deleted']);
  });

  it('is left to a whole walk, and then to a person, if nobody is there under the path', async () => {
    const stage = await ownStage(database, RECORDS, { behaviour: { alone: () => null }, content: LONG });
    const drained = await stage.listen();
    stage.service.records.delete('3');
    expect(await drained.hear(3, 'deleted')).toEqual(['scanned']);
    expect(await stage.live()).toEqual(ALL);
    expect(await stage.rows('SELECT record_id, state, sweeps FROM _sync_suspects')).toEqual([
      { record_id: '3', state: 'held', sweeps: 1 },
    ]);
  });

  it('goes once a listing that lags behind does not show it any more', async () => {
    let lagging: OwnRecord | null = record(3);
    const stage = await ownStage(database, RECORDS, {
      behaviour: {
        listed: (each) => (each['hidden'] === true ? lagging : each),
        alone: (each) => (each?.['hidden'] === true ? null : (each ?? null)),
      },
    });
    const drained = await stage.listen();
    stage.service.put(record(3, { hidden: true }));
    const heard = drained.hear(3, 'deleted');
    await expect.poll(() => drained.events.length, { interval: 2 }).toBeGreaterThan(0);
    expect(await stage.live()).toEqual(ALL);
    lagging = null;
    expect((await heard).at(-1)).toBe('deleted');
    expect(await stage.live()).not.toContain('3');
  });
});
