import type { Clock } from '../../model/clock.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { WOKEN } from '../../model/waiting.ts';
import { restoreBudget } from './restart-codec.ts';
import { deferredBy, type BudgetKeeper, type KeeperOptions, type WaitingLine } from './budget-keeper.ts';
import {
  delayOf,
  forgetWaits,
  newBudget,
  noteBudgetAnswer,
  noteFailure,
  noteStart,
  type Budget,
  type BudgetAnswer,
} from './budget.ts';
import { LIVE_MS, mayStart, yields, yieldingSlots } from '../lanes.ts';

/** The budget of a process that has it for itself; by the monotonic clock. */
export class LocalKeeper implements BudgetKeeper {
  readonly budget: Budget;
  #clock: Clock;
  #maxWaitMs: number;
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
    const at = clock.monotonic();
    this.budget = newBudget(budget, restoreBudget(restored, { now: clock.now(), monotonic: at }), at);
  }

  now(): number {
    return this.#clock.monotonic();
  }

  /** Lets through what the budget allows now, and sets the alarm for the next one. */
  pump(): void {
    this.#alarm?.abort(WOKEN);
    this.#alarm = null;
    while (!this.#closed && this.#hasTurn()) {
      const delay = delayOf(this.budget, this.now());
      if (delay > this.#maxWaitMs && Number.isFinite(delay)) this.#line.refuse(deferredBy(delay, this.#clock));
      else if (delay > 0) return this.#wakeIn(delay);
      else this.#line.open();
    }
  }

  start(lane: Lane): number {
    const at = this.now();
    if (yields(lane)) this.#yielding += 1;
    else this.#liveAt = at;
    return noteStart(this.budget, at);
  }

  end(request: number, lane: Lane, answer: BudgetAnswer | null): void {
    if (yields(lane)) this.#yielding -= 1;
    if (answer === null) noteFailure(this.budget, request);
    else noteBudgetAnswer(this.budget, request, answer);
  }

  forgetWaits(): void {
    forgetWaits(this.budget);
    this.pump();
  }

  close(): void {
    this.#closed = true;
    this.#alarm?.abort();
  }

  /** True if a waiting request may use one of the free slots. */
  #hasTurn(): boolean {
    const slots = this.budget.slots.current;
    const isLive = this.now() - this.#liveAt < LIVE_MS;
    return this.#line.free > 0 && mayStart(this.#line, this.#yielding, isLive ? yieldingSlots(slots) : slots);
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
}
