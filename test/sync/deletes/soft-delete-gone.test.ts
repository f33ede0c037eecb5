import { onTestFinished, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { eventsFor } from '../../support/delete-events.ts';
import { deleteStage, type DeleteStage } from '../../support/delete-stage.ts';
import { pushedClock } from '../../support/hurried-clock.ts';

/** Some records, and a process that holds them and hears events. */
async function heard(records: number, content: Record<string, unknown> = {}) {
  const stage = await deleteStage(records, { profile: { resources: { content } } });
  const app = await stage.open();
  const events = await eventsFor(app, systemClock);
  onTestFinished(async () => {
    await events.close();
    await app.close();
  });
  stage.sandbox.requests.clear();
  return { stage, events };
}

function goneNow(ids: readonly string[]) {
  return ids.map((key) => ({ key, confirmedAt: Date.now() }));
}

function asked({ sandbox }: DeleteStage): number {
  return sandbox.requests.total;
}

describe('a record that the service no longer has', () => {
  it('is deleted once it is not listed and another one was found under the same path', async () => {
    const { stage, events } = await heard(50);
    const [id = ''] = stage.remove(1);
    expect(await events.told(id)).toBe('gone');
    expect(await stage.deleted()).toEqual([id]);
    // One request for the record, one for the listing, one for the control.
    expect(asked(stage)).toBe(3);
    expect(await events.softDelete(goneNow([id]))).toEqual({
      deleted: [],
      held: [],
      listed: [],
      waiting: [],
      pathProblem: null,
    });
  });

  it('is tried against one listing and one control for all that are asked about at a time', async () => {
    const { stage, events } = await heard(100);
    const gone = stage.remove(5);
    const at = Date.now();
    const outcomes = await Promise.all(gone.map((key) => events.softDelete([{ key, confirmedAt: at }])));
    expect(outcomes.flatMap(({ deleted }) => deleted).toSorted()).toEqual(gone);
    expect(asked(stage)).toBe(2);
  });

  it('is held once more than a tenth went within 24 hours, one by one, and goes again a day later', async () => {
    const { stage, events } = await heard(60);
    const gone = stage.remove(8);
    for (const id of gone.slice(0, 6)) expect(await events.softDelete(goneNow([id]))).toMatchObject({ deleted: [id] });
    expect(await events.softDelete(goneNow(gone.slice(6, 7)))).toMatchObject({ deleted: [], held: [gone[6]] });
    await stage.age(86_400_000 + 60_000);
    expect(await events.softDelete(goneNow(gone.slice(7)))).toMatchObject({ deleted: [gone[7]] });
    // What was held stays so: a person was asked.
    expect(await stage.suspects()).toMatchObject([{ id: gone[6], state: 'held' }]);
  });

  it('is looked at again if a page met it while the answer was on its way', async () => {
    // Too many pages to ask the listing.
    const { stage, events } = await heard(50, { page: { size: 5 }, incremental: null });
    const [id = ''] = await stage.live();
    const confirmedAt = Date.now();
    stage.sandbox.faults.add({ fault: 'latency', ms: 300, path: '/v1/content/' });
    const burying = events.softDelete([{ key: id, confirmedAt }], 'reported');
    // The same row as before, so that nothing is written that would tell.
    expect(await stageLoad(events, stage, id)).toBe('there');
    expect(await burying).toMatchObject({ deleted: [], held: [id] });
    expect(await stage.suspects()).toMatchObject([{ id, state: 'open' }]);
    expect(await stage.live()).toHaveLength(50);
  });

  it('is deleted after our clock was put back, no earlier than its row was written', async () => {
    const stage = await deleteStage(0);
    const ahead = pushedClock(new Date(Date.now() + 3_600_000).toISOString());
    for (let at = 0; at < 20; at += 1)
      stage.sandbox.store.put('content', { id: `r${at}`, updated_at: '2026-01-01T00:00:00Z' });
    await stage.walk('backfill', { clock: ahead });
    const app = await stage.open();
    const events = await eventsFor(app, systemClock);
    stage.sandbox.store.remove('content', 'r3');
    expect(await events.softDelete(goneNow(['r3']))).toMatchObject({ deleted: ['r3'] });
    await events.close();
    await app.close();
    expect(await stage.faults()).toEqual([]);
  });
});

/** A listing meets the record as it was. */
async function stageLoad(
  events: Awaited<ReturnType<typeof eventsFor>>,
  stage: DeleteStage,
  id: string,
): Promise<'there' | 'gone'> {
  stage.sandbox.faults.clear();
  return events.told(id);
}
