// Obeys `content-sync control pause`: knows which resources of a source a user has paused, and stops a sync whose resource
// is paused meanwhile. The command runs in another process, so it is noticed by reading the warehouse.
import { readPauses } from '../../database/state/server-state.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport, RunWatcher } from '../../sync/report.ts';
import type { App } from '../app.ts';

/** For how long a reading counts. Webhooks ask for every record, so each must not cost a query. */
const MAX_AGE_MS = 1_000;
const CHECK_INTERVAL_MS = 2_000;

export class PausedResources {
  readonly #warehouse: Warehouse;
  readonly #clock: Clock;
  #paused: ReadonlySet<string> = new Set();
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  constructor(warehouse: Warehouse, clock: Clock) {
    this.#warehouse = warehouse;
    this.#clock = clock;
  }

  async isPaused(resource: string): Promise<boolean> {
    if (this.#clock.monotonic() - this.#readAt >= MAX_AGE_MS) {
      await (this.#reading ??= this.#read().finally(() => (this.#reading = null)));
    }
    return this.#paused.has(resource);
  }

  /** Syncs a resource until the signal is aborted or the resource is paused. */
  async syncUnlessPaused(
    app: App,
    resource: string,
    command: SyncCommand,
    watcher: RunWatcher,
    signal: AbortSignal,
  ): Promise<RunReport> {
    const pausing = new AbortController();
    const reason = new SyncError('interrupted', `${resource} was paused`, { recovery: 'stop' });
    const ended = new AbortController();
    const watching = AbortSignal.any([signal, ended.signal]);
    void repeatUntilAborted({ clock: this.#clock, everyMs: CHECK_INTERVAL_MS, signal: watching }, async () => {
      if (await this.isPaused(resource)) pausing.abort(reason);
    });
    try {
      // With a command by resource, a backfill is a full sync even if an interrupted one had finished the resource.
      const request = { command: { [resource]: command }, resources: [resource], restart: false, watcher };
      return await app.sync({ ...request, signal: AbortSignal.any([signal, pausing.signal]) });
    } finally {
      ended.abort();
    }
  }

  async #read(): Promise<void> {
    this.#paused = new Set((await readPauses(this.#warehouse.own)).keys());
    this.#readAt = this.#clock.monotonic();
  }
}
