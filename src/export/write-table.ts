// Writes one view as files, one or more for each month. A second export only writes the months whose rows have changed: it
// compares a digest of the rows of each month with the one that the manifest of the earlier export has.
import { createHash, hash } from 'node:crypto';
import { PassThrough } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import type { SnapshotReader, ViewCell, ViewQuery } from '../database/snapshot-reader.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import type { ChosenTable } from './choose-tables.ts';
import type { ExportColumn, ExportFormat, FileOptions } from './formats/export-format.ts';
import type { ManifestFile, ManifestTable } from './manifest.ts';
import { type MonthLayout, monthOf, nextMonth } from './month-layout.ts';
import type { ExportTarget } from './targets/export-target.ts';

interface TableExport {
  snapshot: SnapshotReader;
  table: ChosenTable;
  target: ExportTarget;
  format: ExportFormat;
  fileOptions: FileOptions;
  columns: readonly ExportColumn[];
  layout: MonthLayout;
  /** Returns an unused path for a file with rows of this month. */
  newPath: (month: string | null) => string;
  /** The table in an earlier export with the same format and options; null if everything is to be written. */
  before: ManifestTable | null;
  signal: AbortSignal;
}

/** Writes the months that differ from `before`, or the whole table. Returns the table as the new manifest lists it. */
export async function writeTable(request: TableExport): Promise<ManifestTable> {
  const { table, columns, layout, before: former } = request;
  const shape = toShape(table.name, columns, layout.month?.name ?? null);
  // Files can only be kept if the table still has the same columns and is cut in the same way.
  const isSame = former !== null && isDeepStrictEqual(toShape(former.name, former.columns, former.month_of), shape);
  const before = isSame ? former : null;
  // Null if all months have to be written.
  const changed = before === null ? null : await findChangedMonths(request, before.slices);
  const isKept = ({ month }: { month: string | null }): boolean => changed?.has(month) === false;
  const keptSlices = before?.slices.filter(isKept) ?? [];
  const keptFiles = before?.files.filter(isKept) ?? [];
  const written = changed?.size === 0 ? [] : await writeMonths(request, changed, keptSlices.length === 0);
  const slices = [...keptSlices, ...written.map(({ month, digest }) => ({ month, ...digest.result() }))];
  return {
    ...shape,
    description: table.description,
    columns: shape.columns.map((column, at) =>
      Object.assign({}, column, { description: table.columns[at]?.description ?? null }),
    ),
    rows: slices.reduce((sum, { rows }) => sum + rows, 0),
    files: [...keptFiles, ...written.flatMap(({ files }) => files)].toSorted(byMonth),
    slices: slices.toSorted(byMonth),
  };
}

/** The part of a table in the manifest that must be the same if its files are to be kept. */
function toShape(
  name: string,
  columns: readonly { name: string; type: ColumnType; stored: string }[],
  month_of: string | null,
) {
  return { name, columns: columns.map(({ name, type, stored }) => ({ name, type, stored })), month_of };
}

function byMonth(a: { month: string | null }, b: { month: string | null }): number {
  const [one, other] = [a.month ?? '', b.month ?? ''];
  return one === other ? 0 : one < other ? -1 : 1;
}

type ExportRow = readonly ViewCell[];

function toQuery({ table, columns, layout }: TableExport): ViewQuery {
  return { view: table.name, columns, orderBy: layout.orderBy };
}

/** Returns the function that reads the month of a row; null if the table is not cut by month. */
function monthReader({ columns, layout }: TableExport): (row: ExportRow) => string | null {
  if (layout.month === null) return () => null;
  const column = columns.findIndex(({ name }) => name === layout.month?.name);
  return (row) => monthOf(row[column] ?? null);
}

/**
 * Finds the months whose rows differ from an earlier export. It reads every row: `_synced_at` does not show which have
 * changed, because a rebuild retains it and the view has no deleted rows.
 */
async function findChangedMonths(
  request: TableExport,
  slices: ManifestTable['slices'],
): Promise<ReadonlySet<string | null>> {
  const digests = new Map<string | null, RowDigest>();
  const monthOfRow = monthReader(request);
  for await (const rows of request.snapshot.rows({ ...toQuery(request), orderBy: [] })) {
    request.signal.throwIfAborted();
    for (const row of rows) {
      const month = monthOfRow(row);
      const digest = digests.get(month) ?? rowDigest();
      digest.add(row);
      digests.set(month, digest);
    }
  }
  if (digests.size === 0) digests.set(null, rowDigest());
  const former = new Map(slices.map(({ month, rows, digest }) => [month, { rows, digest }]));
  const months = new Set([...digests.keys(), ...former.keys()]);
  return new Set([...months].filter((month) => !isDeepStrictEqual(digests.get(month)?.result(), former.get(month))));
}

/** The rows of one month, or of the whole table, with the files that hold them. */
interface WrittenSlice {
  month: string | null;
  digest: RowDigest;
  files: ManifestFile[];
}

/**
 * Writes the rows of these months, or all rows if null. If the table has no rows and no file is kept (`needsFile`), it gets
 * one file that shows its columns.
 */
async function writeMonths(
  request: TableExport,
  months: ReadonlySet<string | null> | null,
  needsFile: boolean,
): Promise<WrittenSlice[]> {
  const slices: WrittenSlice[] = [];
  const beginSlice = (month: string | null): WrittenSlice => {
    const slice = { month, digest: rowDigest(), files: [] };
    slices.push(slice);
    return slice;
  };
  const monthOfRow = monthReader(request);
  let open: { slice: WrittenSlice; file: OpenExportFile } | null = null;
  try {
    // The rows come in the order of months.
    for await (const rows of request.snapshot.rows({ ...toQuery(request), ...monthBounds(request.layout, months) })) {
      request.signal.throwIfAborted();
      for (const [month, rowsOfMonth] of Map.groupBy(rows, monthOfRow)) {
        if (months !== null && !months.has(month)) continue;
        const slice: WrittenSlice = open?.slice.month === month ? open.slice : beginSlice(month);
        if (open !== null && (open.slice !== slice || open.file.isFull())) {
          open.slice.files.push(await open.file.close());
          open = null;
        }
        open ??= { slice, file: await openFile(request, month) };
        for (const row of rowsOfMonth) slice.digest.add(row);
        await open.file.add(rowsOfMonth);
      }
    }
    if (slices.length === 0 && needsFile) open = { slice: beginSlice(null), file: await openFile(request, null) };
    open?.slice.files.push(await open.file.close());
    return slices;
  } catch (error) {
    await open?.file.abort();
    throw error;
  }
}

/** Limits the query to the time from the first to the last of these months. No limit if one of them is no month. */
function monthBounds({ month: column }: MonthLayout, months: ReadonlySet<string | null> | null): Partial<ViewQuery> {
  const ordered = [...(months ?? [])].filter((month) => month !== null).toSorted();
  const [first = '', last = ''] = [ordered[0], ordered.at(-1)];
  if (column === null || ordered.length === 0 || !ordered.every((month) => /^\d{4}-\d\d$/.test(month))) return {};
  return { within: { column, from: `${first}-01`, below: nextMonth(last) } };
}

/** A file that has reached one of these sizes is closed, and the next rows go to another file. */
const MAX_FILE_ROWS = 100_000;
const MAX_FILE_BYTES = 64 * 1_048_576;

type OpenExportFile = Awaited<ReturnType<typeof openFile>>;

/** Encodes rows into a new file, which is complete after `close`. */
async function openFile({ target, format, fileOptions, columns, newPath }: TableExport, month: string | null) {
  const path = newPath(month);
  const encoder = await format.begin(columns, fileOptions);
  const body = new PassThrough();
  const stored = target.write(path, body);
  // If the target fails, the next write or `close` throws its error.
  stored.catch(() => body.destroy());
  const sha256 = createHash('sha256');
  let [rowCount, readBytes, writtenBytes] = [0, 0, 0];
  const write = async (bytes: Uint8Array): Promise<void> => {
    if (bytes.length === 0) return;
    sha256.update(bytes);
    writtenBytes += bytes.length;
    await Promise.race([new Promise<void>((resolve) => body.write(bytes, () => resolve())), stored]);
  };
  return {
    add: async (rows: readonly ExportRow[]): Promise<void> => {
      for (const row of rows) for (const cell of row) readBytes += typeof cell === 'string' ? cell.length : 8;
      rowCount += rows.length;
      await write(encoder.add(rows));
    },
    isFull: (): boolean => rowCount >= MAX_FILE_ROWS || readBytes >= MAX_FILE_BYTES,
    close: async (): Promise<ManifestFile> => {
      await write(encoder.end());
      body.end();
      await stored;
      return { path, rows: rowCount, bytes: writtenBytes, sha256: sha256.digest('hex'), month };
    },
    /** Never throws; the export removes what was written. */
    abort: async (): Promise<void> => {
      body.destroy();
      await stored.catch(() => undefined);
    },
  };
}

type RowDigest = ReturnType<typeof rowDigest>;

const DIGEST_WORDS = 8;
const WORD_BYTES = 4;

/** Adds up the hashes of rows, so that their order does not count, and two equal rows do not cancel each other out. */
function rowDigest() {
  const sums = new Uint32Array(DIGEST_WORDS);
  let rows = 0;
  return {
    add: (row: ExportRow): void => {
      const digest = hash('sha256', row.map(cellText).join(''), 'buffer');
      for (let word = 0; word < DIGEST_WORDS; word += 1) {
        sums[word] = (sums[word] ?? 0) + digest.readUInt32LE(word * WORD_BYTES);
      }
      rows += 1;
    },
    result: () => ({ rows, digest: [...sums].map((sum) => sum.toString(16).padStart(2 * WORD_BYTES, '0')).join('') }),
  };
}

/** The text of a cell for the hash: the length says where it ends, and NULL differs from an empty text. */
function cellText(cell: ViewCell): string {
  if (cell === null) return 'n';
  const text = String(cell);
  return `${text.length}:${text}`;
}
