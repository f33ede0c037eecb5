import type { RequestAttempt, RateLimiter, RateLimiterOptions } from '../../../src/http/rate-limit/rate-limiter.ts';
import type { Lane } from '../../../src/model/vocabulary.ts';
import type { SharedBudget } from '../../../src/http/rate-limit/budget-store.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { ask, rateLimiterFor, newSeen, seeded, type Limiter, type Seen, type Service } from './limited-service.ts';
import { memoryRow, type MemoryRow } from './shared-row-in-memory.ts';

export interface SharingOptions {
  limiter: Limiter;
  headers: Service['headers'];
  /** There and back, in milliseconds, half or one and a half times as long. */
  latencyMs?: number;
  options?: Partial<RateLimiterOptions>;
}

/** Processes on one row in front of a simulated service, by a hand-wound clock. */
export interface Sharing {
  clock: HandClock;
  row: MemoryRow;
  /** What the service saw of all of them. */
  seen: Seen;
  join: () => Member;
  /** Ends all work, and winds on until nothing waits any more. */
  end: () => Promise<void>;
}

/** One process. */
export interface Member {
  rateLimiter: RateLimiter;
  /** Waits of the requests that went through, by lane. */
  waits: Map<Lane, number[]>;
  /** So many want the next request at once, time and again. */
  work(lane: Lane, workers: number): void;
  /** One request. */
  once(lane: Lane): Promise<boolean>;
  /** From here on its statements are not sent, until it is thawed. */
  freeze(): void;
  thaw(): void;
}

export function sharing({ limiter, headers, latencyMs = 20, options = {} }: SharingOptions): Sharing {
  const clock = new HandClock('2026-11-20T08:00:00.123Z');
  const random = seeded(11);
  // The database's clock is minutes before ours.
  const row = memoryRow(clock, () => 0.3 + random(), 240_000);
  const service: Service = { clock, limiter, headers, latency: () => (latencyMs / 2) * (0.5 + random()) };
  const seen = newSeen();
  const end = new AbortController();
  const working: Promise<void>[] = [];
  const join = (): Member => {
    let frozen = Promise.resolve();
    let thaw: (() => void) | null = null;
    const freeze = () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      [frozen, thaw] = [promise, resolve];
    };
    const shared: SharedBudget = {
      read: () => frozen.then(() => row.read()),
      swap: (version, state) => frozen.then(() => row.swap(version, state)),
    };
    const rateLimiter = rateLimiterFor(clock, { shared, ...options });
    const waits: Member['waits'] = new Map();
    const once = (lane: Lane): Promise<boolean> => {
      const asked = clock.monotonic();
      const attempt: RequestAttempt<boolean> = (dialect) => {
        waits.set(lane, [...(waits.get(lane) ?? []), clock.monotonic() - asked]);
        return ask(service, seen, dialect);
      };
      return rateLimiter.run(lane, attempt, end.signal);
    };
    const worker = async (lane: Lane) => {
      while (!end.signal.aborted) await once(lane).catch(() => undefined);
    };
    const work: Member['work'] = (lane, workers) => {
      working.push(...Array.from({ length: workers }, () => worker(lane)));
    };
    return { rateLimiter, waits, work, once, freeze, thaw: () => thaw?.() };
  };
  return {
    clock,
    row,
    seen,
    join,
    end: async () => {
      end.abort();
      await clock.advance(30_000);
      await Promise.all(working);
    },
  };
}
