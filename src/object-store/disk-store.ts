import { constants } from 'node:fs';
import { mkdir, open, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import type { Clock } from '../model/clock.ts';
import { ConfigError, errorCode, SyncError } from '../model/errors.ts';
import {
  listNames,
  lstatOrNull,
  makeFolder,
  mapStoreErrors,
  regularFile,
  removeOldFiles,
  syncFolder,
} from './file-system.ts';
import { objectAt, objectMissing, objectPath, type ObjectStore, OWNER, type StoredObject } from './object-store.ts';

// A file store in a local folder. Written files survive a power cut, and links are not followed.

/** Folder for unfinished downloads: on the file system of the store, so that a rename moves them. */
const SPOOL = '.unfinished';
/** Mode of the file with the owner: every user who may enter the folder may read it. */
const OWNER_MODE = 0o644;

export interface DiskStoreOptions {
  /** `StoreAddress.name`. */
  name: string;
  /** Absolute path. */
  folder: string;
  /** Mode of the files, such as `0o640`. */
  fileMode: number;
  clock: Clock;
  /** True to create the folder if it is missing. */
  mayCreate: boolean;
}

/**
 * Opens the store in a local folder. Throws `ConfigError`: `file_store_failed` if the folder cannot be used, or is
 * missing and must not be created.
 */
export async function openDiskStore(options: DiskStoreOptions): Promise<ObjectStore> {
  const { name, folder, fileMode, clock, mayCreate } = options;
  const root = await mapStoreErrors(folder, () => openRoot(folder, mayCreate));
  const spool = path.join(root, SPOOL);
  const ownerFile = path.join(root, OWNER);
  /** Calls `work` with the path of an object, whose folder is no link; returns `absent` if that folder does not exist. */
  const withObject = <T>(sha256: string, absent: T, work: (file: string) => Promise<T>): Promise<T> =>
    mapStoreErrors(folder, async () => {
      const file = path.join(root, objectPath(sha256));
      return (await isFolder(path.dirname(file))) ? work(file) : absent;
    });
  return {
    name,
    shown: folder,
    spool,
    put: (object) => mapStoreErrors(folder, () => putObject(root, object, fileMode)),
    head: (sha256) =>
      withObject(sha256, null, async (file) => {
        const stat = await regularFile(file);
        return stat && { sha256, bytes: stat.size, storedAt: stat.mtimeMs };
      }),
    read: async (sha256) => {
      const body = await withObject(sha256, null, openToRead);
      if (body === null) throw objectMissing(sha256);
      return body;
    },
    list: () => listObjects(folder, root),
    remove: (sha256) => withObject(sha256, undefined, (file) => rm(file, { force: true })),
    removeUnfinished: (olderThanMs) => mapStoreErrors(folder, () => removeOldFiles(spool, clock.now() - olderThanMs)),
    setOwner: (owner) => mapStoreErrors(folder, () => claimFolder(ownerFile, owner)),
    owner: () => mapStoreErrors(folder, () => readOwner(ownerFile)),
    close: () => Promise.resolve(),
  };
}

async function openRoot(folder: string, mayCreate: boolean): Promise<string> {
  if (mayCreate) await makeFolder(path.join(folder, SPOOL));
  else if ((await lstatOrNull(folder)) === null) {
    throw new ConfigError('file_store_failed', `${folder}: there is no such folder`, {
      hint: 'check files.store of the settings, and that its volume is mounted; it is made when the first file is fetched',
    });
  }
  return realpath(folder);
}

async function putObject(
  root: string,
  { path: from, sha256, bytes }: Parameters<ObjectStore['put']>[0],
  fileMode: number,
): Promise<void> {
  const target = path.join(root, objectPath(sha256));
  const folder = path.dirname(target);
  // Creates no folders above it: if the store is missing, its volume may not be mounted.
  if (!(await isFolder(folder))) await mkdir(folder).catch(ignore('EEXIST'));
  if ((await regularFile(target))?.size === bytes) await rm(from, { force: true });
  else {
    await makeDurable(from, bytes, fileMode);
    await rename(from, target);
  }
  // Also if both existed: the process that created them may have been killed before its sync.
  await syncFolder(folder);
  await syncFolder(root);
}

/** Returns a handler for `catch` that ignores one error of the file system. */
function ignore(code: string): (error: unknown) => void {
  return (error) => {
    if (errorCode(error) !== code) throw error;
  };
}

/** Stores the owner of the folder, unless there is one. */
async function claimFolder(file: string, owner: string): Promise<void> {
  if ((await readOwner(file)) !== null) return;
  // A power cut may have left it empty.
  const flag = (await regularFile(file)) === null ? 'wx' : 'w';
  await writeFile(file, owner, { flag, mode: OWNER_MODE, flush: true }).catch(ignore('EEXIST'));
  await syncFolder(path.dirname(file));
}

async function readOwner(file: string): Promise<string | null> {
  const text = await readFile(file, 'utf8').catch(ignore('ENOENT'));
  return text?.trim() || null;
}

/** False if nothing is there. Throws for anything but a folder, such as a link that leads elsewhere. */
async function isFolder(folder: string): Promise<boolean> {
  const stat = await lstatOrNull(folder);
  if (stat === null || stat.isDirectory()) return stat !== null;
  throw new ConfigError('file_store_failed', `${folder} is no folder, or a link that is not followed`, {
    hint: 'remove it, or put back the folder that was there',
  });
}

/** Flushes a download to the disk, with the mode of the settings, before it gets its name. */
async function makeDurable(file: string, bytes: number, fileMode: number): Promise<void> {
  await using handle = await open(file, constants.O_RDWR | constants.O_NOFOLLOW);
  const { size, mode } = await handle.stat();
  if (size !== bytes) {
    throw new SyncError('file_store_failed', `${file} has ${size} bytes, not ${bytes}`, {
      recovery: 'retry',
      hint: 'it is fetched again by itself; check the volume if it comes again',
    });
  }
  if ((mode & 0o777) !== fileMode) await handle.chmod(fileMode);
  await handle.sync();
}

/** Opens a file to read; null if it is missing or a link. */
async function openToRead(file: string): Promise<Readable | null> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW).catch((error: unknown) => {
    if (['ENOENT', 'ELOOP'].includes(errorCode(error))) return null;
    throw error;
  });
  return handle && handle.createReadStream();
}

async function* listObjects(shown: string, root: string): AsyncGenerator<StoredObject> {
  for (const folder of await mapStoreErrors(shown, () => listNames(root, 'folders'))) {
    for (const name of await mapStoreErrors(shown, () => listNames(path.join(root, folder), 'files'))) {
      const sha256 = objectAt(`${folder}/${name}`);
      const stat = sha256 && (await mapStoreErrors(shown, () => regularFile(path.join(root, folder, name))));
      if (sha256 && stat) yield { sha256, bytes: stat.size, storedAt: stat.mtimeMs };
    }
  }
}
