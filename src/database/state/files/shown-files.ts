import type { Kysely } from 'kysely';
import { MOST_SHOWN_BYTES, RASTER_TYPES } from '../../../model/raster-types.ts';
import type { FileRow, FileStatus, OwnTables, TimestampText } from '../../own-tables.ts';

/** What a profile says of the files of a resource. */
interface FilesOfResource {
  files: readonly { store: string | null }[];
}

/** The resources of which files are copied, or were once. */
export async function resourcesThatKeepFiles(
  own: Kysely<OwnTables>,
  resources: Readonly<Record<string, FilesOfResource>>,
): Promise<ReadonlySet<string>> {
  const kept = Object.keys(resources).filter((name) => resources[name]?.files.some(({ store }) => store !== null));
  const once = await own.selectFrom('_sync_files').select('resource').distinct().execute();
  return new Set([...kept, ...once.map(({ resource }) => resource)]);
}

/** A content that rows name, in one of the stores that have it. */
export interface NamedContent {
  sha256: string;
  store: string;
  bytes: number;
  type: string;
}

/** The content of this hash in each store that has it; none that no row names, whatever else a store holds. */
export async function namedContents(own: Kysely<OwnTables>, sha256: string): Promise<NamedContent[]> {
  const rows = await own
    .selectFrom('_sync_files')
    .select(['store', 'bytes', 'type'])
    .distinct()
    .where('sha256', '=', sha256)
    .where('store', 'is not', null)
    .execute();
  return rows.flatMap(({ store, bytes, type }): NamedContent[] =>
    store === null || bytes === null || type === null ? [] : [{ sha256, store, bytes, type }],
  );
}

/** A picture that a record shows now. */
export type ShownPicture = Pick<FileRow, 'resource' | 'record_id' | 'width' | 'height' | 'valid_from'> & {
  sha256: string;
  bytes: number;
};

/** The pictures of a resource that a browser can show, those that came last first. */
export async function newestPictures(own: Kysely<OwnTables>, resource: string, limit: number): Promise<ShownPicture[]> {
  const rows = await own
    .selectFrom('_sync_files')
    .select(['resource', 'record_id', 'sha256', 'bytes', 'width', 'height', 'valid_from'])
    .where('resource', '=', resource)
    .where('valid_to', 'is', null)
    .where('store', 'is not', null)
    .where('type', 'in', RASTER_TYPES)
    .where('bytes', '<=', MOST_SHOWN_BYTES)
    .orderBy('valid_from', 'desc')
    .limit(limit)
    .execute();
  return rows.flatMap(({ sha256, bytes, ...row }): ShownPicture[] =>
    sha256 === null || bytes === null ? [] : [{ ...row, sha256, bytes }],
  );
}

/** What a store said that had no room for a file, one that waits since; null if none does. */
export async function fullStore(own: Kysely<OwnTables>): Promise<string | null> {
  const waiting = own.selectFrom('_sync_files').select('error').where('due_at', 'is not', null);
  const row = await waiting.where('code', '=', 'file_store_full').limit(1).executeTakeFirst();
  return row === undefined ? null : (row.error ?? '');
}

/** Which file of a record; null for any. */
export interface FileQuestion {
  resource: string;
  id: string;
  field: string | null;
  position: number;
}

/** What a record showed at a moment, or shows now where that is null: a row for each field. */
export function filesAt(own: Kysely<OwnTables>, question: FileQuestion, at: TimestampText | null): Promise<FileRow[]> {
  const rows = rowsOf(own, question).orderBy('field').orderBy('version');
  if (at === null) return rows.where('valid_to', 'is', null).execute();
  return rows
    .where('valid_from', '<=', at)
    .where((where) => where.or([where('valid_to', 'is', null), where('valid_to', '>', at)]))
    .execute();
}

/** The latest content that a file of a record had, whatever it shows now; null if none ever came. */
export async function lastContent(own: Kysely<OwnTables>, question: FileQuestion): Promise<FileRow | null> {
  const last = rowsOf(own, question).where('sha256', 'is not', null).orderBy('version', 'desc').limit(1);
  return (await last.executeTakeFirst()) ?? null;
}

function rowsOf(own: Kysely<OwnTables>, { resource, id, field, position }: FileQuestion) {
  const rows = own.selectFrom('_sync_files').selectAll().where('resource', '=', resource).where('record_id', '=', id);
  return (field === null ? rows : rows.where('field', '=', field)).where('position', '=', position);
}

/** How many files that are shown have a status, by resource and field. */
export interface FileCount {
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
  return rows.map(({ resource, field, status, files, bytes }) => {
    return { resource, field, status, files: Number(files), bytes: Number(bytes ?? 0) };
  });
}

/** A file that could not be fetched, for people. */
export type FileTrouble = Pick<
  FileRow,
  'resource' | 'record_id' | 'field' | 'position' | 'url' | 'status' | 'code' | 'error' | 'attempts' | 'due_at'
>;

/** Files of these statuses that are shown, those that were found first first; of these resources only, if any are given. */
export function troubledFiles(
  own: Kysely<OwnTables>,
  statuses: readonly FileStatus[],
  limit: number,
  resources: readonly string[] | null = null,
): Promise<FileTrouble[]> {
  if (resources?.length === 0) return Promise.resolve([]);
  const files = own.selectFrom('_sync_files');
  return (resources === null ? files : files.where('resource', 'in', resources))
    .select(['resource', 'record_id', 'field', 'position', 'url', 'status', 'code', 'error', 'attempts', 'due_at'])
    .where('valid_to', 'is', null)
    .where('status', 'in', statuses)
    .orderBy('valid_from')
    .orderBy('resource')
    .orderBy('record_id')
    .limit(limit)
    .execute();
}
