// Files of records, such as the picture of a post (`_sync_files`): which have to be fetched, which could not be, and
// which content replaces the former one. `file-contents.ts` has the contents that files share.
import { type CompiledQuery, type Expression, type ExpressionBuilder, type Kysely, sql, type SqlBool } from 'kysely';
import type { FilePassageRow, FileRow, FileStatus, OwnTables, TimestampText } from '../own-tables.ts';
import { inParts, upsertRows } from './in-parts.ts';

/** Each row binds about 20 values. */
const FILES_PER_STATEMENT = 40;

/** The name of the lease for writing files. It cannot be the name of a resource, because it contains a colon. */
export const FILES_LEASE = 'files:';

/** Identifies a file within its resource. */
type FileId = Pick<FileRow, 'record_id' | 'field' | 'position'>;
/** Identifies a row: one of the contents that a file has or had. */
type FileKey = FileId & Pick<FileRow, 'resource' | 'version'>;

/** Returns a text that identifies a file within its resource. */
export function fileKeyText({ record_id, field, position }: FileId): string {
  return JSON.stringify([record_id, field, position]);
}

/** Reads the last row of each file of these records, by the record's id. */
export async function readLastFiles(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
): Promise<Map<string, FileRow[]>> {
  const last = new Map<string, FileRow>();
  const rows = own.selectFrom('_sync_files').selectAll().where('resource', '=', resource).orderBy('version');
  for (const part of inParts(ids)) {
    for (const row of await rows.where('record_id', 'in', part).execute()) last.set(fileKeyText(row), row);
  }
  return Map.groupBy(last.values(), ({ record_id }) => record_id);
}

/** Reads files that are due, the longest overdue first, from the one after `after`. */
export function readDueFiles(
  own: Kysely<OwnTables>,
  resource: string,
  now: TimestampText,
  after: FileRow | null,
  limit: number,
): Promise<FileRow[]> {
  let due = own.selectFrom('_sync_files').selectAll().where('resource', '=', resource).where('due_at', '<=', now);
  if (after !== null) {
    const { due_at, record_id, field, position } = after;
    due = due.where((is) =>
      is(is.refTuple('due_at', 'record_id', 'field', 'position'), '>', is.tuple(due_at, record_id, field, position)),
    );
  }
  return due.orderBy('due_at').orderBy('record_id').orderBy('field').orderBy('position').limit(limit).execute();
}

/** Reads when the next file of these resources is due; null if none is. */
export async function readNextDue(own: Kysely<OwnTables>, resources: readonly string[]): Promise<TimestampText | null> {
  if (resources.length === 0) return null;
  const due = own.selectFrom('_sync_files').where('resource', 'in', resources).where('due_at', 'is not', null);
  const { at } = await due.select(({ fn }) => fn.min('due_at').as('at')).executeTakeFirstOrThrow();
  return at;
}

/** Reads ids of records with a current file, in their order, from the one after `after`. */
export async function readRecordsWithFiles(
  own: Kysely<OwnTables>,
  resource: string,
  after: string,
  limit: number,
): Promise<string[]> {
  const files = own.selectFrom('_sync_files').select('record_id').distinct().where('resource', '=', resource);
  const next = files.where('record_id', '>', after).where('valid_to', 'is', null).orderBy('record_id').limit(limit);
  return (await next.execute()).map(({ record_id }) => record_id);
}

export function insertFiles(own: Kysely<OwnTables>, rows: readonly FileRow[]): CompiledQuery[] {
  return inParts(rows, FILES_PER_STATEMENT).map((part) => own.insertInto('_sync_files').values(part).compile());
}

/** Changes one row, unless its record was erased in the meantime. */
export function changeFile(own: Kysely<OwnTables>, key: FileKey, change: Partial<FileRow>): CompiledQuery {
  return own.updateTable('_sync_files').set(change).where(isRow(key)).compile();
}

export function removeFile(own: Kysely<OwnTables>, key: FileKey): CompiledQuery {
  return own.deleteFrom('_sync_files').where(isRow(key)).compile();
}

function isRow({ resource, record_id, field, position, version }: FileKey) {
  return (where: ExpressionBuilder<OwnTables, '_sync_files'>): Expression<SqlBool> =>
    where.and({ resource, record_id, field, position, version });
}

/**
 * Adds a row for the new content of a file. The new row is a copy of the former one with the changes `next`; then the
 * former one gets the changes `former`. Changes nothing if the record was erased in the meantime.
 */
export function replaceFile(
  own: Kysely<OwnTables>,
  row: FileRow,
  former: Partial<FileRow>,
  next: Partial<FileRow>,
): CompiledQuery[] {
  const { version, ...others } = row;
  // The keys of a row are its columns.
  // oxlint-disable-next-line no-unsafe-type-assertion
  const columns = Object.keys(others) as (keyof typeof others)[];
  const nextVersion = sql<number>`"version" + 1`.as('version');
  const copied = own
    .insertInto('_sync_files')
    .columns([...columns, 'version'])
    .expression((eb) =>
      eb
        .selectFrom('_sync_files')
        .select([...columns, nextVersion])
        .where(isRow(row)),
    );
  return [copied.compile(), changeFile(own, row, former), changeFile(own, { ...row, version: version + 1 }, next)];
}

/** Makes the files due that were last fetched before a time. */
export function recheckFiles(
  own: Kysely<OwnTables>,
  resource: string,
  before: TimestampText,
  now: TimestampText,
): CompiledQuery {
  return own
    .updateTable('_sync_files')
    .set({ due_at: now })
    .where('resource', '=', resource)
    .where('valid_to', 'is', null)
    .where('due_at', 'is', null)
    .where('status', 'in', ['stored', 'gone'])
    .where('fetched_at', '<', before)
    .compile();
}

/** Deletes the files of these records. Their contents stay in the store until `files prune` removes them. */
export function deleteFilesOfRecords(
  own: Kysely<OwnTables>,
  resource: string,
  ids: readonly string[],
): CompiledQuery[] {
  const files = own.deleteFrom('_sync_files').where('resource', '=', resource);
  return inParts(ids).map((part) => files.where('record_id', 'in', part).compile());
}

/** Reads how far the records of a resource were searched for files; null before the first search. */
export async function readFileSearch(own: Kysely<OwnTables>, resource: string): Promise<FilePassageRow | null> {
  const found = own.selectFrom('_sync_file_passages').selectAll().where('resource', '=', resource);
  return (await found.executeTakeFirst()) ?? null;
}

export function saveFileSearch(own: Kysely<OwnTables>, row: FilePassageRow): CompiledQuery[] {
  return upsertRows(own, '_sync_file_passages', [row], ['resource']);
}

/** Reads the names of the resources whose files are copied or were copied. */
export async function resourcesCopyingFiles(
  own: Kysely<OwnTables>,
  resources: Readonly<Record<string, { files: readonly { store: string | null }[] }>>,
): Promise<ReadonlySet<string>> {
  const current = Object.keys(resources).filter((name) => resources[name]?.files.some(({ store }) => store !== null));
  return new Set([...current, ...(await resourcesWithFiles(own))]);
}

export async function resourcesWithFiles(own: Kysely<OwnTables>): Promise<string[]> {
  const rows = await own.selectFrom('_sync_files').select('resource').distinct().orderBy('resource').execute();
  return rows.map(({ resource }) => resource);
}

/** Reads the error of a file that waits because a store is full; null if there is none. */
export async function readFullStoreError(own: Kysely<OwnTables>): Promise<string | null> {
  const waiting = own.selectFrom('_sync_files').select('error').where('due_at', 'is not', null);
  const row = await waiting.where('code', '=', 'file_store_full').limit(1).executeTakeFirst();
  return row === undefined ? null : (row.error ?? '');
}

/** Counts current files, and the bytes of those that were fetched, by resource, field and status. */
export async function countFiles(own: Kysely<OwnTables>) {
  const rows = await own
    .selectFrom('_sync_files')
    .select(({ fn }) => ['resource', 'field', 'status', fn.countAll().as('files'), fn.sum('bytes').as('bytes')])
    .where('valid_to', 'is', null)
    .groupBy(['resource', 'field', 'status'])
    .orderBy('resource')
    .orderBy('field')
    .orderBy('status')
    .execute();
  return Array.from(rows, ({ files, bytes, ...row }) => ({ ...row, files: Number(files), bytes: Number(bytes ?? 0) }));
}

/** What operators see of a file that could not be fetched. */
const FAILURE_COLUMNS = [
  'resource',
  'record_id',
  'field',
  'position',
  'url',
  'status',
  'code',
  'error',
  'attempts',
  'due_at',
] as const;

export type FileFailure = Pick<FileRow, (typeof FAILURE_COLUMNS)[number]>;

/** Reads current files in these statuses, the oldest first; of all resources if `resources` is null. */
export async function readFailedFiles(
  own: Kysely<OwnTables>,
  statuses: readonly FileStatus[],
  limit: number,
  resources: readonly string[] | null = null,
): Promise<FileFailure[]> {
  if (resources?.length === 0) return [];
  const files = own.selectFrom('_sync_files').select(FAILURE_COLUMNS);
  return (resources === null ? files : files.where('resource', 'in', resources))
    .where('valid_to', 'is', null)
    .where('status', 'in', statuses)
    .orderBy('valid_from')
    .orderBy('resource')
    .orderBy('record_id')
    .limit(limit)
    .execute();
}
