import type { Clock } from '../model/clock.ts';
import { SyncError, messageOf } from '../model/errors.ts';
import type { GovernorFigures } from '../queue/governor.ts';
import { readPauses } from '../state/pauses.ts';
import { readCheckpoint } from '../state/checkpoints.ts';
import { resourcesToErase } from '../state/forget-requests.ts';
import { releasedResources } from '../state/suspects.ts';
import type { ScheduleParts } from '../trigger/schedule/resource.ts';
import type { Scheduler, TickSource } from '../trigger/schedule/scheduler.ts';
import { NAMED, type NameState } from '../warehouse/name-state.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import { RestingApp } from './at-rest/resting-app.ts';
import { RestingDrain } from './at-rest/resting-drain.ts';
import type { LocalApps } from './at-rest/local-apps.ts';
import type { ClusterSource } from './cluster/cluster-work.ts';
import { KnownPauses } from './controls/known-pauses.ts';
import { keepFiles } from './keep-files.ts';
import { interruption, type OpenSource, type SourceWork } from './keeper.ts';
import type { ReceivedInbox } from './received-inbox.ts';
import { refetchBy, startDrain } from './start-drain.ts';
import { untilReopening } from './watch-names.ts';

interface LocalWorkOptions extends ClusterSource {
  clock: Clock;
  secrets: string[];
  /** Null if no webhooks are received. */
  inbox: ReceivedInbox | null;
  apps: LocalApps;
  ticks: TickSource;
  /** Reads what the page shows of the source, before it is closed. Must not throw. */
  lastLook: () => Promise<void>;
}

/** A log of this size is folded back although nothing else is to be done. */
const LARGE_LOG_BYTES = 16 * 1_048_576;

interface OpenParts {
  resting: RestingApp;
  pauses: KnownPauses;
}

/**
 * All work on a source is done by this process, which opens it for that and closes it soon after: at rest it has no file
 * open and belongs to nobody, so that another process may work on it meanwhile.
 */
export class LocalWork implements SourceWork {
  readonly upkeepMs = 10_000;
  readonly ticks: TickSource;
  readonly #options: LocalWorkOptions;
  #resting: RestingApp | null = null;
  #drain: RestingDrain | null = null;
  #pauses: KnownPauses | null = null;

  constructor(options: LocalWorkOptions) {
    this.#options = options;
    this.ticks = options.ticks;
  }

  governor(): GovernorFigures | null {
    return this.#resting?.governor() ?? null;
  }

  wake(): void {
    this.#drain?.wake();
  }

  async retry(now: boolean): Promise<void> {
    // Opened for it: what is kept of a refusal outlives the client.
    await this.#resting?.use((app) => app.retry(now)).catch(() => undefined);
    this.#drain?.retry();
  }

  async pausesChanged(): Promise<void> {
    await this.#pauses?.refresh();
    this.#drain?.retry();
  }

  version(): string | null {
    return this.#resting?.version() ?? null;
  }

  openingSince(): number | null {
    return this.#resting?.openingSince() ?? null;
  }

  async open(opened: AsyncDisposableStack): Promise<OpenSource> {
    const { clock, log, inbox, lastLook } = this.#options;
    // Only here, because nothing uses the replaced file any more.
    if (inbox?.nameState().is === 'replaced') await inbox.reopen();
    const resting = new RestingApp({ ...this.#options, lastLook });
    opened.defer(() => resting.close());
    const reading = new AbortController();
    opened.defer(() => reading.abort(interruption()));
    // Makes and migrates it, and finds out whether it can be used.
    await resting.read(async () => undefined);
    inbox?.hold(false);
    this.#resting = resting;
    const pauses = new KnownPauses(() => resting.read(({ own }) => readPauses(own)), clock);
    this.#pauses = pauses;
    opened.defer(() => {
      this.#resting = null;
    });
    const names = (): NameState[] => [resting.nameState(), inbox?.nameState() ?? NAMED];
    return {
      read: (work) => resting.read(work),
      nameState: () => resting.nameState(),
      checkpoints: untilChanged(resting, ({ own }, resource) => readCheckpoint(own, resource)),
      isPaused: untilChanged(resting, async ({ own }, resource) => (await readPauses(own)).has(resource)),
      walk: (resource, command, signal) => this.#walk({ resting, pauses }, { resource, command }, signal),
      startDrain: (requestWalk) => this.#startDrain({ resting, pauses }, requestWalk, reading.signal),
      upkeep: [
        () => foldLog(resting),
        lookAgain(resting, lastLook),
        keepFiles({ ...this.#options, ...usedBy(resting) }),
      ],
      untilReopening: (signal) => untilReopening(names, { clock, log, lost: () => inbox?.hold(true), signal }),
    };
  }

  #walk(
    { resting, pauses }: OpenParts,
    { resource, command }: { resource: string; command: Parameters<ScheduleParts['run']>[1] },
    signal: AbortSignal,
  ): ReturnType<ScheduleParts['run']> {
    const { watcher } = this.#options;
    // By name, so that a scheduled full walk is one even if an earlier backfill was interrupted.
    const commands = { [resource]: command };
    const asked = { command: commands, resources: [resource], restart: false, watcher };
    const work = (until: AbortSignal) => resting.useInTurn((app) => app.sync({ ...asked, signal: until }), until);
    return pauses.unlessPaused(resource, signal, work);
  }

  #startDrain(
    { resting, pauses }: OpenParts,
    walk: Scheduler['requestWalk'],
    signal: AbortSignal,
  ): RestingDrain | null {
    const { inbox, clock, log } = this.#options;
    if (inbox === null) return null;
    this.#drain = new RestingDrain({
      clock,
      inbox,
      failed: (error) => log.warn({ error }, `deliveries were put off: ${messageOf(error)}`),
      open: (work) =>
        resting.use(async (app) => {
          const persist = (): Promise<void> => app.warehouse.persist();
          const drain = startDrain(this.#options, inbox, { walk, refetch: refetchBy(app, signal), persist, pauses });
          if (drain !== null) await work(drain);
        }),
    });
    return this.#drain;
  }
}

function usedBy(resting: RestingApp): Pick<Parameters<typeof keepFiles>[0], 'version' | 'read' | 'use'> {
  return {
    version: () => resting.version(),
    read: (work) => resting.read(work),
    use: (work, signal) => resting.useInTurn(work, signal),
  };
}

/** What is due rests on it: read again only when the stored state may have changed. */
function untilChanged<T>(
  resting: RestingApp,
  read: (warehouse: Warehouse, resource: string) => Promise<T>,
): (resource: string) => Promise<T> {
  const known = new Map<string, { version: string; value: T }>();
  return async (resource) => {
    const before = known.get(resource);
    const version = resting.version();
    if (before !== undefined && before.version === version) return before.value;
    const value = await resting.read((warehouse) => read(warehouse, resource));
    if (version === null) known.delete(resource);
    else known.set(resource, { version, value });
    return value;
  };
}

async function foldLog(resting: RestingApp): Promise<void> {
  if (resting.open !== null) await resting.read((warehouse) => warehouse.upkeep());
  else if (resting.leftLog() > LARGE_LOG_BYTES) await resting.use((app) => app.warehouse.upkeep());
}

/**
 * Returns what looks at the stored state whenever it may have changed, also by another process: what is shown of it is
 * read while it is open for that, and what a person has released or asked to be forgotten meanwhile is deleted.
 */
function lookAgain(resting: RestingApp, lastLook: () => Promise<void>): (signal: AbortSignal) => Promise<void> {
  let seen: string | null = null;
  return async (signal) => {
    const version = resting.version();
    if (version !== null && version === seen) return;
    const waiting = await resting.read(async ({ own }) => {
      if (version !== null) await lastLook();
      return new Set([...(await releasedResources(own)), ...(await resourcesToErase(own))]);
    });
    for (const resource of waiting) await deleteAsked(resting, resource, signal);
    seen = waiting.size === 0 ? version : null;
  };
}

async function deleteAsked(resting: RestingApp, resource: string, signal: AbortSignal): Promise<void> {
  try {
    await resting.use(async (app) => {
      await app.eraseForgotten(resource, signal);
      await app.confirmReleased(resource, signal);
    });
  } catch (error) {
    // The walk that owns the resource confirms them as well.
    if (!(error instanceof SyncError) || error.code !== 'lease_held') throw error;
  }
}
