import { sql, type RawBuilder } from 'kysely';
import type { Cell, Column, TableShape } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { TimestampText } from '../warehouse/own-tables.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';

/** A live row, by the field that says its day. */
export interface DatedRow {
  key: string;
  hash: string;
  syncedAt: TimestampText;
  /** As the column has it. */
  cell: Cell;
}

/** Days, and the moments (epoch milliseconds) between which they lie wherever clocks are put back. */
export interface DaySpan {
  /** `YYYY-MM-DD` */
  from: string;
  /** The first day behind them. */
  to: string;
  begin: number;
  end: number;
}

const SECOND = 1_000;
const DAY = 86_400_000;
/** Of Unix times in seconds, milliseconds and microseconds. */
const UNITS_PER_MS = [0.001, 1, 1_000];

type Reading = Pick<Warehouse, 'own' | 'named'>;

/**
 * Rows with these days in the column, and a few beside them: what a text says, and where a day begins, is for the
 * caller to look at. Found by an index on the column, where there is one.
 */
export async function rowsOfDays(
  { own, named }: Reading,
  table: TableShape,
  column: Column,
  days: DaySpan,
  which: 'live' | 'all' = 'live',
): Promise<DatedRow[]> {
  const live = which === 'live' ? sql`"_deleted_at" IS NULL AND ` : sql``;
  const [key, cell] = [sql.id(table.key[0] ?? ''), sql.id(column.name)];
  const { rows } = await sql<DatedRow>`
    SELECT ${key} AS "key", "_hash" AS "hash", "_synced_at" AS "syncedAt", ${cell} AS "cell"
    FROM ${named(table.name)} WHERE ${live}(${within(cell, column.type, days)})`.execute(own);
  return rows;
}

function within(
  cell: RawBuilder<unknown>,
  type: Column['type'],
  { from, to, begin, end }: DaySpan,
): RawBuilder<unknown> {
  const between = (low: string | number, high: string | number): RawBuilder<unknown> =>
    sql`(${cell} >= ${low} AND ${cell} < ${high})`;
  if (type === 'date') return between(from, to);
  // `Z` is for a database that knows zones; the second before, for one that compares texts.
  if (type === 'timestamp') return between(`${momentText(begin - SECOND)}Z`, `${momentText(end + SECOND)}Z`);
  const [before, behind] = [dayText(begin - DAY), dayText(end + DAY)];
  if (type === 'text') return sql`${between(before, behind)} OR ${between(compact(before), compact(behind))}`;
  const units = UNITS_PER_MS.map((units) => between(begin * units, end * units));
  return sql`${between(Number(compact(from)), Number(compact(to)))} OR ${sql.join(units, sql` OR `)}`;
}

function dayText(at: number): string {
  return timestampText(at).slice(0, 'YYYY-MM-DD'.length);
}

function momentText(at: number): string {
  return timestampText(at).slice(0, 'YYYY-MM-DD HH:MM:SS'.length);
}

function compact(day: string): string {
  return day.replaceAll('-', '');
}
