import type { CompiledQuery, Kysely } from 'kysely';
import type { FilePassageRow } from '../../warehouse/file-rows.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';

/** How far the records of a resource were looked at for their files; null before the first time. */
export async function readPassage(own: Kysely<OwnTables>, resource: string): Promise<FilePassageRow | null> {
  const found = own.selectFrom('_sync_file_passages').selectAll().where('resource', '=', resource);
  return (await found.executeTakeFirst()) ?? null;
}

export function savePassage(own: Kysely<OwnTables>, row: FilePassageRow): CompiledQuery {
  return own
    .insertInto('_sync_file_passages')
    .values(row)
    .onConflict((conflict) => conflict.column('resource').doUpdateSet(row))
    .compile();
}
