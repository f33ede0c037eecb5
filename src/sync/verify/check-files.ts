import { messageOf, SyncError } from '../../model/errors.ts';
import { storesOf, type FilesSettings } from '../../settings/file-stores.ts';
import { countFiles } from '../../state/files/file-counts.ts';
import { filesShowing, referencesAfter, type Reference } from '../../state/files/file-references.ts';
import { FILE_STATUSES, type FileStatus } from '../../warehouse/file-rows.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import { openStores } from '../../object-store/open-stores.ts';
import { contentFault, FILE_FAULTS } from '../files/verify-files.ts';
import type { FilesAccount } from './certificate.ts';
import type { VerifyContext } from './verify-context.ts';

/** Contents of each store that are read; `content-sync files verify` reads all of them. */
const MOST_READ = 100;
/** No further one is read behind so much. */
const MOST_BYTES = 256 * 1_048_576;

/**
 * Counts the files of a resource, and reads some of their contents: those whose hashes follow on the seed, which no hash
 * has anything to do with. Null if the resource has no files that are kept.
 */
export async function checkFiles(
  context: VerifyContext,
  settings: FilesSettings,
  seed: number,
): Promise<FilesAccount | null> {
  const { clock, signal, findings, shape } = context;
  const kept = settings.kept[shape.resource];
  if (kept === undefined) return null;
  const account: FilesAccount = { shown: await shownFiles(context), read: 0, differ: 0 };
  const stores = openStores({ clock, signal, isMade: false });
  try {
    for (const address of storesOf({ kept: { [shape.resource]: kept } })) {
      const references = await drawn(context, address.name, seed);
      if (references.length > 0) await readAll(context, await stores.at(address, settings), references, account);
    }
    findings.checks.push(`${account.read} contents of files are in their store, and what their hashes say`);
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof SyncError)) throw error;
    // A place that cannot be used has nothing; one that did not answer may.
    if (error.recovery === 'retry') findings.notCompared.push(`files: ${messageOf(error)}`);
    else findings.add({ kind: 'file', id: null, detail: messageOf(error) });
  } finally {
    await stores.close();
  }
  return account;
}

async function shownFiles({ warehouse, shape }: VerifyContext): Promise<Record<FileStatus, number>> {
  const shown = { waiting: 0, stored: 0, failed: 0, refused: 0, gone: 0 };
  for (const { resource, status, files } of await countFiles(warehouse.own)) {
    if (resource === shape.resource && FILE_STATUSES.includes(status)) shown[status] += files;
  }
  return shown;
}

async function drawn({ warehouse, shape }: VerifyContext, store: string, seed: number): Promise<Reference[]> {
  const looked = { store, resources: [shape.resource] };
  const start = seed.toString(16).padStart(8, '0');
  const behind = await referencesAfter(warehouse.own, looked, start, MOST_READ);
  if (behind.length === MOST_READ) return behind;
  const before = await referencesAfter(warehouse.own, looked, '', MOST_READ - behind.length);
  return [...behind, ...before.filter(({ sha256 }) => sha256 <= start)];
}

async function readAll(
  { warehouse, findings, signal }: VerifyContext,
  store: ObjectStore,
  references: readonly Reference[],
  account: FilesAccount,
): Promise<void> {
  let bytes = 0;
  for (const { sha256, bytes: size } of references) {
    signal.throwIfAborted();
    if (bytes >= MOST_BYTES) return;
    bytes += size;
    const fault = await contentFault(store, sha256);
    account.read += 1;
    if (fault === null) continue;
    const files = await filesShowing(warehouse.own, store.name, sha256, 1);
    // Pruned meanwhile.
    if (files.length === 0) continue;
    account.differ += 1;
    const detail = `${FILE_FAULTS[fault]}: content-sync files verify --repair has it fetched again`;
    const places = files.map(({ resource, record_id, field }) => `${resource} ${record_id} ${field}`);
    findings.add({ kind: 'file', id: null, fields: places, detail });
  }
}
