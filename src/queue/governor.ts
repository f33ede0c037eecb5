import PQueue from 'p-queue';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { LANES, type Lane } from '../model/vocabulary.ts';
import type { RateDialect } from '../source/rate-dialect.ts';
import type { Arrival, BudgetKeeper, WaitingLine } from './budget/budget-keeper.ts';
import { storeBudget } from './budget/restart-codec.ts';
import { allowedRate, closedUntil, type BudgetAnswer } from './budget/budget.ts';
import { isCrowded } from './crowded.ts';
import { OLDEST_EVERY } from './lanes.ts';
import { LocalKeeper } from './budget/local-keeper.ts';
import type { AnswerLimits } from './limits/answer-limits.ts';
import { SharedKeeper } from './budget/shared-keeper.ts';
import type { SharedBudget } from './budget/shared-row.ts';

/** All that the governor learns from one answer. */
export interface AnswerFacts {
  status: number;
  limits: AnswerLimits;
  /** Local epoch milliseconds at which the answer's headers arrived. */
  receivedAt: number;
  /** Milliseconds from sending the request to the answer's headers. */
  latencyMs: number;
  /** True if the outcome table reads this answer as `limited`. */
  limited: boolean;
}

/** One attempt's result; `facts` is null if no answer came. */
export interface Attempted<T> {
  result: T;
  facts: AnswerFacts | null;
}

/** One use of a slot. */
export type Attempt<T> = (dialect: RateDialect) => Promise<Attempted<T>>;

/**
 * For the progress line, the demo and the status: plain counters of this process since its start, and where the budget
 * stands.
 */
export interface GovernorFigures {
  requests: number;
  limited: number;
  /** Requests per second that the service is understood to allow; null while nothing is known. */
  allowedPerSecond: number | null;
  /** Part of what was allowed since the start that this process used, 0..1; null while nothing is known. */
  shareUsed: number | null;
  /** Local epoch milliseconds until which nothing is sent; null when open. */
  pausedUntil: number | null;
}

/** The rate-aware queue of one origin and credential. */
export interface Governor {
  /**
   * Runs `attempt` once a slot in the lane opens and the budget allows a request; every attempt takes one. It is given
   * the dialect in which it reads the answer's limits (`readAnswerLimits`).
   * Throws `DeferredError` when the service asks for a wait beyond `max_wait`, the signal's reason on abort, and where
   * the budget is shared what its database throws.
   */
  run<T>(lane: Lane, attempt: Attempt<T>, signal?: AbortSignal): Promise<T>;
  /** True while only requests of this lane keep one before it from starting: who could go on later lets it pass. */
  isCrowded(lane: Lane): boolean;
  figures(): GovernorFigures;
  /** The part that must survive a restart, as JSON text for `_sync_limits`. */
  state(): string;
  /** Forgets the waits and quotas that the service has stated; the next request finds out whether they hold. */
  forgetWaits(): Promise<void>;
  /** Refuses all that waits. */
  close(): void | Promise<void>;
}

export interface GovernorOptions {
  clock: Clock;
  dialect: RateDialect;
  /** The limit that the service is known to have; `share` counts here as well. Its own statements hold beside it. */
  requestsPerSecond?: number | undefined;
  /** Part of what the service allows that may be used, above 0 and up to 1. */
  share: number;
  /** Most requests under way at once, of this process. */
  concurrency: number;
  /** Most of all processes that share the budget; null or absent for as many as each of them may have. */
  concurrencyTotal?: number | null | undefined;
  /** A longer wait than this is not waited for. */
  maxWaitMs: number;
  /** The text that `state()` returned before the restart; for a budget of its own. */
  restored?: string | undefined;
  /** The budget that all processes with this credential have in common; absent if this one has it for itself. */
  shared?: SharedBudget | undefined;
  /** 0 up to 1, for jitter. */
  random?: () => number;
}

/** Builds the governor. It sends nothing by itself and keeps no timer while nothing waits or is under way. */
export function createGovernor(options: GovernorOptions): Governor {
  return new QueueGovernor(options);
}

/** How much of what the service allows was used, since its limit became known. */
interface Usage {
  used: number;
  allowed: number;
  /** Monotonic milliseconds up to which `allowed` was counted. */
  until: number | null;
}

/** Counts one answered request; `rate` is what the service is understood to allow now, per second. */
function noteUsage(usage: Usage, at: number, rate: number | null): void {
  if (rate === null) return;
  if (usage.until !== null) {
    usage.allowed += (rate * (at - usage.until)) / 1_000;
    usage.used += 1;
  }
  usage.until = at;
}

/** Before every lane. */
const FIRST = 1;

function getPriority(lane: Lane): number {
  return -LANES.indexOf(lane);
}

class QueueGovernor implements Governor {
  #clock: Clock;
  #dialect: RateDialect;
  #keeper: BudgetKeeper;
  /** Paused but for the moment in which the keeper lets one task through; what waits in it holds no slot. */
  #queue: PQueue;
  #waiting = new Map<AbortController, Arrival & { id: string }>();
  #arrivals = 0;
  #opened = 0;
  #running = new Map<Lane, number>();
  #usage: Usage = { used: 0, allowed: 0, until: null };
  #counts = { requests: 0, limited: 0 };
  #closed = false;

  constructor({ clock, maxWaitMs, restored, shared, random = Math.random, ...options }: GovernorOptions) {
    this.#clock = clock;
    this.#dialect = options.dialect;
    // No `timeout` here: p-queue would free the slot while the request is still under way.
    const { concurrency } = options;
    this.#queue = new PQueue({ concurrency, autoStart: false });
    const keeping = { clock, maxWaitMs, budget: { ...options, random } };
    this.#keeper = shared
      ? new SharedKeeper(keeping, this.#line(), shared)
      : new LocalKeeper(keeping, this.#line(), restored);
    this.#queue.addEventListener('next', () => this.#keeper.pump());
  }

  async run<T>(lane: Lane, attempt: Attempt<T>, signal?: AbortSignal): Promise<T> {
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
    this.#arrivals += 1;
    const id = String(this.#arrivals);
    this.#waiting.set(waiting, { id, lane, at: this.#clock.monotonic() });
    const task = () => {
      leave();
      return this.#attempt(lane, attempt);
    };
    const done = this.#queue.add(task, { id, priority: getPriority(lane), signal: waiting.signal }).finally(leave);
    this.#keeper.pump();
    return done;
  }

  isCrowded(lane: Lane): boolean {
    const [queue, running, keeper] = [this.#queue, this.#running, this.#keeper];
    const hasFreeSlot = queue.pending < queue.concurrency;
    return isCrowded({ waiting: this.#line(), running, hasFreeSlot, budget: keeper.budget, now: keeper.now() }, lane);
  }

  figures(): GovernorFigures {
    const until = closedUntil(this.#keeper.budget, this.#keeper.now());
    return {
      ...this.#counts,
      allowedPerSecond: allowedRate(this.#keeper.budget),
      shareUsed: this.#usage.allowed === 0 ? null : Math.min(1, this.#usage.used / this.#usage.allowed),
      pausedUntil: until === null ? null : Math.ceil(until - this.#keeper.now() + this.#clock.now()),
    };
  }

  state(): string {
    return storeBudget(this.#keeper.budget, { now: this.#clock.now(), monotonic: this.#keeper.now() });
  }

  async forgetWaits(): Promise<void> {
    await this.#keeper.forgetWaits();
  }

  async close(): Promise<void> {
    this.#closed = true;
    const closed = this.#keeper.close();
    this.#refuseWaiting(closedReason());
    await closed;
  }

  #line(): WaitingLine {
    const queue = this.#queue;
    return {
      get size() {
        return queue.size;
      },
      get free() {
        return queue.concurrency - queue.pending;
      },
      sizeBy: ({ lane }) => queue.sizeBy({ priority: getPriority(lane) }),
      arrivals: () => this.#arrivalsInOrder(),
      // With nothing in it the queue would stay open for whatever comes next.
      open: () => {
        if (queue.size === 0) return;
        this.#opened += 1;
        const [oldest] = this.#opened % OLDEST_EVERY === 0 ? this.#arrivalsInOrder() : [];
        if (oldest !== undefined) queue.setPriority(oldest.id, FIRST);
        queue.start();
      },
      refuse: (reason) => this.#refuseWaiting(reason),
    };
  }

  #arrivalsInOrder(): (Arrival & { id: string })[] {
    return [...this.#waiting].flatMap(([{ signal }, arrival]) => (signal.aborted ? [] : arrival));
  }

  async #attempt<T>(lane: Lane, attempt: Attempt<T>): Promise<T> {
    this.#queue.pause();
    const startedAt = this.#keeper.now();
    const request = this.#keeper.start(lane);
    this.#counts.requests += 1;
    this.#running.set(lane, (this.#running.get(lane) ?? 0) + 1);
    let facts: AnswerFacts | null = null;
    try {
      const attempted = await attempt(this.#dialect);
      facts = attempted.facts;
      return attempted.result;
    } finally {
      this.#running.set(lane, (this.#running.get(lane) ?? 1) - 1);
      this.#keeper.end(request, lane, facts === null ? null : this.#learn(facts, startedAt));
      if (facts !== null) noteUsage(this.#usage, this.#clock.monotonic(), allowedRate(this.#keeper.budget));
    }
  }

  #learn(facts: AnswerFacts, startedAt: number): BudgetAnswer {
    const now = this.#keeper.now();
    const { limits, latencyMs, limited, receivedAt } = facts;
    this.#counts.limited += limited ? 1 : 0;
    // A stated wait runs from the answer's arrival, not from the end of its body; never from before its request.
    const at = Math.min(now, Math.max(startedAt, now - (this.#clock.now() - receivedAt)));
    return { limits, latencyMs, limited, at };
  }

  #refuseWaiting(reason: Error): void {
    for (const waiting of this.#waiting.keys()) waiting.abort(reason);
  }
}

function closedReason(): SyncError {
  return new SyncError('closed', 'the run is ending, nothing more is sent', { recovery: 'stop' });
}
