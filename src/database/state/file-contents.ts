// Contents of files, by hash: which files use them, and which are no longer used.
import { type CompiledQuery, type Expression, type ExpressionBuilder, type Kysely, sql, type SqlBool } from 'kysely';
import type { FileObjectRow, FileRow, OwnTables, TimestampText } from '../own-tables.ts';
import { inParts, upsertRows } from './in-parts.ts';

/** One content of a store, and the number of files with it. */
export interface Reference {
  sha256: string;
  bytes: number;
  /** All rows that name it, and those of current files. */
  files: number;
  shown: number;
}

/** Selects files of a store. */
export interface FileSelection {
  store: string;
  /** Null for those of all. */
  resources: readonly string[] | null;
  /** Leaves out former contents of these resources that ended before a time. */
  leaving?: { resources: readonly string[]; before: TimestampText };
}

/** Contents that files name, in the order of their hashes after `after`. */
export async function referencesAfter(
  own: Kysely<OwnTables>,
  { store, resources, leaving }: FileSelection,
  after: string,
  limit: number,
): Promise<Reference[]> {
  let named = own.selectFrom('_sync_files').where('store', '=', store).where('sha256', '>', after);
  if (resources !== null) named = named.where('resource', 'in', resources);
  if (leaving !== undefined && leaving.resources.length > 0) {
    named = named.where((where) =>
      where.or([
        where('valid_to', 'is', null),
        where('valid_to', '>=', leaving.before),
        where('resource', 'not in', leaving.resources),
      ]),
    );
  }
  const rows = await named
    .select(({ fn }) => [
      'sha256',
      sql<number | string | null>`max("bytes")`.as('bytes'),
      fn.countAll().as('files'),
      sql<number | string>`sum(CASE WHEN "valid_to" IS NULL THEN 1 ELSE 0 END)`.as('shown'),
    ])
    .groupBy('sha256')
    .orderBy('sha256')
    .limit(limit)
    .execute();
  return rows.map(({ sha256, bytes, files, shown }) => ({
    sha256: sha256 ?? '',
    bytes: Number(bytes ?? 0),
    files: Number(files),
    shown: Number(shown),
  }));
}

/** Those of these contents of a store that rows of the table name. */
export async function contentsAmong(
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

/** A file that has, or had, a content. */
export type ContentUse = Pick<FileRow, 'resource' | 'record_id' | 'field' | 'position' | 'version' | 'valid_to'>;

/** Files that name a content, current ones first. */
export function filesShowing(
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

/** Contents by store, resource and field. */
interface ContentCount {
  store: string;
  resource: string;
  field: string;
  /** Records with a current content. */
  records: number;
  /** Distinct contents, current or former. */
  objects: number;
  bytes: number;
  /** Rows of former contents. */
  earlier: number;
}

export async function countContents(own: Kysely<OwnTables>): Promise<ContentCount[]> {
  const distinct = own
    .selectFrom('_sync_files')
    .select(({ fn }) => ['store', 'resource', 'field', 'sha256', fn.max('bytes').as('bytes')])
    .select(sql<number>`sum(CASE WHEN "valid_to" IS NULL THEN 0 ELSE 1 END)`.as('earlier'))
    .where('sha256', 'is not', null)
    .groupBy(['store', 'resource', 'field', 'sha256'])
    .as('contents');
  const contents = await own
    .selectFrom(distinct)
    .select(({ fn }) => ['store', 'resource', 'field', fn.countAll().as('objects'), fn.sum('bytes').as('bytes')])
    .select(({ fn }) => fn.sum('earlier').as('earlier'))
    .groupBy(['store', 'resource', 'field'])
    .orderBy('resource')
    .orderBy('field')
    .orderBy('store')
    .execute();
  const records = await own
    .selectFrom('_sync_files')
    .select(['store', 'resource', 'field', sql<number | string>`count(DISTINCT "record_id")`.as('n')])
    .where('valid_to', 'is', null)
    .where('sha256', 'is not', null)
    .groupBy(['store', 'resource', 'field'])
    .execute();
  return contents.map(({ store, resource, field, objects, bytes, earlier }) => {
    const current = records.find((row) => row.store === store && row.resource === resource && row.field === field);
    return {
      store: store ?? '',
      resource,
      field,
      records: Number(current?.n ?? 0),
      objects: Number(objects),
      bytes: Number(bytes ?? 0),
      earlier: Number(earlier ?? 0),
    };
  });
}

/** Names of the stores of files and contents. */
export async function knownStores(own: Kysely<OwnTables>): Promise<string[]> {
  const named = own.selectFrom('_sync_files').select('store').distinct().where('store', 'is not', null);
  const objects = own.selectFrom('_sync_file_objects').select('store').distinct();
  const rows = [...(await named.execute()), ...(await objects.execute())];
  return [...new Set(rows.map(({ store }) => store ?? ''))].toSorted();
}

/** Has current files with missing or damaged contents fetched again, without a conditional request. */
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

/** Notes that contents are intact; `checked_at` is null if only their size was compared. */
export function foundObjects(
  own: Kysely<OwnTables>,
  store: string,
  hashes: readonly string[],
  checked_at: TimestampText | null,
): CompiledQuery[] {
  const found = own.updateTable('_sync_file_objects').where('store', '=', store);
  const intact = found.set(checked_at === null ? { missing: 0 } : { missing: 0, checked_at });
  return inParts(hashes).map((part) => intact.where('sha256', 'in', part).compile());
}

/** Those of these contents that a store has according to the warehouse, by hash. */
export async function storedObjects(
  own: Kysely<OwnTables>,
  store: string,
  hashes: readonly string[],
): Promise<Map<string, FileObjectRow>> {
  const found = new Map<string, FileObjectRow>();
  const rows = own.selectFrom('_sync_file_objects').selectAll().where('store', '=', store).where('missing', '=', 0);
  for (const part of inParts(hashes)) {
    for (const row of await rows.where('sha256', 'in', part).execute()) found.set(row.sha256, row);
  }
  return found;
}

export function saveObjects(own: Kysely<OwnTables>, rows: readonly FileObjectRow[]): CompiledQuery[] {
  // No statement may write a row twice.
  const distinct = [...new Map(rows.map((row) => [`${row.store} ${row.sha256}`, row])).values()];
  return upsertRows(own, '_sync_file_objects', distinct, ['store', 'sha256'], ['missing']);
}

/** The number of former contents of a resource, and of those that ended before a time. */
export async function countEarlier(
  own: Kysely<OwnTables>,
  resource: string,
  before: TimestampText,
): Promise<{ all: number; old: number }> {
  const earlier = own.selectFrom('_sync_files').where('resource', '=', resource).where('valid_to', 'is not', null);
  const count = earlier.select(({ fn }) => fn.countAll().as('n'));
  const { n: all } = await count.executeTakeFirstOrThrow();
  const { n: old } = await count.where('valid_to', '<', before).executeTakeFirstOrThrow();
  return { all: Number(all), old: Number(old) };
}

export function deleteEarlier(own: Kysely<OwnTables>, resource: string, before: TimestampText): CompiledQuery {
  return own.deleteFrom('_sync_files').where('resource', '=', resource).where('valid_to', '<', before).compile();
}

/** Contents that no file names. */
export function unnamedObjects(own: Kysely<OwnTables>): Promise<{ store: string; sha256: string }[]> {
  return own.selectFrom('_sync_file_objects').select(['store', 'sha256']).where(isUnnamed).execute();
}

/** Deletes contents of a store that no file names. */
export function forgetObjects(own: Kysely<OwnTables>, store: string, hashes: readonly string[]): CompiledQuery[] {
  const unnamed = own.deleteFrom('_sync_file_objects').where('store', '=', store).where(isUnnamed);
  return inParts(hashes).map((part) => unnamed.where('sha256', 'in', part).compile());
}

/** Deletes old contents that no file names, whether they are still in their store or not. */
export function forgetUnnamed(own: Kysely<OwnTables>, store: string, before: TimestampText): CompiledQuery[] {
  const old = own.deleteFrom('_sync_file_objects').where('store', '=', store).where('stored_at', '<', before);
  return [old.where(isUnnamed).compile()];
}

function isUnnamed(where: ExpressionBuilder<OwnTables, '_sync_file_objects'>): Expression<SqlBool> {
  const naming = where
    .selectFrom('_sync_files')
    .select('_sync_files.resource')
    .whereRef('_sync_files.store', '=', '_sync_file_objects.store')
    .whereRef('_sync_files.sha256', '=', '_sync_file_objects.sha256');
  return where.not(where.exists(naming));
}
