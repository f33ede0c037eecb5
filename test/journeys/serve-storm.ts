import { setTimeout as delay } from 'node:timers/promises';
import { eventBody, until, type Serving, type ServingStage } from '../support/serving.ts';

interface StormPlan {
  /** Records that all of it is about. */
  records: number;
  perSecond: number;
  seconds: number;
}

export interface StormTally {
  /** Answers by status. */
  statuses: Record<number, number>;
  sentPerSecond: number;
  /** Readings per record and second, from the first event until the last reading; the first of each is not counted. */
  readsPerSecond: number;
}

const TICK_MS = 20;
let storms = 0;

/** Signed events for few records, every one about a change, faster than anybody could read the records. */
export async function storm(stage: ServingStage, serving: Serving, plan: StormPlan): Promise<StormTally> {
  const ids = [...stage.sandbox.store.list('content')].slice(0, plan.records).map(({ id }) => id);
  const statuses: Record<number, number> = {};
  const answers: Promise<void>[] = [];
  const number = (storms += 1);
  const send = async (n: number): Promise<void> => {
    const id = ids[n % ids.length] ?? '';
    const { updated_at }: { updated_at?: string } = JSON.parse(stage.sandbox.store.get('content', id)?.text ?? '{}');
    const body = eventBody({ resource: 'content', id, updated_at });
    const status = await serving.deliver({ id: `storm_${number}_${n}`, body });
    statuses[status] = (statuses[status] ?? 0) + 1;
  };
  stage.sandbox.requests.clear();
  const began = performance.now();
  const total = plan.perSecond * plan.seconds;
  for (let sent = 0; sent < total;) {
    const due = Math.min(total, Math.floor(((performance.now() - began) / 1_000) * plan.perSecond));
    // Each record changes some times a second; an event tells of the change before it.
    for (const id of ids.slice(sent % ids.length).slice(0, 3)) stage.write('content', id, { title: `storm ${sent}` });
    for (; sent < due; sent += 1) answers.push(send(sent));
    await delay(TICK_MS);
  }
  const sentMs = performance.now() - began;
  await Promise.all(answers);
  // The last word on each: nothing changes any more.
  for (const id of ids) answers.push(send(total + ids.indexOf(id)));
  await Promise.all(answers);
  await stage.settled();
  const reads = stage.sandbox.requests.entries().filter(({ path }) => path.startsWith('/v1/content/'));
  const seconds = ((reads.at(-1)?.at ?? 0) - (reads[0]?.at ?? 0)) / 1_000;
  const read = new Set(reads.map(({ path }) => path)).size;
  return {
    statuses,
    sentPerSecond: total / (sentMs / 1_000),
    readsPerSecond: (reads.length - read) / plan.records / Math.max(1, seconds),
  };
}

/** Until nothing waits in the inbox. */
export function drained(stage: ServingStage): Promise<void> {
  const waiting = (): Promise<unknown> =>
    stage.readInbox((db) => db.prepare("SELECT count(*) FROM _sync_deliveries WHERE state = 'waiting'").pluck().get());
  return until('drained', async () => (await waiting()) === 0 || waiting());
}
