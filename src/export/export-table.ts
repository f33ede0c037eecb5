import { isDeepStrictEqual } from 'node:util';
import type { SnapshotReader, ViewQuery } from '../warehouse/snapshot-reader.ts';
import { changedSlices } from './changed-slices.ts';
import type { ChosenTable } from './choose-tables.ts';
import type { ExportColumn } from './formats/format.ts';
import { monthOf, nextMonth, NO_MONTH } from './layout.ts';
import { listed, slicesOf, type ManifestTable, type Slice } from './manifest.ts';
import type { PartTarget } from './open-part.ts';
import { sliceWriter } from './slice-writer.ts';

export interface TableExport {
  snapshot: SnapshotReader;
  table: ChosenTable;
  target: PartTarget;
  /** What an earlier export wrote in the same way; null if all is to be written. */
  before: ManifestTable | null;
  /** Called between batches of rows; throws to stop. */
  tick: () => void;
}

/** Writes what `before` does not hold already. Returns the table as it is then to be listed. */
export async function exportTable(asked: TableExport): Promise<ManifestTable> {
  const { table, target, before } = asked;
  const shape = shapeOf(table, target);
  const isSame = before !== null && isDeepStrictEqual(shape, shapeIn(before));
  const slices = isSame ? await refreshed(asked, slicesOf(before)) : await writeAll(asked);
  return { ...shape, description: table.description, columns: described(table, target), ...listed(slices) };
}

/** What must be the same for files to stay. */
function shapeOf({ name }: ChosenTable, { columns, layout }: PartTarget) {
  return {
    name,
    columns: columns.map((column) => ({ name: column.name, type: column.type, stored: column.stored })),
    month_of: layout.month?.name ?? null,
  };
}

function shapeIn({ name, columns, month_of }: ManifestTable): ReturnType<typeof shapeOf> {
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
  const { snapshot, target, tick } = asked;
  const { changed, newMonths } = await changedSlices(snapshot, queryOf(asked), target.layout, slices, tick);
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
  const { snapshot, target, tick } = asked;
  const at = target.columns.findIndex(({ name }) => name === target.layout.month?.name);
  const writer = sliceWriter(target, from, hasEmptyFile);
  try {
    for await (const rows of snapshot.rows({ ...queryOf(asked), ...bounds })) {
      tick();
      await writer.write(months === undefined ? rows : rows.filter((row) => months.has(monthOf(row[at] ?? null))));
    }
    return await writer.end();
  } catch (error) {
    await writer.abort();
    throw error;
  }
}
