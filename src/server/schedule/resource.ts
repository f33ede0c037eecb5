import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { RunStatus } from '../../model/vocabulary.ts';
import { WakeableSleep } from '../../model/waiting.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { type Due, dueOf, type ResourceTimes, type StoredSuccess } from './due.ts';

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
export interface ScheduleFigures {
  resource: string;
  running: { command: SyncCommand; since: number } | null;
  /** Failures in a row. */
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

/** Finds what is due for one resource, runs it, pauses, and repeats: a single loop, so one run at a time. */
export class ResourceSchedule {
  readonly #parts: ScheduleParts;
  readonly #watchedSince: number;
  readonly #pause: WakeableSleep;
  readonly #requests = new ScanRequests();
  #stored: StoredSuccess | null = null;
  #due = NOTHING_DUE;
  #lastSuccess: SeenTime | null = null;
  #lastFull: SeenTime | null = null;
  #running: ScheduleFigures['running'] = null;
  #failures = 0;
  /** Monotonic milliseconds before which nothing starts. */
  #notBefore = -Infinity;
  #isPaused = false;
  /** Stops the scan in progress. */
  #scan = new AbortController();

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
    this.#requests.refuse(signal.reason, 'all');
  }

  /** Ends the pause. */
  wake(): void {
    this.#pause.wake();
  }

  /**
   * Resolves once a scan that started after this call has succeeded, a full one for `backfill`; rejects only when the
   * schedule is stopped.
   */
  async request(command: SyncCommand): Promise<void> {
    const served = this.#requests.add(command, false);
    this.wake();
    await served;
  }

  /**
   * Scans now, whether or not it is due; joins a full scan in progress. Resolves with the report of that one scan, and
   * rejects with its error, or when the resource is paused or the schedule stopped.
   */
  scanNow(command: SyncCommand): Promise<RunReport> {
    const isJoined = command === 'backfill' && this.#running?.command === 'backfill';
    const served = this.#requests.add(command, true, isJoined);
    this.wake();
    return served;
  }

  /** Forgets failures and the wait after them, but not the wait that the service requested. */
  retry(): void {
    this.#failures = 0;
    this.#notBefore = -Infinity;
    this.wake();
  }

  /** Checks whether the resource is paused; then stops a scan in progress after the current page. */
  async honourPause(): Promise<void> {
    const wasPaused = this.#isPaused;
    this.#isPaused = await this.#parts.isPaused(this.#parts.resource);
    if (this.#isPaused) {
      const reason = new SyncError('interrupted', 'the resource was paused', { recovery: 'stop' });
      this.#scan.abort(reason);
      this.#requests.refuse(reason, 'now');
    } else if (wasPaused) this.retry();
  }

  figures(): ScheduleFigures {
    const { clock, resource } = this.#parts;
    const { nextAt, overdueAt } = this.#isPaused ? NOTHING_DUE : this.#due;
    const notBefore = clock.now() + Math.max(0, this.#notBefore - clock.monotonic());
    return {
      resource,
      running: this.#running,
      failures: this.#failures,
      nextAt: nextAt === null ? null : Math.max(nextAt, notBefore),
      overdueAt,
    };
  }

  async #nextCommand(): Promise<SyncCommand | null> {
    const { resource, times, clock, checkpoints, isPaused } = this.#parts;
    try {
      const stored = await checkpoints(resource);
      this.#isPaused = await isPaused(resource);
      this.#stored = stored;
      this.#lastSuccess = seenTime(this.#lastSuccess, stored?.last_success_at ?? null, clock);
      this.#lastFull = seenTime(this.#lastFull, stored?.last_full_at ?? null, clock);
      const elapsed = { success: this.#elapsedSince(this.#lastSuccess), full: this.#elapsedSince(this.#lastFull) };
      this.#due = dueOf({ times, stored, elapsed, now: clock.now(), watchedSince: this.#watchedSince });
    } catch (error) {
      this.#countThrown(error);
      this.#requests.refuse(error, 'now');
      return null;
    }
    if (this.#isPaused) return null;
    // For a user's request, the run itself reports a wait that the service requested.
    const mayWait = !this.#requests.areNow;
    if (mayWait && (this.#due.parkedUntil !== null || clock.monotonic() < this.#notBefore)) return null;
    const requested = this.#requests.command;
    return requested === 'backfill' ? requested : (this.#due.command ?? requested);
  }

  #elapsedSince({ at }: SeenTime): number | null {
    return at === null ? null : this.#parts.clock.monotonic() - at;
  }

  async #attempt(command: SyncCommand, signal: AbortSignal): Promise<void> {
    const isAsked = this.#requests.start(command);
    this.#running = { command, since: this.#parts.clock.now() };
    this.#scan = new AbortController();
    const attempt = await this.#run(command, AbortSignal.any([signal, this.#scan.signal]), isAsked);
    this.#running = null;
    this.#requests.finish(attempt);
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
    const pauseMs = {
      done: MIN_PAUSE_MS,
      deferred: DEFERRED_PAUSE_MS,
      failed: failurePauseMs(this.#failures, code),
    };
    this.#notBefore = this.#parts.clock.monotonic() + pauseMs[end];
  }

  #pauseMs(): number {
    const { clock } = this.#parts;
    const { nextAt, parkedUntil } = this.#due;
    if (this.#isPaused) return MAX_PAUSE_MS;
    const dueAt = this.#requests.areWaiting ? (parkedUntil ?? -Infinity) : (nextAt ?? Infinity);
    const waitMs = Math.max(dueAt - clock.now(), this.#notBefore - clock.monotonic(), 1);
    return Math.min(waitMs, MAX_PAUSE_MS);
  }
}

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

/** A stored time, and the same time on the monotonic clock; null if that is not known. */
interface SeenTime {
  text: string | null;
  at: number | null;
}

/** Notes when a stored time was first seen. */
function seenTime(known: SeenTime | null, text: string | null, clock: Clock): SeenTime {
  if (known?.text === text) return known;
  if (known !== null || text === null) return { text, at: clock.monotonic() };
  // Stored before this process started: its age is known unless the clock was set back since.
  const ageMs = clock.now() - timestampMs(text);
  return { text, at: ageMs < 0 ? null : clock.monotonic() - ageMs };
}

type ScanAttempt = { isDone: boolean; report: RunReport } | { isDone: false; report: null; error: unknown };

interface ScanRequest {
  command: SyncCommand;
  /** True for a user's request: it does not wait, and is answered with whatever the next scan results in. */
  isNow: boolean;
  /** True while the scan in progress serves it. */
  isServed: boolean;
  resolve: (report: RunReport) => void;
  reject: (reason: unknown) => void;
}

/** Requests for scans of one resource. */
class ScanRequests {
  #all: ScanRequest[] = [];

  get #waiting(): ScanRequest[] {
    return this.#all.filter(({ isServed }) => !isServed);
  }

  get areWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  get areNow(): boolean {
    return this.#waiting.some(({ isNow }) => isNow);
  }

  /** A full scan serves all requests. Null if there are none. */
  get command(): SyncCommand | null {
    const commands = this.#waiting.map(({ command }) => command);
    return commands.includes('backfill') ? 'backfill' : (commands[0] ?? null);
  }

  /** With `isServed`, the scan in progress serves it too. */
  add(command: SyncCommand, isNow: boolean, isServed = false): Promise<RunReport> {
    const { promise, resolve, reject } = Promise.withResolvers<RunReport>();
    this.#all.push({ command, isNow, isServed, resolve, reject });
    return promise;
  }

  /** Called when a scan starts; returns true if a user has requested it. */
  start(command: SyncCommand): boolean {
    for (const request of this.#all) request.isServed = command === 'backfill' || request.command === 'sync';
    return this.#all.some(({ isServed, isNow }) => isServed && isNow);
  }

  /** Called when the scan has ended; after a failure, only users' requests are answered. */
  finish(attempt: ScanAttempt): void {
    this.#remove(({ isServed, isNow }) => isServed && (attempt.isDone || isNow)).forEach(({ resolve, reject }) => {
      if (attempt.report === null) reject(attempt.error);
      else resolve(attempt.report);
    });
    for (const request of this.#all) request.isServed = false;
  }

  /** Rejects all waiting requests, or only those of users. */
  refuse(reason: unknown, whom: 'all' | 'now'): void {
    const refused = this.#remove(({ isServed, isNow }) => !isServed && (whom === 'all' || isNow));
    for (const { reject } of refused) reject(reason);
  }

  #remove(isRemoved: (request: ScanRequest) => boolean): ScanRequest[] {
    const removed = this.#all.filter(isRemoved);
    this.#all = this.#all.filter((request) => !isRemoved(request));
    return removed;
  }
}
