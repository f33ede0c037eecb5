import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { RunStatus } from '../../model/vocabulary.ts';
import { WakeableSleep } from '../../model/waiting.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport } from '../../sync/report.ts';
import { type Due, dueOf, type ResourceTimes, type StoredSuccess } from './due.ts';

/** What the schedule of one resource needs. */
export interface ScheduleParts {
  resource: string;
  times: ResourceTimes;
  clock: Clock;
  /** The stored state; null if the resource was never walked. */
  checkpoints: (resource: string) => Promise<StoredSuccess | null>;
  /** True while nothing of the resource may be walked, because a person has paused it. */
  isPaused: (resource: string) => Promise<boolean>;
  /** Walks the resource until the signal; `cause` is why. */
  run: (resource: string, command: SyncCommand, signal: AbortSignal, cause: WalkCause) => Promise<RunReport>;
  /** Called with an error that was thrown instead of reported; it counts as a failure. */
  failed: (resource: string, error: unknown) => void;
}

/** Why a resource is walked: `due` by the state that was stored, or `asked` for by a person, however fresh it is. */
export type WalkCause = { is: 'due'; stored: StoredSuccess | null } | { is: 'asked' };

/** How one resource stands; moments in epoch milliseconds. */
export interface ScheduleFigures {
  resource: string;
  running: { command: SyncCommand; since: number } | null;
  /** Failures in a row. */
  failures: number;
  /** When the next run begins, as far as that is known; null for never. */
  nextAt: number | null;
  overdueAt: number | null;
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
  #failures = 0;
  /** Monotonic: not before then. */
  #notBefore = -Infinity;
  readonly #requests = new WalkRequests();
  #isPaused = false;
  /** Ends the walk under way. */
  #walking = new AbortController();
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
    this.#requests.refuse(signal.reason, 'all');
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
    const served = this.#requests.add({ command, isNow: false });
    this.wake();
    return served.then(() => undefined);
  }

  /**
   * Walks now, whatever is due or waited for; one walk at a time still. A full walk under way is joined. Resolves with
   * the report of that one walk, and rejects with what it threw, or when the resource is paused or the schedule stopped.
   */
  walkNow(command: SyncCommand): Promise<RunReport> {
    const isJoined = command === 'backfill' && this.#running?.command === 'backfill';
    const served = this.#requests.add({ command, isNow: true }, isJoined);
    this.wake();
    return served;
  }

  /** Forgets failures and the wait after them; what the service itself asked for is still waited for. */
  retry(): void {
    this.#failures = 0;
    this.#notBefore = -Infinity;
    this.wake();
  }

  /** Looks at once whether the resource is paused: then a walk under way ends at the page in hand. */
  async honourPause(): Promise<void> {
    const wasPaused = this.#isPaused;
    this.#isPaused = await this.#parts.isPaused(this.#parts.resource);
    if (this.#isPaused) {
      this.#walking.abort(stopped('the resource was paused'));
      this.#requests.refuse(stopped('the resource was paused'), 'now');
    } else if (wasPaused) this.retry();
  }

  figures(): ScheduleFigures {
    const { clock, resource } = this.#parts;
    const { nextAt, overdueAt } = this.#isPaused ? NOTHING_KNOWN : this.#due;
    const held = clock.now() + Math.max(0, this.#notBefore - clock.monotonic());
    return {
      resource,
      running: this.#running,
      failures: this.#failures,
      nextAt: nextAt === null ? null : Math.max(nextAt, held),
      overdueAt,
    };
  }

  /** What to run now, or null. */
  async #look(): Promise<SyncCommand | null> {
    const { resource, times, clock } = this.#parts;
    try {
      const stored = await this.#parts.checkpoints(resource);
      this.#isPaused = await this.#parts.isPaused(resource);
      this.#stored = stored;
      this.#success = witnessed(this.#success, stored?.last_success_at ?? null, clock);
      this.#full = witnessed(this.#full, stored?.last_full_at ?? null, clock);
      const elapsed = { success: this.#elapsed(this.#success), full: this.#elapsed(this.#full) };
      this.#due = dueOf({ times, stored, elapsed, now: clock.now(), watchedSince: this.#watchedSince });
    } catch (error) {
      this.#threw(error);
      this.#requests.refuse(error, 'now');
      return null;
    }
    if (this.#isPaused) return null;
    // A person who asks is told by the run itself if the service asked to be left alone.
    const mayWait = !this.#requests.areNow;
    if (mayWait && (this.#due.parkedUntil !== null || clock.monotonic() < this.#notBefore)) return null;
    const asked = this.#requests.command;
    return asked === 'backfill' ? asked : (this.#due.command ?? asked);
  }

  #elapsed({ at }: Witness): number | null {
    return at === null ? null : this.#parts.clock.monotonic() - at;
  }

  async #attempt(command: SyncCommand, signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts;
    const isAsked = this.#requests.begin(command);
    this.#running = { command, since: clock.now() };
    this.#walking = new AbortController();
    const attempt = await this.#run(command, AbortSignal.any([signal, this.#walking.signal]), isAsked);
    this.#running = null;
    this.#requests.end(attempt, ENDS[attempt.status] === 'done');
  }

  async #run(command: SyncCommand, signal: AbortSignal, isAsked: boolean): Promise<Attempt> {
    const { resource, run } = this.#parts;
    try {
      const report = await run(
        resource,
        command,
        signal,
        isAsked ? { is: 'asked' } : { is: 'due', stored: this.#stored },
      );
      const part = report.resources.find((each) => each.resource === resource);
      const status = part?.status ?? report.status;
      this.#ended(ENDS[status], part?.error?.code ?? null);
      return { status, report, error: null };
    } catch (error) {
      // Stopped while it waited to begin.
      if (signal.aborted && error === signal.reason) this.#ended('put_off', null);
      else this.#threw(error);
      return { status: 'failed', report: null, error };
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
    if (this.#isPaused) return LONGEST_PAUSE_MS;
    const dueAt = this.#requests.areWaiting ? (parkedUntil ?? -Infinity) : (nextAt ?? Infinity);
    const wait = Math.max(dueAt - clock.now(), this.#notBefore - clock.monotonic(), 1);
    return Math.min(wait, LONGEST_PAUSE_MS);
  }
}

function stopped(why: string): SyncError {
  return new SyncError('interrupted', why, { recovery: 'stop' });
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
const PUT_OFF_MS = 60_000;

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

/** A stored time, and the same moment on the monotonic clock; null if that is not known. */
interface Witness {
  text: string | null;
  at: number | null;
}

/** Notes when a stored time was first met, unless it is the one that is known. */
function witnessed(known: Witness | null, text: string | null, clock: Clock): Witness {
  if (known?.text === text) return known;
  if (known !== null || text === null) return { text, at: clock.monotonic() };
  // Stored before this process began: its age is what the clock says, unless the clock was set back meanwhile.
  const age = clock.now() - timestampMs(text);
  return { text, at: age < 0 ? null : clock.monotonic() - age };
}

/** How one attempt at a walk ended; without a report if it threw. */
type Attempt =
  | { status: RunStatus; report: RunReport; error: null }
  | { status: 'failed'; report: null; error: unknown };

interface WalkRequest {
  command: SyncCommand;
  /** A person asked: it waits for nothing, and whatever the walk comes to is the answer, also a failure. */
  isNow: boolean;
  resolve: (report: RunReport) => void;
  reject: (reason: unknown) => void;
}

/** Those who asked for a walk of one resource. */
class WalkRequests {
  #waiting: WalkRequest[] = [];
  /** Served by the walk under way. */
  #served: WalkRequest[] = [];

  get areWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** True if a person asked. */
  get areNow(): boolean {
    return this.#waiting.some(({ isNow }) => isNow);
  }

  /** What is asked for: a whole walk serves all. Null if nothing is. */
  get command(): SyncCommand | null {
    const isWhole = this.#waiting.some(({ command }) => command === 'backfill');
    return isWhole ? 'backfill' : (this.#waiting[0]?.command ?? null);
  }

  /**
   * Resolves once a walk that began from now on, or the one under way if it is joined, has come to its end, however many
   * attempts that takes; for a person it settles as the first attempt does.
   */
  add(request: Pick<WalkRequest, 'command' | 'isNow'>, isJoined = false): Promise<RunReport> {
    const { promise, resolve, reject } = Promise.withResolvers<RunReport>();
    (isJoined ? this.#served : this.#waiting).push({ ...request, resolve, reject });
    return promise;
  }

  /** Called when a walk begins; returns true if a person has asked for it. */
  begin(command: SyncCommand): boolean {
    const isServed = (request: WalkRequest): boolean => command === 'backfill' || request.command === 'sync';
    this.#served = this.#waiting.filter(isServed);
    this.#waiting = this.#waiting.filter((request) => !isServed(request));
    return this.#served.some(({ isNow }) => isNow);
  }

  /** Called when it has ended; those who asked for an end that it did not come to wait on, except for persons. */
  end({ report, error }: Attempt, isDone: boolean): void {
    const again: WalkRequest[] = [];
    for (const request of this.#served.splice(0)) {
      if (!isDone && !request.isNow) again.push(request);
      else if (report === null) request.reject(error);
      else request.resolve(report);
    }
    this.#waiting.unshift(...again);
  }

  /** Ends the waiting of all, or only of the persons who asked. */
  refuse(reason: unknown, whom: 'all' | 'now'): void {
    const isRefused = ({ isNow }: WalkRequest): boolean => whom === 'all' || isNow;
    for (const { reject } of this.#waiting.filter(isRefused)) reject(reason);
    this.#waiting = this.#waiting.filter((request) => !isRefused(request));
  }
}
