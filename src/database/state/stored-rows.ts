import { sql, type CompiledQuery, type Kysely, type RawBuilder } from 'kysely';
import type { TableRows, TableShape } from '../../model/table.ts';
import type { HistoryPolicy } from '../../model/vocabulary.ts';
import type { OwnTables, TimestampText } from '../own-tables.ts';
import type { LeaseProof, StoredRow, Warehouse } from '../warehouse.ts';
import { inParts } from './in-parts.ts';
import type { TableAccess } from '../reading.ts';

type Reading = TableAccess;

/** Live rows to be marked as deleted. */
interface GoneRows {
  resource: string;
  history: HistoryPolicy;
  /** The resource's own table, and all its child tables. */
  table: TableShape;
  children: readonly TableShape[];
  /** Keys of rows that are live, and that nobody else can write before the transaction. */
  keys: readonly string[];
  /** When the service was asked: becomes `_synced_at`. */
  at: TimestampText;
  /** The service's own time of the delete, which becomes `_deleted_at`; `at` does if it is null. */
  deletedAt: TimestampText | null;
}

/** Keys per statement, below every database's limit of bound values. */
const KEYS_PER_STATEMENT = 500;

/**
 * The statements that mark rows as deleted and take their child rows away, with a version that says so; what the records
 * held stays in the versions before.
 */
export function goneStatements({ own, rows: { named } }: Reading, gone: GoneRows): CompiledQuery[] {
  return inParts(gone.keys, KEYS_PER_STATEMENT).flatMap((part) => {
    return statementsFor(named, gone, sql.join(part)).map((statement) => statement.compile(own));
  });
}

function statementsFor(
  named: TableAccess['rows']['named'],
  { resource, history, table, children, at, deletedAt }: GoneRows,
  keys: RawBuilder<unknown>,
): RawBuilder<unknown>[] {
  const key = sql.id(table.key[0] ?? '');
  const [place, versions] = [named(table.name), named('_sync_versions')];
  const marked = sql`FROM ${place} AS t WHERE t.${key} IN (${keys})`;
  const name = sql`CAST(${resource} AS text)`;
  const ofThem = sql`"resource" = ${resource} AND "id" IN (${keys})`;
  // A version that says so: one of its own if all are kept, else the latest one becomes it. It has no body.
  const remembered: Readonly<Record<HistoryPolicy, RawBuilder<unknown>[]>> = {
    none: [],
    latest: [
      sql`UPDATE ${versions} SET "version" = (SELECT t."_version" FROM ${place} AS t WHERE t.${key} = ${versions}."id"),
        "valid_from" = ${at}, "op" = 'delete', "body" = NULL, "source_text" = NULL WHERE ${ofThem}`,
    ],
    all: [
      sql`UPDATE ${versions} SET "valid_to" = ${at} WHERE ${ofThem} AND "valid_to" IS NULL`,
      sql`INSERT INTO ${versions} ("resource", "id", "version", "valid_from", "op", "hash")
        SELECT ${name}, t.${key}, t."_version", t."_synced_at", 'delete', t."_hash" ${marked}`,
    ],
  };
  return [
    sql`UPDATE ${place} SET "_deleted_at" = ${deletedAt ?? at}, "_synced_at" = ${at}, "_version" = "_version" + 1
      WHERE ${key} IN (${keys}) AND "_deleted_at" IS NULL`,
    ...children.map((child) => sql`DELETE FROM ${named(child.name)} WHERE ${sql.id(child.key[0] ?? '')} IN (${keys})`),
    ...remembered[history],
    sql`INSERT INTO ${named('_sync_deletes')} ("resource", "id", "version", "deleted_at")
      SELECT ${name}, t.${key}, t."_version", t."_deleted_at" ${marked}`,
  ];
}

/** Rows of a resource that leave the copy for good. */
interface DroppedRows {
  resource: string;
  table: TableShape;
  children: readonly TableShape[];
  /** At most as many as a statement may bind. */
  keys: readonly string[];
}

/** The statements that take rows out with all that is kept of them: child rows, versions, and what is known of their deletes. */
export function dropStatements(
  { own, rows: { named } }: TableAccess,
  dropped: DroppedRows,
): CompiledQuery[] {
  const { resource, table, children, keys } = dropped;
  if (keys.length === 0) return [];
  const list = sql.join(keys);
  const known = [
    { table: '_sync_versions', column: 'id' },
    { table: '_sync_deletes', column: 'id' },
    { table: '_sync_suspects', column: 'record_id' },
    { table: '_sync_files', column: 'record_id' },
  ];
  return [
    ...children.map((child) => sql`DELETE FROM ${named(child.name)} WHERE ${sql.id(child.key[0] ?? '')} IN (${list})`),
    ...known.map(
      (each) =>
        sql`DELETE FROM ${named(each.table)} WHERE "resource" = ${resource} AND ${sql.id(each.column)} IN (${list})`,
    ),
    sql`DELETE FROM ${named(table.name)} WHERE ${sql.id(table.key[0] ?? '')} IN (${list})`,
  ].map((statement) => statement.compile(own));
}

/** Keys of rows that were deleted before a moment, the oldest first. */
export async function keysDeletedBefore(
  { own, rows: { named } }: Reading,
  { name, key: [first = ''] }: TableShape,
  before: TimestampText,
  limit: number,
): Promise<string[]> {
  const { rows } = await sql<{ key: string }>`SELECT ${sql.id(first)} AS "key" FROM ${named(name)}
    WHERE "_deleted_at" < ${before} ORDER BY "_deleted_at" LIMIT ${limit}`.execute(own);
  return rows.map(({ key }) => key);
}

/** The statements that note of deleted records that they are back; they belong to the transaction of their rows. */
export function restoreDeletes(
  own: Kysely<OwnTables>,
  resource: string,
  keys: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  return inParts(keys, KEYS_PER_STATEMENT).map((part) =>
    own
      .updateTable('_sync_deletes')
      .set({ restored_at: at })
      .where('resource', '=', resource)
      .where('id', 'in', part)
      .where('restored_at', 'is', null)
      .compile(),
  );
}

/** Rows made of bodies that are already stored. */
interface RowRewrite {
  lease: LeaseProof;
  resource: string;
  /** Rows per table, the resource's own table first. */
  rows: readonly TableRows[];
  /** The version whose body the rows were made of, by key: a row of another version stays as it is. */
  versions: ReadonlyMap<string, number>;
  /** All child tables of the resource: what the rewritten records had there goes. */
  children: readonly TableShape[];
  statements: readonly CompiledQuery[];
}

/** Writes rows again that are there already, in one transaction; versions and our own columns stay as they are. */
export async function rewriteRows(warehouse: Warehouse, rewrite: RowRewrite): Promise<void> {
  const { lease, resource, rows, versions, children, statements } = rewrite;
  const [root] = rows;
  const stored = root === undefined ? null : await warehouse.rows.stored(root.table, [...versions.keys()], []);
  const currentRow = (key: string): StoredRow | null => {
    const row = stored?.get(key);
    return row?.deletedAt === null && row.version === versions.get(key) ? row : null;
  };
  const current = rows.map(({ table, width, cells }) => {
    return { table, width, cells: cells.filter((_, at) => currentRow(String(cells[at - (at % width)])) !== null) };
  });
  const keys = (current[0]?.cells ?? []).filter((_, at) => at % (root?.width ?? 1) === 0).map(String);
  const records = keys.flatMap((key) => {
    const row = currentRow(key);
    return row === null ? [] : [{ key, version: row.version, hash: row.hash, syncedAt: row.syncedAt, bytes: NO_BYTES }];
  });
  const page = {
    resource,
    history: 'none',
    isRewrite: true,
    requestedAt: '',
    rows: current,
    children,
    records,
  } as const;
  await warehouse.commit({ rows: page, lease, statements });
}

const NO_BYTES = Buffer.alloc(0);
