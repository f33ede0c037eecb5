import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';

/** What was read counts for so long: another process may pause a resource at any time. */
const KEPT_MS = 1_000;
/** How often it is read whether what is paused is so still. */
const LOOK_MS = 2_000;

/** The pauses of a source as they were read a moment ago, for work that asks for every record. */
export class KnownPauses {
  readonly #stored: () => Promise<ReadonlyMap<string, unknown>>;
  readonly #clock: Clock;
  #paused: ReadonlySet<string> = new Set();
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  /** `stored` reads what is paused, by resource. */
  constructor(stored: () => Promise<ReadonlyMap<string, unknown>>, clock: Clock) {
    this.#stored = stored;
    this.#clock = clock;
  }

  /** True if the resource was paused a moment ago. Throws what the warehouse throws. */
  async isPaused(resource: string): Promise<boolean> {
    if (this.#clock.monotonic() - this.#readAt >= KEPT_MS) await this.refresh();
    return this.#paused.has(resource);
  }

  /** The same as of the last reading. */
  wasPaused(resource: string): boolean {
    return this.#paused.has(resource);
  }

  /** Reads them now. */
  async refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => (this.#reading = null));
    await this.#reading;
  }

  /** Calls back whenever a resource was resumed, until the signal is aborted. Never rejects. */
  async watch(signal: AbortSignal, resumed: () => void): Promise<void> {
    await repeatUntilAborted({ clock: this.#clock, everyMs: LOOK_MS, signal }, async () => {
      const before = this.#paused;
      // Nothing waits for the end of a pause that nobody has met.
      if (before.size === 0) return;
      await this.refresh();
      if ([...before].some((resource) => !this.#paused.has(resource))) resumed();
    });
  }

  /** Runs a walk with a signal that is aborted as well once the resource is paused. */
  async unlessPaused<T>(resource: string, signal: AbortSignal, walk: (until: AbortSignal) => Promise<T>): Promise<T> {
    const paused = new AbortController();
    const ended = new AbortController();
    const watching = AbortSignal.any([signal, ended.signal]);
    void repeatUntilAborted({ clock: this.#clock, everyMs: LOOK_MS, signal: watching }, async () => {
      if (await this.isPaused(resource)) paused.abort(wasPaused(resource));
    });
    try {
      return await walk(AbortSignal.any([signal, paused.signal]));
    } finally {
      ended.abort();
    }
  }

  async #read(): Promise<void> {
    this.#paused = new Set((await this.#stored()).keys());
    this.#readAt = this.#clock.monotonic();
  }
}

function wasPaused(resource: string): SyncError {
  return new SyncError('interrupted', `${resource} was paused`, { recovery: 'stop' });
}
