import type { Database, Statement } from 'better-sqlite3';
import { sql, type Kysely, type RawBuilder } from 'kysely';
import type { Cell, Column, TableShape } from '../../../model/table.ts';
import type { OwnTables } from '../../own-tables.ts';
import type { StoredRow, Warehouse } from '../../warehouse.ts';

type Lookup = Statement<
  (string | null)[],
  [key: string, hash: string, version: number, syncedAt: string, deletedAt: string | null, updated: Cell]
>;

/** Keys per statement: a third cheaper than one by one, and more gain nothing. */
const MANY = 100;

/** Looks rows up by key, through statements that are compiled once per table shape and kept. */
export function storedRows(db: Database, own: Kysely<OwnTables>) {
  const lookups = new WeakMap<TableShape, { updated: string; one: Lookup; many: Lookup }>();
  return (...[table, keys, updated]: Parameters<Warehouse['stored']>): Map<string, StoredRow> => {
    let lookup = lookups.get(table);
    const names = updated.map(({ name }) => name).join('\n');
    if (lookup?.updated !== names) {
      const statement = (count: number): Lookup =>
        db.prepare<[], never>(lookupText(own, table, { updated, count })).raw();
      lookup = { updated: names, one: statement(1), many: statement(MANY) };
      lookups.set(table, lookup);
    }
    return readAll(db, lookup, keys);
  };
}

/** One read transaction around all lookups of a page: entering one costs as much as the lookup itself. */
function readAll(
  db: Database,
  { one, many }: { one: Lookup; many: Lookup },
  keys: readonly string[],
): Map<string, StoredRow> {
  const found = new Map<string, StoredRow>();
  const look = (statement: Lookup, sought: readonly (string | null)[]): void => {
    for (const [key, hash, version, syncedAt, deletedAt, updated] of statement.all(...sought))
      found.set(key, { hash, version, syncedAt, deletedAt, updated });
  };
  const read = db.transaction(() => {
    const whole = keys.length - (keys.length % MANY);
    for (let at = 0; at < whole; at += MANY) look(many, keys.slice(at, at + MANY));
    for (const key of keys.slice(whole)) look(one, [key]);
  });
  read.deferred();
  return found;
}

function lookupText(
  own: Kysely<OwnTables>,
  table: TableShape,
  { updated, count }: { updated: readonly Column[]; count: number },
): string {
  const sought = sql.raw(Array(count).fill('(?)').join(','));
  // Both have names that no table of a source can have.
  return sql`SELECT "_sought"."column1", "_hash", "_version", "_synced_at", "_deleted_at", ${firstCell(updated)}
    FROM (VALUES ${sought}) AS "_sought" CROSS JOIN ${sql.id(table.name)} AS "_there"
    ON ${sql.id('_there', table.key[0] ?? '')} = "_sought"."column1"`.compile(own).sql;
}

function firstCell(columns: readonly Column[]): RawBuilder<unknown> {
  const isMixed = new Set(columns.map(({ type }) => type)).size > 1;
  const cells = columns.map(({ name, type }) => {
    const cell = sql.id('_there', name);
    if (!isMixed) return sql`${cell}`;
    return type === 'timestamp' ? sql`${cell} || 'Z'` : sql`CAST(${cell} AS TEXT)`;
  });
  return cells.length > 1 ? sql`COALESCE(${sql.join(cells)})` : (cells[0] ?? sql`NULL`);
}

/** The oldest row, the newest, and some in between, by the order in which they came. */
export function liveSample(
  db: Database,
  own: Kysely<OwnTables>,
  table: TableShape,
  resource: string,
  limit: number,
): string[] {
  const name = sql.id(table.name);
  const range =
    sql`SELECT (SELECT min(rowid) FROM ${name}) AS "first", (SELECT max(rowid) FROM ${name}) AS "last"`.compile(
      own,
    ).sql;
  const { first, last } = db.prepare<[], Record<'first' | 'last', number | null>>(range).get() ?? NO_ROWS;
  if (first === null || last === null) return [];
  const next = db.prepare<[number, string], string>(sampleText(own, table)).pluck();
  const step = (last - first) / Math.max(1, limit - 1);
  const places = Array.from({ length: limit }, (_, at) => Math.floor(first + at * step));
  const keys = places.map((place) => next.get(place, resource) ?? next.get(first, resource));
  return [...new Set(keys.filter((key) => key !== undefined))];
}

const NO_ROWS = { first: null, last: null } as const;

function sampleText(own: Kysely<OwnTables>, table: TableShape): string {
  const key = sql.id(table.key[0] ?? '');
  const suspected = sql`SELECT 1 FROM "_sync_suspects" s WHERE s."resource" = ${''} AND s."record_id" = t.${key}`;
  return sql`SELECT t.${key} FROM ${sql.id(table.name)} t WHERE t.rowid >= ${0} AND t."_deleted_at" IS NULL
    AND NOT EXISTS (${suspected}) ORDER BY t.rowid LIMIT 1`.compile(own).sql;
}
