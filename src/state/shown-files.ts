import type { Kysely } from 'kysely';
import type { OwnTables } from '../warehouse/own-tables.ts';

/** What a profile says of the files of a resource. */
interface FilesOfResource {
  files: readonly { store: string | null }[];
}

/** The resources of which files are copied, or were once. */
export async function resourcesWithFiles(
  own: Kysely<OwnTables>,
  resources: Readonly<Record<string, FilesOfResource>>,
): Promise<ReadonlySet<string>> {
  const names = Object.keys(resources);
  const found = new Set(names.filter((name) => resources[name]?.files.some(({ store }) => store !== null)));
  for (const name of names) if (!found.has(name) && (await hasRows(own, name))) found.add(name);
  return found;
}

/** The first entry of an index. */
async function hasRows(own: Kysely<OwnTables>, resource: string): Promise<boolean> {
  const row = own.selectFrom('_sync_files').select('version').where('resource', '=', resource).limit(1);
  return (await row.executeTakeFirst()) !== undefined;
}
