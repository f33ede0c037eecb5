import type { Kysely } from 'kysely';
import { MOST_SHOWN_BYTES, RASTER_TYPES } from '../../model/raster-types.ts';
import type { FileRow } from '../../warehouse/file-rows.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';

/** What a profile says of the files of a resource. */
interface FilesOfResource {
  files: readonly { store: string | null }[];
}

/** The resources of which files are copied, or were once. */
export async function resourcesThatKeepFiles(
  own: Kysely<OwnTables>,
  resources: Readonly<Record<string, FilesOfResource>>,
): Promise<ReadonlySet<string>> {
  const names = Object.keys(resources);
  const kept = names.filter((name) => resources[name]?.files.some(({ store }) => store !== null));
  const others = names.filter((name) => !kept.includes(name));
  return new Set([...kept, ...(await withRows(own, others))]);
}

/** By the first entry of an index each, in one question. */
async function withRows(own: Kysely<OwnTables>, resources: readonly string[]): Promise<string[]> {
  if (resources.length === 0) return [];
  const row = await own
    .selectNoFrom((eb) =>
      resources.map((resource, at) =>
        eb.exists(eb.selectFrom('_sync_files').select('version').where('resource', '=', resource)).as(`found_${at}`),
      ),
    )
    .executeTakeFirstOrThrow();
  return resources.filter((_, at) => Boolean(row[`found_${at}`]));
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
