import { setTimeout as delay } from 'node:timers/promises';
import type { Sandbox } from '../../sandbox/service/sandbox.ts';
import { eventFor, type Draining } from '../../support/draining.ts';

interface Rain {
  rounds: number;
  /** Deliveries of one round; before each round every record is changed. */
  perRound: number;
  everyMs: number;
}

/** Per record, over the machine's own seconds. */
interface Weather {
  readsPerSecond: number;
  /** From the first delivery until none waits. */
  seconds: number;
}

let version = 0;

/** Changes a record in the service, its time of change included; returns that. */
export function changeRecord({ store }: Sandbox, id: string): string {
  const record: object = JSON.parse(store.get('content', id)?.text ?? '{}');
  const updated_at = new Date(Date.now() + version++).toISOString();
  store.put('content', { ...record, id, title: `version ${version}`, updated_at });
  return updated_at;
}

/** Many events for few records, faster than they could ever be read. */
export async function storm(stage: Draining, sandbox: Sandbox, ids: readonly string[], rain: Rain): Promise<Weather> {
  const begun = performance.now();
  for (let round = 0; round < rain.rounds; round++) {
    const updated = ids.map((id) => changeRecord(sandbox, id));
    const bodies = Array.from({ length: rain.perRound }, (_, n) =>
      eventFor('content', ids[n % ids.length], 'updated', updated[n % ids.length]),
    );
    await stage.deliver(...bodies);
    const ahead = begun + (round + 1) * rain.everyMs - performance.now();
    await delay(Math.max(0, ahead));
  }
  await stage.settled();
  const seconds = (performance.now() - begun) / 1_000;
  const reads = ids.map((id) => readsOf(sandbox, id));
  // The first two readings are at once: there are two more than what a second allows.
  const repeated = reads.reduce((sum, { length }) => sum + Math.max(0, length - 2), 0);
  return {
    readsPerSecond: repeated / ids.length / seconds,
    seconds,
  };
}

function readsOf({ requests }: Sandbox, id: string): unknown[] {
  return requests.entries().filter(({ path }) => path.startsWith(`/v1/content/${id}`));
}
