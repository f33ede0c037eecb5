// The state of report windows, and the rows of a range of days.
import { type CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely';
import type { Cell, Column, TableShape } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { OwnTables, TimestampText, WindowRow } from '../own-tables.ts';
import type { TableAccess } from '../reading.ts';
import { inParts, upsertRows } from './in-parts.ts';

/** The stored windows of a resource, the oldest first. */
export function readWindows(own: Kysely<OwnTables>, resource: string): Promise<WindowRow[]> {
  return own.selectFrom('_sync_windows').selectAll().where('resource', '=', resource).orderBy('window_start').execute();
}

/** Stores windows; belongs to the transaction of their rows. */
export function saveWindows(own: Kysely<OwnTables>, rows: readonly WindowRow[]): CompiledQuery[] {
  return upsertRows(own, '_sync_windows', rows, ['resource', 'window_start']);
}

/** A window whose new response waits for an operator (is held), who may have accepted it (`released_at`). */
type HeldWindow = Pick<WindowRow, 'resource' | 'window_start' | 'held' | 'released_at'> & { held_at: TimestampText };

/** The windows with a held response, the oldest first. */
export async function readHeldWindows(own: Kysely<OwnTables>, resource: string): Promise<HeldWindow[]> {
  const rows = await readWindows(own, resource);
  return rows.flatMap(({ window_start, held, held_at, released_at }) =>
    held_at === null ? [] : [{ resource, window_start, held, held_at, released_at }],
  );
}

/** Notes that an operator accepts the next response of these windows, whatever it removes. */
export function releaseWindows(
  own: Kysely<OwnTables>,
  resource: string,
  starts: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  return changeHeld(own, resource, starts, { released_at: at });
}

/** Removes the hold; the next run requests the windows, and holds them again if necessary. */
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
  /** Those that will not change any more. */
  final: number;
  /** Those with a response that waits for an operator. */
  held: number;
  /** Those of which the service may not have listed all rows. */
  capped: number;
  /** Those with sums that differ from the service's. */
  differing: number;
  /** Those whose rows were removed by age. */
  dropped: number;
  /** First day of the oldest stored one, `YYYY-MM-DD`; null if there is none. */
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

/** A live row with the cell of its day. */
interface DatedRow {
  key: string;
  hash: string;
  syncedAt: TimestampText;
  cell: Cell;
}

/** Days, and the times (epoch milliseconds) between which they are in any zone. */
interface DaySpan {
  /** `YYYY-MM-DD` */
  from: string;
  /** The first day after them. */
  to: string;
  begin: number;
  end: number;
}

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;
/** Units of Unix times in seconds, milliseconds and microseconds. */
const UNITS_PER_MS = [0.001, 1, 1_000];

/**
 * Rows with these days in the column, and a few more: the caller reads texts and applies the zone. An index on the
 * column is used if there is one.
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
    FROM ${named(table.name)} WHERE ${live}(${isWithin(cell, column.type, days)})`.execute(own);
  return rows;
}

function isWithin(
  cell: RawBuilder<unknown>,
  type: Column['type'],
  { from, to, begin, end }: DaySpan,
): RawBuilder<unknown> {
  const between = (low: string | number, high: string | number): RawBuilder<unknown> =>
    sql`(${cell} >= ${low} AND ${cell} < ${high})`;
  if (type === 'date') return between(from, to);
  if (type === 'timestamp') {
    // `Z` is for a database with zones; the extra second for one that compares texts.
    const [low, high] = [begin - SECOND_MS, end + SECOND_MS].map((at) => `${timestampText(at).slice(0, 19)}Z`);
    return between(low ?? '', high ?? '');
  }
  const [before = '', after = ''] = [begin - DAY_MS, end + DAY_MS].map((at) => timestampText(at).slice(0, 10));
  if (type === 'text') return sql`${between(before, after)} OR ${between(compactDay(before), compactDay(after))}`;
  const units = UNITS_PER_MS.map((each) => between(begin * each, end * each));
  return sql`${between(Number(compactDay(from)), Number(compactDay(to)))} OR ${sql.join(units, sql` OR `)}`;
}

function compactDay(day: string): string {
  return day.replaceAll('-', '');
}
