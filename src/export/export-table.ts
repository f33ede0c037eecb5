import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { SnapshotReader, ViewCell, ViewQuery } from '../database/snapshot-reader.ts';
import type { ChosenTable } from './choose-tables.ts';
import type { ExportColumn } from './formats/format.ts';
import { type Layout, monthOf, nextMonth, NO_MONTH } from './layout.ts';
import { listed, type ManifestTable, type PartFile, type Slice, slicesOf } from './manifest.ts';
import { openPart, type OpenPart, type PartTarget } from './open-part.ts';

export interface TableExport {
  snapshot: SnapshotReader;
  table: ChosenTable;
  target: PartTarget;
  /** What an earlier export wrote in the same way; null if all is to be written. */
  before: ManifestTable | null;
  signal: AbortSignal;
}

/** Writes what `before` does not hold already. Returns the table as it is then to be listed. */
export async function exportTable(asked: TableExport): Promise<ManifestTable> {
  const { table, target, before } = asked;
  const shape = shapeOf(table, target.columns, target.layout.month?.name ?? null);
  const isSame = before !== null && isDeepStrictEqual(shape, shapeOf(before, before.columns, before.month_of));
  const slices = isSame ? await refreshed(asked, slicesOf(before)) : await writeAll(asked);
  return { ...shape, description: table.description, columns: described(table, target), ...listed(slices) };
}

/** What must be the same for files to stay. */
function shapeOf(
  { name }: { name: string },
  columns: readonly Pick<ExportColumn, 'name' | 'type' | 'stored'>[],
  month_of: string | null,
) {
  return {
    name,
    columns: columns.map((each) => ({ name: each.name, type: each.type, stored: each.stored })),
    month_of,
  };
}

function described({ columns }: ChosenTable, target: PartTarget): ManifestTable['columns'] {
  return target.columns.map(({ name, type, stored }: ExportColumn, at) => ({
    name,
    type,
    stored,
    description: columns[at]?.description ?? null,
  }));
}

function queryOf({ table, target }: TableExport): ViewQuery {
  return { view: table.name, columns: target.columns, orderBy: target.layout.orderBy };
}

function writeAll(asked: TableExport): Promise<Slice[]> {
  return writeWithin(asked, {}, { from: null, hasEmptyFile: true });
}

/** The slices that have changed are written anew, the others stay as they are. */
async function refreshed(asked: TableExport, slices: readonly Slice[]): Promise<Slice[]> {
  const { snapshot, target, signal } = asked;
  const { changed, newMonths } = await changedSlices(snapshot, queryOf(asked), target.layout, slices, signal);
  if (changed.size === 0 && newMonths.size === 0) return [...slices];
  // The file that only told the columns of a table without rows goes.
  const kept = slices.filter(({ rows }, at) => rows > 0 && !changed.has(at));
  if (kept.length === 0) return writeAll(asked);
  const { layout } = target;
  const written =
    layout.month === null
      ? await writeKeys(asked, slices, changed)
      : await writeMonths(asked, [...newMonths, ...[...changed].map((at) => slices[at]?.month ?? NO_MONTH)]);
  const all = [...kept, ...written].toSorted(inOrder);
  // All rows of what had rows are gone.
  return all.length === 0 ? writeAll(asked) : all;
}

function inOrder(a: Slice, b: Slice): number {
  const [one, other] = [a, b].map(({ month, from }) => Buffer.from(month ?? from ?? ''));
  return one === undefined || other === undefined ? 0 : Buffer.compare(one, other);
}

/** Stretches of slices next to each other, each from its first key on to the one where the next slice begins. */
async function writeKeys(asked: TableExport, slices: readonly Slice[], changed: ReadonlySet<number>): Promise<Slice[]> {
  const { key } = asked.target.layout;
  const written: Slice[] = [];
  for (let at = 0; at < slices.length; at += 1) {
    if (!changed.has(at)) continue;
    const from = slices[at]?.from ?? null;
    while (changed.has(at + 1)) at += 1;
    const below = slices[at + 1]?.from ?? null;
    const within = key === null ? {} : { within: { column: key, from, below } };
    written.push(...(await writeWithin(asked, within, { from, hasEmptyFile: false })));
  }
  return written;
}

/** Reads from the first of these months to the last one, and writes them alone. */
async function writeMonths(asked: TableExport, months: readonly string[]): Promise<Slice[]> {
  const { month: column } = asked.target.layout;
  if (column === null) return [];
  const ordered = months.toSorted();
  const [first = NO_MONTH, last = NO_MONTH] = [ordered[0], ordered.at(-1)];
  const isBounded = ordered.every((month) => /^\d{4}-\d\d$/.test(month));
  const bounds = isBounded ? { within: { column, from: `${first}-01`, below: nextMonth(last) } } : {};
  return writeWithin(asked, bounds, { from: null, hasEmptyFile: false, months: new Set(months) });
}

interface Written {
  from: string | null;
  hasEmptyFile: boolean;
  /** Only rows of these. */
  months?: ReadonlySet<string>;
}

async function writeWithin(
  asked: TableExport,
  bounds: Pick<ViewQuery, 'within'>,
  { from, hasEmptyFile, months }: Written,
): Promise<Slice[]> {
  const { snapshot, target, signal } = asked;
  const at = target.columns.findIndex(({ name }) => name === target.layout.month?.name);
  const writer = sliceWriter(target, from, hasEmptyFile);
  try {
    for await (const rows of snapshot.rows({ ...queryOf(asked), ...bounds })) {
      signal.throwIfAborted();
      await writer.write(months === undefined ? rows : rows.filter((row) => months.has(monthOf(row[at] ?? null))));
    }
    return await writer.end();
  } catch (error) {
    await writer.abort();
    throw error;
  }
}

/**
 * Which slices of an earlier export hold other rows by now, by index, and which months have come since. Every row is
 * read: what was written anew from stored bodies has its old `_synced_at`, and what is gone has none.
 */
async function changedSlices(
  snapshot: SnapshotReader,
  query: ViewQuery,
  layout: Layout,
  slices: readonly Slice[],
  signal: AbortSignal,
): Promise<{ changed: ReadonlySet<number>; newMonths: ReadonlySet<string> }> {
  const digests = slices.map(() => rowDigest());
  const newMonths = new Set<string>();
  const placeOf = layout.month === null ? byKey(query, layout, slices) : byMonth(query, layout, slices);
  for await (const rows of snapshot.rows({ ...query, orderBy: [] })) {
    signal.throwIfAborted();
    for (const row of rows) {
      const place = placeOf(row);
      if (typeof place === 'string') newMonths.add(place);
      else digests[place]?.add(row);
    }
  }
  const changed = slices.flatMap(({ rows, digest }, at) => (isSame(digests[at], rows, digest) ? [] : [at]));
  return { changed: new Set(changed), newMonths };
}

function isSame(now: RowDigest | undefined, rows: number, digest: string): boolean {
  return now?.rows() === rows && now.text() === digest;
}

type PlaceOf = (row: readonly ViewCell[]) => number | string;

/** The slice's index, or the month itself if there is none of it. */
function byMonth({ columns }: ViewQuery, { month }: Layout, slices: readonly Slice[]): PlaceOf {
  const column = columns.findIndex(({ name }) => name === month?.name);
  const indexes = new Map(slices.map((slice, at) => [slice.month, at]));
  return (row) => {
    const own = monthOf(row[column] ?? null);
    return indexes.get(own) ?? own;
  };
}

/** The last slice that begins with the key or one before it. */
function byKey({ columns }: ViewQuery, { key }: Layout, slices: readonly Slice[]): PlaceOf {
  const column = columns.findIndex(({ name }) => name === key?.name);
  const bounds = slices.slice(1).map(({ from }) => Buffer.from(from ?? ''));
  return (row) => {
    if (bounds.length === 0) return 0;
    const own = Buffer.from(String(row[column] ?? ''));
    let [low, high] = [0, bounds.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const bound = bounds[middle];
      if (bound !== undefined && Buffer.compare(bound, own) <= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}

type Row = readonly ViewCell[];

interface OpenSlice {
  month: string | null;
  from: string | null;
  digest: RowDigest;
  files: PartFile[];
}

/**
 * Writes rows that come in the order of the layout, and makes slices of them. `from`: the key with which the first slice begins.
 * An empty file tells the columns of a table without rows.
 */
function sliceWriter(target: PartTarget, from: string | null, hasEmptyFile: boolean) {
  const { layout, columns } = target;
  const indexOf = (name: string | undefined): number => columns.findIndex((column) => column.name === name);
  const [keyAt, monthAt] = [indexOf(layout.key?.name), indexOf(layout.month?.name)];
  const slices: Slice[] = [];
  let slice: OpenSlice | null = null;
  let part: OpenPart | null = null;

  const closePart = async (): Promise<void> => {
    const closed = await part?.close();
    part = null;
    if (closed !== undefined) slice?.files.push(closed);
  };
  const begin = async (next: Pick<OpenSlice, 'month' | 'from'>): Promise<OpenSlice> => {
    await closePart();
    if (slice !== null) slices.push(asSlice(slice));
    return (slice = { ...next, digest: rowDigest(), files: [] });
  };
  /** The slice of the next rows, of which `row` is the first one. */
  const sliceOf = async (month: string | null, row: Row): Promise<OpenSlice> => {
    if (slice === null) return begin({ month, from });
    if (slice.month !== month) return begin({ month, from: null });
    if (part?.isFull() !== true) return slice;
    const key = layout.key === null ? null : String(row[keyAt]);
    // What belongs to one key stays in one slice.
    if (key !== null && key !== part.lastKey()) return begin({ month, from: key });
    await closePart();
    return slice;
  };
  return {
    write: async (rows: readonly Row[]): Promise<void> => {
      const months = layout.month === null ? () => null : (row: Row) => monthOf(row[monthAt] ?? null);
      for (const { month, run } of runsOf(rows, months)) {
        const { digest } = await sliceOf(month, run[0] ?? []);
        for (const row of run) digest.add(row);
        part ??= await openPart(target, month);
        await part.add(run);
      }
    },
    /** Returns all slices that were written. */
    end: async (): Promise<Slice[]> => {
      if (slice === null && hasEmptyFile) {
        slice = await begin({ month: null, from });
        part = await openPart(target, null);
      }
      await closePart();
      return slice === null ? slices : [...slices, asSlice(slice)];
    },
    /** Leaves nothing of the file in hand. Never throws. */
    abort: async (): Promise<void> => part?.abort(),
  };
}

/** So many rows at most are taken together: a file may get so many more than it should. */
const RUN_ROWS = 250;

/** Stretches of rows of one month. */
function* runsOf(
  rows: readonly Row[],
  months: (row: Row) => string | null,
): Generator<{ month: string | null; run: Row[] }> {
  let [run, month]: [Row[], string | null] = [[], null];
  for (const row of rows) {
    const own = months(row);
    if (run.length > 0 && (own !== month || run.length === RUN_ROWS)) {
      yield { month, run };
      run = [];
    }
    month = own;
    run.push(row);
  }
  if (run.length > 0) yield { month, run };
}

function asSlice({ month, from, digest, files }: OpenSlice): Slice {
  return { month, from, rows: digest.rows(), digest: digest.text(), files };
}

type RowDigest = ReturnType<typeof rowDigest>;

const LANES = 8;
const LANE_BYTES = 4;

/** Adds up the hashes of rows, so that neither their order counts nor two equal ones cancel each other out. */
function rowDigest() {
  const sums = new Uint32Array(LANES);
  let rows = 0;
  return {
    add: (row: readonly ViewCell[]): void => {
      const digest = hash('sha256', row.map(cellText).join(''), 'buffer');
      for (let lane = 0; lane < LANES; lane += 1) {
        sums[lane] = (sums[lane] ?? 0) + digest.readUInt32LE(lane * LANE_BYTES);
      }
      rows += 1;
    },
    rows: (): number => rows,
    text: (): string => [...sums].map((sum) => sum.toString(16).padStart(2 * LANE_BYTES, '0')).join(''),
  };
}

/** Tells NULL from an empty text, and where a cell ends. */
function cellText(cell: ViewCell): string {
  if (cell === null) return 'n';
  const text = String(cell);
  return `${text.length}:${text}`;
}
