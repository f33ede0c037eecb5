// Contents of files, by their SHA-256. Two records may have the same picture: then two rows of `_sync_files` (the files)
// name one content, which is stored once, as a row of `_sync_file_objects` (the objects of a store).
import { type CompiledQuery, type Expression, type ExpressionBuilder, type Kysely, sql, type SqlBool } from 'kysely';
import type { FileObjectRow, FileRow, OwnTables, TimestampText } from '../own-tables.ts';
import { inParts, upsertRows } from './in-parts.ts';

/** A content of a store, and the number of files that name it. */
export interface ReferencedContent {
  sha256: string;
  bytes: number;
  /** Files that have or had this content. */
  files: number;
  /** Files that have this content now. */
  current: number;
}

/** Reads contents that files have or had, in the order of their hashes, from the one after `after`. */
export async function readReferencedContents(
  own: Kysely<OwnTables>,
  store: string,
  after: string,
  limit: number,
): Promise<ReferencedContent[]> {
  const named = own.selectFrom('_sync_files').where('store', '=', store).where('sha256', '>', after);
  const rows = await named
    .select(({ fn }) => [
      'sha256',
      sql<number | string | null>`max("bytes")`.as('bytes'),
      fn.countAll().as('files'),
      sql<number | string>`sum(CASE WHEN "valid_to" IS NULL THEN 1 ELSE 0 END)`.as('current'),
    ])
    .groupBy('sha256')
    .orderBy('sha256')
    .limit(limit)
    .execute();
  return rows.map(({ sha256, bytes, files, current }) => ({
    sha256: sha256 ?? '',
    bytes: Number(bytes ?? 0),
    files: Number(files),
    current: Number(current),
  }));
}

/** Returns the hashes that the table has for the store. */
export async function findKnownHashes(
  own: Kysely<OwnTables>,
  table: '_sync_files' | '_sync_file_objects',
  store: string,
  hashes: readonly string[],
): Promise<Set<string>> {
  const found = new Set<string>();
  const rows = own.selectFrom(table).select('sha256').distinct().where('store', '=', store);
  for (const part of inParts(hashes)) {
    for (const { sha256 } of await rows.where('sha256', 'in', part).execute()) found.add(sha256 ?? '');
  }
  return found;
}

/** A file that has or had a content. */
export type ContentUse = Pick<FileRow, 'resource' | 'record_id' | 'field' | 'position' | 'version' | 'valid_to'>;

/** Reads the files that have or had a content, current ones first. */
export function readContentUses(
  own: Kysely<OwnTables>,
  store: string,
  sha256: string,
  limit: number,
): Promise<ContentUse[]> {
  return own
    .selectFrom('_sync_files')
    .select(['resource', 'record_id', 'field', 'position', 'version', 'valid_to'])
    .where('store', '=', store)
    .where('sha256', '=', sha256)
    .orderBy(sql`CASE WHEN "valid_to" IS NULL THEN 0 ELSE 1 END`)
    .orderBy('resource')
    .orderBy('record_id')
    .limit(limit)
    .execute();
}

/** Reads the names of the stores that the files and objects of the warehouse name. */
export async function readStoreNames(own: Kysely<OwnTables>): Promise<string[]> {
  const named = own.selectFrom('_sync_files').select('store').distinct().where('store', 'is not', null);
  const objects = own.selectFrom('_sync_file_objects').select('store').distinct();
  const rows = [...(await named.execute()), ...(await objects.execute())];
  return [...new Set(rows.map(({ store }) => store ?? ''))].toSorted();
}

/** Marks contents as missing, and makes their current files due. They are fetched again without a conditional request. */
export function refetchContents(
  own: Kysely<OwnTables>,
  store: string,
  hashes: readonly string[],
  now: TimestampText,
): CompiledQuery[] {
  const objects = own.updateTable('_sync_file_objects').set({ missing: 1 }).where('store', '=', store);
  const files = own
    .updateTable('_sync_files')
    .set({ status: 'waiting', due_at: now, attempts: 0, etag: null, last_modified: null })
    .where('store', '=', store)
    .where('valid_to', 'is', null);
  return inParts(hashes).flatMap((part) => [
    objects.where('sha256', 'in', part).compile(),
    files.where('sha256', 'in', part).compile(),
  ]);
}

export function markObjectsIntact(
  own: Kysely<OwnTables>,
  store: string,
  hashes: readonly string[],
  checked_at: TimestampText,
): CompiledQuery[] {
  const found = own.updateTable('_sync_file_objects').where('store', '=', store);
  const intact = found.set({ missing: 0, checked_at });
  return inParts(hashes).map((part) => intact.where('sha256', 'in', part).compile());
}

/** Reads the objects with these hashes, in all stores; none that is missing. */
export async function readStoredObjects(own: Kysely<OwnTables>, hashes: readonly string[]): Promise<FileObjectRow[]> {
  const rows = own.selectFrom('_sync_file_objects').selectAll().where('missing', '=', 0);
  const parts = inParts(hashes).map((part) => rows.where('sha256', 'in', part).execute());
  return (await Promise.all(parts)).flat();
}

/** Adds the row of an object, or marks it as present again. */
export function saveObject(own: Kysely<OwnTables>, row: FileObjectRow): CompiledQuery[] {
  return upsertRows(own, '_sync_file_objects', [row], ['store', 'sha256'], ['missing']);
}

/** Counts the rows of contents that were replaced, or whose record was deleted, before a time. */
export async function countReplacedContents(
  own: Kysely<OwnTables>,
  resource: string,
  before: TimestampText,
): Promise<number> {
  const earlier = own.selectFrom('_sync_files').where('resource', '=', resource).where('valid_to', '<', before);
  const { n } = await earlier.select(({ fn }) => fn.countAll().as('n')).executeTakeFirstOrThrow();
  return Number(n);
}

/** Deletes the rows that `countReplacedContents` counts. */
export function deleteReplacedContents(own: Kysely<OwnTables>, resource: string, before: TimestampText): CompiledQuery {
  return own.deleteFrom('_sync_files').where('resource', '=', resource).where('valid_to', '<', before).compile();
}

export function readUnreferencedObjects(own: Kysely<OwnTables>): Promise<{ store: string; sha256: string }[]> {
  return own.selectFrom('_sync_file_objects').select(['store', 'sha256']).where(isUnreferenced).execute();
}

/** Deletes the rows of these objects, except those that a file names. */
export function forgetObjects(own: Kysely<OwnTables>, store: string, hashes: readonly string[]): CompiledQuery[] {
  const unreferenced = own.deleteFrom('_sync_file_objects').where('store', '=', store).where(isUnreferenced);
  return inParts(hashes).map((part) => unreferenced.where('sha256', 'in', part).compile());
}

/** Deletes the rows of old objects that no file names, even if the objects are still in the store. */
export function forgetOldUnreferenced(own: Kysely<OwnTables>, store: string, before: TimestampText): CompiledQuery[] {
  const old = own.deleteFrom('_sync_file_objects').where('store', '=', store).where('stored_at', '<', before);
  return [old.where(isUnreferenced).compile()];
}

function isUnreferenced(where: ExpressionBuilder<OwnTables, '_sync_file_objects'>): Expression<SqlBool> {
  const files = where
    .selectFrom('_sync_files')
    .select('_sync_files.resource')
    .whereRef('_sync_files.store', '=', '_sync_file_objects.store')
    .whereRef('_sync_files.sha256', '=', '_sync_file_objects.sha256');
  return where.not(where.exists(files));
}
