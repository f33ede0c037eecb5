// The schedule of one resource: a loop that runs what is due or requested, and waits in between.
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import type { RunStatus } from '../../model/vocabulary.ts';
import { WakeableSleep } from '../../model/waiting.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { computeDue, type Due, type ResourceTimes, type StoredSuccess } from './due.ts';

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

/** Why a resource is scanned: it is `due` by the stored state, or a user or a delivery `requested` it. */
export type ScanCause = { is: 'due'; stored: StoredSuccess | null } | { is: 'requested' };

/** The state of one resource; times in epoch milliseconds. */
export interface ScheduleState {
  resource: string;
  running: { command: SyncCommand; since: number; report: Promise<RunReport> } | null;
  /** Failed runs in a row. */
  failures: number;
  /** When the next run starts, as far as that is known; null for never. */
  nextAt: number | null;
  overdueAt: number | null;
}

/** Minimum time between two runs of a resource: one scan serves all requests of that time. */
const MIN_PAUSE_MS = 1_000;
/** How soon a paused resource continues after it was resumed. */
const PAUSED_CHECK_MS = 2_000;
/** Pause after a run that was deferred or interrupted; its checkpoint says when it may resume. */
const DEFERRED_PAUSE_MS = 60_000;

const NOTHING_DUE: Due = { command: null, parkedUntil: null, nextAt: null, overdueAt: null };

/** A request for a scan. It gets the report of the next scan, whatever its result. */
interface ScanRequest extends PromiseWithResolvers<RunReport> {
  command: SyncCommand;
  /** True for a user: a delivery waits until a pause after a failure, or one that the service requested, is over. */
  isUrgent: boolean;
}

/** Finds what is due for one resource, runs it, pauses, and repeats: a single loop, so one run at a time. */
export class ResourceSchedule {
  readonly #parts: ScheduleParts;
  readonly #watchedSince: number;
  readonly #pause: WakeableSleep;
  /** Requests that no scan serves yet. */
  #requests: readonly ScanRequest[] = [];
  /** The checkpoint as last read, and what is due by it. */
  #stored: StoredSuccess | null = null;
  #due = NOTHING_DUE;
  #running: ScheduleState['running'] = null;
  /** Failed runs in a row. */
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
    this.#refuseRequests(signal.reason);
  }

  wake(): void {
    this.#pause.wake();
  }

  /**
   * Scans whether or not it is due, and after the scan in progress. Resolves with the report of that one scan, and rejects
   * with its error, or when the resource is paused or the schedule stopped.
   */
  requestScan(command: SyncCommand, isUrgent: boolean): Promise<RunReport> {
    const request = { command, isUrgent, ...Promise.withResolvers<RunReport>() };
    this.#requests = [...this.#requests, request];
    this.wake();
    return request.promise;
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

  #refuseRequests(reason: unknown): void {
    for (const { reject } of this.#requests) reject(reason);
    this.#requests = [];
  }

  async #nextCommand(): Promise<SyncCommand | null> {
    const { resource, times, clock, checkpoints, isPaused } = this.#parts;
    try {
      const wasPaused = this.#isPaused;
      const before = this.#stored?.last_success_at ?? null;
      this.#stored = await checkpoints(resource);
      this.#isPaused = await isPaused(resource);
      // Another process may have synced it.
      const isRecovered = this.#failures > 0 && (this.#stored?.last_success_at ?? null) !== before;
      if (isRecovered || (wasPaused && !this.#isPaused)) this.#forgetFailures();
      this.#due = computeDue({ times, stored: this.#stored, now: clock.now(), watchedSince: this.#watchedSince });
    } catch (error) {
      this.#countThrown(error);
      this.#refuseRequests(error);
      return null;
    }
    if (this.#isPaused) {
      this.#refuseRequests(new SyncError('interrupted', 'the resource was paused', { recovery: 'stop' }));
      return null;
    }
    const mustWait = this.#due.parkedUntil !== null || clock.monotonic() < this.#notBefore;
    // If the service requested a wait, the run of a user's request reports that.
    if (mustWait && !this.#requests.some(({ isUrgent }) => isUrgent)) return null;
    const [first] = this.#requests;
    if (first === undefined) return this.#due.command;
    // A full scan serves all requests.
    const isFull = this.#requests.some(({ command }) => command === 'backfill');
    return isFull ? 'backfill' : (this.#due.command ?? first.command);
  }

  async #attempt(command: SyncCommand, signal: AbortSignal): Promise<void> {
    // Later requests get the next scan: this one may not see what happened after it began.
    const served = this.#requests.filter((request) => command === 'backfill' || request.command === 'sync');
    this.#requests = this.#requests.filter((request) => !served.includes(request));
    const cause: ScanCause = served.length > 0 ? { is: 'requested' } : { is: 'due', stored: this.#stored };
    const report = this.#run(command, signal, cause);
    this.#running = { command, since: this.#parts.clock.now(), report };
    for (const { resolve } of served) resolve(report);
    await report.catch(() => undefined);
    this.#running = null;
  }

  async #run(command: SyncCommand, signal: AbortSignal, cause: ScanCause): Promise<RunReport> {
    const { resource, run } = this.#parts;
    try {
      const report = await run(resource, command, signal, cause);
      const ofResource = report.resources.find((each) => each.resource === resource);
      this.#noteEnd(RESULT_BY_STATUS[ofResource?.status ?? report.status], ofResource?.error?.code ?? null);
      return report;
    } catch (error) {
      // The scan was stopped before it started.
      if (signal.aborted && error === signal.reason) this.#noteEnd('deferred', null);
      else this.#countThrown(error);
      throw error;
    }
  }

  #countThrown(error: unknown): void {
    const { clock, resource, failed } = this.#parts;
    // Errors of `checkpoints` during the wait after a failure do not count again.
    if (clock.monotonic() < this.#notBefore) return;
    this.#noteEnd('failed', error instanceof SyncError ? error.code : null);
    failed(resource, error);
  }

  #noteEnd(result: ScanResult, code: string | null): void {
    if (result === 'done') this.#failures = 0;
    if (result === 'failed') this.#failures += 1;
    const failed = failurePauseMs(this.#failures, code);
    // A scan that a pause of the resource has interrupted continues as soon as the resource is resumed.
    const pauseMs = { done: MIN_PAUSE_MS, interrupted: MIN_PAUSE_MS, deferred: DEFERRED_PAUSE_MS, failed };
    this.#notBefore = this.#parts.clock.monotonic() + pauseMs[result];
  }

  #pauseMs(): number {
    const { clock } = this.#parts;
    const { nextAt, parkedUntil } = this.#due;
    if (this.#isPaused) return PAUSED_CHECK_MS;
    // A request of a delivery waits only for the end of a pause.
    const at = this.#requests.length > 0 ? (parkedUntil ?? clock.now()) : (nextAt ?? Infinity);
    return Math.max(at - clock.now(), this.#notBefore - clock.monotonic(), 1);
  }
}

type ScanResult = 'done' | 'interrupted' | 'failed' | 'deferred';

const RESULT_BY_STATUS: Readonly<Record<RunStatus, ScanResult>> = {
  ok: 'done',
  // Rejected records remain rejected until the service changes them.
  partial: 'done',
  failed: 'failed',
  deferred: 'deferred',
  interrupted: 'interrupted',
};

const MINUTE_MS = 60_000;
const MAX_FAILURE_PAUSE_MS = 15 * MINUTE_MS;
/** A user has to fix these; more requests would only look like an attack. */
const CREDENTIAL_CODES: ReadonlySet<string> = new Set([
  'auth_failed',
  'refresh_token_refused',
  'bad_token',
  'forbidden',
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
