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
import { heldFor } from './period-quotas.ts';
import { hasYielding, LIVE_MS, mayStart, yields, yieldingSlots } from '../lane-queue.ts';

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
    this.#read();
  }

  now(): number {
    return this.#clock.monotonic();
  }

  /** Lets through what the budget allows now, and sets the alarm for the next one. */
  pump(): void {
    this.#alarm?.abort(WOKEN);
    this.#alarm = null;
    while (!this.#closed && this.#hasTurn(0)) {
      const at = this.#read();
      const held = heldFor(this.budget, at);
      const delay = Math.max(delayOf(this.budget, at), this.#hasTurn(held) ? 0 : held);
      if (delay > this.#maxWaitMs && Number.isFinite(delay)) this.#line.refuse(deferredBy(delay, this.#clock));
      else if (held > this.#maxWaitMs && hasYielding(this.#line))
        this.#line.refuse(deferredBy(held, this.#clock), yields);
      else if (delay > 0) return this.#wakeIn(delay);
      else this.#line.open(held > 0);
    }
  }

  start(lane: Lane): number {
    const at = this.#read();
    if (yields(lane)) this.#yielding += 1;
    else this.#liveAt = at;
    return noteStart(this.budget, at, !yields(lane));
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

  /** The monotonic clock; that of the calendar may have been set meanwhile. */
  #read(): number {
    const at = this.#clock.monotonic();
    this.budget.epoch = this.#clock.now() - at;
    return at;
  }

  /** Somebody waits who may have one of the slots that are free; only in a live lane while yielding ones are `held`. */
  #hasTurn(held: number): boolean {
    const slots = this.budget.slots.current;
    const live = this.#clock.monotonic() - this.#liveAt < LIVE_MS;
    const most = held > 0 ? 0 : live ? yieldingSlots(slots) : slots;
    return this.#line.free > 0 && mayStart(this.#line, this.#yielding, most);
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
