// Which resources of a source a user has paused, and syncs that stop when their resource is paused.
import { readPauses } from '../../database/state/server-state.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import type { SyncCommand } from '../../sync/plan.ts';
import type { RunReport, RunWatcher } from '../../sync/report.ts';
import type { App } from '../app.ts';

/** Another process may pause a resource at any time. */
const MAX_AGE_MS = 1_000;
const CHECK_INTERVAL_MS = 2_000;

/** The paused resources of a source, cached briefly, because every record needs them. */
export class KnownPauses {
  readonly #warehouse: Warehouse;
  readonly #clock: Clock;
  #paused: ReadonlySet<string> = new Set();
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  constructor(warehouse: Warehouse, clock: Clock) {
    this.#warehouse = warehouse;
    this.#clock = clock;
  }

  /** Throws what the warehouse throws. */
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
    const paused = new AbortController();
    const reason = new SyncError('interrupted', `${resource} was paused`, { recovery: 'stop' });
    const ended = new AbortController();
    const watching = AbortSignal.any([signal, ended.signal]);
    void repeatUntilAborted({ clock: this.#clock, everyMs: CHECK_INTERVAL_MS, signal: watching }, async () => {
      if (await this.isPaused(resource)) paused.abort(reason);
    });
    try {
      // Names the resource, so that a scheduled full sync stays one even after an interrupted backfill.
      const request = { command: { [resource]: command }, resources: [resource], restart: false, watcher };
      return await app.sync({ ...request, signal: AbortSignal.any([signal, paused.signal]) });
    } finally {
      ended.abort();
    }
  }

  async #read(): Promise<void> {
    this.#paused = new Set((await readPauses(this.#warehouse.own)).keys());
    this.#readAt = this.#clock.monotonic();
  }
}
