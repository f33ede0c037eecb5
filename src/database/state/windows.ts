import { type CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely';
import type { Cell, Column, TableShape } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { OwnTables, TimestampText, WindowRow } from '../own-tables.ts';
import type { TableAccess } from '../reading.ts';
import { inParts, newest } from './in-parts.ts';

/** Rows per statement, below every database's limit of bound values. */
const ROWS_PER_STATEMENT = 100;

/** The windows that are remembered of a resource, the oldest first. */
export function readWindows(own: Kysely<OwnTables>, resource: string): Promise<WindowRow[]> {
  return own.selectFrom('_sync_windows').selectAll().where('resource', '=', resource).orderBy('window_start').execute();
}

/** Remembers windows as they are now; belongs into the transaction of their rows. */
export function saveWindows(own: Kysely<OwnTables>, rows: readonly WindowRow[]): CompiledQuery[] {
  return inParts(rows, ROWS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_windows')
      .values(part)
      .onConflict((conflict) =>
        conflict.columns(['resource', 'window_start']).doUpdateSet(newest(Object.keys(part[0] ?? {}))),
      )
      .compile(),
  );
}

/** For windows that are no longer part of the resource. */
export function forgetWindows(own: Kysely<OwnTables>, resource: string, starts: readonly string[]): CompiledQuery[] {
  const all = own.deleteFrom('_sync_windows').where('resource', '=', resource);
  return inParts(starts, ROWS_PER_STATEMENT).map((part) => all.where('window_start', 'in', part).compile());
}

/** A window of which an answer is held back, or that a person has released. */
type HeldWindow = Pick<WindowRow, 'resource' | 'window_start' | 'held' | 'released_at'> & { held_at: TimestampText };

/** The oldest first. */
export async function readHeldWindows(own: Kysely<OwnTables>, resource: string): Promise<HeldWindow[]> {
  const rows = await own
    .selectFrom('_sync_windows')
    .select(['resource', 'window_start', 'held_at', 'held', 'released_at'])
    .where('resource', '=', resource)
    .where('held_at', 'is not', null)
    .orderBy('window_start')
    .execute();
  return rows.flatMap(({ held_at, ...row }) => (held_at === null ? [] : [{ ...row, held_at }]));
}

/** A person says that the next answer counts, whatever it takes away. */
export function releaseWindows(
  own: Kysely<OwnTables>,
  resource: string,
  starts: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  return changeHeld(own, resource, starts, { released_at: at });
}

/** Held windows are forgotten to be so; the next run asks for them, and holds them again if it must. */
export function dismissWindows(own: Kysely<OwnTables>, resource: string, starts: readonly string[]): CompiledQuery[] {
  return changeHeld(own, resource, starts, { held_at: null, held: null, released_at: null });
}

function changeHeld(
  own: Kysely<OwnTables>,
  resource: string,
  starts: readonly string[],
  change: Partial<Pick<WindowRow, 'held_at' | 'held' | 'released_at'>>,
): CompiledQuery[] {
  return inParts(starts, ROWS_PER_STATEMENT).map((part) =>
    own
      .updateTable('_sync_windows')
      .set(change)
      .where('resource', '=', resource)
      .where('held_at', 'is not', null)
      .where('window_start', 'in', part)
      .compile(),
  );
}

/** The windows of a resource in figures. */
export interface WindowCounts {
  windows: number;
  /** Those that will not change any more. */
  final: number;
  held: number;
  capped: number;
  /** Those with sums that the service tells otherwise. */
  differing: number;
  dropped: number;
  /** First day of the oldest one that is here, `YYYY-MM-DD`; null if there is none. */
  oldest: string | null;
}

/** Null for a resource without windows. */
export async function countWindows(own: Kysely<OwnTables>, resource: string): Promise<WindowCounts | null> {
  const rows = await readWindows(own, resource);
  if (rows.length === 0) return null;
  const here = rows.filter(({ fetched_at, dropped_at }) => fetched_at !== null && dropped_at === null);
  return {
    windows: here.length,
    final: here.filter(({ is_final }) => is_final === 1).length,
    held: rows.filter(({ held_at }) => held_at !== null).length,
    capped: here.filter(({ capped }) => capped === 1).length,
    differing: here.filter(({ totals }) => totals !== null).length,
    dropped: rows.filter(({ dropped_at }) => dropped_at !== null).length,
    oldest: here[0]?.window_start ?? null,
  };
}

/** A live row, by the field that says its day. */
interface DatedRow {
  key: string;
  hash: string;
  syncedAt: TimestampText;
  /** As the column has it. */
  cell: Cell;
}

/** Days, and the moments (epoch milliseconds) between which they lie wherever clocks are put back. */
interface DaySpan {
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

type Reading = TableAccess;

/**
 * Rows with these days in the column, and a few beside them: what a text says, and where a day begins, is for the
 * caller to look at. Found by an index on the column, where there is one.
 */
export async function rowsOfDays(
  { own, rows: { named } }: Reading,
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
