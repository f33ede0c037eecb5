import type { Logger } from 'pino';
import type { App } from './app.ts';
import type { Clock } from '../model/clock.ts';
import { messageOf, SyncError } from '../model/errors.ts';
import { timestampMs } from '../model/timestamp-text.ts';
import type { SourceSettings } from '../config/settings.ts';
import { nextDue } from '../database/state/files.ts';
import { readPauses } from '../database/state/server-state.ts';
import { lastEndedRun } from '../database/state/run-history.ts';
import { haveRecordsChanged } from '../sync/files/due-files.ts';
import { tellFiles } from '../sync/files/files-lane.ts';
import type { Warehouse } from '../database/warehouse.ts';
import type { SourceWatcher } from './source-watcher.ts';

interface FilesWork {
  source: SourceSettings;
  clock: Clock;
  log: Logger;
  read: <T>(work: (warehouse: Warehouse) => Promise<T>) => Promise<T>;
  use: <T>(work: (app: App) => Promise<T>, signal: AbortSignal) => Promise<T>;
  watcher: Pick<SourceWatcher, 'filesAsked' | 'filesStand'>;
}

/** So long after something stopped all files they are tried again. */
const PARKED_MS = 30_000;

/**
 * Returns the job that keeps the files of a source: a round finds what is due and fetches it. The newest run of a resource says how its files stand, as that of a command does. Never throws
 * what passes by itself: a store that is full is tried again every half minute.
 */
export function keepFiles(work: FilesWork): (signal: AbortSignal) => Promise<void> {
  const { source, clock, log, watcher } = work;
  let parkedUntil = 0;
  /** The runs that have been told of files last. */
  let told: EndedRuns = new Map();
  return async (signal) => {
    const now = clock.now();
    if (Object.keys(source.files.kept).length === 0 || now < parkedUntil) return;
    let due: string[] = [];
    try {
      const { resources, ended } = await work.read((warehouse) => whatIsDue(warehouse, source, now));
      const news = [...ended].filter(([name, run]) => !resources.includes(name) && told.get(name) !== run);
      const untold = news.map(([name]) => name);
      due = resources;
      if (due.length > 0) {
        const settled = watcher.filesAsked;
        const reports = await work.use((app) => app.files.fetch({ resources: due, signal, settled }), signal);
        tellFiles(log, reports);
        watcher.filesStand(null);
        await work.use((app) => app.files.tell(reports), signal);
      }
      if (untold.length > 0) await work.use((app) => tellStanding(app, untold), signal);
      told = ended;
    } catch (error) {
      if (signal.aborted) return;
      parkedUntil = clock.now() + PARKED_MS;
      if (isHeld(error)) return log.debug({ error }, 'another process fetches the files');
      const hint = error instanceof SyncError ? error.hint : undefined;
      log.warn({ error, ...(hint === undefined ? {} : { hint }) }, `the files were put off: ${messageOf(error)}`);
      watcher.filesStand(error);
      // Where the warehouse is what fails, it cannot be told either.
      if (due.length > 0) await work.use((app) => tellStanding(app, due, error), signal).catch(() => undefined);
    }
  };
}

/** How their files stand, in the newest run of each resource. */
async function tellStanding({ files }: App, resources: readonly string[], stopped?: unknown): Promise<void> {
  await files.tell(await files.standing(resources, stopped));
}

/** The newest run of each resource that has ended. */
type EndedRuns = ReadonlyMap<string, string>;

/** Resources with files to be looked for or fetched now, and their newest runs. */
async function whatIsDue(
  warehouse: Warehouse,
  { files, profile }: SourceSettings,
  now: number,
): Promise<{ resources: string[]; ended: EndedRuns }> {
  const { own } = warehouse;
  const paused = await readPauses(own);
  const ended = new Map<string, string>();
  const resources: string[] = [];
  for (const resource of Object.keys(files.kept)) {
    if (paused.has(resource) || profile.resources[resource] === undefined) continue;
    const last = await lastEndedRun(own, resource);
    if (last !== null) ended.set(resource, last.run_id);
    const due = await nextDue(own, [resource]);
    const isDue =
      (due !== null && timestampMs(due) <= now) ||
      (await haveRecordsChanged({ warehouse, settings: files, now }, resource));
    if (isDue) resources.push(resource);
  }
  return { resources, ended };
}

/** A command that fetches them, or prunes the store, ends soon. */
function isHeld(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'lease_held';
}
