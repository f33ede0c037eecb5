import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Clock } from '../../model/clock.ts';
import type { Coordination } from '../../warehouse/coordination.ts';
import { openCoordination } from '../../warehouse/databases.ts';

export interface LeadOptions {
  /** Of one of the sources, which are all in the same database. */
  address: string;
  sources: readonly string[];
  clock: Clock;
  /** Told which sources are led now, again and again. */
  leads: (sources: ReadonlySet<string>) => void;
  /** Told of every error that passes by itself. */
  failed: (error: unknown) => void;
}

/** A lead that is not kept for so long goes to another process. */
const LEAD_MS = 20_000;
const KEEP_MS = 5_000;
/** Earlier than another process can take over. */
const DOUBT_MS = LEAD_MS - KEEP_MS;

const GIVE_BACK_MS = 1_000;

/** Takes and keeps the lead of all sources that nobody else leads. */
export interface Lead {
  /** Gives it back; what depends on it must have ended. */
  stop(): Promise<void>;
}

export function keepLead(options: LeadOptions): Lead {
  const { address, sources, clock, leads, failed } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const owner = `${hostname()} ${process.pid} ${randomUUID()}`;
  let hub: Coordination | null = null;
  const keep = async (): Promise<void> => {
    for (let keptAt = Number.NEGATIVE_INFINITY; !signal.aborted;) {
      const asked = clock.monotonic();
      try {
        hub ??= await openCoordination(address, clock);
        const led = new Set((await hub?.lead(sources, owner, LEAD_MS)) ?? []);
        if (clock.monotonic() - asked < DOUBT_MS) {
          keptAt = asked;
          leads(led);
        }
      } catch (error) {
        failed(error);
      }
      if (clock.monotonic() - keptAt >= DOUBT_MS) leads(new Set());
      await clock.sleep(KEEP_MS, signal).catch(() => undefined);
    }
  };
  const kept = keep();
  return {
    stop: async () => {
      stopping.abort();
      await Promise.race([kept, clock.sleep(GIVE_BACK_MS)]);
      // Where the server is away, it runs out by itself.
      const back = hub?.resign(owner).catch(() => undefined);
      await Promise.race([back, clock.sleep(GIVE_BACK_MS)]);
      await hub?.close();
    },
  };
}
