import type { OwnedResource } from '../state/owned-resource.ts';
import { openApp, type App } from '../app.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { GovernorFigures } from '../queue/governor.ts';
import type { Drain } from '../trigger/drain/options.ts';
import type { Scheduler } from '../trigger/schedule/scheduler.ts';
import { NAMED, type NameState } from '../warehouse/name-state.ts';
import type { ClusterSource } from './cluster/open-apps.ts';
import { interruption, type OpenSource, type SourceWork } from './keeper.ts';
import type { ReceivedInbox } from './received-inbox.ts';
import { refetchBy, startDrain } from './start-drain.ts';
import { untilReopening } from './watch-names.ts';

interface LocalWorkOptions extends ClusterSource {
  clock: Clock;
  secrets: string[];
  /** Null if no webhooks are received. */
  inbox: ReceivedInbox | null;
}

/** All work on a source is done by this process, which owns the resources of the source as long as it is open. */
export class LocalWork implements SourceWork {
  readonly upkeepMs = 10_000;
  readonly #options: LocalWorkOptions;
  readonly #owned = new Map<string, OwnedResource>();
  #app: App | null = null;
  #drain: Drain | null = null;

  constructor(options: LocalWorkOptions) {
    this.#options = options;
  }

  governor(): GovernorFigures | null {
    return this.#app?.governor.figures() ?? null;
  }

  wake(): void {
    this.#drain?.wake();
  }

  async open(opened: AsyncDisposableStack): Promise<OpenSource> {
    const { source, clock, log, secrets, inbox, watcher } = this.#options;
    // Only here, because nothing uses the replaced file any more.
    if (inbox?.nameState().is === 'replaced') await inbox.reopen();
    const app = await openApp({ source, clock, log, secrets, attempted: (event) => watcher.attempted(event) });
    opened.defer(() => app.close());
    const reading = new AbortController();
    opened.defer(() => reading.abort(interruption()));
    opened.defer(() => this.#releaseAll());
    await this.#acquireAll(app);
    inbox?.hold(false);
    this.#app = app;
    opened.defer(() => {
      this.#app = null;
    });
    const names = (): NameState[] => [app.warehouse.nameState(), inbox?.nameState() ?? NAMED];
    return {
      warehouse: app.warehouse,
      walk: (resource, command, signal) => {
        // By name, so that a scheduled full walk is one even if an earlier backfill was interrupted.
        const commands = { [resource]: command };
        return app.sync({ command: commands, resources: [resource], restart: false, signal, watcher });
      },
      startDrain: (requestWalk) => this.#startDrain(app, requestWalk, reading.signal),
      upkeep: [() => this.#maintain(app), (signal) => this.#confirmReleased(app, signal)],
      untilReopening: (signal) => untilReopening(names, { clock, log, lost: () => inbox?.hold(true), signal }),
    };
  }

  #startDrain(app: App, walk: Scheduler['requestWalk'], signal: AbortSignal): Drain | null {
    const persist = (): Promise<void> => app.warehouse.persist();
    this.#drain = startDrain(this.#options, this.#options.inbox, { walk, refetch: refetchBy(app, signal), persist });
    return this.#drain;
  }

  /** The write-ahead log is checkpointed, and resources that another process owned are acquired once it releases them. */
  async #maintain(app: App): Promise<void> {
    await app.warehouse.upkeep();
    await this.#acquireAll(app);
  }

  async #confirmReleased(app: App, signal: AbortSignal): Promise<void> {
    for (const resource of this.#owned.keys()) {
      await app.eraseForgotten(resource, signal);
      await app.confirmReleased(resource, signal);
    }
  }

  /** Acquires the resources that are not owned yet, so that no other process starts a backfill. */
  async #acquireAll(app: App): Promise<void> {
    for (const resource of app.source.resources) {
      if (this.#owned.has(resource)) continue;
      try {
        this.#owned.set(resource, await app.ownedResources.acquire(resource));
      } catch (error) {
        // Another process owns it; the status page names it.
        if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
      }
    }
  }

  async #releaseAll(): Promise<void> {
    for (const owned of this.#owned.values()) await owned.release(true);
    this.#owned.clear();
  }
}
