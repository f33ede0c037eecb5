import { readFileSync } from 'node:fs';
import { access, constants, open, readdir, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { ConfigError, messageOf, SyncError } from '../../model/errors.ts';
import { codeOf, makeFolder, syncFolder } from '../../object-store/file-system.ts';
import { isOtherRunning, placeOfProcess } from '../../database/state/leases.ts';
import { exportBusy, MANIFEST, type FileSink, type Place, type PlacedFile } from './place.ts';

/** Names whoever writes to the folder. */
export const LOCK = '.content-sync-export.lock';
/** A manifest that does not stand yet. */
export const NEXT_MANIFEST = '.manifest.json.next';

/** A folder of this machine; made where it is missing, and held until it is closed. */
export async function openFolder(folder: string): Promise<Place> {
  return told(folder, async () => {
    await makeFolder(folder);
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    return heldFolder(folder);
  });
}

function heldFolder(folder: string): Place {
  const at = (name: string): string => path.join(folder, ...name.split('/'));
  let held = false;
  const hold = async (): Promise<void> => {
    if (!held) await lock(folder);
    held = true;
  };
  return {
    shown: folder,
    isLocked: true,
    list: () => told(folder, () => filesIn(folder, '')),
    readManifest: () => told(folder, () => textOf(at(MANIFEST))),
    create: (name) =>
      told(folder, async () => {
        await hold();
        await makeFolder(path.dirname(at(name)));
        return sink(at(name));
      }),
    putManifest: (text, previous) =>
      told(folder, async () => {
        await hold();
        if ((await textOf(at(MANIFEST))) !== previous) throw exportBusy(folder, '');
        await syncFolders(folder);
        const next = await sink(at(NEXT_MANIFEST));
        await next.write(Buffer.from(text));
        await next.close();
        await rename(at(NEXT_MANIFEST), at(MANIFEST));
        await syncFolder(folder);
      }),
    remove: (names) => told(folder, () => removeAll(folder, names)),
    close: async () => {
      if (held) await rm(at(LOCK), { force: true });
      held = false;
    },
  };
}

/** Throws `export_busy` if a process that lives holds the folder. */
async function lock(folder: string): Promise<void> {
  const file = path.join(folder, LOCK);
  const me = { pid: process.pid, host: placeOfProcess(false) };
  for (let tries = 0; tries < LOCK_TRIES; tries += 1) {
    try {
      await using handle = await open(file, 'wx');
      await handle.writeFile(JSON.stringify(me));
      return;
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    }
    const holder = holderOf(file);
    // One that is elsewhere cannot be looked up: a person has to say that it is gone.
    if (holder === null || (holder.host === me.host && !isOtherRunning(holder.pid))) await rm(file, { force: true });
    else throw exportBusy(folder, `: process ${holder.pid} of ${holder.host.split(' ')[0] ?? ''}, by its ${LOCK}`);
  }
  throw exportBusy(folder, '');
}

const LOCK_TRIES = 5;

/** Null if the file is gone, or was cut off. */
function holderOf(file: string): { pid: number; host: string } | null {
  try {
    const { pid, host }: { pid?: unknown; host?: unknown } = JSON.parse(readFileSync(file, 'utf8'));
    return typeof pid === 'number' && typeof host === 'string' ? { pid, host } : null;
  } catch {
    return null;
  }
}

async function sink(file: string): Promise<FileSink> {
  const handle = await open(file, 'w');
  return {
    write: (bytes) =>
      told(file, async () => {
        for (let done = 0; done < bytes.length;) done += (await handle.write(bytes, done)).bytesWritten;
      }),
    close: () =>
      told(file, async () => {
        await handle.sync();
        await handle.close();
      }),
    abort: async () => {
      await handle.close().catch(() => undefined);
      await rm(file, { force: true }).catch(() => undefined);
    },
  };
}

async function textOf(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

async function filesIn(folder: string, below: string): Promise<PlacedFile[]> {
  const files: PlacedFile[] = [];
  for (const entry of await readdir(path.join(folder, below), { withFileTypes: true })) {
    const name = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) files.push(...(await filesIn(folder, name)));
    else files.push({ path: name, changedAt: (await stat(path.join(folder, name))).mtimeMs });
  }
  return files;
}

/** With the folders that are empty then. */
async function removeAll(folder: string, names: readonly string[]): Promise<void> {
  for (const name of names) await rm(path.join(folder, name), { force: true });
  const folders = new Set(names.flatMap((name) => foldersAbove(name)));
  for (const each of [...folders].toSorted((a, b) => b.length - a.length)) {
    await rmdir(path.join(folder, each)).catch(() => undefined);
  }
}

function foldersAbove(name: string): string[] {
  const above = path.posix.dirname(name);
  return above === '.' ? [] : [above, ...foldersAbove(above)];
}

/** New files are there after a power cut once their folders are on the disk as well. */
async function syncFolders(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) await syncFolders(path.join(folder, entry.name));
  }
  await syncFolder(folder);
}

const UNUSABLE = new Set([
  'EACCES',
  'ENOENT',
  'EPERM',
  'EROFS',
  'ENOTDIR',
  'EEXIST',
  'ENAMETOOLONG',
  'EISDIR',
  'ELOOP',
]);
const FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** The file system's errors in our words. */
async function told<T>(shown: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error);
    if (error instanceof SyncError || code === '') throw error;
    if (UNUSABLE.has(code)) {
      throw new ConfigError('export_unwritable', `${shown}: ${messageOf(error)}`, {
        hint: 'name a folder in which this user may make files',
        cause: error,
      });
    }
    const hint = FULL.has(code)
      ? 'make room on its volume and run the same command again: what the manifest lists is still whole'
      : 'check the volume, then run the same command again: what the manifest lists is still whole';
    const name = FULL.has(code) ? 'export_full' : 'export_failed';
    throw new SyncError(name, `${shown}: ${messageOf(error)}`, { recovery: 'stop', hint, cause: error });
  }
}
