import { sql, type CompiledQuery, type Kysely } from 'kysely';
import type { FileObjectRow } from '../../warehouse/file-rows.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import { inParts } from '../in-parts.ts';

const HASHES_PER_STATEMENT = 500;
const ROWS_PER_STATEMENT = 100;

/** Those of these contents that a store has, as far as is known, by their hash. */
export async function storedObjects(
  own: Kysely<OwnTables>,
  store: string,
  hashes: readonly string[],
): Promise<Map<string, FileObjectRow>> {
  const found = new Map<string, FileObjectRow>();
  for (const part of inParts(hashes, HASHES_PER_STATEMENT)) {
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
