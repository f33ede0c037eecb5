import type { Clock } from '../../model/clock.ts';
import { DeferredError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Budget, BudgetAnswer, BudgetOptions } from './budget.ts';
import type { Waiters } from '../lanes.ts';

/** A stated wait that is longer may be a mistake, such as milliseconds in place of seconds. */
const LONG_WAIT_MS = 86_400_000;

/** One request that waits, and since when by the monotonic clock. */
export interface Arrival {
  lane: Lane;
  at: number;
}

/** The requests of this process that wait. */
export interface WaitingLine extends Waiters {
  /** How many of this process may start beside those that are under way. */
  readonly free: number;
  /** In the order in which they came. */
  arrivals(): readonly Arrival[];
  /** Starts the next one at once, if there is any: it then asks the keeper for its number. */
  open(): void;
  /** Rejects all waiting requests. */
  refuse(reason: Error): void;
}

export interface KeeperOptions {
  clock: Clock;
  /** A longer wait than this is not waited for. */
  maxWaitMs: number;
  budget: BudgetOptions;
}

/** Holds the budget of one origin and credential, and opens the line when it allows the next request. */
export interface BudgetKeeper {
  /** As it was last computed. */
  readonly budget: Budget;
  /** Milliseconds of the clock that the budget goes by. */
  now(): number;
  /** To be called whenever a request has come or has ended: lets through what may start, now or when it is time. */
  pump(): void;
  /** Counts a request of the line as started; returns its number. */
  start(lane: Lane): number;
  /** Takes in the end of a request; null if no answer came. */
  end(request: number, lane: Lane, answer: BudgetAnswer | null): void;
  /** Forgets what the service has stated, on behalf of an operator. */
  forgetWaits(): void | Promise<void>;
  /** Starts nothing more. */
  close(): void | Promise<void>;
}

/** The error of requests that would have to wait for longer than they may. */
export function deferredBy(delay: number, clock: Clock): DeferredError {
  const until = Math.ceil(clock.now() + delay);
  const when = new Date(until).toISOString();
  const hint =
    delay > LONG_WAIT_MS
      ? 'If the wait is a mistake: content-sync retry --now forgets it. If it is in another unit, set rate_limit in the profile.'
      : `run again after ${when}, or raise max_wait`;
  return new DeferredError(`the service allows the next request only at ${when}`, until, { hint });
}
