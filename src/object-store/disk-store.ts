import { constants } from 'node:fs';
import { mkdir, open, readFile, realpath, rename, rm, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import type { Clock } from '../model/clock.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { codeOf, lstatOf, makeFolder, namesIn, regularFile, sweepFolder, syncFolder, mapStoreErrors } from './file-system.ts';
import { objectAt, objectMissing, objectPath, OWNER, type ObjectStore, type StoredObject } from './object-store.ts';

/** Below the store, on its file system, so that a rename is enough. */
const SPOOL = '.unfinished';
const ASIDE = 'aside-';
/** Every user who may enter the folder may read its owner. */
const MARK_MODE = 0o644;

export interface DiskPlace {
  name: string;
  /** Absolute path. */
  folder: string;
  /** Rights of the files, such as `0o640`. */
  fileMode: number;
  clock: Clock;
  /** Whether the folder is made where it is missing. */
  isMade: boolean;
}

/**
 * A folder of this machine. Throws `ConfigError`: `file_store_absent` if it is not there and is not to be made,
 * `file_store_unwritable` if it cannot be used.
 */
export async function openDiskStore({ name, folder, fileMode, clock, isMade }: DiskPlace): Promise<ObjectStore> {
  const root = await mapStoreErrors(folder, () => rootOf(folder, isMade));
  const spool = path.join(root, SPOOL);
  const at = (sha256: string): string => path.join(root, objectPath(sha256));
  const ensured = folderMaker();
  /** The path of an object; null if not even its folder exists. */
  const placeOf = async (sha256: string): Promise<string | null> =>
    (await isFolder(path.dirname(at(sha256)))) ? at(sha256) : null;
  return {
    name,
    shown: folder,
    spool,
    put: ({ path: from, sha256, bytes }) =>
      mapStoreErrors(folder, async () => {
        const target = at(sha256);
        await ensured(path.dirname(target));
        if ((await regularFile(target))?.size === bytes) await rm(from, { force: true });
        else {
          await makeDurable(from, bytes, fileMode);
          await rename(from, target);
        }
        // Also for one that was there: a process that was killed before this may have renamed it.
        await syncFolder(path.dirname(target));
      }),
    head: (sha256) =>
      mapStoreErrors(folder, async () => {
        const place = await placeOf(sha256);
        const stat = place === null ? null : await regularFile(place);
        return stat === null ? null : { sha256, bytes: stat.size, storedAt: stat.mtimeMs };
      }),
    read: (sha256) =>
      mapStoreErrors(folder, async () => {
        const place = await placeOf(sha256);
        if (place === null) throw objectMissing(sha256);
        return readable(place, sha256);
      }),
    list: () => listed(folder, root),
    remove: (sha256) =>
      mapStoreErrors(folder, async () => {
        const place = await placeOf(sha256);
        if (place !== null) await rm(place, { force: true });
      }),
    setAside: (sha256) =>
      mapStoreErrors(folder, async () => {
        const place = await placeOf(sha256);
        if (place === null || (await lstatOf(place)) === null) return;
        await movedAside(place, path.join(spool, `${ASIDE}${sha256}`), clock.now());
      }),
    sweepUnfinished: (olderThanMs) => mapStoreErrors(folder, () => sweepFolder(spool, clock.now() - olderThanMs)),
    claim: (owner) => mapStoreErrors(folder, () => claimed(path.join(root, OWNER), owner)),
    owner: () => mapStoreErrors(folder, () => ownerIn(path.join(root, OWNER))),
    close: () => Promise.resolve(),
  };
}

async function rootOf(folder: string, isMade: boolean): Promise<string> {
  if (isMade) {
    await makeFolder(path.join(folder, SPOOL));
    // A process that was killed may have made folders in it.
    await syncFolder(folder);
  } else if ((await lstatOf(folder)) === null) {
    throw new ConfigError('file_store_absent', `${folder}: there is no such folder`, {
      hint: 'check files.store of the settings, and that its volume is mounted; it is made when the first file is fetched',
    });
  }
  return realpath(folder);
}

async function claimed(file: string, owner: string): Promise<void> {
  if ((await ownerIn(file)) !== null) return;
  // A power cut may have left it empty.
  const flag = (await regularFile(file)) === null ? 'wx' : 'w';
  await writeFile(file, owner, { flag, mode: MARK_MODE, flush: true }).catch((error: unknown) => {
    if (flag !== 'wx' || codeOf(error) !== 'EEXIST') throw error;
  });
  await syncFolder(path.dirname(file));
}

async function ownerIn(file: string): Promise<string | null> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error;
  });
  return text?.trim() || null;
}

/** False if nothing is there. Throws if it is something else, such as a link that leads away. */
async function isFolder(folder: string): Promise<boolean> {
  const stat = await lstatOf(folder);
  if (stat === null || stat.isDirectory()) return stat !== null;
  throw new ConfigError('file_store_unwritable', `${folder} is no folder, or a link that is not followed`, {
    hint: 'remove it, or put back the folder that stood there',
  });
}

/** Creates missing folders; concurrent callers wait until the folder is on the disk. */
function folderMaker(): (folder: string) => Promise<void> {
  const making = new Map<string, Promise<void>>();
  return (folder) => {
    const made = making.get(folder) ?? ensureFolder(folder).finally(() => making.delete(folder));
    making.set(folder, made);
    return made;
  };
}

async function ensureFolder(folder: string): Promise<void> {
  if (await isFolder(folder)) return;
  // Only itself: where the store is gone, its volume may be.
  await mkdir(folder).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error;
  });
  await syncFolder(path.dirname(folder));
}

/** Has the bytes of a download on the disk, with the rights that are wanted, before it gets its name. */
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

async function movedAside(file: string, aside: string, now: number): Promise<void> {
  await rename(file, aside);
  await utimes(aside, now / 1_000, now / 1_000);
  await syncFolder(path.dirname(aside));
}

async function readable(file: string, sha256: string): Promise<Readable> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW).catch((error: unknown) => {
    throw ['ENOENT', 'ELOOP'].includes(codeOf(error)) ? objectMissing(sha256) : error;
  });
  return handle.createReadStream();
}

async function* listed(shown: string, root: string): AsyncGenerator<StoredObject> {
  for (const fan of await mapStoreErrors(shown, () => namesIn(root, true))) {
    for (const name of await mapStoreErrors(shown, () => namesIn(path.join(root, fan), false))) {
      const sha256 = objectAt(`${fan}/${name}`);
      const stat = sha256 === null ? null : await mapStoreErrors(shown, () => regularFile(path.join(root, fan, name)));
      if (sha256 !== null && stat !== null) yield { sha256, bytes: stat.size, storedAt: stat.mtimeMs };
    }
  }
}
