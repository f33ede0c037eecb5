import type { RunStatus } from '../../model/vocabulary.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { WakeableSleep } from '../../model/waiting.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { dueOf, type Due, type StoredSuccess, type ResourceTimes } from './due.ts';

/** What the schedule of one resource needs. */
export interface ScheduleParts {
  resource: string;
  times: ResourceTimes;
  clock: Clock;
  /** The stored state; null if the resource was never walked. */
  checkpoints: (resource: string) => Promise<StoredSuccess | null>;
  /** Walks the resource until the signal; `stored` is the state that made it due. */
  run: (
    resource: string,
    command: SyncCommand,
    signal: AbortSignal,
    stored: StoredSuccess | null,
  ) => Promise<RunReport>;
  /** Called with an error that was thrown instead of reported; it counts as a failure. */
  failed: (resource: string, error: unknown) => void;
}

/** How one resource stands; moments in epoch milliseconds. */
export interface ScheduleFigures {
  resource: string;
  running: { command: SyncCommand; since: number } | null;
  /** The last run of this process that has ended; `failed` if it threw. */
  last: { command: SyncCommand; began: number; status: RunStatus } | null;
  /** Failures in a row. */
  failures: number;
  /** When the next run begins, as far as that is known; null for never. */
  nextAt: number | null;
  overdueAt: number | null;
  isOverdue: boolean;
}

interface Request {
  command: SyncCommand;
  resolve: () => void;
  reject: (reason: unknown) => void;
}

/** A stored time, and the same moment on the monotonic clock; null if that is not known. */
interface Witness {
  text: string | null;
  at: number | null;
}

/** Between two runs of a resource in any case: requests of that time are served by one walk. */
const PAUSE_MS = 1_000;
/** The tick is a hint, and so is its absence: after this long a resource is looked at without one. */
const LONGEST_PAUSE_MS = 90_000;

const NOTHING_KNOWN: Due = { command: null, parkedUntil: null, nextAt: null, overdueAt: null };

/** Looks what is due for one resource, runs it, pauses, and looks again. One loop, so one run at a time. */
export class ResourceSchedule {
  readonly #parts: ScheduleParts;
  readonly #watchedSince: number;
  #stored: StoredSuccess | null = null;
  #due = NOTHING_KNOWN;
  #success: Witness | null = null;
  #full: Witness | null = null;
  #running: ScheduleFigures['running'] = null;
  #last: ScheduleFigures['last'] = null;
  #failures = 0;
  /** Monotonic: not before then. */
  #notBefore = -Infinity;
  #requests: Request[] = [];
  readonly #pause: WakeableSleep;

  constructor(parts: ScheduleParts) {
    this.#parts = parts;
    this.#pause = new WakeableSleep(parts.clock);
    this.#watchedSince = parts.clock.now();
  }

  /** Until the signal; never rejects. */
  async work(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const command = await this.#look();
      if (signal.aborted) break;
      if (command === null) await this.#pause.sleep(this.#pauseMs(), signal);
      else await this.#attempt(command, signal);
    }
    for (const { reject } of this.#requests.splice(0)) reject(signal.reason);
  }

  /** Ends the pause, so that it looks again now. */
  wake(): void {
    this.#pause.wake();
  }

  /**
   * Resolves once a walk that began from now on has come to its end, a whole one for `backfill`; rejects only when the
   * schedule is stopped.
   */
  request(command: SyncCommand): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#requests.push({ command, resolve, reject });
    this.wake();
    return promise;
  }

  figures(): ScheduleFigures {
    const { clock, resource } = this.#parts;
    const { nextAt, overdueAt } = this.#due;
    const held = clock.now() + Math.max(0, this.#notBefore - clock.monotonic());
    return {
      resource,
      running: this.#running,
      last: this.#last,
      failures: this.#failures,
      nextAt: nextAt === null ? null : Math.max(nextAt, held),
      overdueAt,
      isOverdue: overdueAt !== null && overdueAt <= clock.now(),
    };
  }

  /** What to run now, or null. */
  async #look(): Promise<SyncCommand | null> {
    const { resource, times, clock } = this.#parts;
    try {
      const stored = await this.#parts.checkpoints(resource);
      this.#stored = stored;
      this.#success = witnessed(this.#success, stored?.last_success_at ?? null, clock);
      this.#full = witnessed(this.#full, stored?.last_full_at ?? null, clock);
      const elapsed = { success: this.#elapsed(this.#success), full: this.#elapsed(this.#full) };
      this.#due = dueOf({ times, stored, elapsed, now: clock.now(), watchedSince: this.#watchedSince });
    } catch (error) {
      this.#threw(error);
      return null;
    }
    if (this.#due.parkedUntil !== null || clock.monotonic() < this.#notBefore) return null;
    const [first] = this.#requests;
    // A whole walk serves all.
    if (this.#requests.some((request) => request.command === 'backfill')) return 'backfill';
    return this.#due.command ?? first?.command ?? null;
  }

  #elapsed({ at }: Witness): number | null {
    return at === null ? null : this.#parts.clock.monotonic() - at;
  }

  async #attempt(command: SyncCommand, signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts;
    const served = this.#requests.filter((request) => command === 'backfill' || request.command === 'sync');
    this.#requests = this.#requests.filter((request) => !served.includes(request));
    const began = clock.now();
    this.#running = { command, since: began };
    const status = await this.#run(command, signal);
    this.#running = null;
    this.#last = { command, began, status };
    if (ENDS[status] === 'done') for (const { resolve } of served) resolve();
    else this.#requests.unshift(...served);
  }

  async #run(command: SyncCommand, signal: AbortSignal): Promise<RunStatus> {
    const { resource, run } = this.#parts;
    try {
      const report = await run(resource, command, signal, this.#stored);
      const part = report.resources.find((each) => each.resource === resource);
      const status = part?.status ?? report.status;
      this.#ended(ENDS[status], part?.error?.code ?? null);
      return status;
    } catch (error) {
      this.#threw(error);
      return 'failed';
    }
  }

  #threw(error: unknown): void {
    const { clock, resource, failed } = this.#parts;
    // A failure to read during a pause does not count again.
    if (clock.monotonic() < this.#notBefore) return;
    this.#ended('failed', error instanceof SyncError ? error.code : null);
    failed(resource, error);
  }

  #ended(end: (typeof ENDS)[RunStatus], code: string | null): void {
    if (end === 'done') this.#failures = 0;
    if (end === 'failed') this.#failures += 1;
    const pause = { done: PAUSE_MS, put_off: PUT_OFF_MS, failed: retryAfter(this.#failures, code) };
    this.#notBefore = this.#parts.clock.monotonic() + pause[end];
  }

  /** Milliseconds until something may be due. */
  #pauseMs(): number {
    const { clock } = this.#parts;
    const { nextAt, parkedUntil } = this.#due;
    const isAsked = this.#requests.length > 0;
    const dueAt = isAsked ? (parkedUntil ?? -Infinity) : (nextAt ?? Infinity);
    const wait = Math.max(dueAt - clock.now(), this.#notBefore - clock.monotonic(), 1);
    return Math.min(wait, LONGEST_PAUSE_MS);
  }
}

function witnessed(known: Witness | null, text: string | null, clock: Clock): Witness {
  if (known?.text === text) return known;
  if (known !== null || text === null) return { text, at: clock.monotonic() };
  // Stored before this process began: its age is what the clock says, unless the clock was set back meanwhile.
  const age = clock.now() - timestampMs(text);
  return { text, at: age < 0 ? null : clock.monotonic() - age };
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** A person has to mend these first; asking more often would only look like an attack. */
const CREDENTIAL_MS = HOUR_MS;
/** Another process owns the resource: it may end at any time. */
const LEASE_MS = 15_000;

const BY_CODE: Readonly<Record<string, number>> = {
  auth_failed: CREDENTIAL_MS,
  refresh_token_refused: CREDENTIAL_MS,
  bad_token: CREDENTIAL_MS,
  forbidden: CREDENTIAL_MS,
  identity_refused: CREDENTIAL_MS,
  lease_held: LEASE_MS,
  lease_lost: LEASE_MS,
};

const LONGEST_MS = 15 * MINUTE_MS;

/** Milliseconds until a resource is tried again that failed so many times in a row, the last time with this code. */
export function retryAfter(failures: number, code: string | null): number {
  return BY_CODE[code ?? ''] ?? Math.min(MINUTE_MS * 2 ** (Math.max(1, failures) - 1), LONGEST_MS);
}

/** How the end of a run counts for the schedule. */
const ENDS: Readonly<Record<RunStatus, 'done' | 'failed' | 'put_off'>> = {
  ok: 'done',
  // The records that were set aside stay so until the service changes them.
  partial: 'done',
  failed: 'failed',
  deferred: 'put_off',
  interrupted: 'put_off',
};

/** At least so long after a run that was put off; when it may go on stands in the checkpoint. */
const PUT_OFF_MS = MINUTE_MS;
