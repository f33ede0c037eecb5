import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { DeferredError, errorReport, SyncError } from '../../model/errors.ts';
import type { FilesSettings } from '../../settings/file-stores.ts';
import { tellOfRun, forgetOldRuns } from '../../state/runs.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { overallStatus, type ResourceReport, type RunReport } from '../report.ts';
import { isPartial } from '../warnings.ts';
import type { FilesLane } from './open-lane.ts';
import type { FilesReport } from './report-files.ts';

interface SyncFiles {
  settings: FilesSettings;
  warehouse: Warehouse;
  lane: FilesLane;
  scrub: (text: string) => string;
  log: Pick<Logger, 'info' | 'warn'>;
  signal: AbortSignal;
  clock: Pick<Clock, 'now'>;
  keepRunsMs: number;
}

/** A run, and behind it the files of the resources that it has synced: it is `ok` if all of those are here as well. */
export async function withFiles(context: SyncFiles, run: () => Promise<RunReport>): Promise<RunReport> {
  const { settings, lane, log, scrub } = context;
  if (Object.keys(settings.kept).length > 0) await lane.check();
  const report = await run();
  const synced = report.resources.filter(
    ({ resource, status }) => isHere(status) && settings.kept[resource] !== undefined,
  );
  if (synced.length === 0) return report;
  const names = synced.map(({ resource }) => resource);
  const { reports, error } = await filesOf(context, names);
  tellFiles(log, reports);
  await remember(context, report, reports);
  const all = new Map(reports.map((each) => [each.resource, each]));
  const resources = report.resources.map((part) => withReport(part, all.get(part.resource), error, scrub));
  return { ...report, status: overallStatus(resources.map(({ status }) => status)), resources };
}

/** Whoever looks at the run later sees what was told of its files; that its walk has ended stays true. */
async function remember(
  { warehouse, clock, keepRunsMs }: SyncFiles,
  { run_id, resources }: RunReport,
  reports: readonly FilesReport[],
): Promise<void> {
  const told = reports.filter(({ warnings }) => warnings.length > 0);
  const statements = told.flatMap(({ resource, warnings: ofFiles }) => {
    const part = resources.find((each) => each.resource === resource);
    if (part === undefined) return [];
    const warnings = [...(part.warnings ?? []), ...ofFiles];
    const run = { run_id, resource };
    return [
      tellOfRun(warehouse.own, run, { status: isPartial(ofFiles) ? 'partial' : part.status, warnings }),
      forgetOldRuns(warehouse.own, run, keepRunsMs, clock.now()),
    ];
  });
  if (statements.length > 0) await warehouse.apply(statements);
}

function isHere(status: ResourceReport['status']): boolean {
  return status === 'ok' || status === 'partial';
}

/** What stops all files leaves them waiting, and says why. */
async function filesOf(
  { lane, signal }: SyncFiles,
  resources: readonly string[],
): Promise<{ reports: FilesReport[]; error: SyncError | null }> {
  try {
    return { reports: await lane.fetch({ resources, signal }), error: null };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const isEnding = error.code === 'interrupted' || error instanceof DeferredError;
    return { reports: await lane.standing(resources, error), error: isEnding ? error : null };
  }
}

function withReport(
  part: ResourceReport,
  files: FilesReport | undefined,
  error: SyncError | null,
  scrub: (text: string) => string,
): ResourceReport {
  if (files === undefined) return part;
  const warnings = [...(part.warnings ?? []), ...files.warnings];
  const told = { ...part, files: files.figures, ...(warnings.length === 0 ? {} : { warnings }) };
  if (error?.code === 'interrupted') return { ...told, status: 'interrupted', error: errorReport(error, scrub) };
  return isPartial(files.warnings) ? { ...told, status: 'partial' } : told;
}

/** Writes into the log what a round did, unless it found nothing to do. */
export function tellFiles(log: Pick<Logger, 'info' | 'warn'>, reports: readonly FilesReport[]): void {
  for (const { resource, figures, warnings } of reports) {
    if (figures.fetched + figures.unchanged > 0) log.info({ resource, files: figures }, 'files fetched');
    for (const { message, ...warning } of warnings) log.warn({ resource, ...warning }, message);
  }
}
