import { constants } from 'node:fs';
import { mkdir, open, readFile, realpath, rename, rm, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import type { Clock } from '../model/clock.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { lstatOf, namesIn, regularFile, sweepFolder } from './file-entries.ts';
import { codeOf, told } from './file-faults.ts';
import { makeFolder, syncFolder, UnsyncedFolders } from './folders.ts';
import { objectAt, objectMissing, objectPath, OWNER, type ObjectStore, type StoredObject } from './object-store.ts';

/** Below the store, on its file system, so that a rename is enough. */
const SPOOL = '.unfinished';
const ASIDE = 'aside-';
/** Whoever may enter the folder may know whose it is. */
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
  const root = await told(folder, () => rootOf(folder, isMade));
  const spool = path.join(root, SPOOL);
  const fans = fanOf(root);
  const at = (sha256: string): string => `${root}${path.sep}${objectPath(sha256)}`;
  return {
    name,
    shown: folder,
    spool,
    put: ({ path: file, sha256, bytes, content = null }) =>
      told(folder, async () => {
        const target = at(sha256);
        await fans.make(sha256);
        const placed = content === null ? moved : written(content);
        await placed({ path: file, target, bytes, fileMode }).catch((error: unknown) => fans.forget(sha256, error));
        // Also of one that was there: a process that ended before this may have renamed it.
        fans.unsynced.add(path.dirname(target));
      }),
    settle: () => told(folder, () => fans.unsynced.sync()),
    head: (sha256) =>
      told(folder, async () => {
        const stat = (await fans.isThere(sha256)) ? await regularFile(at(sha256)) : null;
        return stat === null ? null : { sha256, bytes: stat.size, storedAt: stat.mtimeMs };
      }),
    read: (sha256) =>
      told(folder, async () => {
        if (!(await fans.isThere(sha256))) throw objectMissing(sha256);
        return readable(at(sha256), sha256);
      }),
    list: () => listed(folder, root),
    remove: (sha256) =>
      told(folder, async () => {
        if (await fans.isThere(sha256)) await rm(at(sha256), { force: true });
      }),
    setAside: (sha256) =>
      told(folder, async () => {
        if (!(await fans.isThere(sha256)) || (await lstatOf(at(sha256))) === null) return;
        const aside = path.join(spool, `${ASIDE}${sha256}`);
        await rename(at(sha256), aside);
        const now = clock.now() / 1_000;
        await utimes(aside, now, now);
        await syncFolder(spool);
      }),
    sweepUnfinished: (olderThanMs) => told(folder, () => sweepFolder(spool, clock.now() - olderThanMs)),
    claim: (owner) => told(folder, () => claimed(path.join(root, OWNER), owner)),
    owner: () => told(folder, () => ownerIn(path.join(root, OWNER))),
    close: () => Promise.resolve(),
  };
}

async function rootOf(folder: string, isMade: boolean): Promise<string> {
  if (isMade) await makeFolder(path.join(folder, SPOOL));
  else if ((await lstatOf(folder)) === null) {
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

/** The folders in which objects stand; each is looked at once, made where it is missing, and never a link that leads away. */
function fanOf(root: string): {
  make(sha256: string): Promise<void>;
  isThere(sha256: string): Promise<boolean>;
  unsynced: UnsyncedFolders;
  /** Looks at it anew next time, and throws the error. */
  forget(sha256: string, error: unknown): never;
} {
  const known = new Map<string, Promise<void>>();
  const unsynced = new UnsyncedFolders();
  const folderOf = (sha256: string): string => path.dirname(path.join(root, objectPath(sha256)));
  return {
    make: (sha256) => {
      const fan = fanName(sha256);
      const made = known.get(fan) ?? ensured(folderOf(sha256), unsynced);
      if (!known.has(fan)) {
        known.set(fan, made);
        // What failed once may go well later.
        made.catch(() => known.delete(fan));
      }
      return made;
    },
    isThere: (sha256) => isFolder(folderOf(sha256)),
    unsynced,
    forget: (sha256, error) => {
      known.delete(fanName(sha256));
      throw error;
    },
  };
}

function fanName(sha256: string): string {
  return sha256.slice(0, 2);
}

/** False if nothing is there. Throws if it is something else, such as a link. */
async function isFolder(folder: string): Promise<boolean> {
  const stat = await lstatOf(folder);
  if (stat === null || stat.isDirectory()) return stat !== null;
  throw new ConfigError('file_store_unwritable', `${folder} is no folder, or a link that is not followed`, {
    hint: 'remove it, or put back the folder that stood there',
  });
}

async function ensured(folder: string, unsynced: UnsyncedFolders): Promise<void> {
  if (await isFolder(folder)) return;
  // Only itself: where the store is gone, its volume may be.
  await mkdir(folder).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error;
  });
  unsynced.add(path.dirname(folder));
}

/** A file that is written to `path`, made durable and renamed to `target`, on the same file system. */
interface PlacedFile {
  path: string;
  target: string;
  bytes: number;
  fileMode: number;
}

/** Puts a file in its place unless it is there; its bytes are on the disk before it has its name. */
type Placed = (file: PlacedFile) => Promise<void>;

function written(content: Buffer): Placed {
  return async (file) => {
    await writeFile(file.path, content, { mode: file.fileMode });
    await moved(file);
  };
}

async function isThere({ target, bytes }: PlacedFile): Promise<boolean> {
  return (await regularFile(target))?.size === bytes;
}

async function moved(file: PlacedFile): Promise<void> {
  const { path: from, target, bytes, fileMode } = file;
  if (await isThere(file)) return rm(from, { force: true });
  {
    await using handle = await open(from, constants.O_RDWR | constants.O_NOFOLLOW);
    const { size, mode } = await handle.stat();
    if (size !== bytes) {
      throw new SyncError('file_store_failed', `${from} has ${size} bytes, not ${bytes}`, {
        recovery: 'retry',
        hint: 'it is fetched again by itself; check the volume if it comes again',
      });
    }
    if ((mode & 0o777) !== fileMode) await handle.chmod(fileMode);
    await handle.sync();
  }
  await rename(from, target);
}

async function readable(file: string, sha256: string): Promise<Readable> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW).catch((error: unknown) => {
    throw ['ENOENT', 'ELOOP'].includes(codeOf(error)) ? objectMissing(sha256) : error;
  });
  return handle.createReadStream();
}

async function* listed(shown: string, root: string): AsyncGenerator<StoredObject> {
  for (const fan of await told(shown, () => namesIn(root, true))) {
    for (const name of await told(shown, () => namesIn(path.join(root, fan), false))) {
      const sha256 = objectAt(`${fan}/${name}`);
      const stat = sha256 === null ? null : await told(shown, () => regularFile(path.join(root, fan, name)));
      if (sha256 !== null && stat !== null) yield { sha256, bytes: stat.size, storedAt: stat.mtimeMs };
    }
  }
}
