// Leader election: in each database, one process leads each source and queues what is due.
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Coordination } from '../../database/coordination.ts';
import { openCoordination } from '../../database/databases.ts';
import type { Clock } from '../../model/clock.ts';
import { repeatUntilAborted, waitAtMost } from '../../model/waiting.ts';

interface LeadOptions {
  /** The warehouse of one of the sources, which are all in the same database. */
  address: string;
  /** The sources to lead if no other process leads them. */
  sources: () => readonly string[];
  clock: Clock;
  /** Called after every renewal with the sources that this process leads now. */
  renewed: (sources: ReadonlySet<string>) => void;
  /** Called with each error; the next renewal tries again. */
  failed: (error: unknown) => void;
}

/** A lead that is not renewed for this long goes to another process. */
const LEAD_MS = 20_000;
const RENEW_MS = 5_000;
/** This process considers its leads lost before another process can take them over. */
const LOST_MS = LEAD_MS - RENEW_MS;
const RESIGN_MS = 1_000;

/** Takes and renews the lead of all sources that no other process leads. Before `stop`, all work of the leader must have ended. */
export function keepLead({ address, sources, clock, renewed, failed }: LeadOptions): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const owner = `${hostname()} ${process.pid} ${randomUUID()}`;
  let coordination: Coordination | null = null;
  let renewedAt = Number.NEGATIVE_INFINITY;
  const renew = async (): Promise<void> => {
    const requestedAt = clock.monotonic();
    coordination ??= await openCoordination(address, clock);
    const led = new Set((await coordination?.lead(sources(), owner, LEAD_MS)) ?? []);
    // By now another process may lead the sources that this late response names.
    if (clock.monotonic() - requestedAt >= LOST_MS) return;
    renewedAt = requestedAt;
    renewed(led);
  };
  const renewing = repeatUntilAborted({ clock, everyMs: RENEW_MS, signal: stopping.signal }, async () => {
    await renew().catch(failed);
    if (clock.monotonic() - renewedAt >= LOST_MS) renewed(new Set());
  });
  return {
    stop: async () => {
      stopping.abort();
      await waitAtMost(clock, RESIGN_MS, renewing);
      // If the server is unreachable, the lead expires by itself.
      const resigned = coordination?.resign(owner).catch(() => undefined);
      await waitAtMost(clock, RESIGN_MS, Promise.resolve(resigned));
      await coordination?.close();
    },
  };
}
