import PQueue from 'p-queue';
import type { Clock } from '../model/clock.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import type { Lane } from '../model/words.ts';
import type { RateDialect } from '../source/rate-dialect.ts';
import { restoreBudget, storeBudget, type Moment } from './budget-state.ts';
import {
  allowedRate,
  closedUntil,
  delayOf,
  newBudget,
  noteBudgetAnswer,
  noteFailure,
  noteStart,
  type Budget,
} from './budget.ts';
import { LaneQueue, mayStart, yields, yieldingSlots, type LaneOptions } from './lane-queue.ts';
import { readRateHint } from './rate-headers.ts';
import { newUsage, noteUsage, partUsed, type Usage } from './usage.ts';

/** What the governor learns from one answer; header names are lower case, repeated headers are arrays. */
export interface AnswerFacts {
  status: number;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The parsed body where there is one: some services say "throttled" only there. */
  body: JsonValue | undefined;
  /** Local epoch milliseconds at which the answer's headers arrived. */
  receivedAt: number;
  /** Milliseconds from sending the request to the answer's headers. */
  latencyMs: number;
  /** True where the outcome table reads this answer as `limited`. */
  limited: boolean;
}

/** One attempt's result; `facts` is null where no answer came. */
export interface Attempted<T> {
  result: T;
  facts: AnswerFacts | null;
}

/** For the progress line, the demo and the status: plain counters since the start, and where the budget stands. */
export interface GovernorFigures {
  requests: number;
  limited: number;
  /** Requests per second that the service is understood to allow; null while nothing is known. */
  allowedPerSecond: number | null;
  /** Part of what was allowed since the start that was used, 0..1; null while nothing is known. */
  shareUsed: number | null;
  /** Local epoch milliseconds until which nothing is sent; null when open. */
  pausedUntil: number | null;
  /** Rate headers that could not be read and were ignored. */
  malformedHeaders: number;
}

/** The rate-aware queue of one origin and credential. */
export interface Governor {
  /**
   * Runs `attempt` once a slot in the lane opens and the budget allows a request; every attempt takes one.
   * Throws `DeferredError` when the service asks for a wait beyond `max_wait`, and the signal's reason on abort.
   */
  run<T>(lane: Lane, attempt: () => Promise<Attempted<T>>, signal?: AbortSignal): Promise<T>;
  figures(): GovernorFigures;
  /** What must survive a restart, as JSON text for `_sync_limits`. */
  state(): string;
  close(): void;
}

export interface GovernorOptions {
  clock: Clock;
  dialect: RateDialect;
  /** What the service is known to allow; `share` counts here as well. Its own statements hold beside it. */
  requestsPerSecond?: number | undefined;
  /** Part of what the service allows that may be used, above 0 and up to 1. */
  share: number;
  /** Most requests under way at once. */
  concurrency: number;
  /** A longer wait than this is not waited for. */
  maxWaitMs: number;
  /** What `state()` gave before the restart. */
  restored?: string | undefined;
  /** 0 up to 1, for jitter. */
  random?: () => number;
}

/** Builds the governor. It sends nothing by itself and keeps no timer while nothing waits. */
export function createGovernor(options: GovernorOptions): Governor {
  return new QueueGovernor(options);
}

/** How long after a live request slots are kept free for the next one. */
const LIVE_MS = 60_000;

class QueueGovernor implements Governor {
  #clock: Clock;
  #dialect: RateDialect;
  #maxWaitMs: number;
  #budget: Budget;
  /** Paused but for the moment in which the budget lets one task through; what waits in it holds no slot. */
  #queue: PQueue<LaneQueue, LaneOptions>;
  #waiting = new Set<AbortController>();
  #alarm: AbortController | null = null;
  #usage: Usage = newUsage();
  /** Requests under way that yield to the live lanes. */
  #yielding = 0;
  /** When a live lane was last used: without any, a backfill may have all slots. */
  #liveAt = Number.NEGATIVE_INFINITY;
  #counts = { requests: 0, limited: 0, malformedHeaders: 0 };
  #closed = false;

  constructor({ clock, maxWaitMs, restored, random = Math.random, ...options }: GovernorOptions) {
    this.#clock = clock;
    this.#dialect = options.dialect;
    this.#maxWaitMs = maxWaitMs;
    this.#budget = newBudget({ ...options, random }, restoreBudget(restored, this.#moment()), clock.monotonic());
    // No `timeout` here: p-queue would free the slot while the request is still under way.
    const { concurrency } = options;
    this.#queue = new PQueue<LaneQueue, LaneOptions>({ queueClass: LaneQueue, concurrency, autoStart: false });
    this.#queue.addEventListener('next', () => this.#pump());
  }

  async run<T>(lane: Lane, attempt: () => Promise<Attempted<T>>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#closed) throw closedReason();
    // Not the caller's own signal: on abort p-queue would free the slot of a request that is still under way.
    const waiting = new AbortController();
    const abort = () => waiting.abort(signal?.reason);
    const leave = () => {
      this.#waiting.delete(waiting);
      signal?.removeEventListener('abort', abort);
    };
    signal?.addEventListener('abort', abort, { once: true });
    this.#waiting.add(waiting);
    const task = () => {
      leave();
      return this.#attempt(lane, attempt);
    };
    const done = this.#queue.add(task, { lane, signal: waiting.signal }).finally(leave);
    this.#pump();
    return done;
  }

  figures(): GovernorFigures {
    const { now, monotonic } = this.#moment();
    const until = closedUntil(this.#budget, monotonic);
    return {
      ...this.#counts,
      allowedPerSecond: allowedRate(this.#budget, monotonic),
      shareUsed: partUsed(this.#usage),
      pausedUntil: until === null ? null : Math.ceil(until - monotonic + now),
    };
  }

  state(): string {
    return storeBudget(this.#budget, this.#moment());
  }

  close(): void {
    this.#closed = true;
    this.#alarm?.abort();
    this.#refuseWaiting(closedReason());
  }

  /** Lets through what the budget allows now, and sets the alarm for the next one. */
  #pump(): void {
    this.#alarm?.abort();
    this.#alarm = null;
    while (!this.#closed && this.#hasTurn()) {
      const delay = delayOf(this.#budget, this.#clock.monotonic());
      if (delay > this.#maxWaitMs && Number.isFinite(delay)) this.#refuseWaiting(this.#deferred(delay));
      else if (delay > 0) return this.#wakeIn(delay);
      else this.#queue.start();
    }
  }

  /** Somebody waits who may have one of the slots that are free. */
  #hasTurn(): boolean {
    const free = this.#queue.pending < this.#queue.concurrency;
    const slots = this.#budget.slots.current;
    const live = this.#clock.monotonic() - this.#liveAt < LIVE_MS;
    return free && mayStart(this.#queue, this.#yielding, live ? yieldingSlots(slots) : slots);
  }

  /** Infinite delays end with an answer, which pumps by itself. */
  #wakeIn(delay: number): void {
    if (delay === Number.POSITIVE_INFINITY) return;
    const alarm = new AbortController();
    this.#alarm = alarm;
    this.#clock.sleep(delay, alarm.signal).then(
      () => this.#pump(),
      () => undefined,
    );
  }

  async #attempt<T>(lane: Lane, attempt: () => Promise<Attempted<T>>): Promise<T> {
    this.#queue.pause();
    const { monotonic } = this.#moment();
    const request = noteStart(this.#budget, monotonic);
    this.#counts.requests += 1;
    if (yields(lane)) this.#yielding += 1;
    else this.#liveAt = monotonic;
    let facts: AnswerFacts | null = null;
    try {
      const attempted = await attempt();
      facts = attempted.facts;
      return attempted.result;
    } finally {
      if (yields(lane)) this.#yielding -= 1;
      this.#learn(request, facts, monotonic);
    }
  }

  #learn(request: number, facts: AnswerFacts | null, startedAt: number): void {
    if (facts === null) return noteFailure(this.#budget, request);
    const { now, monotonic } = this.#moment();
    const hint = readRateHint(facts, this.#dialect);
    // A stated wait runs from the answer's arrival, not from the end of its body; never from before its request.
    const at = Math.min(monotonic, Math.max(startedAt, monotonic - (now - facts.receivedAt)));
    noteBudgetAnswer(this.#budget, request, { hint, latencyMs: facts.latencyMs, limited: facts.limited, at });
    noteUsage(this.#usage, monotonic, allowedRate(this.#budget, monotonic));
    this.#counts.limited += facts.limited ? 1 : 0;
    this.#counts.malformedHeaders += hint.malformed;
  }

  #refuseWaiting(reason: Error): void {
    for (const waiting of this.#waiting) waiting.abort(reason);
  }

  #deferred(delay: number): DeferredError {
    const until = Math.ceil(this.#clock.now() + delay);
    const when = new Date(until).toISOString();
    return new DeferredError(`the service allows the next request only at ${when}`, until, {
      hint: `run again after ${when}, or raise max_wait`,
    });
  }

  #moment(): Moment {
    return { now: this.#clock.now(), monotonic: this.#clock.monotonic() };
  }
}

function closedReason(): SyncError {
  return new SyncError('closed', 'the run is ending, nothing more is sent', { recovery: 'stop' });
}
