import { randomUUID } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import type { Coordination } from '../../warehouse/coordination.ts';
import { openCoordination } from '../../warehouse/databases.ts';

const BEAT_MS = 5_000;
/** One that is not heard of for so long takes no work. */
const PRESENT_MS = 20_000;

/** The processes that take work of a database. */
export interface Hands {
  /** How many there are now, this one included; 1 if the database cannot be asked. */
  count(): Promise<number>;
  stop(): Promise<void>;
}

/** Says from now on that this process is one of them. */
export function countHands(address: string, clock: Clock): Hands {
  const owner = randomUUID();
  const stopping = new AbortController();
  let coordination: Promise<Coordination | null> | null = null;
  const beat = async (): Promise<number> => {
    coordination ??= openCoordination(address, clock);
    const opened = await coordination.catch((error: unknown) => {
      coordination = null;
      throw error;
    });
    return (await opened?.present(owner, PRESENT_MS)) ?? 1;
  };
  const beating = repeatUntilAborted({ clock, everyMs: BEAT_MS, signal: stopping.signal }, async () => {
    await beat();
  });
  return {
    count: () => beat().catch(() => 1),
    stop: async () => {
      stopping.abort();
      await beating;
      const opened = await coordination?.catch(() => null);
      await opened?.resign(owner).catch(() => undefined);
      await opened?.close();
    },
  };
}
