import type { Clock } from '../../model/clock.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { restoreBudget, storeBudget } from './budget-codec.ts';
import { deferredBy, type BudgetKeeper, type WaitingLine } from './budget-keeper.ts';
import {
  allowedRate,
  closedUntil,
  delayOf,
  newBudget,
  noteBudgetAnswer,
  noteFailure,
  noteStart,
  type Budget,
  type BudgetAnswer,
  type BudgetOptions,
} from './budget.ts';
import { LIVE_MS, mayStart, yields, yieldingSlots } from '../lane-queue.ts';

export interface KeeperOptions {
  clock: Clock;
  /** A longer wait than this is not waited for. */
  maxWaitMs: number;
  budget: BudgetOptions;
}

/** The budget of a process that has it for itself; by the monotonic clock. */
export class LocalKeeper implements BudgetKeeper {
  #clock: Clock;
  #maxWaitMs: number;
  #budget: Budget;
  #line: WaitingLine;
  #alarm: AbortController | null = null;
  /** Requests under way that yield to the live lanes. */
  #yielding = 0;
  /** When a live lane was last used: without any, a backfill may have all slots. */
  #liveAt = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor({ clock, maxWaitMs, budget }: KeeperOptions, line: WaitingLine, restored: string | undefined) {
    this.#clock = clock;
    this.#maxWaitMs = maxWaitMs;
    this.#line = line;
    this.#budget = newBudget(budget, restoreBudget(restored, this.#moment()), clock.monotonic());
  }

  now(): number {
    return this.#clock.monotonic();
  }

  /** Lets through what the budget allows now, and sets the alarm for the next one. */
  pump(): void {
    this.#alarm?.abort();
    this.#alarm = null;
    while (!this.#closed && this.#hasTurn()) {
      const delay = delayOf(this.#budget, this.#clock.monotonic());
      if (delay > this.#maxWaitMs && Number.isFinite(delay)) this.#line.refuse(deferredBy(delay, this.#clock));
      else if (delay > 0) return this.#wakeIn(delay);
      else this.#line.open();
    }
  }

  start(lane: Lane): number {
    const at = this.#clock.monotonic();
    if (yields(lane)) this.#yielding += 1;
    else this.#liveAt = at;
    return noteStart(this.#budget, at);
  }

  end(request: number, lane: Lane, answer: BudgetAnswer | null): void {
    if (yields(lane)) this.#yielding -= 1;
    if (answer === null) noteFailure(this.#budget, request);
    else noteBudgetAnswer(this.#budget, request, answer);
  }

  allowedRate(): number | null {
    return allowedRate(this.#budget, this.#clock.monotonic());
  }

  closedUntil(): number | null {
    return closedUntil(this.#budget, this.#clock.monotonic());
  }

  state(): string {
    return storeBudget(this.#budget, this.#moment());
  }

  close(): void {
    this.#closed = true;
    this.#alarm?.abort();
  }

  /** Somebody waits who may have one of the slots that are free. */
  #hasTurn(): boolean {
    const slots = this.#budget.slots.current;
    const live = this.#clock.monotonic() - this.#liveAt < LIVE_MS;
    return this.#line.free > 0 && mayStart(this.#line, this.#yielding, live ? yieldingSlots(slots) : slots);
  }

  /** Infinite delays end with an answer, which pumps by itself. */
  #wakeIn(delay: number): void {
    if (delay === Number.POSITIVE_INFINITY) return;
    const alarm = new AbortController();
    this.#alarm = alarm;
    this.#clock.sleep(delay, alarm.signal).then(
      () => this.pump(),
      () => undefined,
    );
  }

  #moment(): { now: number; monotonic: number } {
    return { now: this.#clock.now(), monotonic: this.#clock.monotonic() };
  }
}
