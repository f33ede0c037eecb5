import type { Kysely } from 'kysely';
import { bytesText, countOf, countText } from '../../observe/figures.ts';
import { countFiles, troubledFiles, type FileTrouble, fullStore } from '../../state/files/shown-files.ts';
import type { FileStatus } from '../../warehouse/file-rows.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';

/** Files of a resource's records that are copied too: how many of those that are shown have which status. */
export interface FilesStatus extends Record<FileStatus, number> {
  /** Of those whose content is known. */
  bytes: number;
  /** One that could not be fetched, the first one there was; null if there is none. */
  trouble: TroubledFile | null;
}

/** A file that is not here as it is served, and why. */
export interface TroubledFile extends Pick<FileTrouble, 'record_id' | 'field' | 'status' | 'code'> {
  message: string;
}

const NONE = { stored: 0, waiting: 0, failed: 0, refused: 0, gone: 0, bytes: 0 };
const TROUBLED = ['failed', 'refused'] as const satisfies readonly FileStatus[];
/** Of all resources together. */
const MOST_TROUBLED = 40;

/** The files of a source. */
export interface StoredFiles {
  /** By resource; one of which no file is known is not there. */
  resources: ReadonlyMap<string, FilesStatus>;
  /** What a store said that has no room for more; null if none did. */
  full: string | null;
}

export const NO_FILES: StoredFiles = { resources: new Map(), full: null };

export async function readFileStatus(own: Kysely<OwnTables>): Promise<StoredFiles> {
  const counts = Map.groupBy(await countFiles(own), ({ resource }) => resource);
  const isTroubled = [...counts.values()].flat().some(({ status }) => TROUBLED.some((each) => each === status));
  const troubled = isTroubled ? await troubledFiles(own, TROUBLED, MOST_TROUBLED) : [];
  const statuses = Array.from(counts, ([resource, rows]): [string, FilesStatus] => {
    const status: FilesStatus = { ...NONE, trouble: troubleOf(troubled, resource) };
    for (const row of rows) {
      status[row.status] += row.files;
      status.bytes += row.bytes;
    }
    return [resource, status];
  });
  return { resources: new Map(statuses), full: await fullStore(own) };
}

function troubleOf(troubled: readonly FileTrouble[], resource: string): TroubledFile | null {
  const own = troubled.filter((file) => file.resource === resource);
  const found = own.find(({ status }) => status === 'failed') ?? own[0];
  if (found === undefined) return null;
  const { record_id, field, status, code, error } = found;
  return { record_id, field, status, code, message: error ?? '' };
}

export function scrubFiles(files: FilesStatus, scrub: (text: string) => string): FilesStatus {
  const { trouble } = files;
  return { ...files, trouble: trouble && { ...trouble, message: scrub(trouble.message) } };
}

/** Such as `3 files could not be fetched yet, such as that of a7: answered 503 [http_503]`. */
export function troubleText({ failed, refused, trouble }: FilesStatus): string {
  const isFailed = failed > 0;
  const what = isFailed
    ? `${countOf(failed, 'file')} could not be fetched so far`
    : `${countOf(refused, 'file is', 'files are')} refused`;
  if (trouble === null) return what;
  const code = trouble.code === null ? '' : ` [${trouble.code}]`;
  return `${what}, such as ${trouble.field} of ${trouble.record_id}: ${trouble.message}${code}`;
}

/** Such as `197 files are here (6.2 MB), 2 wait, 1 failed`. */
export function filesText(files: FilesStatus): string {
  const others = (
    [
      ['waiting', 'wait'],
      ['failed', 'failed'],
      ['refused', 'refused'],
      ['gone', 'gone'],
    ] as const
  ).flatMap(([status, word]) => (files[status] === 0 ? [] : [`${countText(files[status])} ${word}`]));
  const here = `${countOf(files.stored, 'file is', 'files are')} here (${bytesText(files.bytes)})`;
  return [here, ...others].join(', ');
}
