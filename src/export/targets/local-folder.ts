// A local folder as the destination of an export. Its readers see the previous export until the new one is complete, because the
// manifest, which lists the files, is replaced last.
import { createWriteStream, readFileSync } from 'node:fs';
import { access, constants, open, readdir, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { isOtherRunning, processNamespace } from '../../database/state/leases.ts';
import { ConfigError, errorCode, messageOf, SyncError } from '../../model/errors.ts';
import { FULL_CODES, makeFolder, syncFolder, UNUSABLE_CODES } from '../../object-store/file-system.ts';
import { exportBusy, type ExportTarget, MANIFEST, type TargetFile } from './export-target.ts';

/** Names the process that writes to the folder. */
export const LOCK = '.content-sync-export.lock';
/** The manifest before it is renamed into place. */
export const NEXT_MANIFEST = '.manifest.json.next';

/** Opens a local folder, creating it if it is missing. The first write locks it until it is closed. */
export async function openFolder(folder: string): Promise<ExportTarget> {
  return withFolderErrors(folder, async () => {
    await makeFolder(folder);
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    return lockableFolder(folder);
  });
}

function lockableFolder(folder: string): ExportTarget {
  const at = (name: string): string => path.join(folder, ...name.split('/'));
  let isLocked = false;
  const lockOnce = async (): Promise<void> => {
    if (!isLocked) await lock(folder);
    isLocked = true;
  };
  return {
    shown: folder,
    isLocked: true,
    list: () => withFolderErrors(folder, () => listFiles(folder)),
    readManifest: () => withFolderErrors(folder, () => readIfExists(at(MANIFEST))),
    write: (name, body) =>
      withFolderErrors(at(name), async () => {
        await lockOnce();
        await makeFolder(path.dirname(at(name)));
        await pipeline(body, createWriteStream(at(name), { flush: true }));
      }),
    putManifest: (text, previous) =>
      withFolderErrors(folder, async () => {
        await lockOnce();
        if ((await readIfExists(at(MANIFEST))) !== previous) throw exportBusy(folder, '');
        await syncFolders(folder);
        await writeFile(at(NEXT_MANIFEST), text, { flush: true });
        await rename(at(NEXT_MANIFEST), at(MANIFEST));
        await syncFolder(folder);
      }),
    remove: (names) => withFolderErrors(folder, () => removeAll(folder, names)),
    close: async () => {
      if (isLocked) await rm(at(LOCK), { force: true });
      isLocked = false;
    },
  };
}

/** Throws `export_failed` if a running process has locked the folder. */
async function lock(folder: string): Promise<void> {
  const file = path.join(folder, LOCK);
  const self = { pid: process.pid, host: processNamespace(false) };
  for (let attempt = 0; attempt < MAX_LOCK_ATTEMPTS; attempt += 1) {
    try {
      await using handle = await open(file, 'wx');
      await handle.writeFile(JSON.stringify(self));
      return;
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error;
    }
    const holder = readHolder(file);
    // A process on another machine cannot be looked up: the user has to remove its lock.
    if (holder === null || (holder.host === self.host && !isOtherRunning(holder.pid))) await rm(file, { force: true });
    else throw exportBusy(folder, `: process ${holder.pid} of ${holder.host.split(' ')[0] ?? ''}, by its ${LOCK}`);
  }
  throw exportBusy(folder, '');
}

const MAX_LOCK_ATTEMPTS = 5;

/** Returns null if the file is missing or incomplete. */
function readHolder(file: string): { pid: number; host: string } | null {
  try {
    const { pid, host }: { pid?: unknown; host?: unknown } = JSON.parse(readFileSync(file, 'utf8'));
    return typeof pid === 'number' && typeof host === 'string' ? { pid, host } : null;
  } catch {
    return null;
  }
}

async function readIfExists(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
}

async function listFiles(folder: string): Promise<TargetFile[]> {
  const files: TargetFile[] = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) continue;
    const file = path.join(entry.parentPath, entry.name);
    const name = path.relative(folder, file).replaceAll(path.sep, '/');
    files.push({ path: name, changedAt: (await stat(file)).mtimeMs });
  }
  return files;
}

/** Also removes the folders that become empty. */
async function removeAll(folder: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    await rm(path.join(folder, name), { force: true });
    // A folder that still has files stays, because `rmdir` fails.
    for (let parent = path.dirname(name); parent !== '.'; parent = path.dirname(parent)) {
      await rmdir(path.join(folder, parent)).catch(() => undefined);
    }
  }
}

/** New files only survive a power cut once their folders are synced too. */
async function syncFolders(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) await syncFolder(path.join(entry.parentPath, entry.name));
  }
  await syncFolder(folder);
}

/** Turns errors of the file system into `SyncError`s with a hint. */
async function withFolderErrors<T>(shown: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = errorCode(error);
    if (error instanceof SyncError || code === '') throw error;
    if (UNUSABLE_CODES.has(code)) {
      throw new ConfigError('export_unwritable', `${shown}: ${messageOf(error)}`, {
        hint: 'name a folder in which this user may create files',
        cause: error,
      });
    }
    const fix = FULL_CODES.has(code) ? 'make room on its volume' : 'check the volume';
    const hint = `${fix}, then run the same command again: the files that the manifest lists are complete`;
    throw new SyncError('export_failed', `${shown}: ${messageOf(error)}`, { recovery: 'stop', hint, cause: error });
  }
}
