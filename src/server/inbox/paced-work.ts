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
  /** Targets that are taken out when the work starts; the running work may also take later ones. */
  readonly waiting: PendingTarget[];
}

interface PacedWorkOptions<Outcome> {
  /** Work with the same key starts at the rate of a token bucket: `burst` tokens, and a new one every `everyMs`. */
  everyMs: number;
  burst: number;
  /** Minimum milliseconds between the end of some work and the next start with the same key. */
  cooldownMs: number;
  concurrencyPerResource: number;
  clock: Clock;
  /** Aborted when the drain stops: nothing new starts, and later failures are ignored. */
  signal: AbortSignal;
  /** Targets of one resource with the same key are served by the same work. */
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
  /** Monotonic milliseconds: when the work may start again, and when its token bucket is full. */
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
 * Merges many targets for the same record or resource into little work, at a limited pace. No resource waits for another
 * one, and a resource whose service or database fails is paused with backoff.
 */
export class PacedWork<Outcome> {
  readonly #options: PacedWorkOptions<Outcome>;
  readonly #states = new Map<string, ResourceState>();

  constructor(options: PacedWorkOptions<Outcome>) {
    this.#options = options;
  }

  add(target: PendingTarget): void {
    const { clock, keyOf, failed } = this.#options;
    const { resource } = target.target;
    const state = this.#stateOf(resource);
    const { pause } = state;
    if (pause !== null && clock.now() < pause.until) return failed([target], { ...pause.failure, until: pause.until });
    const key = keyOf(target);
    const fresh = { resource, key, waiting: [], isActive: false, cooldownUntil: -Infinity, fullAt: -Infinity };
    const entry = state.entries.get(key) ?? fresh;
    state.entries.set(key, entry);
    entry.waiting.push(target);
    if (!entry.isActive) void this.#serve(state, entry);
  }

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
    entry.fullAt = Math.max(entry.fullAt, clock.monotonic()) + everyMs;
    try {
      const outcome = await perform(entry, served);
      state.pause = null;
      done(served, outcome);
    } catch (error) {
      if (!signal.aborted) this.#fail(state, entry, served, error);
      // Nothing was requested: the work may start as soon as the resource is free or resumed.
      if (isResourceBlocked(toFailure(error))) return;
    }
    entry.cooldownUntil = Math.max(clock.monotonic() + cooldownMs, entry.fullAt - (burst - 1) * everyMs);
  }

  #fail(state: ResourceState, entry: PacedEntry, served: readonly PendingTarget[], error: unknown): void {
    const { failed, threw } = this.#options;
    // A failed scan is no failure of a delivery, and is reported as a run.
    const failure: DeliveryFailure = entry.key === '' ? { ...toFailure(error), kind: 'temporary' } : toFailure(error);
    if (failure.kind === 'record') failed(served, failure);
    else {
      const until = this.#pause(state, failure);
      const others = [...state.entries.values()].flatMap(({ waiting }) => waiting.splice(0));
      failed([...served, ...others], { ...failure, until });
    }
    threw(entry, error);
  }

  /** Returns the epoch milliseconds of the next attempt. Errors of work that ran in parallel lengthen no pause. */
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
