// Limits how often one record is fetched or one resource scanned, however many deliveries ask for it.
import PQueue from 'p-queue';
import type { Clock } from '../../model/clock.ts';
import { sleepOrAbort } from '../../model/waiting.ts';
import { type DeliveryFault, type PendingTarget, retryDelayMs, toFault } from './delivery-progress.ts';

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
  restMs: number;
  concurrencyPerResource: number;
  clock: Clock;
  /** Aborted when the drain stops: nothing new starts, and later failures are ignored. */
  signal: AbortSignal;
  /** Targets of one resource with the same key are served by the same work. */
  keyOf: (target: PendingTarget) => string;
  perform: (work: KeyedWork, served: PendingTarget[]) => Promise<Outcome>;
  done: (served: readonly PendingTarget[], outcome: Outcome) => void;
  failed: (served: readonly PendingTarget[], fault: DeliveryFault) => void;
  /** Called once for each error that was thrown. */
  threw: (work: KeyedWork, error: unknown) => void;
}

interface PacedEntry extends KeyedWork {
  /** True while a loop serves its targets. */
  isActive: boolean;
  /** Monotonic milliseconds: when the work may start again, and when its token bucket is full. */
  restsUntil: number;
  fullAt: number;
}

interface ResourceLane {
  queue: PQueue;
  entries: Map<string, PacedEntry>;
  /**
   * Set after an error that concerns the whole resource, until epoch milliseconds: a service that does not respond does
   * not respond for the next record either. `failures` counts such errors in a row.
   */
  pause: { fault: DeliveryFault; until: number; failures: number } | null;
}

/**
 * Merges many targets for the same record or resource into little work, at a limited pace. No resource waits for another
 * one, and a resource whose service or database fails is paused with backoff.
 */
export class PacedWork<Outcome> {
  readonly #options: PacedWorkOptions<Outcome>;
  readonly #lanes = new Map<string, ResourceLane>();

  constructor(options: PacedWorkOptions<Outcome>) {
    this.#options = options;
  }

  add(target: PendingTarget): void {
    const { clock, keyOf, failed } = this.#options;
    const { resource } = target.target;
    const lane = this.#laneOf(resource);
    const { pause } = lane;
    if (pause !== null && clock.now() < pause.until) return failed([target], { ...pause.fault, until: pause.until });
    const key = keyOf(target);
    const fresh = { resource, key, waiting: [], isActive: false, restsUntil: -Infinity, fullAt: -Infinity };
    const entry = lane.entries.get(key) ?? fresh;
    lane.entries.set(key, entry);
    entry.waiting.push(target);
    if (!entry.isActive) void this.#serve(lane, entry);
  }

  /** Ends the pauses of all resources. */
  retry(): void {
    for (const lane of this.#lanes.values()) lane.pause = null;
  }

  /** Forgets work that nothing waits for and whose token bucket is full. */
  prune(): void {
    const now = this.#options.clock.monotonic();
    for (const { entries } of this.#lanes.values()) {
      for (const [key, { isActive, fullAt }] of entries) if (!isActive && fullAt <= now) entries.delete(key);
    }
  }

  /** Resolves when no work is in progress. */
  async idle(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map(({ queue }) => queue.onIdle()));
  }

  #laneOf(resource: string): ResourceLane {
    const known = this.#lanes.get(resource);
    if (known !== undefined) return known;
    const queue = new PQueue({ concurrency: this.#options.concurrencyPerResource });
    const lane: ResourceLane = { queue, entries: new Map(), pause: null };
    this.#lanes.set(resource, lane);
    return lane;
  }

  async #serve(lane: ResourceLane, entry: PacedEntry): Promise<void> {
    const { clock, signal } = this.#options;
    entry.isActive = true;
    // Targets that are added at the same time are served together.
    await Promise.resolve();
    while (entry.waiting.length > 0 && !signal.aborted) {
      const restMs = entry.restsUntil - clock.monotonic();
      if (restMs > 0) await sleepOrAbort(clock, restMs, signal);
      await lane.queue.add(() => this.#run(lane, entry));
    }
    entry.isActive = false;
  }

  async #run(lane: ResourceLane, entry: PacedEntry): Promise<void> {
    const { clock, signal, perform, done, everyMs, burst, restMs } = this.#options;
    if (entry.waiting.length === 0 || signal.aborted) return;
    const served = entry.waiting.splice(0);
    entry.fullAt = Math.max(entry.fullAt, clock.monotonic()) + everyMs;
    try {
      const outcome = await perform(entry, served);
      lane.pause = null;
      done(served, outcome);
    } catch (error) {
      if (!signal.aborted) this.#fail(lane, entry, served, error);
    }
    entry.restsUntil = Math.max(clock.monotonic() + restMs, entry.fullAt - (burst - 1) * everyMs);
  }

  #fail(lane: ResourceLane, entry: PacedEntry, served: readonly PendingTarget[], error: unknown): void {
    const { failed, threw } = this.#options;
    // A failed scan is no fault of a delivery, and is reported as a run.
    const fault: DeliveryFault = entry.key === '' ? { ...toFault(error), kind: 'passing' } : toFault(error);
    if (fault.kind === 'record') failed(served, fault);
    else {
      const until = this.#pause(lane, fault);
      const others = [...lane.entries.values()].flatMap(({ waiting }) => waiting.splice(0));
      failed([...served, ...others], { ...fault, until });
    }
    threw(entry, error);
  }

  /** Returns the epoch milliseconds of the next attempt. Errors of work that ran in parallel lengthen no pause. */
  #pause(lane: ResourceLane, fault: DeliveryFault): number {
    const { clock } = this.#options;
    const now = clock.now();
    if (lane.pause !== null && now < lane.pause.until && fault.until === null) return lane.pause.until;
    const failures = (lane.pause?.failures ?? 0) + 1;
    const until = now + retryDelayMs(fault, failures, now);
    lane.pause = { fault, until, failures };
    return until;
  }
}
