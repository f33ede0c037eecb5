import type PQueue from 'p-queue';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { resourcesToErase } from '../database/state/forgotten.ts';
import { readPauses } from '../database/state/server-state.ts';
import { releasedResources } from '../database/state/suspects.ts';
import type { Warehouse } from '../database/warehouse.ts';
import type { GovernorFigures } from '../http/rate-limit/rate-limiter.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { type App, openApp } from './app.ts';
import type { ClusterSource } from './cluster/cluster-work.ts';
import { KnownPauses } from './controls/known-pauses.ts';
import type { Drain } from './inbox/drain.ts';
import { keepFiles } from './keep-files.ts';
import { interruption, type OpenSource, type SourceWork } from './keeper.ts';
import type { ReceivedInbox } from './received-inbox.ts';
import { refetchBy, startDrain } from './start-drain.ts';

interface LocalWorkOptions extends ClusterSource {
  clock: Clock;
  secrets: string[];
  /** Null if no webhooks are received. */
  inbox: ReceivedInbox | null;
  /** Sources that begin together are opened some at a time. */
  opening: PQueue;
}

/** Records that are read again one after the other need not acquire their resource each time. */
const OWNED_LINGER_MS = 1_000;

/**
 * All work on a source is done by this process, which keeps it open. A resource is owned only while it is worked on, so
 * that a command may work on it in between.
 */
export class LocalWork implements SourceWork {
  readonly upkeepMs = 10_000;
  readonly hasTick = true;
  readonly #options: LocalWorkOptions;
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

  async retry(now: boolean): Promise<void> {
    await this.#app?.retry(now).catch(() => undefined);
    this.#drain?.retry();
  }

  async pausesChanged(): Promise<void> {
    await this.#pauses?.refresh();
    this.#drain?.retry();
  }

  async open(opened: AsyncDisposableStack, stopping: AbortSignal): Promise<OpenSource> {
    const { source, clock, log, secrets, watcher, opening } = this.#options;
    const attempted: typeof watcher.attempted = (event) => watcher.attempted(event);
    const app = await opening.add(() => {
      stopping.throwIfAborted();
      return openApp({ source, clock, log, secrets, attempted, lingerMs: OWNED_LINGER_MS });
    });
    opened.defer(() => app.close());
    const reading = new AbortController();
    opened.defer(() => reading.abort(interruption()));
    const { warehouse } = app;
    const persist = (): Promise<void> => warehouse.persist();
    const pauses = new KnownPauses(() => readPauses(warehouse.own), clock);
    opened.defer(() => {
      this.#app = null;
    });
    [this.#app, this.#pauses] = [app, pauses];
    return {
      read: (work) => work(warehouse),
      checkpoints: (resource) => readCheckpoint(warehouse.own, resource),
      isPaused: async (resource) => (await readPauses(warehouse.own)).has(resource),
      walk: (resource, command, signal) => {
        // By name, so that a scheduled full walk is one even if an earlier backfill was interrupted.
        const asked = { command: { [resource]: command }, resources: [resource], restart: false, watcher };
        return pauses.unlessPaused(resource, signal, (until) => app.sync({ ...asked, signal: until }));
      },
      startDrain: (walk) => {
        const { inbox } = this.#options;
        const refetch = refetchBy(app, reading.signal);
        this.#drain = startDrain(this.#options, inbox, { walk, refetch, persist, pauses });
        return this.#drain;
      },
      upkeep: [
        () => warehouse.upkeep(),
        async (signal) => deleteAsked(app, await resourcesToDelete(warehouse), signal),
        keepFiles({ source, clock, log, watcher, read: (work) => work(warehouse), use: (work) => work(app) }),
      ],
    };
  }
}

/** Resources of which a person has released deletes, or wants records to be forgotten; a command may have asked for it. */
export async function resourcesToDelete({ own }: Pick<Warehouse, 'own'>): Promise<ReadonlySet<string>> {
  return new Set([...(await releasedResources(own)), ...(await resourcesToErase(own))]);
}

/** Does so. */
export async function deleteAsked(app: App, resources: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
  for (const resource of resources) {
    try {
      await app.eraseForgotten(resource, signal);
      await app.confirmReleased(resource, signal);
    } catch (error) {
      // The walk that owns the resource confirms them as well.
      if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
    }
  }
}
