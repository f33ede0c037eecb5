/** The rate limiter: lets requests start in the order of their lanes, when slots and the budget allow it. */
import type { Kysely } from 'kysely';
import { type RateDialect, rateDialectSchema } from '../../config/profile/rate-dialect.ts';
import type { SourceSettings } from '../../config/settings.ts';
import type { Coordination } from '../../database/coordination.ts';
import type { OwnTables } from '../../database/own-tables.ts';
import type { Clock } from '../../model/clock.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { type Lane, LANES } from '../../model/vocabulary.ts';
import { waitAtMost, WakeableSleep } from '../../model/waiting.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { canonicalHash } from '../../rows/records/record-key.ts';
import type { AnswerLimits } from './answer-limits.ts';
import { BudgetStore, type SharedBudget, storeBudget } from './budget-store.ts';
import {
  allowedRate,
  type Budget,
  closedUntil,
  delayOf,
  type EndedRequest,
  forgetWaits,
  isOverShare,
  isYielding,
  noteMember,
  noteStart,
  recordEnd,
  type ServiceLimits,
} from './budget.ts';

/** All that the rate limiter learns from one answer. */
export interface AnswerFacts {
  limits: AnswerLimits;
  /** Local epoch milliseconds at which the answer's headers arrived. */
  receivedAt: number;
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
  /** Local epoch milliseconds until which nothing is sent; null when open. */
  pausedUntil: number | null;
}

/** Runs requests within the limits of one origin and credential. */
export interface RateLimiter {
  /**
   * Runs `attempt` once a slot in the lane opens and the budget allows a request; every attempt takes one. It is given
   * the dialect in which it reads the answer's limits (`readAnswerLimits`).
   * Throws `DeferredError` when the service asks for a wait beyond `max_wait`, the signal's reason on abort, and where
   * the budget is shared what its database throws.
   */
  run<T>(lane: Lane, attempt: RequestAttempt<T>, signal?: AbortSignal): Promise<T>;
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
export function createRateLimiter(options: RateLimiterOptions): RateLimiter {
  return new BudgetRateLimiter(options);
}

/** A request that waits for its slot. */
interface WaitingRequest {
  lane: Lane;
  start: (request: number) => void;
  refuse: (reason: unknown) => void;
}

/** The result of one scheduling pass. */
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
/** How often to look whether another process has freed a slot. */
const POLL_INTERVAL_MS = 25;
/** Random delay between processes that wait for the same time; a process with live work in line has none, and is first. */
const SPREAD_MS = 5;
/** Interval in which a process with requests in flight stores that it is alive. */
const HEARTBEAT_MS = 1_500;
/** How long the end of a request without news waits for the next start, to be stored with it. */
const MAX_BATCH_DELAY_MS = 40;
const LEAVE_TIMEOUT_MS = 1_000;
/** Without a timer of its own a wait ends by a wake; this is the longest one. */
const MAX_SLEEP_MS = 3_600_000;
/** A stated wait that is longer may be a mistake, such as milliseconds in place of seconds. */
const LONG_WAIT_MS = 86_400_000;

class BudgetRateLimiter implements RateLimiter {
  readonly #options: RateLimiterOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #store: BudgetStore;
  /** In the order in which they came. */
  #waiting: WaitingRequest[] = [];
  /** When each request in flight started, by its number. */
  readonly #running = new Map<number, number>();
  /** Ends of requests that the shared budget does not have yet. */
  readonly #ended: EndedRequest[] = [];
  readonly #sleep: WakeableSleep;
  #isScheduling = false;
  #closed = false;
  #counts = { requests: 0, limited: 0 };

  constructor(options: RateLimiterOptions) {
    const { clock, shared = null, restored, random = Math.random } = options;
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#sleep = new WakeableSleep(clock);
    this.#store = new BudgetStore(clock, { ...options, random }, shared, restored);
  }

  async run<T>(lane: Lane, attempt: RequestAttempt<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#closed) throw closedReason();
    const request = await this.#takeSlot(lane, signal);
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
    const now = this.#store.now();
    const until = closedUntil(budget, now);
    const pausedUntil = until === null ? null : Math.ceil(until - now + this.#clock.now());
    return { ...this.#counts, allowedPerSecond: allowedRate(budget), pausedUntil };
  }

  state(): string {
    return storeBudget(this.#store.budget, this.#store.now(), this.#clock.now());
  }

  async forgetWaits(): Promise<void> {
    await this.#store.change((budget) => {
      forgetWaits(budget);
      return { isChanged: true };
    }, 0);
    this.#wake();
  }

  /** Takes this process out of a shared budget, so that no other waits for it; if that takes too long, it is given up. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#refuse(closedReason());
    if (!this.#store.isShared || this.#counts.requests === 0) return;
    for (const [request, startedAt] of this.#running) this.#recordEnd(request, startedAt, null);
    this.#running.clear();
    const { owner } = this.#store;
    const left = this.#store.change((budget) => {
      for (const ended of this.#ended) recordEnd(budget, owner, ended);
      budget.seen.delete(owner);
      return { isChanged: true };
    }, MAX_STATE_AGE_MS);
    await waitAtMost(this.#clock, LEAVE_TIMEOUT_MS, left).catch(() => undefined);
  }

  /** Resolves with the number of the request once it may start. */
  #takeSlot(lane: Lane, signal: AbortSignal | undefined): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const waiting = { lane, start: resolve, refuse: reject };
    const leave = (): void => {
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      reject(signal?.reason);
      this.#sleep.wake();
    };
    signal?.addEventListener('abort', leave, { once: true });
    this.#waiting.push(waiting);
    this.#wake();
    return promise.finally(() => signal?.removeEventListener('abort', leave));
  }

  #end(request: number, facts: AnswerFacts | null): void {
    const startedAt = this.#running.get(request);
    // It was given up when the rate limiter was closed.
    if (startedAt === undefined) return;
    this.#running.delete(request);
    this.#counts.limited += facts?.limited === true ? 1 : 0;
    this.#recordEnd(request, startedAt, facts);
    this.#wake();
  }

  /** A budget of this process has it at once; a shared one with the next scheduling pass. */
  #recordEnd(request: number, startedAt: number, facts: AnswerFacts | null): void {
    const endedAt = this.#store.now();
    // A stated wait runs from the answer's arrival, not from the end of its body; never from before its request.
    const arrival = endedAt - (this.#clock.now() - (facts?.receivedAt ?? 0));
    const answer = facts && { ...facts, at: Math.min(endedAt, Math.max(startedAt, arrival)) };
    const ended = { request, startedAt, endedAt, answer };
    if (this.#store.isShared) this.#ended.push(ended);
    else recordEnd(this.#store.budget, this.#store.owner, ended);
  }

  #wake(): void {
    this.#sleep.wake();
    if (!this.#isScheduling) void this.#runPasses();
  }

  /** Runs scheduling passes while a request waits, or a shared budget has to be updated. */
  async #runPasses(): Promise<void> {
    this.#isScheduling = true;
    let maxAgeMs = MAX_STATE_AGE_MS;
    try {
      while (!this.#closed && (this.#waiting.length > 0 || this.#hasNews())) {
        const pass = await this.#store.change((budget, now) => this.#schedule(budget, now), maxAgeMs);
        if (pass.isChanged) this.#ended.splice(0, pass.ended);
        for (const { waiting, request } of pass.granted) this.#start(waiting, request);
        const isUpToOthers = pass.delay === Infinity && this.#waiting.length > 0 && !this.#isAlone();
        if (pass.delay > this.#options.maxWaitMs && pass.delay !== Infinity) {
          this.#refuse(deferredBy(pass.delay, this.#clock));
        } else if (pass.granted.length === 0) {
          await this.#sleep.sleep(this.#sleepAfter(pass, isUpToOthers));
        }
        maxAgeMs = isUpToOthers ? 0 : MAX_STATE_AGE_MS;
      }
    } catch (error) {
      // If the row is unavailable, the responses could not be stored either.
      this.#refuse(error);
    } finally {
      this.#isScheduling = false;
    }
  }

  /** True while the other processes have to learn that a request of this one is in flight, or has ended. */
  #hasNews(): boolean {
    return this.#store.isShared && this.#running.size + this.#ended.length > 0;
  }

  #schedule(budget: Budget, now: number): SchedulingPass {
    const { owner, isShared } = this.#store;
    // A statement without an answer may have granted a request to this process without its knowing.
    const isKnown = (request: number): boolean =>
      this.#running.has(request) || this.#ended.some((ended) => ended.request === request);
    const isUnseen = isShared && noteMember(budget, { owner, isKnown }, now, HEARTBEAT_MS);
    for (const ended of this.#ended) recordEnd(budget, owner, ended);
    const line = [...this.#waiting];
    const granted: SchedulingPass['granted'] = [];
    let delay = Infinity;
    while (this.#running.size + granted.length < this.#options.concurrency) {
      const waiting = nextOf(budget, line, owner, now);
      delay = waiting === null ? Infinity : delayOf(budget, now);
      if (waiting === null || delay > 0) break;
      granted.push({ waiting, request: noteStart(budget, owner, waiting.lane, now) });
      line.splice(line.indexOf(waiting), 1);
    }
    if (line.length + granted.length + this.#running.size === 0) budget.seen.delete(owner);
    const isNews = this.#ended.some((ended) => isUrgent(ended) || now - ended.endedAt >= MAX_BATCH_DELAY_MS);
    return { granted, delay, ended: this.#ended.length, isChanged: granted.length > 0 || isNews || isUnseen };
  }

  /** The waiting request may have been aborted in the meantime. */
  #start(waiting: WaitingRequest, request: number): void {
    const startedAt = this.#store.now();
    if (this.#closed || !this.#waiting.includes(waiting)) return this.#recordEnd(request, startedAt, null);
    this.#waiting = this.#waiting.filter((other) => other !== waiting);
    this.#running.set(request, startedAt);
    this.#counts.requests += 1;
    waiting.start(request);
  }

  #sleepAfter({ delay }: SchedulingPass, isUpToOthers: boolean): number {
    if (!this.#store.isShared) return Math.min(delay, MAX_SLEEP_MS);
    if (this.#waiting.length === 0) return this.#ended.length > 0 ? MAX_BATCH_DELAY_MS : HEARTBEAT_MS;
    if (isUpToOthers) return POLL_INTERVAL_MS;
    // Clocks differ a little: without chance the same process would always be the first.
    const isFirst = this.#isAlone() || this.#waiting.some(({ lane }) => !isYielding(lane));
    const wait = delay + (isFirst ? 0 : SPREAD_MS * (1 + this.#random()));
    return Math.min(wait, this.#ended.length > 0 ? MAX_BATCH_DELAY_MS : MAX_STATE_AGE_MS);
  }

  #isAlone(): boolean {
    return this.#store.budget.seen.size < 2;
  }

  #refuse(reason: unknown): void {
    const refused = this.#waiting;
    this.#waiting = [];
    for (const { refuse } of refused) refuse(reason);
    this.#sleep.wake();
  }
}

/** The waiting request that may start next as far as the slots of others allow it; null if none may. */
function nextOf(budget: Budget, line: readonly WaitingRequest[], owner: string, now: number): WaitingRequest | null {
  const first = line.toSorted((a, b) => LANES.indexOf(a.lane) - LANES.indexOf(b.lane))[0];
  const next = (budget.started + 1) % OLDEST_EVERY === 0 ? line[0] : first;
  if (next === undefined || first === undefined) return null;
  return isOverShare(budget, owner, first.lane, now) ? null : next;
}

/** True for the end of a request by which others may have to wait. */
function isUrgent({ answer }: EndedRequest): boolean {
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

/** How often the rate limiter's knowledge is stored, so that a restart does not start a storm. */
const SAVE_LIMITS_MS = 1_000;

/** For a token endpoint of another origin, which has limits of its own. */
export const TOKEN_LIMITS = { dialect: rateDialectSchema.parse('auto'), share: 1, concurrency: 1, concurrencyTotal: 1 };

/** For an origin that files come from, which has limits of its own too. */
export const FILE_LIMITS = { dialect: rateDialectSchema.parse('auto'), share: 0.9, concurrency: 6 };

/** What the settings say of the limits of a source's service. */
export function limitsOf({ profile, rate }: SourceSettings): ServiceLimits {
  return {
    dialect: profile.rate_limit,
    requestsPerSecond: rate.requests_per_second,
    share: rate.share,
    concurrency: profile.http.concurrency,
    concurrencyTotal: profile.http.concurrency_total,
  };
}

/** Where the knowledge of limits is kept: for all processes, or for this one; nowhere if both are null. */
export interface KnownLimits {
  coordination: Coordination | null;
  own: Kysely<OwnTables> | null;
  /** True if what this process learns is stored in `own`. */
  isKept: boolean;
}

interface RateLimiterStorage extends KnownLimits {
  clock: Clock;
  maxWaitMs: number;
}

/** Opens a rate limiter that continues from stored state, or shares it with other processes; the caller closes it. */
export async function openRateLimiter(
  { coordination, own, isKept, clock, maxWaitMs }: RateLimiterStorage,
  name: string,
  limits: ServiceLimits,
): Promise<RateLimiter> {
  if (coordination !== null) {
    const shared = {
      read: () => coordination.readBudget(name),
      swap: (version: number, state: string) => coordination.swapBudget(name, version, state),
    };
    return createRateLimiter({ clock, maxWaitMs, ...limits, shared });
  }
  const restored = own === null ? null : await readLimit(own, name);
  const rateLimiter = createRateLimiter({ clock, maxWaitMs, ...limits, restored: restored ?? undefined });
  return own === null || !isKept ? rateLimiter : withStoredState(rateLimiter, own, name, clock);
}

/** Stores what the rate limiter knows whenever it has changed, and once more when it is closed. */
function withStoredState(rateLimiter: RateLimiter, own: Kysely<OwnTables>, name: string, clock: Clock): RateLimiter {
  let stored = rateLimiter.state();
  const save = async (): Promise<void> => {
    const state = rateLimiter.state();
    if (state === stored) return;
    stored = state;
    await saveLimit(own, name, state, clock.now());
  };
  // If the database is busy, the next tick tries again; the last save, at the end, may throw.
  const timer = setInterval(() => void save().catch(() => undefined), SAVE_LIMITS_MS);
  timer.unref();
  return {
    run: (lane, attempt, signal) => rateLimiter.run(lane, attempt, signal),
    figures: () => rateLimiter.figures(),
    state: () => rateLimiter.state(),
    forgetWaits: () => rateLimiter.forgetWaits(),
    close: async () => {
      clearInterval(timer);
      await save();
      await rateLimiter.close();
    },
  };
}

/**
 * Compares `rate_limit` with the one under which the stored waits were read: if an operator has changed it, they are
 * forgotten, because they may have been read in a wrong unit.
 */
export async function compareRateLimit(own: Kysely<OwnTables>, budget: string, dialect: RateDialect) {
  const name = `${budget} rate_limit`;
  const hash = canonicalHash(parseJson(JSON.stringify(dialect)));
  const known = await readLimit(own, name);
  return {
    isChanged: known !== null && known !== hash,
    save: async (now: number): Promise<void> => {
      if (known !== hash) await saveLimit(own, name, hash, now);
    },
  };
}

/** Reads the stored state for one origin and credential; null if absent. */
async function readLimit(own: Kysely<OwnTables>, name: string): Promise<string | null> {
  const row = await own.selectFrom('_sync_limits').select('state').where('name', '=', name).executeTakeFirst();
  return row?.state ?? null;
}

export async function saveLimit(own: Kysely<OwnTables>, name: string, state: string, now: number): Promise<void> {
  const values = { state, updated_at: timestampText(now) };
  await own
    .insertInto('_sync_limits')
    .values({ name, ...values })
    .onConflict((conflict) => conflict.column('name').doUpdateSet(values))
    .execute();
}
