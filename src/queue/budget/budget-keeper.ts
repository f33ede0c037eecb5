import type { Clock } from '../../model/clock.ts';
import { DeferredError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Budget, BudgetAnswer } from './budget.ts';
import type { BudgetOptions } from './budget-options.ts';
import type { Waiters } from '../lane-queue.ts';

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
  /** Starts the next one at once, if there is any, `liveOnly` none of a yielding lane: it then asks the keeper for its number. */
  open(liveOnly: boolean): void;
  /** All that wait, or those of some lanes. */
  refuse(reason: Error, concerns?: (lane: Lane) => boolean): void;
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
  /** Starts nothing more. */
  close(): void | Promise<void>;
}

/** The error of requests that would have to wait for longer than they may. */
export function deferredBy(delay: number, clock: Clock): DeferredError {
  const until = Math.ceil(clock.now() + delay);
  const when = new Date(until).toISOString();
  return new DeferredError(`the service allows the next request only at ${when}`, until, {
    hint: `run again after ${when}, or raise max_wait`,
  });
}
