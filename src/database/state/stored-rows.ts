// Changes stored rows that no page of the service has brought: marks rows as deleted, removes them, rewrites them from their
// stored bodies. Also notes what was found about records and columns: rejected records, and columns that lost their values.
import { type CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely';
import type { TableRows, TableShape, ValueChange } from '../../model/table.ts';
import type { HistoryPolicy } from '../../model/vocabulary.ts';
import type { OwnTables, RejectRow, SchemaChangeRow, TimestampText } from '../own-tables.ts';
import type { TableAccess } from '../reading.ts';
import type { LeaseProof, StoredRow, Warehouse } from '../warehouse.ts';
import { columnKey } from './catalog.ts';
import { inParts, upsertRows } from './in-parts.ts';

/** Live rows to be marked as deleted. */
interface SoftDelete {
  resource: string;
  history: HistoryPolicy;
  /** The main table of the resource, and all its child tables. */
  table: TableShape;
  children: readonly TableShape[];
  /** Keys of live rows that no other process can write before the transaction. */
  keys: readonly string[];
  /** The time of the request, for `_synced_at`. */
  at: TimestampText;
  /** When the service deleted the record, for `_deleted_at`; null to use `at`. */
  deletedAt: TimestampText | null;
}

/**
 * Returns the statements that mark rows as deleted, delete their child rows, and add a version that marks the delete;
 * earlier versions keep the content.
 */
export function softDeleteStatements({ own, rows }: TableAccess, deletes: SoftDelete): CompiledQuery[] {
  return inParts(deletes.keys).flatMap((keys) =>
    markRowsDeleted(rows.named, deletes, sql.join(keys)).map((statement) => statement.compile(own)),
  );
}

function markRowsDeleted(
  named: TableAccess['rows']['named'],
  { resource, history, table, children, at, deletedAt }: SoftDelete,
  keys: RawBuilder<unknown>,
): RawBuilder<unknown>[] {
  const key = sql.id(table.key[0] ?? '');
  const [rows, versions] = [named(table.name), named('_sync_versions')];
  const fromMarked = sql`FROM ${rows} AS t WHERE t.${key} IN (${keys})`;
  const resourceText = sql`CAST(${resource} AS text)`;
  const isMarked = sql`"resource" = ${resource} AND "id" IN (${keys})`;
  // The version that marks the delete has no body. With `latest`, only it is kept.
  const versionStatements: Readonly<Record<HistoryPolicy, RawBuilder<unknown>[]>> = {
    none: [],
    latest: [
      sql`UPDATE ${versions} SET "version" = (SELECT t."_version" FROM ${rows} AS t WHERE t.${key} = ${versions}."id"),
        "valid_from" = ${at}, "op" = 'delete', "body" = NULL, "source_text" = NULL WHERE ${isMarked}`,
    ],
    all: [
      sql`UPDATE ${versions} SET "valid_to" = ${at} WHERE ${isMarked} AND "valid_to" IS NULL`,
      sql`INSERT INTO ${versions} ("resource", "id", "version", "valid_from", "op", "hash")
        SELECT ${resourceText}, t.${key}, t."_version", t."_synced_at", 'delete', t."_hash" ${fromMarked}`,
    ],
  };
  return [
    sql`UPDATE ${rows} SET "_deleted_at" = ${deletedAt ?? at}, "_synced_at" = ${at}, "_version" = "_version" + 1
      WHERE ${key} IN (${keys}) AND "_deleted_at" IS NULL`,
    ...children.map((child) => sql`DELETE FROM ${named(child.name)} WHERE ${sql.id(child.key[0] ?? '')} IN (${keys})`),
    ...versionStatements[history],
    sql`INSERT INTO ${named('_sync_deletes')} ("resource", "id", "version", "deleted_at")
      SELECT ${resourceText}, t.${key}, t."_version", t."_deleted_at" ${fromMarked}`,
  ];
}

/** Rows of a resource to be removed, unlike `SoftDelete`, with all that is stored about them. */
interface DroppedRows {
  resource: string;
  table: TableShape;
  children: readonly TableShape[];
  /** At most as many as a statement may bind. */
  keys: readonly string[];
}

/** Returns the statements that remove rows, with child rows, versions, deletes, delete candidates and files. */
export function dropStatements({ own, rows: { named } }: TableAccess, dropped: DroppedRows): CompiledQuery[] {
  const { resource, table, children, keys } = dropped;
  if (keys.length === 0) return [];
  const list = sql.join(keys);
  const idColumns = {
    _sync_versions: 'id',
    _sync_deletes: 'id',
    _sync_suspects: 'record_id',
    _sync_files: 'record_id',
  };
  return [
    ...children.map((child) => sql`DELETE FROM ${named(child.name)} WHERE ${sql.id(child.key[0] ?? '')} IN (${list})`),
    ...Object.entries(idColumns).map(
      ([name, id]) => sql`DELETE FROM ${named(name)} WHERE "resource" = ${resource} AND ${sql.id(id)} IN (${list})`,
    ),
    sql`DELETE FROM ${named(table.name)} WHERE ${sql.id(table.key[0] ?? '')} IN (${list})`,
  ].map((statement) => statement.compile(own));
}

/** Notes that the service lists deleted records again; belongs to the transaction that restores their rows. */
export function restoreDeletes(
  own: Kysely<OwnTables>,
  resource: string,
  keys: readonly string[],
  at: TimestampText,
): CompiledQuery[] {
  const restore = own
    .updateTable('_sync_deletes')
    .set({ restored_at: at })
    .where('resource', '=', resource)
    .where('restored_at', 'is', null);
  return inParts(keys).map((part) => restore.where('id', 'in', part).compile());
}

/** Rows that were made again from stored bodies, for example after a column was widened. */
interface RowRewrite {
  lease: LeaseProof;
  resource: string;
  /** Rows per table, the main table first. */
  rows: readonly TableRows[];
  /** The version of each body, by key: a row of another version is not changed. */
  versions: ReadonlyMap<string, number>;
  /** All child tables of the resource: the child rows of rewritten records are replaced. */
  children: readonly TableShape[];
  statements: readonly CompiledQuery[];
}

/** Rewrites existing rows in one transaction; versions and internal columns do not change. */
export async function rewriteRows(warehouse: Warehouse, rewrite: RowRewrite): Promise<void> {
  const { lease, resource, rows, versions, children, statements } = rewrite;
  const [root] = rows;
  const stored = root === undefined ? null : await warehouse.rows.stored(root.table, [...versions.keys()], []);
  // Null if the row was deleted, or has another version than the body from which it would be rewritten.
  const currentRow = (key: string): StoredRow | null => {
    const row = stored?.get(key);
    return row?.deletedAt === null && row.version === versions.get(key) ? row : null;
  };
  // The first of the `width` cells of a row is the key of its record.
  const current = rows.map(({ table, width, cells }) => {
    return { table, width, cells: cells.filter((_, at) => currentRow(String(cells[at - (at % width)])) !== null) };
  });
  const keys = (current[0]?.cells ?? []).filter((_, at) => at % (root?.width ?? 1) === 0).map(String);
  const records = keys.flatMap((key) => {
    const row = currentRow(key);
    const bytes = Buffer.alloc(0);
    return row === null ? [] : [{ key, version: row.version, hash: row.hash, syncedAt: row.syncedAt, bytes }];
  });
  const rewritten = { history: 'none', isRewrite: true, requestedAt: '' } as const;
  await warehouse.commit({ rows: { ...rewritten, resource, rows: current, children, records }, lease, statements });
}

/** Counts which of the records with these keys have rows in the table, and which have a value in each column. */
export async function countFilled(
  { own, rows: { named } }: TableAccess,
  { name, key: [first = ''] }: TableShape,
  columns: readonly string[],
  keys: readonly string[],
): Promise<{ records: number; filled: Map<string, number> }> {
  const key = sql.id(first);
  const counts = columns.map(
    (column, at) => sql`count(DISTINCT CASE WHEN ${sql.id(column)} IS NOT NULL THEN ${key} END) AS ${sql.id(`n${at}`)}`,
  );
  const { rows } = await sql<Record<string, number>>`
    SELECT ${sql.join([sql`count(DISTINCT ${key}) AS "records"`, ...counts])}
    FROM ${named(name)} WHERE ${key} IN (${sql.join(keys)})`.execute(own);
  const filled = columns.map((column, at) => [column, rows[0]?.[`n${at}`] ?? 0] as const);
  return { records: rows[0]?.['records'] ?? 0, filled: new Map(filled) };
}

/** Reads the last change of each column that lost its values or has them again, by `columnKey`. */
export async function readValueChanges(own: Kysely<OwnTables>, resource: string): Promise<Map<string, ValueChange>> {
  const rows = await own
    .selectFrom('_sync_schema_changes')
    .select(['table_name', 'column_name', 'kind'])
    .where('resource', '=', resource)
    .where('kind', 'is not', null)
    .orderBy('changed_at')
    .execute();
  const known = new Map<string, ValueChange>();
  for (const { table_name, column_name, kind } of rows) {
    if (kind !== null) known.set(columnKey(table_name, column_name), kind);
  }
  return known;
}

export function saveValueChanges(own: Kysely<OwnTables>, rows: readonly SchemaChangeRow[]): CompiledQuery[] {
  return inParts(rows).map((part) => own.insertInto('_sync_schema_changes').values(part).compile());
}

/** A rejected record with its reason and source text. The same text for the same reason is one row. */
type Reject = Omit<RejectRow, 'first_seen' | 'last_seen' | 'resolved_at'>;

export function saveRejects(own: Kysely<OwnTables>, rejects: readonly Reject[], seenAt: string): CompiledQuery[] {
  const times = { first_seen: seenAt, last_seen: seenAt, resolved_at: null };
  // No statement may write a row twice.
  const distinct = new Map(
    rejects.map((reject) => [`${reject.resource} ${reject.hash} ${reject.reason}`, { ...reject, ...times }]),
  );
  const updated = ['last_seen', 'run_id', 'detail', 'resolved_at'] as const;
  return upsertRows(own, '_sync_rejects', [...distinct.values()], ['resource', 'hash', 'reason'], updated);
}

/** Resolves the rejects of records that could be stored after all. */
export function resolveRejects(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
  at: string,
): CompiledQuery[] {
  const resolve = resolveOpenRejects(own, resource, at);
  return inParts(ids).map((part) => resolve.where('record_id', 'in', part).compile());
}

/** Resolves the rejects that a complete full scan, begun at `scanStartedAt`, has not seen again. */
export function resolveUnseenRejects(
  own: Kysely<OwnTables>,
  resource: string,
  scanStartedAt: string,
  at: string,
): CompiledQuery {
  return resolveOpenRejects(own, resource, at).where('last_seen', '<', scanStartedAt).compile();
}

function resolveOpenRejects(own: Kysely<OwnTables>, resource: string, at: string) {
  const rejects = own.updateTable('_sync_rejects').set({ resolved_at: at });
  return rejects.where('resource', '=', resource).where('resolved_at', 'is', null);
}

export async function countOpenRejects(own: Kysely<OwnTables>, resource: string): Promise<number> {
  const { open } = await own
    .selectFrom('_sync_rejects')
    .select((select) => select.fn.countAll<number>().as('open'))
    .where('resource', '=', resource)
    .where('resolved_at', 'is', null)
    .executeTakeFirstOrThrow();
  return open;
}
