import type { KeptFile } from '../../settings/file-stores.ts';
import { storedValue } from '../../shape/records/as-record.ts';
import { storedObjects } from '../../state/files/file-objects.ts';
import { dueFiles, placeText } from '../../state/files/record-files.ts';
import { currentBodies } from '../../state/versions.ts';
import type { FileObjectRow, FileRow } from '../../warehouse/file-rows.ts';
import { fileAddresses, type FileAddress } from './file-address.ts';
import type { DueFile } from './fetch-file.ts';
import type { FilesContext } from './files-context.ts';

/** Files that are read together. */
const FILES_PER_STEP = 500;

type Known = Pick<FilesContext, 'warehouse' | 'profile' | 'listing' | 'settings'>;

/** The files of a resource that are due at a moment, each with what its record says of it by now. */
export async function* dueBatches(context: Known, resource: string, now: string): AsyncGenerator<DueFile> {
  const { own } = context.warehouse;
  for (let after: FileRow | null = null; ;) {
    const rows: FileRow[] = await dueFiles(own, resource, now, after, FILES_PER_STEP);
    yield* await dueOf(context, resource, rows);
    after = rows.at(-1) ?? null;
    if (rows.length < FILES_PER_STEP) return;
  }
}

/** Files whose record names them no more are left out: the next look hides them. */
async function dueOf(context: Known, resource: string, rows: readonly FileRow[]): Promise<DueFile[]> {
  const files = context.settings.kept[resource] ?? [];
  const addresses = await addressesOf(context, resource, rows);
  const found = rows.flatMap((row) => {
    const file = files.find(({ field }) => field === row.field);
    const address = addresses.get(placeText(row));
    return file === undefined || address === undefined ? [] : [{ row, file, address }];
  });
  const objects = await objectsOf(context, files, found);
  return found.map(({ row, file, address }) => {
    const here = row.sha256 === null ? null : (objects.get(`${file.store.name} ${row.sha256}`) ?? null);
    const declared = objects.get(`${file.store.name} ${address.declared.sha256 ?? ''}`) ?? null;
    return { row, file, address, here, declared };
  });
}

async function addressesOf(
  { warehouse, profile: whole, listing, settings }: Known,
  resource: string,
  rows: readonly FileRow[],
): Promise<Map<string, FileAddress>> {
  const profile = whole.resources[resource];
  if (profile === undefined) return new Map();
  const ids = [...new Set(rows.map(({ record_id }) => record_id))];
  const bodies = await currentBodies(warehouse.own, resource, ids);
  const files = settings.kept[resource] ?? [];
  const found = Array.from(bodies, ([id, body]) =>
    fileAddresses({ profile, listing }, files, id, storedValue(body, profile)).map((address): [string, FileAddress] => [
      placeText({ record_id: id, ...address }),
      address,
    ]),
  );
  return new Map(found.flat());
}

/** Contents that are here or declared, as far as their stores have them, by `store sha256`. */
async function objectsOf(
  { warehouse: { own } }: Known,
  files: readonly KeptFile[],
  found: readonly { row: FileRow; file: KeptFile; address: FileAddress }[],
): Promise<Map<string, FileObjectRow>> {
  const objects = new Map<string, FileObjectRow>();
  for (const store of new Set(files.map((file) => file.store.name))) {
    const hashes = found.flatMap(({ row, file, address }) =>
      file.store.name === store ? [row.sha256, address.declared.sha256] : [],
    );
    const known = await storedObjects(own, store, [...new Set(hashes.filter((hash) => hash !== null))]);
    for (const [hash, object] of known) objects.set(`${store} ${hash}`, object);
  }
  return objects;
}
