// The schedule of one resource: a loop that runs what is due or requested, and waits in between.
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { RunStatus } from '../../model/vocabulary.ts';
import { WakeableSleep } from '../../model/waiting.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { type Due, computeDue, type ResourceTimes, type StoredSuccess } from './due.ts';

export interface ScheduleParts {
  resource: string;
  times: ResourceTimes;
  clock: Clock;
  /** Returns null if the resource was never scanned. */
  checkpoints: (resource: string) => Promise<StoredSuccess | null>;
  /** Returns true while a user has paused the resource. */
  isPaused: (resource: string) => Promise<boolean>;
  run: (resource: string, command: SyncCommand, signal: AbortSignal, cause: ScanCause) => Promise<RunReport>;
  /** Called with an error that was thrown instead of reported; it counts as a failure. */
  failed: (resource: string, error: unknown) => void;
}

/** Why a resource is scanned: it is `due` by the stored state, or a user `asked` for it. */
export type ScanCause = { is: 'due'; stored: StoredSuccess | null } | { is: 'asked' };

/** The state of one resource; times in epoch milliseconds. */
export interface ScheduleState {
  resource: string;
  running: { command: SyncCommand; since: number } | null;
  failures: number;
  /** When the next run starts, as far as that is known; null for never. */
  nextAt: number | null;
  overdueAt: number | null;
}

/** Minimum time between two runs of a resource: one scan serves all requests of that time. */
const MIN_PAUSE_MS = 1_000;
/** The clock may be set, and another process may change the stored state. */
const MAX_PAUSE_MS = 60_000;
/** After a run that was deferred or interrupted; its checkpoint says when it may resume. */
const DEFERRED_PAUSE_MS = 60_000;

const NOTHING_DUE: Due = { command: null, parkedUntil: null, nextAt: null, overdueAt: null };

/** A request for a scan, by a delivery or a user. */
interface ScanRequest {
  command: SyncCommand;
  /** True for a user's request: it starts at once, and gets the report of the next scan, whatever its result. */
  isNow: boolean;
  /** True while the scan in progress serves it. */
  isServed: boolean;
  resolve: (report: RunReport) => void;
  reject: (reason: unknown) => void;
}

/** Finds what is due for one resource, runs it, pauses, and repeats: a single loop, so one run at a time. */
export class ResourceSchedule {
  readonly #parts: ScheduleParts;
  readonly #watchedSince: number;
  readonly #pause: WakeableSleep;
  #requests: readonly ScanRequest[] = [];
  #stored: StoredSuccess | null = null;
  #due = NOTHING_DUE;
  #running: ScheduleState['running'] = null;
  #failures = 0;
  /** Monotonic milliseconds before which nothing starts. */
  #notBefore = -Infinity;
  #isPaused = false;

  constructor(parts: ScheduleParts) {
    this.#parts = parts;
    this.#pause = new WakeableSleep(parts.clock);
    this.#watchedSince = parts.clock.now();
  }

  /** Runs until the signal; never rejects. */
  async work(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const command = await this.#nextCommand();
      if (signal.aborted) break;
      if (command === null) await this.#pause.sleep(this.#pauseMs(), signal);
      else await this.#attempt(command, signal);
    }
    this.#refuse(signal.reason, ({ isServed }) => !isServed);
  }

  wake(): void {
    this.#pause.wake();
  }

  /**
   * Resolves once a scan that started after this call has succeeded, a full one for `backfill`; rejects only when the
   * schedule is stopped.
   */
  async request(command: SyncCommand): Promise<void> {
    await this.#add(command, { isNow: false, isServed: false });
  }

  /**
   * Scans now, whether or not it is due; joins a full scan in progress. Resolves with the report of that one scan, and
   * rejects with its error, or when the resource is paused or the schedule stopped.
   */
  scanNow(command: SyncCommand): Promise<RunReport> {
    return this.#add(command, {
      isNow: true,
      isServed: command === 'backfill' && this.#running?.command === 'backfill',
    });
  }

  /** Forgets failures and the wait after them, but not the wait that the service requested. */
  retry(): void {
    this.#forgetFailures();
    this.wake();
  }

  state(): ScheduleState {
    const { clock, resource } = this.#parts;
    const { nextAt, overdueAt } = this.#isPaused ? NOTHING_DUE : this.#due;
    const notBefore = clock.now() + Math.max(0, this.#notBefore - clock.monotonic());
    const next = nextAt === null ? null : Math.max(nextAt, notBefore);
    return { resource, running: this.#running, failures: this.#failures, nextAt: next, overdueAt };
  }

  #forgetFailures(): void {
    this.#failures = 0;
    this.#notBefore = -Infinity;
  }

  #add(command: SyncCommand, request: { isNow: boolean; isServed: boolean }): Promise<RunReport> {
    const { promise, resolve, reject } = Promise.withResolvers<RunReport>();
    this.#requests = [...this.#requests, { command, ...request, resolve, reject }];
    this.wake();
    return promise;
  }

  #refuse(reason: unknown, isRefused: (request: ScanRequest) => boolean): void {
    const refused = this.#requests.filter(isRefused);
    this.#requests = this.#requests.filter((request) => !refused.includes(request));
    for (const { reject } of refused) reject(reason);
  }

  async #nextCommand(): Promise<SyncCommand | null> {
    const { resource, times, clock, checkpoints, isPaused } = this.#parts;
    try {
      const wasPaused = this.#isPaused;
      this.#stored = await checkpoints(resource);
      this.#isPaused = await isPaused(resource);
      if (wasPaused && !this.#isPaused) this.#forgetFailures();
      this.#due = computeDue({ times, stored: this.#stored, now: clock.now(), watchedSince: this.#watchedSince });
    } catch (error) {
      this.#countThrown(error);
      this.#refuse(error, isWaitingUser);
      return null;
    }
    if (this.#isPaused) {
      this.#refuse(new SyncError('interrupted', 'the resource was paused', { recovery: 'stop' }), isWaitingUser);
      return null;
    }
    // For a user's request, the run itself reports a wait that the service requested.
    const mayWait = !this.#requests.some(isWaitingUser);
    if (mayWait && (this.#due.parkedUntil !== null || clock.monotonic() < this.#notBefore)) return null;
    const requested = this.#requests.filter(({ isServed }) => !isServed).map(({ command }) => command);
    // A full scan serves all requests.
    return requested.includes('backfill') ? 'backfill' : (this.#due.command ?? requested[0] ?? null);
  }

  async #attempt(command: SyncCommand, signal: AbortSignal): Promise<void> {
    for (const request of this.#requests) request.isServed = command === 'backfill' || request.command === 'sync';
    const isAsked = this.#requests.some(({ isServed, isNow }) => isServed && isNow);
    this.#running = { command, since: this.#parts.clock.now() };
    const attempt = await this.#run(command, signal, isAsked);
    this.#running = null;
    // After a failure, only users' requests are answered.
    const isAnswered = ({ isServed, isNow }: ScanRequest): boolean => isServed && (attempt.isDone || isNow);
    const { report } = attempt;
    if (report === null) this.#refuse(attempt.error, isAnswered);
    else for (const request of this.#requests.filter(isAnswered)) request.resolve(report);
    this.#requests = this.#requests.filter((request) => !isAnswered(request));
    for (const request of this.#requests) request.isServed = false;
  }

  async #run(command: SyncCommand, signal: AbortSignal, isAsked: boolean): Promise<ScanAttempt> {
    const { resource, run } = this.#parts;
    const cause: ScanCause = isAsked ? { is: 'asked' } : { is: 'due', stored: this.#stored };
    try {
      const report = await run(resource, command, signal, cause);
      const part = report.resources.find((each) => each.resource === resource);
      const end = RUN_ENDS[part?.status ?? report.status];
      this.#countEnd(end, part?.error?.code ?? null);
      return { isDone: end === 'done', report };
    } catch (error) {
      // The scan was stopped before it started.
      if (signal.aborted && error === signal.reason) this.#countEnd('deferred', null);
      else this.#countThrown(error);
      return { isDone: false, report: null, error };
    }
  }

  #countThrown(error: unknown): void {
    const { clock, resource, failed } = this.#parts;
    // Errors of `checkpoints` during the wait after a failure do not count again.
    if (clock.monotonic() < this.#notBefore) return;
    this.#countEnd('failed', error instanceof SyncError ? error.code : null);
    failed(resource, error);
  }

  #countEnd(end: ScanResult, code: string | null): void {
    if (end === 'done') this.#failures = 0;
    if (end === 'failed') this.#failures += 1;
    const failed = failurePauseMs(this.#failures, code);
    const pauseMs = { done: MIN_PAUSE_MS, deferred: DEFERRED_PAUSE_MS, failed };
    this.#notBefore = this.#parts.clock.monotonic() + pauseMs[end];
  }

  #pauseMs(): number {
    const { clock } = this.#parts;
    const { nextAt, parkedUntil } = this.#due;
    if (this.#isPaused) return MAX_PAUSE_MS;
    const areWaiting = this.#requests.some(({ isServed }) => !isServed);
    const dueAt = areWaiting ? (parkedUntil ?? -Infinity) : (nextAt ?? Infinity);
    const waitMs = Math.max(dueAt - clock.now(), this.#notBefore - clock.monotonic(), 1);
    return Math.min(waitMs, MAX_PAUSE_MS);
  }
}

function isWaitingUser({ isServed, isNow }: ScanRequest): boolean {
  return !isServed && isNow;
}

type ScanAttempt = { isDone: boolean; report: RunReport } | { isDone: false; report: null; error: unknown };

type ScanResult = 'done' | 'failed' | 'deferred';

const RUN_ENDS: Readonly<Record<RunStatus, ScanResult>> = {
  ok: 'done',
  // Rejected records remain rejected until the service changes them.
  partial: 'done',
  failed: 'failed',
  deferred: 'deferred',
  interrupted: 'deferred',
};

const MINUTE_MS = 60_000;
const MAX_FAILURE_PAUSE_MS = 15 * MINUTE_MS;
/** A user has to fix these; more requests would only look like an attack. */
const CREDENTIAL_CODES: ReadonlySet<string> = new Set([
  'auth_failed',
  'refresh_token_refused',
  'bad_token',
  'forbidden',
  'identity_refused',
]);
const CREDENTIAL_PAUSE_MS = 60 * MINUTE_MS;
/** Another process owns the resource, and may end at any time. */
const LEASE_CODES: ReadonlySet<string> = new Set(['lease_held', 'lease_lost']);
const LEASE_PAUSE_MS = 15_000;

/** Milliseconds until the next run after `failures` in a row, the last one with this code. */
function failurePauseMs(failures: number, code: string | null): number {
  if (code !== null && CREDENTIAL_CODES.has(code)) return CREDENTIAL_PAUSE_MS;
  if (code !== null && LEASE_CODES.has(code)) return LEASE_PAUSE_MS;
  return Math.min(MINUTE_MS * 2 ** (Math.max(1, failures) - 1), MAX_FAILURE_PAUSE_MS);
}
