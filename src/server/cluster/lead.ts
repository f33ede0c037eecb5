import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Clock } from '../../model/clock.ts';
import { repeatUntilAborted, waitAtMost } from '../../model/waiting.ts';
import type { Coordination } from '../../database/coordination.ts';
import { openCoordination } from '../../database/databases.ts';

interface LeadOptions {
  /** The warehouse of one of the sources, which are all in the same database. */
  address: string;
  /** Those that are to be led just now, if nobody else leads them. */
  sources: () => readonly string[];
  clock: Clock;
  /** Called after every renewal with the sources that this process leads now. */
  leads: (sources: ReadonlySet<string>) => void;
  /** Called with each error; the next renewal tries again. */
  failed: (error: unknown) => void;
}

/** A lead that is not renewed for so long goes to another process. */
const LEAD_MS = 20_000;
const RENEW_MS = 5_000;
/** A lead that was not renewed for so long counts as lost: earlier than another process can take it over. */
const DOUBT_MS = LEAD_MS - RENEW_MS;

const RESIGN_MS = 1_000;

/**
 * Takes and renews the lead of all those sources that no other process leads. `stop` resigns; everything that depends on
 * the lead must have ended.
 */
export function keepLead(options: LeadOptions): { stop(): Promise<void> } {
  const { address, sources, clock, leads, failed } = options;
  const stopping = new AbortController();
  const owner = `${hostname()} ${process.pid} ${randomUUID()}`;
  let coordination: Coordination | null = null;
  let keptAt = Number.NEGATIVE_INFINITY;
  const renew = async (): Promise<void> => {
    const asked = clock.monotonic();
    coordination ??= await openCoordination(address, clock);
    const led = new Set((await coordination?.lead(sources(), owner, LEAD_MS)) ?? []);
    // An answer that came this late may be out of date already.
    if (clock.monotonic() - asked >= DOUBT_MS) return;
    keptAt = asked;
    leads(led);
  };
  const kept = repeatUntilAborted({ clock, everyMs: RENEW_MS, signal: stopping.signal }, async () => {
    await renew().catch(failed);
    if (clock.monotonic() - keptAt >= DOUBT_MS) leads(new Set());
  });
  return {
    stop: async () => {
      stopping.abort();
      await waitAtMost(clock, RESIGN_MS, kept);
      // If the server is away, the lead expires by itself.
      const resigned = coordination?.resign(owner).catch(() => undefined);
      await waitAtMost(clock, RESIGN_MS, Promise.resolve(resigned));
      await coordination?.close();
    },
  };
}
