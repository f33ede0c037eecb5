// The stored windows of reports (`_sync_windows`), and the query for their rows.
//
// A report, such as page views per day, is copied by windows: days, weeks or months. A response that would delete too many
// rows of a window is held: the window stays as it is until an operator releases it, or dismisses the response.
import { type CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely';
import type { Cell, Column, TableShape } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { OwnTables, TimestampText, WindowRow } from '../own-tables.ts';
import type { TableAccess } from '../reading.ts';
import { inParts, upsertRows } from './in-parts.ts';

/** Reads the stored windows of a resource, the oldest first. */
export function readWindows(own: Kysely<OwnTables>, resource: string): Promise<WindowRow[]> {
  return own.selectFrom('_sync_windows').selectAll().where('resource', '=', resource).orderBy('window_start').execute();
}

/** Returns the statements that store windows, for the transaction of their rows. */
export function saveWindows(own: Kysely<OwnTables>, rows: readonly WindowRow[]): CompiledQuery[] {
  return upsertRows(own, '_sync_windows', rows, ['resource', 'window_start']);
}

type HeldWindow = Pick<WindowRow, 'resource' | 'window_start' | 'held' | 'released_at'> & { held_at: TimestampText };

/** Reads the windows with a held response, the oldest first. */
export async function readHeldWindows(own: Kysely<OwnTables>, resource: string): Promise<HeldWindow[]> {
  const rows = await readWindows(own, resource);
  return rows.flatMap(({ window_start, held, held_at, released_at }) =>
    held_at === null ? [] : [{ resource, window_start, held, held_at, released_at }],
  );
}

/** Releases windows: their next response is accepted, whatever it deletes. */
export function releaseWindows(
  own: Kysely<OwnTables>,
  resource: string,
  starts: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  return changeHeld(own, resource, starts, { released_at: at });
}

/** Dismisses held responses: the next run requests the windows again, and may hold the response again. */
export function dismissWindows(own: Kysely<OwnTables>, resource: string, starts: readonly string[]): CompiledQuery[] {
  return changeHeld(own, resource, starts, { held_at: null, held: null, released_at: null });
}

function changeHeld(
  own: Kysely<OwnTables>,
  resource: string,
  starts: readonly string[],
  change: Partial<WindowRow>,
): CompiledQuery[] {
  const held = own.updateTable('_sync_windows').set(change).where('resource', '=', resource);
  return inParts(starts).map((part) =>
    held.where('held_at', 'is not', null).where('window_start', 'in', part).compile(),
  );
}

export interface WindowCounts {
  windows: number;
  /** Windows that the service does not change any more. */
  final: number;
  held: number;
  /** Windows of which the service may not have listed all rows. */
  capped: number;
  /** Windows with sums that differ from the service's. */
  differing: number;
  /** Windows whose rows were removed by age. */
  dropped: number;
  /** First day of the oldest window with rows, `YYYY-MM-DD`; null if there is none. */
  oldest: string | null;
}

/** Counts the windows of a resource; null if it has none. */
export async function countWindows(own: Kysely<OwnTables>, resource: string): Promise<WindowCounts | null> {
  const rows = await readWindows(own, resource);
  if (rows.length === 0) return null;
  const stored = rows.filter(({ fetched_at, dropped_at }) => fetched_at !== null && dropped_at === null);
  return {
    windows: stored.length,
    final: stored.filter(({ is_final }) => is_final === 1).length,
    held: rows.filter(({ held_at }) => held_at !== null).length,
    capped: stored.filter(({ capped }) => capped === 1).length,
    differing: stored.filter(({ totals }) => totals !== null).length,
    dropped: rows.filter(({ dropped_at }) => dropped_at !== null).length,
    oldest: stored[0]?.window_start ?? null,
  };
}

/** A row, and its cell in the column that dates it. */
interface DatedRow {
  key: string;
  hash: string;
  syncedAt: TimestampText;
  cell: Cell;
}

/** Some days: `YYYY-MM-DD` from the first one to the day after the last one, and the same in epoch milliseconds. */
interface DaySpan {
  from: string;
  to: string;
  begin: number;
  end: number;
}

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;
/** Of Unix times in seconds, milliseconds and microseconds. */
const UNITS_PER_MS = [0.001, 1, 1_000];

/**
 * Reads the rows of some days by the column that dates them, and a few rows of the days around: SQL can compare cells, but
 * not read every notation of a day, so the caller reads the cells and selects. Uses an index on the column.
 */
export async function readRowsOfDays(
  { own, rows: { named } }: TableAccess,
  table: TableShape,
  column: Column,
  days: DaySpan,
  which: 'live' | 'all' = 'live',
): Promise<DatedRow[]> {
  const live = which === 'live' ? sql`"_deleted_at" IS NULL AND ` : sql``;
  const [key, cell] = [sql.id(table.key[0] ?? ''), sql.id(column.name)];
  const { rows } = await sql<DatedRow>`
    SELECT ${key} AS "key", "_hash" AS "hash", "_synced_at" AS "syncedAt", ${cell} AS "cell"
    FROM ${named(table.name)} WHERE ${live}(${withinDays(cell, column.type, days)})`.execute(own);
  return rows;
}

/** The condition that holds for all cells of these days, in any notation that a column of this type may have. */
function withinDays(
  cell: RawBuilder<unknown>,
  type: Column['type'],
  { from, to, begin, end }: DaySpan,
): RawBuilder<unknown> {
  const between = (low: string | number, high: string | number): RawBuilder<unknown> =>
    sql`(${cell} >= ${low} AND ${cell} < ${high})`;
  if (type === 'date') return between(from, to);
  if (type === 'timestamp') {
    // Postgres compares times, so it needs the zone; SQLite compares texts, which may have fewer digits of a second.
    const [low, high] = [begin - SECOND_MS, end + SECOND_MS].map((at) => `${timestampText(at).slice(0, 19)}Z`);
    return between(low ?? '', high ?? '');
  }
  // A text may be a day (with or without hyphens) or a time with any offset: within a day of these days.
  const [before = '', after = ''] = [begin - DAY_MS, end + DAY_MS].map((at) => timestampText(at).slice(0, 10));
  if (type === 'text') return sql`${between(before, after)} OR ${between(compactDay(before), compactDay(after))}`;
  // A number is a day such as 20260131, or a Unix time.
  const unixTimes = UNITS_PER_MS.map((units) => between(begin * units, end * units));
  return sql`${between(Number(compactDay(from)), Number(compactDay(to)))} OR ${sql.join(unixTimes, sql` OR `)}`;
}

function compactDay(day: string): string {
  return day.replaceAll('-', '');
}
