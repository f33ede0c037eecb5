import type { Kysely } from 'kysely';
import { visibleText } from '../../model/visible-text.ts';
import { bytesText, countText } from '../../observe/figures.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { countFiles, troubledFiles, type FileTrouble, nextDue } from '../../database/state/files.ts';
import { countContents } from '../../database/state/file-contents.ts';
import { FILE_STATUSES, type FileStatus, type OwnTables } from '../../database/own-tables.ts';
import { alignedLines } from '../command/output.ts';

/** A field of a resource that has files; sizes in bytes. */
interface FieldStatus {
  resource: string;
  field: string;
  /** Where they go by the settings; null if they are fetched no more. */
  store: string | null;
  /** Files that are shown, by how they stand. */
  files: Record<FileStatus, number>;
  /** Records that show one that is here. */
  records: number;
  /** Distinct contents, shown now or before. */
  objects: number;
  bytes: number;
  /** Contents that were shown before. */
  earlier: number;
}

export interface FilesStatus {
  source: string;
  fields: FieldStatus[];
  /** When the next one is to be asked for (UTC); null if none is. */
  next_due: string | null;
  /** That failed or were refused, the oldest first. */
  trouble: FileTrouble[];
}

const MOST_TROUBLE = 20;

/** How the files of these resources stand, as the warehouse remembers it. */
export async function filesStatus(
  own: Kysely<OwnTables>,
  { name: source, files: { kept } }: Pick<SourceSettings, 'name' | 'files'>,
  resources: readonly string[],
): Promise<FilesStatus> {
  const fields = new Map<string, FieldStatus>();
  const fieldOf = (resource: string, field: string): FieldStatus => {
    const key = JSON.stringify([resource, field]);
    const store = kept[resource]?.find((file) => file.field === field)?.store.name ?? null;
    const known = fields.get(key) ?? { resource, field, store, files: { ...NO_FILES }, ...NO_CONTENTS };
    fields.set(key, known);
    return known;
  };
  for (const resource of resources) for (const { field } of kept[resource] ?? []) fieldOf(resource, field);
  for (const { resource, field, status, files } of await countFiles(own)) {
    if (resources.includes(resource)) fieldOf(resource, field).files[status] += files;
  }
  // A field may have contents in two stores, after a move.
  for (const { resource, field, records, objects, bytes, earlier } of await countContents(own)) {
    if (!resources.includes(resource)) continue;
    const sums = fieldOf(resource, field);
    sums.records += records;
    sums.objects += objects;
    sums.bytes += bytes;
    sums.earlier += earlier;
  }
  const trouble = await troubledFiles(own, ['failed', 'refused'], MOST_TROUBLE, resources);
  return { source, fields: [...fields.values()], next_due: await nextDue(own, resources), trouble };
}

const NO_FILES: Readonly<Record<FileStatus, number>> = { waiting: 0, stored: 0, failed: 0, refused: 0, gone: 0 };
const NO_CONTENTS = { records: 0, objects: 0, bytes: 0, earlier: 0 };

const HEAD = ['resource', 'field', ...FILE_STATUSES, 'records', 'contents', 'size', 'earlier', 'store'] as const;

/** The same for a person. */
export function statusText({ source, fields, next_due: due, trouble }: FilesStatus): string {
  if (fields.length === 0) return `${source}: no files are kept`;
  const rows = fields.map(({ resource, field, files, records, objects, bytes, earlier, store }) => [
    resource,
    field,
    ...FILE_STATUSES.map((status) => countText(files[status])),
    countText(records),
    countText(objects),
    bytesText(bytes),
    countText(earlier),
    visibleText(store ?? 'none: fetched no more'),
  ]);
  const lines = alignedLines([[...HEAD], ...rows]);
  const next = due === null ? [] : [`next one due at ${due.slice(0, 19)} UTC`];
  return [source, ...[...lines, ...next, ...trouble.map(troubleText)].map((line) => `  ${line}`)].join('\n');
}

function troubleText({
  resource,
  record_id,
  field,
  position,
  status,
  code,
  error,
  attempts,
  due_at,
}: FileTrouble): string {
  const which = position === 0 ? field : `${field} ${position}`;
  const again = due_at === null ? '' : `, again at ${due_at.slice(0, 19)} UTC`;
  const tried = status === 'failed' ? ` (${countText(attempts)} attempts${again})` : '';
  return visibleText(`${status} ${resource} ${record_id} ${which}: ${error ?? ''} [${code ?? ''}]${tried}`);
}
