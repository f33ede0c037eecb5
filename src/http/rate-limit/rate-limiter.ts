// The rate limiter of one origin and credential. Without it, parallel syncs would exceed the limit of the service, so
// every request waits here until the budget (`budget.ts`) allows it. The lane of a request is its priority: a request of
// a webhook starts before those of a backfill. The functions at the end connect a rate limiter with its stored state.
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
import { BudgetStore, type SharedBudget } from './budget-store.ts';
import {
  allowedRate,
  type Budget,
  closedUntil,
  type EndedRequest,
  forgetWaits,
  getDelay,
  isOverShare,
  isYielding,
  noteStart,
  recordEnd,
  recordHeartbeat,
  type ServiceLimits,
} from './budget.ts';

/** What the rate limiter learns from one response. */
export interface AnswerFacts {
  limits: AnswerLimits;
  /** When the headers of the response arrived, in local epoch milliseconds. */
  receivedAt: number;
  /** True if the outcome of the response is `limited`. */
  limited: boolean;
}

/** The result of one attempt; `facts` is null if no response came. */
export interface Attempted<T> {
  result: T;
  facts: AnswerFacts | null;
}

/** Sends one request while it occupies a slot. */
export type RequestAttempt<T> = (dialect: RateDialect) => Promise<Attempted<T>>;

/** Counters of this process since its start and the state of the budget, for progress and status. */
export interface RateLimiterMetrics {
  requests: number;
  /** Responses with the outcome `limited` (429). */
  limited: number;
  /** The lowest known limit in requests per second; null if none is known. */
  allowedPerSecond: number | null;
  /** Epoch milliseconds of the local clock until which no request is sent; null if requests are allowed. */
  pausedUntil: number | null;
}

/** Runs requests within the limits of one origin and credential. */
export interface RateLimiter {
  /**
   * Runs `attempt` when a slot is free and the budget allows a request. The attempt gets the dialect in which the service
   * states its limits. Throws `DeferredError` if the request would wait longer than `max_wait`, the signal's reason, and
   * for a shared budget the errors of its database.
   */
  run<T>(lane: Lane, attempt: RequestAttempt<T>, signal?: AbortSignal): Promise<T>;
  metrics(): RateLimiterMetrics;
  /** Returns the state that must survive a restart, as JSON for `_sync_limits`. */
  state(): string;
  /** Forgets the waits and quotas that the service has stated; the next request tests whether they still apply. */
  forgetWaits(): Promise<void>;
  /** Rejects all waiting requests. */
  close(): void | Promise<void>;
}

export interface RateLimiterOptions extends ServiceLimits {
  clock: Clock;
  /** Requests that would wait longer are deferred. */
  maxWaitMs: number;
  /** The text that `state()` returned before the restart, unless the budget is shared. */
  restored?: string | undefined;
  /** Stores the text of `state()` after changes, and when the rate limiter is closed. */
  save?: ((state: string) => Promise<void>) | undefined;
  /** The database row of a budget that processes with the same credential share. */
  shared?: SharedBudget | undefined;
  /** 0 up to 1, for jitter. */
  random?: () => number;
}

interface WaitingRequest {
  lane: Lane;
  /** Called with the number of the request once it may start. */
  start: (request: number) => void;
  refuse: (reason: unknown) => void;
}

interface SchedulingPass {
  granted: { waiting: WaitingRequest; request: number }[];
  /** Milliseconds until the next request may start; infinite if that depends on an answer or another process. */
  delay: number;
  /** Number of ended requests that the budget has recorded. */
  ended: number;
  isChanged: boolean;
}

/** Every fifth request to start is the one that has waited longest, so that no lane starves. */
const OLDEST_EVERY = 5;
/** A shared budget is read at least this often while a request waits. */
const MAX_STATE_AGE_MS = 1_000;
/** Interval of checks whether another process has released a slot. */
const POLL_INTERVAL_MS = 25;
/** Random delay, so that waiting processes take turns. A process with webhooks to serve has none, so that it is first. */
const SPREAD_MS = 5;
/** Interval in which a process with requests in flight stores that it is alive. */
const HEARTBEAT_MS = 1_500;
/** The end of an ordinary request is stored with the next start, or after this time. */
const MAX_BATCH_DELAY_MS = 40;
const LEAVE_TIMEOUT_MS = 1_000;
/** Max sleep; a change of the budget ends it earlier. */
const MAX_SLEEP_MS = 3_600_000;
/** A longer stated wait may be a mistake, such as milliseconds instead of seconds. */
const LONG_WAIT_MS = 86_400_000;

/** Interval in which the state is stored, so that a restart does not send a burst. */
const SAVE_LIMITS_MS = 1_000;

/**
 * `run` adds a request to the queue and wakes the scheduling loop (`#runPasses`). Each pass of the loop grants slots to
 * waiting requests (`#schedule`), stores the changed budget, and only then starts them.
 */
export class BudgetRateLimiter implements RateLimiter {
  readonly #options: RateLimiterOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #store: BudgetStore;
  /** Requests that wait, in order of arrival. */
  #waiting: WaitingRequest[] = [];
  /** When each request in flight started, by its number. */
  readonly #running = new Map<number, number>();
  /** Ended requests that are not in the shared budget yet. */
  readonly #ended: EndedRequest[] = [];
  readonly #sleep: WakeableSleep;
  /** True while the loop of scheduling passes runs. */
  #isScheduling = false;
  #closed = false;
  #counts = { requests: 0, limited: 0 };
  /** The state as it was stored last. */
  #saved: string;
  #saveTimer: NodeJS.Timeout | undefined;

  constructor(options: RateLimiterOptions) {
    const { clock, shared = null, restored, random = Math.random } = options;
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#sleep = new WakeableSleep(clock);
    this.#store = new BudgetStore(clock, { ...options, random }, shared, restored);
    this.#saved = this.state();
    if (options.save === undefined) return;
    // If the database is busy, the next tick tries again; the last save, at the end, may throw.
    this.#saveTimer = setInterval(() => void this.#save().catch(() => undefined), SAVE_LIMITS_MS).unref();
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

  metrics(): RateLimiterMetrics {
    const { budget } = this.#store;
    const now = this.#store.now();
    const until = closedUntil(budget, now);
    const pausedUntil = until === null ? null : Math.ceil(until - now + this.#clock.now());
    return { ...this.#counts, allowedPerSecond: allowedRate(budget), pausedUntil };
  }

  state(): string {
    return this.#store.text();
  }

  async forgetWaits(): Promise<void> {
    await this.#store.change((budget) => {
      forgetWaits(budget);
      return { isChanged: true };
    }, 0);
    this.#wake();
  }

  /** Saves the state; removes this process from a shared budget within a timeout, so that others do not wait for it. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#refuse(closedReason());
    clearInterval(this.#saveTimer);
    await this.#save();
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

  async #save(): Promise<void> {
    const state = this.state();
    if (this.#options.save === undefined || state === this.#saved) return;
    this.#saved = state;
    await this.#options.save(state);
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
    // Already ended by `close`.
    if (startedAt === undefined) return;
    this.#running.delete(request);
    this.#counts.limited += facts?.limited === true ? 1 : 0;
    this.#recordEnd(request, startedAt, facts);
    this.#wake();
  }

  /** Records the end now, or in a shared budget with the next scheduling pass. */
  #recordEnd(request: number, startedAt: number, facts: AnswerFacts | null): void {
    const endedAt = this.#store.now();
    // A stated wait starts when the answer arrives, not at the end of its body, and never before its request.
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
      while (!this.#closed && (this.#waiting.length > 0 || this.#hasUnstoredChanges())) {
        const pass = await this.#store.change((budget, now) => this.#schedule(budget, now), maxAgeMs);
        if (pass.isChanged) this.#ended.splice(0, pass.ended);
        for (const { waiting, request } of pass.granted) this.#start(waiting, request);
        const dependsOnOthers = pass.delay === Infinity && this.#waiting.length > 0 && !this.#isAlone();
        if (pass.delay > this.#options.maxWaitMs && pass.delay !== Infinity) {
          this.#refuse(deferredBy(pass.delay, this.#clock));
        } else if (pass.granted.length === 0) {
          await this.#sleep.sleep(this.#sleepAfter(pass, dependsOnOthers));
        }
        maxAgeMs = dependsOnOthers ? 0 : MAX_STATE_AGE_MS;
      }
    } catch (error) {
      // If the database is unavailable, the responses could not be stored either.
      this.#refuse(error);
    } finally {
      this.#isScheduling = false;
    }
  }

  /** True while the shared budget lacks a start or an end of a request of this process. */
  #hasUnstoredChanges(): boolean {
    return this.#store.isShared && this.#running.size + this.#ended.length > 0;
  }

  /** Grants slots to waiting requests as far as the budget allows. */
  #schedule(budget: Budget, now: number): SchedulingPass {
    const { owner, isShared } = this.#store;
    // A statement that failed may have stored the start of a request that this process never sent.
    const isKnown = (request: number): boolean =>
      this.#running.has(request) || this.#ended.some((ended) => ended.request === request);
    const isHeartbeatDue = isShared && recordHeartbeat(budget, { owner, isKnown }, now, HEARTBEAT_MS);
    for (const ended of this.#ended) recordEnd(budget, owner, ended);
    const queue = [...this.#waiting];
    const granted: SchedulingPass['granted'] = [];
    let delay = Infinity;
    while (this.#running.size + granted.length < this.#options.concurrency) {
      const waiting = chooseNext(budget, queue, owner, now);
      delay = waiting === null ? Infinity : getDelay(budget, now);
      if (waiting === null || delay > 0) break;
      granted.push({ waiting, request: noteStart(budget, owner, waiting.lane, now) });
      queue.splice(queue.indexOf(waiting), 1);
    }
    if (queue.length + granted.length + this.#running.size === 0) budget.seen.delete(owner);
    // The ends of requests are stored now if other processes must know them, or if they have waited long enough.
    const areEndsDue = this.#ended.some((ended) => isUrgent(ended) || now - ended.endedAt >= MAX_BATCH_DELAY_MS);
    return { granted, delay, ended: this.#ended.length, isChanged: granted.length > 0 || areEndsDue || isHeartbeatDue };
  }

  /** Starts a granted request, or ends it at once if it was aborted in the meantime. */
  #start(waiting: WaitingRequest, request: number): void {
    const startedAt = this.#store.now();
    if (this.#closed || !this.#waiting.includes(waiting)) return this.#recordEnd(request, startedAt, null);
    this.#waiting = this.#waiting.filter((other) => other !== waiting);
    this.#running.set(request, startedAt);
    this.#counts.requests += 1;
    waiting.start(request);
  }

  /** Returns the milliseconds until the next scheduling pass. */
  #sleepAfter({ delay }: SchedulingPass, dependsOnOthers: boolean): number {
    if (!this.#store.isShared) return Math.min(delay, MAX_SLEEP_MS);
    if (this.#waiting.length === 0) return this.#ended.length > 0 ? MAX_BATCH_DELAY_MS : HEARTBEAT_MS;
    if (dependsOnOthers) return POLL_INTERVAL_MS;
    // Without a random delay, the process with the fastest clock would always be first.
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

/** Returns the waiting request that starts next; null if the slots of yielding lanes are used. */
function chooseNext(
  budget: Budget,
  queue: readonly WaitingRequest[],
  owner: string,
  now: number,
): WaitingRequest | null {
  const first = queue.toSorted((a, b) => LANES.indexOf(a.lane) - LANES.indexOf(b.lane))[0];
  const next = (budget.started + 1) % OLDEST_EVERY === 0 ? queue[0] : first;
  if (next === undefined || first === undefined) return null;
  return isOverShare(budget, owner, first.lane, now) ? null : next;
}

/** True for an end that other processes must know at once, because it may make them wait. */
function isUrgent({ answer }: EndedRequest): boolean {
  if (answer === null || answer.limited) return true;
  return Boolean(answer.limits.waitMs) || answer.limits.quotas.some(({ remaining }) => remaining === 0);
}

/** Creates the error of requests that would wait longer than `max_wait`. */
function deferredBy(delay: number, clock: Clock): DeferredError {
  const until = Math.ceil(clock.now() + delay);
  const when = new Date(until).toISOString();
  const hint =
    delay > LONG_WAIT_MS
      ? 'If the wait is a mistake: content-sync control retry --now forgets it. If it is in another unit, set rate_limit in the profile.'
      : `run again after ${when}, or raise max_wait`;
  return new DeferredError(`the service allows the next request only at ${when}`, until, { hint });
}

function closedReason(): SyncError {
  return new SyncError('interrupted', 'the run is ending, nothing more is sent', { recovery: 'stop' });
}

/** Limits of a token endpoint at another origin. */
export const TOKEN_LIMITS = { dialect: rateDialectSchema.parse('auto'), share: 1, concurrency: 1, concurrencyTotal: 1 };

/** Limits of another origin that files come from. */
export const FILE_LIMITS = { dialect: rateDialectSchema.parse('auto'), share: 0.9, concurrency: 6 };

export function limitsOf({ profile, rate }: SourceSettings): ServiceLimits {
  return {
    dialect: profile.rate_limit,
    requestsPerSecond: rate.requests_per_second,
    share: rate.share,
    concurrency: profile.http.concurrency,
    concurrencyTotal: profile.http.concurrency_total,
  };
}

/** Where the state of rate limiters is stored: shared by all processes, or only for this one; nowhere if both are null. */
export interface KnownLimits {
  coordination: Coordination | null;
  /** The internal tables (`_sync_limits`) of the warehouse. */
  own: Kysely<OwnTables> | null;
  /** True if this process also saves the state in `own`. */
  savesState: boolean;
}

/** Opens a rate limiter that shares its state with other processes, or continues from the stored state. */
export async function openRateLimiter(
  { coordination, own, savesState, clock, maxWaitMs }: KnownLimits & { clock: Clock; maxWaitMs: number },
  name: string,
  limits: ServiceLimits,
): Promise<RateLimiter> {
  const options = { clock, maxWaitMs, ...limits };
  if (coordination !== null) {
    const read = () => coordination.readBudget(name);
    const swap = (version: number, state: string) => coordination.swapBudget(name, version, state);
    return new BudgetRateLimiter({ ...options, shared: { read, swap } });
  }
  if (own === null) return new BudgetRateLimiter(options);
  const restored = (await readLimit(own, name)) ?? undefined;
  const save = savesState ? (state: string) => saveLimit(own, name, state, clock.now()) : undefined;
  return new BudgetRateLimiter({ ...options, restored, save });
}

/**
 * Compares `rate_limit` of the profile with the one of the stored state. If a user has changed it, the caller forgets the
 * stored waits, because they may have been read in a wrong unit.
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
