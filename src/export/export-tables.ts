import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../model/clock.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { openSnapshot } from '../database/databases.ts';
import type { SnapshotReader } from '../database/snapshot-reader.ts';
import { chooseTables, type ChosenTable } from './choose-tables.ts';
import { exportTable } from './export-table.ts';
import { CSV } from './formats/csv.ts';
import type { ExportColumn, FileForm, Format, FormatName } from './formats/format.ts';
import { NDJSON } from './formats/ndjson.ts';
import { PARQUET } from './formats/parquet.ts';
import { layoutOf } from './layout.ts';
import {
  filesOf,
  type Manifest,
  MANIFEST_VERSION,
  type ManifestTable,
  manifestText,
  readManifest,
} from './manifest.ts';
import { LOCK, NEXT_MANIFEST } from './places/local-folder.ts';
import { MANIFEST, type Place } from './places/place.ts';

export const FORMATS: Readonly<Record<FormatName, Format>> = { parquet: PARQUET, csv: CSV, ndjson: NDJSON };

export interface ExportRequest {
  /** Address of the warehouse. */
  warehouse: string;
  /** Name of the source, which the manifest bears. */
  source: string;
  /** Resources that are copied: views of others are only exported if they are named. */
  resources: readonly string[];
  place: Place;
  format: FormatName;
  form: FileForm;
  /** Names of views; the usual ones if none. */
  tables: readonly string[];
  /** Tables of facts are cut by month. */
  isByMonth: boolean;
  /** Everything is written, whatever stands there. */
  isFull: boolean;
  /** Of content-sync. */
  version: string;
  clock: Clock;
  signal: AbortSignal;
  /** Called with each table that is written. */
  exported: (table: ExportedTable) => void;
}

/** A table as it stands in the place. */
export interface ExportedTable {
  table: string;
  rows: number;
  files: number;
  bytes: number;
  /** Of these, what this export wrote. */
  written_files: number;
  written_bytes: number;
}

export interface ExportReport {
  place: string;
  snapshot_at: string;
  tables: ExportedTable[];
  /** Files of earlier exports that are gone now. */
  removed_files: number;
  /** Exported views of resources that are no longer copied; absent if there are none. */
  not_copied?: string[];
  /** Such views that are left out, because they were not named. */
  left_out?: string[];
}

/** Writes a warehouse's views, as of one moment, to a place. Throws `SyncError`, and leaves what stood there as it was. */
export async function exportTables(request: ExportRequest): Promise<ExportReport> {
  const { place } = request;
  try {
    return await attempt(request, false);
  } catch (error) {
    if (!(error instanceof SyncError) || error.code !== 'snapshot_lost') throw error;
    // Somebody has begun to write meanwhile.
    return await attempt(request, true);
  } finally {
    await place.close();
  }
}

async function attempt(request: ExportRequest, isBeside: boolean): Promise<ExportReport> {
  // What was committed before is in the snapshot.
  const moment = new Date(request.clock.now()).toISOString();
  const snapshot = await openSnapshot(request.warehouse, request.clock, isBeside);
  const made: string[] = [];
  try {
    const before = await standing(request);
    const { tables: chosen, leftOut } = await chooseTables(snapshot, request.tables, request.resources);
    const usual = await chooseTables(snapshot, [], request.resources).catch(() => null);
    const all = usual?.tables ?? chosen;
    const newPath = pathMaker(request, moment, made);
    const tables: ManifestTable[] = [];
    for (const table of chosen) {
      tables.push(await writeTable(request, { snapshot, before, newPath }, table, all));
      request.exported(summary(tables.at(-1), made));
    }
    const report = await conclude(request, { before, tables, moment, made });
    const old = chosen.filter(({ isCopied }) => !isCopied).map(({ name }) => name);
    return {
      ...report,
      ...(old.length === 0 ? {} : { not_copied: old }),
      ...(leftOut.length === 0 ? {} : { left_out: leftOut }),
    };
  } catch (error) {
    await removeQuietly(request.place, made);
    throw error;
  } finally {
    await snapshot.close();
  }
}

/** An earlier export to the place. */
interface Standing {
  text: string;
  manifest: Manifest;
}

/** Null if there is none. Throws `ConfigError` if something else is there. */
async function standing({ place, source }: ExportRequest): Promise<Standing | null> {
  const text = await place.readManifest();
  if (text === null) {
    const strange = (await place.list()).find(({ path }) => !isOurs(path));
    if (strange === undefined) return null;
    throw new ConfigError('export_place_taken', `${place.shown}: there is something else: ${strange.path}`, {
      hint: 'name an empty or a new place: an export removes what its manifest no longer lists',
    });
  }
  const manifest = readManifest(text, place.shown);
  if (manifest.source === source) return { text, manifest };
  throw new ConfigError('export_place_taken', `${place.shown}: the export of source ${manifest.source} is there`, {
    hint: 'name another place, one for each source',
  });
}

type NewPath = (table: string) => (month: string | null) => string;

/** No other export gives the names that this one gives; `made` gets all of them. */
function pathMaker({ format }: ExportRequest, moment: string, made: string[]): NewPath {
  const run = `${moment.slice(0, 19).replace(/[-:]/g, '')}Z-${randomBytes(4).toString('hex')}`;
  return (table) => (month) => {
    const folder = month === null ? '' : `month=${encodeURIComponent(month)}/`;
    const path = `${encodeURIComponent(table)}/${folder}part-${run}-${String(made.length).padStart(5, '0')}.${format}`;
    made.push(path);
    return path;
  };
}

async function writeTable(
  request: ExportRequest,
  { snapshot, before, newPath }: { snapshot: SnapshotReader; before: Standing | null; newPath: NewPath },
  table: ChosenTable,
  all: readonly ChosenTable[],
): Promise<ManifestTable> {
  const { place, form, isByMonth, isFull, signal } = request;
  const format = FORMATS[request.format];
  const columns: ExportColumn[] = [];
  for (const column of table.columns) {
    const isDecimal = column.type === 'numeric' && format.name === 'parquet';
    const span = isDecimal ? await snapshot.decimalSpan(table.name, column) : null;
    columns.push({ ...column, stored: format.stored(column, span) });
  }
  const known = before?.manifest;
  const isKept =
    !isFull &&
    known?.format === format.name &&
    isDeepStrictEqual(form, { compression: known.compression, options: known.options });
  return exportTable({
    snapshot,
    table,
    target: {
      place,
      format,
      form,
      columns,
      layout: layoutOf(table, all, isByMonth),
      newPath: newPath(table.name),
    },
    before: (isKept ? known.tables.find(({ name }) => name === table.name) : undefined) ?? null,
    signal,
  });
}

/** The new manifest stands first; then goes what it does not list. */
async function conclude(
  request: ExportRequest,
  done: { before: Standing | null; tables: ManifestTable[]; moment: string; made: string[] },
): Promise<ExportReport> {
  const { place, source, format, form, version } = request;
  const { before, tables, moment, made } = done;
  request.signal.throwIfAborted();
  const manifest: Manifest = {
    content_sync_export: MANIFEST_VERSION,
    source,
    format,
    ...form,
    options: [...form.options],
    snapshot_at: moment,
    written_by: `content-sync ${version}`,
    tables,
  };
  const written = [...made];
  // Whatever comes of the manifest, it may stand, even if there is no answer: nothing of it may be taken back.
  made.length = 0;
  await place.putManifest(manifestText(manifest), before?.text ?? null);
  const listed = new Set(filesOf(manifest));
  const gone = await leftovers(place, listed, before?.manifest ?? null, request.clock.now());
  await place.remove(gone);
  return {
    place: place.shown,
    snapshot_at: moment,
    tables: tables.map((table) => summary(table, written)),
    removed_files: gone.length,
  };
}

async function removeQuietly(place: Place, paths: readonly string[]): Promise<void> {
  await place.remove(paths).catch(() => undefined);
}

function summary(table: ManifestTable | undefined, made: readonly string[]): ExportedTable {
  const files = table?.files ?? [];
  const written = files.filter(({ path }) => made.includes(path));
  const bytesOf = (some: typeof files): number => some.reduce((sum, { bytes }) => sum + bytes, 0);
  return {
    table: table?.name ?? '',
    rows: table?.rows ?? 0,
    files: files.length,
    bytes: bytesOf(files),
    written_files: written.length,
    written_bytes: bytesOf(written),
  };
}

const PART = /^[^/]+\/(?:month=[^/]+\/)?part-\d{8}T\d{6}Z-[0-9a-f]{8}-\d{5}\.(?:parquet|csv|ndjson)$/;

/** True of a path that only an export gives. */
function isOurs(path: string): boolean {
  return PART.test(path) || [LOCK, NEXT_MANIFEST, MANIFEST].includes(path);
}

const DAY_MS = 86_400_000;

/**
 * What the manifest before listed, and what exports left that were stopped: at once where nobody else can be writing,
 * elsewhere after a day.
 */
async function leftovers(
  place: Place,
  listed: ReadonlySet<string>,
  before: Manifest | null,
  now: number,
): Promise<string[]> {
  const old = new Set(filesOf(before));
  const files = await place.list();
  return files
    .filter(({ path }) => PART.test(path) && !listed.has(path))
    .filter(({ path, changedAt }) => place.isLocked || old.has(path) || changedAt < now - DAY_MS)
    .map(({ path }) => path);
}
