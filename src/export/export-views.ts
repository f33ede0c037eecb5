// Exports the views of a source as files, all as of one time (`content-sync export parquet <target>`). Readers open the files
// that the manifest lists. It is written last, so a killed export leaves the earlier one as it was.
import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { openSnapshot } from '../database/databases.ts';
import { SnapshotLost, type SnapshotReader } from '../database/snapshot-reader.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import { chooseTables, type ChosenTable } from './choose-tables.ts';
import { EXPORT_FORMATS } from './formats/all-formats.ts';
import type { ExportColumn, ExportFormat, FileOptions } from './formats/export-format.ts';
import { type Manifest, MANIFEST_VERSION, type ManifestTable, manifestText, readManifest } from './manifest.ts';
import { chooseLayout } from './month-layout.ts';
import { type ExportTarget, MANIFEST } from './targets/export-target.ts';
import { LOCK, NEXT_MANIFEST } from './targets/local-folder.ts';
import { writeTable } from './write-table.ts';

/** What to export, where to, and how. */
export interface ExportRequest {
  /** Address of the warehouse. */
  warehouse: string;
  /** Name of the source, which the manifest records. */
  source: string;
  /** Resources that are copied: views of other resources are exported only by name. */
  resources: readonly string[];
  target: ExportTarget;
  format: ExportFormat;
  fileOptions: FileOptions;
  /** Names of views; if empty, the default ones (`chooseTables`). */
  tables: readonly string[];
  /** True to cut tables of facts by month. */
  isByMonth: boolean;
  /** True to rewrite files that have not changed. */
  isFull: boolean;
  /** Version of content-sync. */
  version: string;
  clock: Clock;
  signal: AbortSignal;
  /** Called after each table. */
  onTable: (table: ExportedTable) => void;
}

/** The size of an exported table. */
export interface ExportedTable {
  table: string;
  rows: number;
  files: number;
  bytes: number;
  /** Files that this export wrote; the others are those of earlier exports. */
  written_files: number;
  written_bytes: number;
}

export interface ExportReport {
  place: string;
  snapshot_at: string;
  tables: ExportedTable[];
  /** Files of earlier exports that this one removed. */
  removed_files: number;
  /** Exported views of resources that are no longer copied; absent if there are none. */
  not_copied?: string[];
  /** Views of such resources that were skipped because they were not named. */
  left_out?: string[];
}

/** Writes the views of a warehouse, as of one time. If it throws, the earlier export is unchanged. */
export async function exportViews(request: ExportRequest): Promise<ExportReport> {
  try {
    return await writeExport(request, false);
  } catch (error) {
    // Another process began to write to the file, so the second snapshot has to coordinate with it.
    if (error instanceof SnapshotLost) return await writeExport(request, true);
    throw error;
  } finally {
    await request.target.close();
  }
}

/** What the tables of one export have in common. */
interface ExportRun {
  /** Unique; part of the names of its files. */
  id: string;
  snapshot: SnapshotReader;
  /** The manifest of the earlier export; null if there is none. */
  before: Manifest | null;
  startedAt: string;
  /** Files that were created, and that are removed if the export fails. */
  paths: string[];
}

async function writeExport(request: ExportRequest, isShared: boolean): Promise<ExportReport> {
  const { clock, target, resources, onTable } = request;
  // The snapshot has everything that was committed before this time.
  const startedAt = new Date(clock.now()).toISOString();
  const snapshot = await openSnapshot(request.warehouse, clock, isShared);
  const paths: string[] = [];
  try {
    const manifestBefore = await target.readManifest();
    const before = manifestBefore === null ? null : readManifest(manifestBefore, target.shown);
    await checkTarget(request, before);
    const id = `${startedAt.slice(0, 19).replace(/[-:]/g, '')}Z-${randomBytes(4).toString('hex')}`;
    const run = { id, snapshot, before, startedAt, paths };
    const { tables: chosen, related, skipped } = await chooseTables(snapshot, request.tables, resources);
    const tables: ManifestTable[] = [];
    for (const table of chosen) {
      const written = await exportTable(request, run, table, related);
      tables.push(written);
      onTable(summarize(written, paths));
    }
    const report = await publish(request, run, tables, manifestBefore);
    const notCopied = chosen.filter(({ isCopied }) => !isCopied).map(({ name }) => name);
    return {
      ...report,
      ...(notCopied.length === 0 ? {} : { not_copied: notCopied }),
      ...(skipped.length === 0 ? {} : { left_out: skipped }),
    };
  } catch (error) {
    await target.remove(paths).catch(() => undefined);
    throw error;
  } finally {
    await snapshot.close();
  }
}

/** Throws `ConfigError` if the target holds other files or the export of another source. */
async function checkTarget({ target, source }: ExportRequest, before: Manifest | null): Promise<void> {
  if (before?.source === source) return;
  if (before !== null) {
    throw new ConfigError('export_unwritable', `${target.shown}: the export of source ${before.source} is there`, {
      hint: 'name another target, one for each source',
    });
  }
  const knownNames = new Set([LOCK, NEXT_MANIFEST, MANIFEST]);
  const foreign = (await target.list()).find(({ path }) => !DATA_FILE.test(path) && !knownNames.has(path));
  if (foreign === undefined) return;
  throw new ConfigError('export_unwritable', `${target.shown}: there is something else: ${foreign.path}`, {
    hint: 'name an empty or a new target: an export removes files that its manifest no longer lists',
  });
}

/** The run's id is in each path, so that no other export creates the same one. */
function pathMaker({ format }: ExportRequest, { id, paths }: ExportRun, table: string) {
  return (month: string | null): string => {
    const folder = month === null ? '' : `month=${encodeURIComponent(month)}/`;
    const path = `${encodeURIComponent(table)}/${folder}part-${id}-${String(paths.length).padStart(5, '0')}.${format.name}`;
    paths.push(path);
    return path;
  };
}

/** Writes one view; the references of `related` tables decide whether it is cut by month. */
async function exportTable(
  request: ExportRequest,
  run: ExportRun,
  table: ChosenTable,
  related: readonly ChosenTable[],
): Promise<ManifestTable> {
  const { target, format, fileOptions, isByMonth, isFull, signal } = request;
  const { snapshot, before } = run;
  const columns: ExportColumn[] = [];
  for (const column of table.columns) {
    const isMeasured = column.type === 'numeric' && format.needsDecimalSpan;
    const span = isMeasured ? await snapshot.decimalSpan(table.name, column) : null;
    columns.push({ ...column, stored: format.chooseType(column, span) });
  }
  const hasSameOptions =
    before?.format === format.name &&
    isDeepStrictEqual(fileOptions, { compression: before.compression, options: before.options });
  return writeTable({
    snapshot,
    table,
    target,
    format,
    fileOptions,
    columns,
    layout: chooseLayout(table, related, isByMonth),
    newPath: pathMaker(request, run, table.name),
    before: (hasSameOptions && !isFull ? before.tables.find(({ name }) => name === table.name) : undefined) ?? null,
    signal,
  });
}

/** Writes the manifest, which makes the export visible, and then removes the files that it does not list. */
async function publish(
  request: ExportRequest,
  { before, startedAt, paths }: ExportRun,
  tables: ManifestTable[],
  manifestBefore: string | null,
): Promise<ExportReport> {
  const { target, source, format, fileOptions, version, clock } = request;
  request.signal.throwIfAborted();
  const manifest: Manifest = {
    content_sync_export: MANIFEST_VERSION,
    source,
    format: format.name,
    ...fileOptions,
    options: [...fileOptions.options],
    snapshot_at: startedAt,
    written_by: `content-sync ${version}`,
    tables,
  };
  const written = [...paths];
  // From here on an error must not remove these files: the manifest may be written even if no response came.
  paths.length = 0;
  await target.putManifest(manifestText(manifest), manifestBefore);
  const obsolete = await findObsoleteFiles(target, filesIn(manifest), filesIn(before), clock.now());
  await target.remove(obsolete);
  return {
    place: target.shown,
    snapshot_at: startedAt,
    tables: tables.map((table) => summarize(table, written)),
    removed_files: obsolete.length,
  };
}

function summarize({ name, rows, files }: ManifestTable, paths: readonly string[]): ExportedTable {
  const written = files.filter(({ path }) => paths.includes(path));
  const bytesOf = (some: typeof files): number => some.reduce((sum, { bytes }) => sum + bytes, 0);
  return {
    table: name,
    rows,
    files: files.length,
    bytes: bytesOf(files),
    written_files: written.length,
    written_bytes: bytesOf(written),
  };
}

function filesIn(manifest: Manifest | null): ReadonlySet<string> {
  return new Set(manifest?.tables.flatMap(({ files }) => files.map(({ path }) => path)));
}

/** The paths that `pathMaker` makes. */
const DATA_FILE = new RegExp(
  String.raw`^[^/]+/(?:month=[^/]+/)?part-\d{8}T\d{6}Z-[0-9a-f]{8}-\d{5}\.(?:${EXPORT_FORMATS.map(({ name }) => name).join('|')})$`,
);

const DAY_MS = 86_400_000;

/**
 * Finds the files that the previous manifest lists and the new one does not, and those of killed exports. If the target has
 * no lock, another export may just be writing, so files that no manifest lists are obsolete only after a day.
 */
async function findObsoleteFiles(
  target: ExportTarget,
  listed: ReadonlySet<string>,
  previous: ReadonlySet<string>,
  now: number,
): Promise<string[]> {
  const files = await target.list();
  return files
    .filter(({ path }) => DATA_FILE.test(path) && !listed.has(path))
    .filter(({ path, changedAt }) => target.isLocked || previous.has(path) || changedAt < now - DAY_MS)
    .map(({ path }) => path);
}
