// Fetches the files of a source, such as the pictures that its posts name: after each sync (`syncWithFiles`), or between
// syncs, if a failed download is due again. Warnings about files are stored with the newest run of the resource.
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { type FilesSettings, type StoreAddress, storesOf } from '../../config/profile/file-fields.ts';
import {
  forgetOldRuns,
  lastEndedRun,
  type RunRecord,
  type StoredWarning,
  updateFinishedRun,
} from '../../database/state/runs.ts';
import type { Client } from '../../http/create-client.ts';
import { createDownloader, type Downloader } from '../../http/download/create-downloader.ts';
import { FILE_LIMITS, type KnownLimits, openRateLimiter } from '../../http/rate-limit/rate-limiter.ts';
import { DeferredError, errorReport, messageOf, SyncError } from '../../model/errors.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import { openStores } from '../../object-store/open-stores.ts';
import { endedStatus, isOfFiles, isPartial, overallStatus, type ResourceReport, type RunReport } from '../report.ts';
import type { FilesContext } from './fetch-file.ts';
import { fetchFiles, type FilesReport, type FilesRequest, reportFiles } from './fetch-files.ts';
import { createOwnedStoreOpener } from './owned-stores.ts';

/** The files of one source. Stores and downloads are opened with their first use. */
export interface FileSync {
  /** Throws `ConfigError` if a store cannot be used. */
  check(): Promise<void>;
  /** Fetches the files of these resources that are due. */
  fetch(request: FilesRequest): Promise<FilesReport[]>;
  /** Counts the files of these resources, without requests; `stopped` is the error that prevented fetching them. */
  countFiles(resources: readonly string[], stopped?: unknown): Promise<FilesReport[]>;
  /** Updates the warnings of the newest run of each resource. */
  updateNewestRuns(reports: readonly FilesReport[]): Promise<void>;
  storeAt(address: StoreAddress): Promise<ObjectStore>;
  close(): Promise<void>;
}

interface FileSyncOptions extends Omit<FilesContext, 'downloader' | 'storeAt'>, KnownLimits {
  client: Client;
  /** Max wait that a service may request, in milliseconds. */
  maxWaitMs: number;
  /** How long ended runs are stored, in milliseconds. */
  keepRunsMs: number;
}

export function createFileSync(options: FileSyncOptions): FileSync {
  const { settings, clock, client, warehouse, scrub } = options;
  const stores = openStores(settings, { clock, mayCreate: true });
  let downloader: Downloader | null = null;
  const storeAt = createOwnedStoreOpener({ warehouse, storeAt: (address) => stores.at(address) });
  const openDownloader = (): Downloader =>
    createDownloader({
      client: client.parts,
      allowHosts: settings.allow_hosts,
      openRateLimiter: (origin) => openRateLimiter(options, origin, FILE_LIMITS),
    });
  return {
    storeAt,
    check: async () => {
      for (const address of storesOf(settings)) await storeAt(address);
    },
    fetch: async (request) => {
      if (request.resources.every((resource) => settings.kept[resource] === undefined)) return [];
      downloader ??= openDownloader();
      return fetchFiles({ ...options, downloader, storeAt }, request);
    },
    countFiles: (resources, stopped) => {
      const why = stopped === undefined ? [] : [scrub(messageOf(stopped))];
      return reportFiles(warehouse, resources, why);
    },
    updateNewestRuns: (reports) => updateNewestRuns(options, reports),
    close: async () => {
      await downloader?.close();
      await stores.close();
    },
  };
}

interface FileSyncContext {
  settings: FilesSettings;
  fileSync: FileSync;
  scrub: (text: string) => string;
  log: Logger;
  signal: AbortSignal;
}

/** Runs a sync, and then fetches the files of its resources. The result is `ok` only if all files are stored as well. */
export async function syncWithFiles(context: FileSyncContext, run: () => Promise<RunReport>): Promise<RunReport> {
  const { settings, fileSync, log, scrub } = context;
  if (Object.keys(settings.kept).length > 0) await fileSync.check();
  const report = await run();
  const synced = report.resources.filter(
    ({ resource, status }) => hasEnded(status) && settings.kept[resource] !== undefined,
  );
  if (synced.length === 0) return report;
  const names = synced.map(({ resource }) => resource);
  const { reports, error } = await fetchOrCount(context, names);
  logFiles(log, reports);
  await fileSync.updateNewestRuns(reports);
  const byResource = new Map(reports.map((each) => [each.resource, each]));
  const resources = report.resources.map((part) => addFiles(part, byResource.get(part.resource), error, scrub));
  return { ...report, status: overallStatus(resources.map(({ status }) => status)), resources };
}

function hasEnded(status: ResourceReport['status'] | RunRecord['status']): boolean {
  return status === 'ok' || status === 'partial';
}

/** Fetches the files. If an error stops that, counts the files that wait, with the reason. */
async function fetchOrCount(
  { fileSync, signal }: FileSyncContext,
  resources: readonly string[],
): Promise<{ reports: FilesReport[]; error: SyncError | null }> {
  try {
    return { reports: await fileSync.fetch({ resources, signal }), error: null };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const isEnding = error.code === 'interrupted' || error instanceof DeferredError;
    return { reports: await fileSync.countFiles(resources, error), error: isEnding ? error : null };
  }
}

function addFiles(
  part: ResourceReport,
  files: FilesReport | undefined,
  error: SyncError | null,
  scrub: (text: string) => string,
): ResourceReport {
  if (files === undefined) return part;
  const warnings = [...(part.warnings ?? []), ...files.warnings];
  const merged = { ...part, files: files.figures, ...(warnings.length === 0 ? {} : { warnings }) };
  if (error?.code === 'interrupted') return { ...merged, status: 'interrupted', error: errorReport(error, scrub) };
  return isPartial(files.warnings) ? { ...merged, status: 'partial' } : merged;
}

export function logFiles(log: Logger, reports: readonly FilesReport[]): void {
  for (const { resource, figures, warnings } of reports) {
    if (figures.fetched + figures.unchanged > 0) log.info({ resource, files: figures }, 'files fetched');
    for (const { message, ...warning } of warnings) log.warn({ resource, ...warning }, message);
  }
}

/** Replaces the warnings about files in the newest ended run of each resource, which began before the files were fetched. */
async function updateNewestRuns(
  { warehouse, clock, keepRunsMs }: FileSyncOptions,
  reports: readonly FilesReport[],
): Promise<void> {
  const { own } = warehouse;
  for (const { resource, warnings: fileWarnings } of reports) {
    const run = await lastEndedRun(own, resource);
    if (run === null) continue;
    const warnings: StoredWarning[] = [...run.warnings.filter((warning) => !isOfFiles(warning)), ...fileWarnings];
    const status = hasEnded(run.status) ? endedStatus(run, warnings) : run.status;
    if (status === run.status && isDeepStrictEqual(warnings, run.warnings)) continue;
    // A run in which no record changed has deleted no old runs.
    const forgotten = forgetOldRuns(own, run, keepRunsMs, clock.now());
    await warehouse.apply([updateFinishedRun(own, run, status, warnings), forgotten]);
  }
}
