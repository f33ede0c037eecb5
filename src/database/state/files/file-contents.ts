import { type CompiledQuery, type Expression, type ExpressionBuilder, type Kysely, sql, type SqlBool } from 'kysely';
import type { FileObjectRow, FileRow, OwnTables, TimestampText } from '../../own-tables.ts';
import { inParts } from '../in-parts.ts';

const PER_STATEMENT = 500;

/** One content of a store, and how many files show it. */
export interface Reference {
  sha256: string;
  bytes: number;
  /** Rows that name it: files that show it now, and those that did. */
  files: number;
  shown: number;
}

/** Which files of a store are looked at. */
export interface Looked {
  store: string;
  /** Null for those of all. */
  resources: readonly string[] | null;
  /** Earlier contents that are as good as gone: those of these resources that ended before then. */
  leaving?: { resources: readonly string[]; before: TimestampText };
}

/** Contents that files name, by their hash and behind `after`. */
export async function referencesAfter(
  own: Kysely<OwnTables>,
  { store, resources, leaving }: Looked,
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

/** Those of these contents of a store that a file names, or that the store is remembered to have. */
export async function contentsAmong(
  own: Kysely<OwnTables>,
  table: '_sync_files' | '_sync_file_objects',
  store: string,
  hashes: readonly string[],
): Promise<Set<string>> {
  const found = new Set<string>();
  for (const part of inParts(hashes, PER_STATEMENT)) {
    const rows = own.selectFrom(table).select('sha256').distinct().where('store', '=', store);
    for (const { sha256 } of await rows.where('sha256', 'in', part).execute()) found.add(sha256 ?? '');
  }
  return found;
}

/** Where a content is, or was, to be seen. */
export type Showing = Pick<FileRow, 'resource' | 'record_id' | 'field' | 'position' | 'version' | 'valid_to'>;

/** Files that name a content, those that show it now first. */
export function filesShowing(own: Kysely<OwnTables>, store: string, sha256: string, limit: number): Promise<Showing[]> {
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

/** Contents by store, resource and field; sizes in bytes. */
interface ContentCount {
  store: string;
  resource: string;
  field: string;
  /** Records that show one now. */
  records: number;
  /** Distinct ones, shown now or before. */
  objects: number;
  bytes: number;
  /** Rows of contents that are shown no more. */
  earlier: number;
}

export async function countContents(own: Kysely<OwnTables>): Promise<ContentCount[]> {
  const isShown = sql`"valid_to" IS NULL`;
  const distinct = own
    .selectFrom('_sync_files')
    .select(({ fn }) => ['store', 'resource', 'field', 'sha256', fn.max('bytes').as('bytes')])
    .select(sql<number>`sum(CASE WHEN ${isShown} THEN 0 ELSE 1 END)`.as('earlier'))
    .where('sha256', 'is not', null)
    .groupBy(['store', 'resource', 'field', 'sha256'])
    .as('contents');
  const counted = own
    .selectFrom(distinct)
    .select(({ fn }) => ['store', 'resource', 'field', fn.countAll().as('objects'), fn.sum('bytes').as('bytes')])
    .select(({ fn }) => fn.sum('earlier').as('earlier'))
    .groupBy(['store', 'resource', 'field'])
    .orderBy('resource')
    .orderBy('field')
    .orderBy('store');
  const records = new Map<string, number>();
  for (const { store, resource, field, n } of await countRecords(own)) records.set(placeOf(store, resource, field), n);
  return (await counted.execute()).map(({ store, resource, field, objects, bytes, earlier }) => ({
    store: store ?? '',
    resource,
    field,
    records: records.get(placeOf(store, resource, field)) ?? 0,
    objects: Number(objects),
    bytes: Number(bytes ?? 0),
    earlier: Number(earlier ?? 0),
  }));
}

function placeOf(store: string | null, resource: string, field: string): string {
  return JSON.stringify([store, resource, field]);
}

async function countRecords(
  own: Kysely<OwnTables>,
): Promise<{ store: string | null; resource: string; field: string; n: number }[]> {
  const rows = await own
    .selectFrom('_sync_files')
    .select(['store', 'resource', 'field', sql<number | string>`count(DISTINCT "record_id")`.as('n')])
    .where('valid_to', 'is', null)
    .where('sha256', 'is not', null)
    .groupBy(['store', 'resource', 'field'])
    .execute();
  return rows.map(({ store, resource, field, n }) => ({ store, resource, field, n: Number(n) }));
}

/** Names of the stores that files or contents are remembered of. */
export async function knownStores(own: Kysely<OwnTables>): Promise<string[]> {
  const named = own.selectFrom('_sync_files').select('store').distinct().where('store', 'is not', null);
  const objects = own.selectFrom('_sync_file_objects').select('store').distinct();
  const rows = [...(await named.execute()), ...(await objects.execute())];
  return [...new Set(rows.map(({ store }) => store ?? ''))].toSorted();
}

/** Has the files that show these contents fetched anew at a moment, without a condition: they are not, or not whole, in their store. */
export function refetchContents(
  own: Kysely<OwnTables>,
  store: string,
  hashes: readonly string[],
  now: TimestampText,
): CompiledQuery[] {
  return inParts(hashes, PER_STATEMENT).flatMap((part) => [
    own
      .updateTable('_sync_file_objects')
      .set({ missing: 1 })
      .where('store', '=', store)
      .where('sha256', 'in', part)
      .compile(),
    own
      .updateTable('_sync_files')
      .set({ status: 'waiting', due_at: now, attempts: 0, etag: null, last_modified: null })
      .where('store', '=', store)
      .where('sha256', 'in', part)
      .where('valid_to', 'is', null)
      .compile(),
  ]);
}

/** Remembers that contents were found whole; `checked_at` null if only their size was looked at. */
export function foundObjects(
  own: Kysely<OwnTables>,
  store: string,
  hashes: readonly string[],
  checked_at: TimestampText | null,
): CompiledQuery[] {
  return inParts(hashes, PER_STATEMENT).map((part) =>
    own
      .updateTable('_sync_file_objects')
      .set(checked_at === null ? { missing: 0 } : { missing: 0, checked_at })
      .where('store', '=', store)
      .where('sha256', 'in', part)
      .compile(),
  );
}

const ROWS_PER_STATEMENT = 100;

/** Those of these contents that a store has, as far as is known, by their hash. */
export async function storedObjects(
  own: Kysely<OwnTables>,
  store: string,
  hashes: readonly string[],
): Promise<Map<string, FileObjectRow>> {
  const found = new Map<string, FileObjectRow>();
  for (const part of inParts(hashes, PER_STATEMENT)) {
    const rows = own.selectFrom('_sync_file_objects').selectAll().where('store', '=', store);
    for (const row of await rows.where('sha256', 'in', part).where('missing', '=', 0).execute()) {
      found.set(row.sha256, row);
    }
  }
  return found;
}

/** Remembers contents that stand in a store. */
export function saveObjects(own: Kysely<OwnTables>, rows: readonly FileObjectRow[]): CompiledQuery[] {
  // One statement may not write the same row twice.
  const distinct = [...new Map(rows.map((row) => [`${row.store} ${row.sha256}`, row])).values()];
  return inParts(distinct, ROWS_PER_STATEMENT).map((part) =>
    own
      .insertInto('_sync_file_objects')
      .values(part)
      .onConflict((conflict) =>
        conflict.columns(['store', 'sha256']).doUpdateSet({ missing: sql<number>`excluded.missing` }),
      )
      .compile(),
  );
}

/** Those of which files are remembered. */
export async function resourcesWithFiles(own: Kysely<OwnTables>): Promise<string[]> {
  const rows = await own.selectFrom('_sync_files').select('resource').distinct().orderBy('resource').execute();
  return rows.map(({ resource }) => resource);
}

/** Rows of earlier contents of a resource that ended before a moment, and all of them. */
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

/** Contents that are remembered, and that no file names. */
export function unnamedObjects(own: Kysely<OwnTables>): Promise<{ store: string; sha256: string }[]> {
  return own.selectFrom('_sync_file_objects').select(['store', 'sha256']).where(isUnnamed).execute();
}

/** Forgets contents of a store that no file names. */
export function forgetObjects(own: Kysely<OwnTables>, store: string, hashes: readonly string[]): CompiledQuery[] {
  return inParts(hashes, PER_STATEMENT).map((part) =>
    own
      .deleteFrom('_sync_file_objects')
      .where('store', '=', store)
      .where('sha256', 'in', part)
      .where(isUnnamed)
      .compile(),
  );
}

/** Forgets contents of before a moment that no file names, whether they are still in their store or not. */
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
