// Files of records: which are due, fetched, replaced or failed.
import { type CompiledQuery, type Expression, type ExpressionBuilder, type Kysely, sql, type SqlBool } from 'kysely';
import type { FilePassageRow, FileRow, FileStatus, OwnTables, TimestampText } from '../own-tables.ts';
import { inParts, upsertRows } from './in-parts.ts';

/** A row binds some twenty values. */
const FILES_PER_STATEMENT = 40;

/** The name of the lease for writing files: no resource has a colon in its name. */
export const FILES_LEASE = 'files:';

/** Identifies a file of a resource. */
type FileId = Pick<FileRow, 'record_id' | 'field' | 'position'>;
/** Identifies one of its contents. */
type FileKey = FileId & Pick<FileRow, 'resource' | 'version'>;

/** A text that identifies a file of a resource. */
export function fileKeyText({ record_id, field, position }: FileId): string {
  return JSON.stringify([record_id, field, position]);
}

/** The last row of each file of these records, by the record's id. */
export async function lastFiles(
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

/** Up to `limit` files that are due, those that have waited longest first, after `after`. */
export function dueFiles(
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

/** When the next file of these resources is due; null if none is. */
export async function nextDue(own: Kysely<OwnTables>, resources: readonly string[]): Promise<TimestampText | null> {
  if (resources.length === 0) return null;
  const due = own.selectFrom('_sync_files').where('resource', 'in', resources).where('due_at', 'is not', null);
  const { at } = await due.select(({ fn }) => fn.min('due_at').as('at')).executeTakeFirstOrThrow();
  return at;
}

/** Ids of records with a current file, in order and after `after`. */
export async function recordsWithFilesAfter(
  own: Kysely<OwnTables>,
  resource: string,
  after: string,
  limit: number,
): Promise<string[]> {
  const shown = own.selectFrom('_sync_files').select('record_id').distinct().where('resource', '=', resource);
  const next = shown.where('record_id', '>', after).where('valid_to', 'is', null).orderBy('record_id').limit(limit);
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
 * Replaces the current content by another one: `former` changes the row of the former content, `next` the copy of it for
 * the new one. Changes nothing if the record was erased in the meantime.
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

/** Has all files that were last verified before a time requested again. */
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

/** Deletes the rows of these records. Their contents stay in the store, for `files prune`. */
export function deleteFilesOf(own: Kysely<OwnTables>, resource: string, ids: readonly string[]): CompiledQuery[] {
  const files = own.deleteFrom('_sync_files').where('resource', '=', resource);
  return inParts(ids).map((part) => files.where('record_id', 'in', part).compile());
}

/** How far the records of a resource were searched for files; null before the first time. */
export async function readFileSearch(own: Kysely<OwnTables>, resource: string): Promise<FilePassageRow | null> {
  const found = own.selectFrom('_sync_file_passages').selectAll().where('resource', '=', resource);
  return (await found.executeTakeFirst()) ?? null;
}

export function saveFileSearch(own: Kysely<OwnTables>, row: FilePassageRow): CompiledQuery[] {
  return upsertRows(own, '_sync_file_passages', [row], ['resource']);
}

/** The file settings of a resource in the profile. */
interface FilesOfResource {
  files: readonly { store: string | null }[];
}

/** The resources whose files are copied, or were once. */
export async function resourcesCopyingFiles(
  own: Kysely<OwnTables>,
  resources: Readonly<Record<string, FilesOfResource>>,
): Promise<ReadonlySet<string>> {
  const current = Object.keys(resources).filter((name) => resources[name]?.files.some(({ store }) => store !== null));
  return new Set([...current, ...(await resourcesWithFiles(own))]);
}

/** The resources with stored rows of files. */
export async function resourcesWithFiles(own: Kysely<OwnTables>): Promise<string[]> {
  const rows = await own.selectFrom('_sync_files').select('resource').distinct().orderBy('resource').execute();
  return rows.map(({ resource }) => resource);
}

/** The error of a full store for which a file waits; null if none does. */
export async function fullStore(own: Kysely<OwnTables>): Promise<string | null> {
  const waiting = own.selectFrom('_sync_files').select('error').where('due_at', 'is not', null);
  const row = await waiting.where('code', '=', 'file_store_full').limit(1).executeTakeFirst();
  return row === undefined ? null : (row.error ?? '');
}

/** The number of current files by resource, field and status. */
interface FileCount {
  resource: string;
  field: string;
  status: FileStatus;
  files: number;
  /** Of those whose content is known. */
  bytes: number;
}

export async function countFiles(own: Kysely<OwnTables>): Promise<FileCount[]> {
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

/** The columns of a file that could not be fetched, for operators. */
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

/** Current files of these statuses, the oldest first; of all resources if `resources` is null. */
export async function failedFiles(
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
