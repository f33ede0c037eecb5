import type { OwnedResource } from '../state/owned-resource.ts';
import { openApp, type App } from '../app.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { GovernorFigures } from '../queue/governor.ts';
import type { Drain } from '../trigger/drain/options.ts';
import type { Scheduler } from '../trigger/schedule/scheduler.ts';
import { NAMED, type NameState } from '../warehouse/name-state.ts';
import type { ClusterSource } from './cluster/open-apps.ts';
import { KnownPauses } from './controls/known-pauses.ts';
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

interface OpenParts {
  app: App;
  pauses: KnownPauses;
}

/** All work on a source is done by this process, which owns the resources of the source as long as it is open. */
export class LocalWork implements SourceWork {
  readonly upkeepMs = 10_000;
  readonly #options: LocalWorkOptions;
  readonly #owned = new Map<string, OwnedResource>();
  #app: App | null = null;
  #drain: Drain | null = null;
  #pauses: KnownPauses | null = null;

  constructor(options: LocalWorkOptions) {
    this.#options = options;
  }

  governor(): GovernorFigures | null {
    return this.#app?.governor.figures() ?? null;
  }

  wake(): void {
    this.#drain?.wake();
  }

  retry(): void {
    this.#app?.client.retry();
    this.#drain?.retry();
  }

  async pausesChanged(): Promise<void> {
    await this.#pauses?.refresh();
    this.#drain?.retry();
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
    const pauses = new KnownPauses(app.warehouse.own, clock);
    this.#pauses = pauses;
    opened.defer(() => {
      this.#app = null;
    });
    const names = (): NameState[] => [app.warehouse.nameState(), inbox?.nameState() ?? NAMED];
    return {
      warehouse: app.warehouse,
      walk: (resource, command, signal) => {
        // By name, so that a scheduled full walk is one even if an earlier backfill was interrupted.
        const commands = { [resource]: command };
        const asked = { command: commands, resources: [resource], restart: false, watcher };
        return pauses.unlessPaused(resource, signal, (until) => app.sync({ ...asked, signal: until }));
      },
      startDrain: (requestWalk) => this.#startDrain({ app, pauses }, requestWalk, reading.signal),
      upkeep: [() => this.#maintain(app), (signal) => this.#confirmReleased(app, signal)],
      untilReopening: (signal) => untilReopening(names, { clock, log, lost: () => inbox?.hold(true), signal }),
    };
  }

  #startDrain({ app, pauses }: OpenParts, walk: Scheduler['requestWalk'], signal: AbortSignal): Drain | null {
    const persist = (): Promise<void> => app.warehouse.persist();
    const way = { walk, refetch: refetchBy(app, signal), persist, pauses };
    this.#drain = startDrain(this.#options, this.#options.inbox, way);
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
