import { sql, type CompiledQuery, type RawBuilder } from 'kysely';
import type { Cell, Column, TableShape } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { HistoryPolicy } from '../model/vocabulary.ts';
import type { TimestampText } from '../warehouse/own-tables.ts';
import type { Warehouse } from '../warehouse/warehouse.ts';
import { inParts } from './in-parts.ts';

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

/** Live rows to be marked as deleted in the transaction of a page. */
export interface GoneRows {
  resource: string;
  history: HistoryPolicy;
  /** The resource's own table, and all its child tables. */
  table: TableShape;
  children: readonly TableShape[];
  /** Keys of rows that are live, and that nobody else can write before the transaction. */
  keys: readonly string[];
  /** When the service was asked. */
  at: TimestampText;
}

/** Keys per statement, filled up to powers of two: few texts are compiled. */
const KEYS_PER_STATEMENT = 512;

/**
 * The statements that mark rows as deleted and take their child rows away, with a version that says so: what
 * `Warehouse.softDelete` does, for the transaction in which others of them are replaced.
 */
export function goneStatements({ own, named }: Reading, gone: GoneRows): CompiledQuery[] {
  return inParts(gone.keys, KEYS_PER_STATEMENT).flatMap((part) => {
    const keys = sql.join(filledUp(part));
    return statementsFor(named, gone, keys).map((statement) => statement.compile(own));
  });
}

function statementsFor(
  named: Reading['named'],
  { resource, history, table, children, at }: GoneRows,
  keys: RawBuilder<unknown>,
): RawBuilder<unknown>[] {
  const key = sql.id(table.key[0] ?? '');
  const place = named(table.name);
  const marked = sql`FROM ${place} AS t WHERE t.${key} IN (${keys})`;
  const name = sql`CAST(${resource} AS text)`;
  return [
    sql`UPDATE ${place} SET "_deleted_at" = ${at}, "_synced_at" = ${at}, "_version" = "_version" + 1
      WHERE ${key} IN (${keys}) AND "_deleted_at" IS NULL`,
    ...children.map((child) => sql`DELETE FROM ${named(child.name)} WHERE ${sql.id(child.key[0] ?? '')} IN (${keys})`),
    ...remembered(named, history, { resource, name, key, keys, at, marked, table: place }),
    sql`INSERT INTO ${named('_sync_deletes')} ("resource", "id", "version", "deleted_at")
      SELECT ${name}, t.${key}, t."_version", t."_deleted_at" ${marked}`,
  ];
}

interface Marked {
  resource: string;
  name: RawBuilder<unknown>;
  key: RawBuilder<unknown>;
  keys: RawBuilder<unknown>;
  at: TimestampText;
  marked: RawBuilder<unknown>;
  table: RawBuilder<unknown>;
}

/** A version that says so: one of its own if all are kept, else the latest one becomes it. It has no body. */
function remembered(
  named: Reading['named'],
  history: HistoryPolicy,
  { resource, name, key, keys, at, marked, table }: Marked,
): RawBuilder<unknown>[] {
  if (history === 'none') return [];
  const versions = named('_sync_versions');
  if (history === 'latest') {
    return [
      sql`UPDATE ${versions} SET "version" = (SELECT t."_version" FROM ${table} AS t WHERE t.${key} = ${versions}."id"),
        "valid_from" = ${at}, "op" = 'delete', "body" = NULL, "source_text" = NULL
        WHERE "resource" = ${resource} AND "id" IN (${keys})`,
    ];
  }
  return [
    sql`UPDATE ${versions} SET "valid_to" = ${at}
      WHERE "resource" = ${resource} AND "id" IN (${keys}) AND "valid_to" IS NULL`,
    sql`INSERT INTO ${versions} ("resource", "id", "version", "valid_from", "op", "hash")
      SELECT ${name}, t.${key}, t."_version", t."_synced_at", 'delete', t."_hash" ${marked}`,
  ];
}

function filledUp(keys: readonly string[]): string[] {
  const length = 2 ** Math.ceil(Math.log2(Math.max(1, keys.length)));
  return Array.from({ length }, (_, at) => keys[Math.min(at, keys.length - 1)] ?? '');
}
