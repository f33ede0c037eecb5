import type { Kysely } from 'kysely';
import type { FileRow, FileStatus } from '../../warehouse/file-rows.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';

/** How many files that are shown have a status, by resource and field. */
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
