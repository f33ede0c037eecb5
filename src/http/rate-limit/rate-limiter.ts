import type { Clock } from '../../model/clock.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import { LANES, type Lane } from '../../model/vocabulary.ts';
import { WakeableSleep, waitAtMost } from '../../model/waiting.ts';
import type { RateDialect } from '../../config/profile/rate-dialect.ts';
import { LocalStore, SharedStore, storeBudget, type BudgetStore, type SharedBudget } from './budget-store.ts';
import { allowedRate, closedUntil, delayOf, forgetWaits, noteStart, type BudgetAnswer } from './budget.ts';
import type { Budget, ServiceLimits } from './budget.ts';
import type { AnswerLimits } from './answer-limits.ts';
import {
  isBehindOthers,
  isOverShare,
  keepClaim,
  leave,
  noteMember,
  RENEW_CLAIM_MS,
  recordEnd,
  type EndedRequest,
  type Member,
} from './members.ts';

/** All that the rate limiter learns from one answer. */
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
export type RequestAttempt<T> = (dialect: RateDialect) => Promise<Attempted<T>>;

/** Counters of this process since its start and the state of the budget, for progress and status. */
export interface RateLimiterMetrics {
  requests: number;
  limited: number;
  /** Requests per second that the service is understood to allow; null while nothing is known. */
  allowedPerSecond: number | null;
  /** Part of what was allowed since the start that this process used, 0..1; null while nothing is known. */
  shareUsed: number | null;
  /** Local epoch milliseconds until which nothing is sent; null when open. */
  pausedUntil: number | null;
}

/** Runs requests within the limits of one origin. */
export interface RequestRunner {
  /**
   * Runs `attempt` once a slot in the lane opens and the budget allows a request; every attempt takes one. It is given
   * the dialect in which it reads the answer's limits (`readAnswerLimits`).
   * Throws `DeferredError` when the service asks for a wait beyond `max_wait`, the signal's reason on abort, and where
   * the budget is shared what its database throws.
   */
  run<T>(lane: Lane, attempt: RequestAttempt<T>, signal?: AbortSignal): Promise<T>;
}

/** The rate limiter of one origin and credential. */
export interface Governor extends RequestRunner {
  figures(): RateLimiterMetrics;
  /** The part that must survive a restart, as JSON text for `_sync_limits`. */
  state(): string;
  /** Forgets the waits and quotas that the service has stated; the next request finds out whether they hold. */
  forgetWaits(): Promise<void>;
  /** Refuses all that waits. */
  close(): void | Promise<void>;
}

export interface RateLimiterOptions extends ServiceLimits {
  clock: Clock;
  /** A longer wait than this is not waited for. */
  maxWaitMs: number;
  /** The text that `state()` returned before the restart; for a budget of its own. */
  restored?: string | undefined;
  /** The row of the budget that all processes with this credential share; absent if this process has it for itself. */
  shared?: SharedBudget | undefined;
  /** 0 up to 1, for jitter. */
  random?: () => number;
}

/** Creates the rate limiter. It sends nothing by itself and keeps no timer while no request waits or is in flight. */
export function createRateLimiter(options: RateLimiterOptions): Governor {
  return new BudgetRateLimiter(options);
}

/** A request that waits for its slot. */
interface WaitingRequest {
  lane: Lane;
  start: (request: number) => void;
  refuse: (reason: unknown) => void;
}

/** What a look at the budget has led to. */
interface SchedulingPass {
  granted: { waiting: WaitingRequest; request: number }[];
  /** Milliseconds until the next one may start; infinite while only an answer or another process can tell. */
  delay: number;
  /** Number of ended requests that the budget has recorded. */
  ended: number;
  isChanged: boolean;
}

/** Every fifth request to start is the one that has waited longest, so that no lane starves. */
const OLDEST_EVERY = 5;
/** The budget that several share is read again at least this often while something waits. */
const MAX_STATE_AGE_MS = 1_000;
/** How often to look whether another process has opened the way. */
const POLL_INTERVAL_MS = 25;
/** Max random delay between processes that wait for the same time. */
const MAX_SPREAD_MS = 5;
/** Interval in which a process with requests in flight stores that it is alive. */
const HEARTBEAT_MS = 1_500;
/** How long the end of a request without news waits for the next start, to be stored with it. */
const MAX_BATCH_DELAY_MS = 40;
const LEAVE_TIMEOUT_MS = 1_000;
/** Without a timer of its own a wait ends by a wake; this is the longest one. */
const MAX_SLEEP_MS = 3_600_000;
/** A stated wait that is longer may be a mistake, such as milliseconds in place of seconds. */
const LONG_WAIT_MS = 86_400_000;

class BudgetRateLimiter implements Governor {
  readonly #options: RateLimiterOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #store: BudgetStore;
  /** In the order in which they came. */
  #waiting: WaitingRequest[] = [];
  readonly #running = new Map<number, { lane: Lane; startedAt: number }>();
  /** Ends that are not stored yet. */
  readonly #ended: EndedRequest[] = [];
  readonly #rest: WakeableSleep;
  #isPumping = false;
  #closed = false;
  #counts = { requests: 0, limited: 0 };
  /** What the service allowed and this process used, since its limit became known; `until` is monotonic. */
  #usage: { used: number; allowed: number; until: number | null } = { used: 0, allowed: 0, until: null };

  constructor(options: RateLimiterOptions) {
    const { clock, shared, restored, random = Math.random } = options;
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#rest = new WakeableSleep(clock);
    const budget = { ...options, random };
    this.#store = shared ? new SharedStore(clock, budget, shared) : new LocalStore(clock, budget, restored);
  }

  async run<T>(lane: Lane, attempt: RequestAttempt<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#closed) throw closedReason();
    const request = await this.#slot(lane, signal);
    let facts: AnswerFacts | null = null;
    try {
      const attempted = await attempt(this.#options.dialect);
      facts = attempted.facts;
      return attempted.result;
    } finally {
      this.#end(request, facts);
    }
  }

  figures(): RateLimiterMetrics {
    const { budget } = this.#store;
    const { used, allowed } = this.#usage;
    const until = closedUntil(budget, this.#store.now());
    return {
      ...this.#counts,
      allowedPerSecond: allowedRate(budget),
      shareUsed: allowed === 0 ? null : Math.min(1, used / allowed),
      pausedUntil: until === null ? null : Math.ceil(until - this.#store.now() + this.#clock.now()),
    };
  }

  state(): string {
    return storeBudget(this.#store.budget, this.#store.now(), this.#clock.now());
  }

  async forgetWaits(): Promise<void> {
    await this.#store.change((budget) => {
      forgetWaits(budget);
      return { isChanged: true };
    }, 0);
    this.#pump();
  }

  /** Takes this process out of a shared budget, so that none waits for it; if that takes too long, it is forgotten. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#refuse(closedReason());
    if (!this.#store.isShared || this.#counts.requests === 0) return;
    for (const [request, { startedAt }] of this.#running) this.#note(request, startedAt, null);
    this.#running.clear();
    const left = this.#store.change((budget) => {
      for (const ended of this.#ended) recordEnd(budget, this.#store.owner, ended);
      leave(budget, this.#store.owner);
      return { isChanged: true };
    }, MAX_STATE_AGE_MS);
    await waitAtMost(this.#clock, LEAVE_TIMEOUT_MS, left).catch(() => undefined);
  }

  #free(): number {
    return this.#options.concurrency - this.#running.size;
  }

  /** Resolves with the number of the request once it may start. */
  #slot(lane: Lane, signal: AbortSignal | undefined): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const waiting = { lane, start: resolve, refuse: reject };
    const leave = (): void => {
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      reject(signal?.reason);
      this.#rest.wake();
    };
    signal?.addEventListener('abort', leave, { once: true });
    this.#waiting.push(waiting);
    this.#pump();
    return promise.finally(() => signal?.removeEventListener('abort', leave));
  }

  #end(request: number, facts: AnswerFacts | null): void {
    const running = this.#running.get(request);
    // It was given up when the rate limiter was closed.
    if (running === undefined) return;
    this.#running.delete(request);
    this.#counts.limited += facts?.limited === true ? 1 : 0;
    this.#note(request, running.startedAt, facts);
    this.#pump();
    if (facts !== null) this.#noteUsage(allowedRate(this.#store.budget));
  }

  /** What a budget of this process learns holds at once; a shared one learns it with the next pass. */
  #note(request: number, startedAt: number, facts: AnswerFacts | null): void {
    const ended = { request, startedAt, endedAt: this.#store.now(), answer: facts && this.#answerOf(facts, startedAt) };
    if (this.#store.isShared) this.#ended.push(ended);
    else recordEnd(this.#store.budget, this.#store.owner, ended);
  }

  #answerOf({ limits, latencyMs, limited, receivedAt }: AnswerFacts, startedAt: number): BudgetAnswer {
    const now = this.#store.now();
    // A stated wait runs from the answer's arrival, not from the end of its body; never from before its request.
    const at = Math.min(now, Math.max(startedAt, now - (this.#clock.now() - receivedAt)));
    return { limits, latencyMs, limited, at };
  }

  #noteUsage(rate: number | null): void {
    if (rate === null) return;
    const { until } = this.#usage;
    const now = this.#clock.monotonic();
    if (until !== null) {
      this.#usage.allowed += (rate * (now - until)) / 1_000;
      this.#usage.used += 1;
    }
    this.#usage.until = now;
  }

  #pump(): void {
    this.#rest.wake();
    if (!this.#isPumping) void this.#runPasses();
  }

  /** Runs scheduling passes while a request waits, or a shared budget has to be updated. */
  async #runPasses(): Promise<void> {
    this.#isPumping = true;
    let maxAgeMs = MAX_STATE_AGE_MS;
    try {
      while (!this.#closed && (this.#waiting.length > 0 || (this.#store.isShared && this.#isBusy()))) {
        const pass = await this.#store.change((budget, now) => this.#schedule(budget, now), maxAgeMs);
        if (pass.isChanged) this.#ended.splice(0, pass.ended);
        for (const { waiting, request } of pass.granted) this.#start(waiting, request);
        const isLong = pass.delay > this.#options.maxWaitMs && Number.isFinite(pass.delay);
        const isUpToOthers = pass.delay === Number.POSITIVE_INFINITY && this.#waiting.length > 0 && !this.#isAlone();
        if (isLong) this.#refuse(deferredBy(pass.delay, this.#clock));
        else if (pass.granted.length === 0) await this.#rest.sleep(this.#sleepAfter(pass, isUpToOthers));
        maxAgeMs = isUpToOthers ? 0 : MAX_STATE_AGE_MS;
      }
    } catch (error) {
      // If the row is unavailable, the responses could not be stored either.
      this.#refuse(error);
    } finally {
      this.#isPumping = false;
    }
  }

  #isBusy(): boolean {
    return this.#running.size > 0 || this.#ended.length > 0;
  }

  #schedule(budget: Budget, now: number): SchedulingPass {
    const { owner, isShared } = this.#store;
    const member: Member = { owner, isKnown: (request) => this.#isKnown(request) };
    const isUnseen = isShared && noteMember(budget, member, now, HEARTBEAT_MS);
    for (const ended of this.#ended) recordEnd(budget, owner, ended);
    const line = [...this.#waiting];
    const pass: SchedulingPass = {
      granted: [],
      delay: Number.POSITIVE_INFINITY,
      ended: this.#ended.length,
      isChanged: false,
    };
    while (pass.granted.length < this.#free()) {
      const next = nextOf(budget, line, owner, now);
      pass.delay = next === null ? Number.POSITIVE_INFINITY : delayOf(budget, now);
      if (next === null || pass.delay > 0) break;
      pass.granted.push({ waiting: next, request: noteStart(budget, { owner, lane: next.lane }, now) });
      line.splice(line.indexOf(next), 1);
    }
    const isClaimed = isShared && keepClaim(budget, owner, line, { delay: pass.delay, now });
    if (isShared && line.length + pass.granted.length + this.#running.size === 0) leave(budget, owner);
    const isNews = this.#ended.some(({ answer, endedAt }) => isUrgent(answer) || now - endedAt >= MAX_BATCH_DELAY_MS);
    pass.isChanged = pass.granted.length > 0 || isNews || isUnseen || isClaimed;
    return pass;
  }

  /** False for a request that was granted to this process without its knowing, as by a statement without an answer. */
  #isKnown(request: number): boolean {
    return this.#running.has(request) || this.#ended.some((ended) => ended.request === request);
  }

  /** The waiter may have been aborted in the meantime. */
  #start(waiting: WaitingRequest, request: number): void {
    const startedAt = this.#store.now();
    if (this.#closed || !this.#waiting.includes(waiting)) return this.#note(request, startedAt, null);
    this.#waiting = this.#waiting.filter((other) => other !== waiting);
    this.#running.set(request, { lane: waiting.lane, startedAt });
    this.#counts.requests += 1;
    waiting.start(request);
  }

  #sleepAfter({ delay }: SchedulingPass, isUpToOthers: boolean): number {
    if (!this.#store.isShared) return Math.min(delay, MAX_SLEEP_MS);
    if (this.#ended.length > 0) return Math.min(delay, MAX_BATCH_DELAY_MS);
    if (this.#waiting.length === 0) return HEARTBEAT_MS;
    if (isUpToOthers) return POLL_INTERVAL_MS;
    const isClaimed = this.#store.budget.claim?.owner === this.#store.owner;
    // Clocks differ a little: without chance the same process would always be the first.
    const apart = this.#isAlone() || isClaimed ? 0 : this.#random() * MAX_SPREAD_MS;
    return Math.min(delay + apart, isClaimed ? RENEW_CLAIM_MS : MAX_STATE_AGE_MS);
  }

  #isAlone(): boolean {
    return this.#store.budget.seen.size < 2;
  }

  #refuse(reason: unknown): void {
    const refused = this.#waiting;
    this.#waiting = [];
    for (const { refuse } of refused) refuse(reason);
    this.#rest.wake();
  }
}

/** The waiting request that may start next as far as the others allow it; null if none may. */
function nextOf(budget: Budget, line: readonly WaitingRequest[], owner: string, now: number): WaitingRequest | null {
  const isForOldest = (budget.started + 1) % OLDEST_EVERY === 0;
  const first = line.toSorted((a, b) => LANES.indexOf(a.lane) - LANES.indexOf(b.lane))[0];
  const next = isForOldest ? line[0] : first;
  if (next === undefined || first === undefined) return null;
  if (isOverShare(budget, owner, first.lane, now)) return null;
  return !isForOldest && isBehindOthers(budget, owner, first.lane, now) ? null : next;
}

/** True for the end of a request by which others may have to wait. */
function isUrgent(answer: BudgetAnswer | null): boolean {
  if (answer === null || answer.limited) return true;
  return Boolean(answer.limits.waitMs) || answer.limits.quotas.some(({ remaining }) => remaining === 0);
}

/** The error of requests that would have to wait for longer than they may. */
function deferredBy(delay: number, clock: Clock): DeferredError {
  const until = Math.ceil(clock.now() + delay);
  const when = new Date(until).toISOString();
  const hint =
    delay > LONG_WAIT_MS
      ? 'If the wait is a mistake: content-sync retry --now forgets it. If it is in another unit, set rate_limit in the profile.'
      : `run again after ${when}, or raise max_wait`;
  return new DeferredError(`the service allows the next request only at ${when}`, until, { hint });
}

function closedReason(): SyncError {
  return new SyncError('closed', 'the run is ending, nothing more is sent', { recovery: 'stop' });
}
