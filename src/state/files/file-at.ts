import type { Kysely } from 'kysely';
import type { FileRow } from '../../warehouse/file-rows.ts';
import type { OwnTables, TimestampText } from '../../warehouse/own-tables.ts';

/** Which file of a record; null for any. */
export interface FileQuestion {
  resource: string;
  id: string;
  field: string | null;
  position: number;
}

/** What a record showed at a moment, or shows now where that is null: a row for each field. */
export function filesAt(
  own: Kysely<OwnTables>,
  { resource, id, field, position }: FileQuestion,
  at: TimestampText | null,
): Promise<FileRow[]> {
  let rows = own.selectFrom('_sync_files').selectAll().where('resource', '=', resource).where('record_id', '=', id);
  if (field !== null) rows = rows.where('field', '=', field);
  rows = rows.where('position', '=', position).orderBy('field').orderBy('version');
  if (at === null) return rows.where('valid_to', 'is', null).execute();
  return rows
    .where('valid_from', '<=', at)
    .where((where) => where.or([where('valid_to', 'is', null), where('valid_to', '>', at)]))
    .execute();
}

/** The latest content that a file of a record had, whatever it shows now; null if none ever came. */
export async function lastContent(own: Kysely<OwnTables>, question: FileQuestion): Promise<FileRow | null> {
  const { resource, id, field, position } = question;
  let rows = own.selectFrom('_sync_files').selectAll().where('resource', '=', resource).where('record_id', '=', id);
  if (field !== null) rows = rows.where('field', '=', field);
  const last = rows
    .where('position', '=', position)
    .where('sha256', 'is not', null)
    .orderBy('version', 'desc')
    .limit(1);
  return (await last.executeTakeFirst()) ?? null;
}
