// Limits how often one record is fetched or one resource scanned, however many deliveries ask for it: 500 events for one
// article within a second lead to two fetches, not to 500.
import PQueue from 'p-queue';
import type { Clock } from '../../model/clock.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import {
  type DeliveryFailure,
  isResourceBlocked,
  type PendingTarget,
  retryDelayMs,
  toFailure,
} from './delivery-progress.ts';

/** Work on one record (or, with an empty key, on a resource as a whole), and the targets that wait for it. */
export interface KeyedWork {
  readonly resource: string;
  readonly key: string;
  /** The work takes these when it starts; while it runs, it may also take those that were added since. */
  readonly waiting: PendingTarget[];
}

interface PacedWorkOptions<Outcome> {
  /** A token bucket limits the starts of work with one key: `burst` tokens, and a new one every `everyMs`. */
  everyMs: number;
  burst: number;
  /** Minimum milliseconds between the end of some work and the next start with the same key. */
  cooldownMs: number;
  concurrencyPerResource: number;
  clock: Clock;
  /** Aborted at the end: nothing new starts, and later failures are ignored. */
  signal: AbortSignal;
  /** Groups the targets of a resource: those with the same key are served by the same work. */
  keyOf: (target: PendingTarget) => string;
  perform: (work: KeyedWork, served: PendingTarget[]) => Promise<Outcome>;
  done: (served: readonly PendingTarget[], outcome: Outcome) => void;
  failed: (served: readonly PendingTarget[], failure: DeliveryFailure) => void;
  /** Called once for each error that was thrown. */
  threw: (work: KeyedWork, error: unknown) => void;
}

interface PacedEntry extends KeyedWork {
  /** True while a loop serves its targets. */
  isActive: boolean;
  /** When the work may start again, and when its token bucket is full; monotonic milliseconds. */
  cooldownUntil: number;
  fullAt: number;
}

interface ResourceState {
  queue: PQueue;
  entries: Map<string, PacedEntry>;
  /**
   * Set after an error that concerns the whole resource, until epoch milliseconds: a service that does not respond does
   * not respond for the next record either. `failures` counts such errors in a row.
   */
  pause: { failure: DeliveryFailure; until: number; failures: number } | null;
}

/**
 * Performs the work that deliveries request: merges those for the same record or resource, and limits its pace. Resources do
 * not wait for each other, and one whose service or database fails is paused with backoff.
 */
export class PacedWork<Outcome> {
  readonly #options: PacedWorkOptions<Outcome>;
  readonly #states = new Map<string, ResourceState>();

  constructor(options: PacedWorkOptions<Outcome>) {
    this.#options = options;
  }

  /** Adds a target, and starts the work that serves it unless that is running; reports a failure during a pause. */
  add(target: PendingTarget): void {
    const { clock, keyOf, failed } = this.#options;
    const { resource } = target.target;
    const state = this.#stateOf(resource);
    const { pause } = state;
    if (pause !== null && clock.now() < pause.until) return failed([target], { ...pause.failure, until: pause.until });
    const key = keyOf(target);
    const unused = { resource, key, waiting: [], isActive: false, cooldownUntil: -Infinity, fullAt: -Infinity };
    const entry = state.entries.get(key) ?? unused;
    state.entries.set(key, entry);
    entry.waiting.push(target);
    if (!entry.isActive) void this.#serve(state, entry);
  }

  /** Ends all pauses. */
  retry(): void {
    for (const state of this.#states.values()) state.pause = null;
  }

  /** Forgets work that nothing waits for and whose token bucket is full. */
  prune(): void {
    const now = this.#options.clock.monotonic();
    for (const { entries } of this.#states.values()) {
      for (const [key, { isActive, fullAt }] of entries) if (!isActive && fullAt <= now) entries.delete(key);
    }
  }

  async idle(): Promise<void> {
    await Promise.all([...this.#states.values()].map(({ queue }) => queue.onIdle()));
  }

  #stateOf(resource: string): ResourceState {
    const known = this.#states.get(resource);
    if (known !== undefined) return known;
    const queue = new PQueue({ concurrency: this.#options.concurrencyPerResource });
    const state: ResourceState = { queue, entries: new Map(), pause: null };
    this.#states.set(resource, state);
    return state;
  }

  async #serve(state: ResourceState, entry: PacedEntry): Promise<void> {
    const { clock, signal } = this.#options;
    entry.isActive = true;
    // Targets that are added at the same time are served together.
    await Promise.resolve();
    while (entry.waiting.length > 0 && !signal.aborted) {
      const cooldownMs = entry.cooldownUntil - clock.monotonic();
      if (cooldownMs > 0) await sleepOrAbort(clock, cooldownMs, signal);
      await state.queue.add(() => this.#run(state, entry));
    }
    entry.isActive = false;
  }

  async #run(state: ResourceState, entry: PacedEntry): Promise<void> {
    const { clock, signal, perform, done, everyMs, burst, cooldownMs } = this.#options;
    if (entry.waiting.length === 0 || signal.aborted) return;
    const served = entry.waiting.splice(0);
    // This start takes a token, which comes back after `everyMs`.
    entry.fullAt = Math.max(entry.fullAt, clock.monotonic()) + everyMs;
    try {
      const outcome = await perform(entry, served);
      state.pause = null;
      done(served, outcome);
    } catch (error) {
      if (!signal.aborted) this.#fail(state, entry, served, error);
      // Another process owns the resource, or it is paused: nothing was requested, so there is no cooldown.
      if (isResourceBlocked(toFailure(error))) return;
    }
    // The bucket has a token again when no more than `burst - 1` are missing.
    entry.cooldownUntil = Math.max(clock.monotonic() + cooldownMs, entry.fullAt - (burst - 1) * everyMs);
  }

  #fail(state: ResourceState, entry: PacedEntry, served: readonly PendingTarget[], error: unknown): void {
    const { failed, threw } = this.#options;
    // The failure of a scan (empty key) is reported as that of a run, and costs its deliveries no attempt.
    const failure: DeliveryFailure = entry.key === '' ? { ...toFailure(error), kind: 'temporary' } : toFailure(error);
    if (failure.kind === 'record') failed(served, failure);
    else {
      const until = this.#pause(state, failure);
      const others = [...state.entries.values()].flatMap(({ waiting }) => waiting.splice(0));
      failed([...served, ...others], { ...failure, until });
    }
    threw(entry, error);
  }

  /** Pauses the resource, and returns until when. Further errors of work that ran in parallel do not extend the pause. */
  #pause(state: ResourceState, failure: DeliveryFailure): number {
    const { clock } = this.#options;
    const now = clock.now();
    if (state.pause !== null && now < state.pause.until && failure.until === null) return state.pause.until;
    const failures = (state.pause?.failures ?? 0) + 1;
    const until = now + retryDelayMs(failure, failures, now);
    state.pause = { failure, until, failures };
    return until;
  }
}
