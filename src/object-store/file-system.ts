import { existsSync, type Stats } from 'node:fs';
import { lstat, mkdir, open, opendir, rm } from 'node:fs/promises';
import path from 'node:path';
import { ConfigError, errorCode, messageOf, SyncError } from '../model/errors.ts';

// Functions on files and folders for stores and exports, and the errors that they throw.

/** Error codes of a folder that this user cannot use. */
export const UNUSABLE_CODES = new Set(
  'EACCES EEXIST EISDIR ELOOP ENAMETOOLONG ENOENT ENOTDIR EPERM EROFS EXDEV'.split(' '),
);
/** Error codes of a full disk, a quota or a file-size limit. */
export const FULL_CODES = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Calls `work`, and translates errors of the file system into `SyncError` or `ConfigError`. */
export async function mapStoreErrors<T>(shown: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw storeError(shown, error);
  }
}

/** The error of a store for a failed call of the file system; any other error unchanged. */
export function storeError(shown: string, error: unknown): unknown {
  const code = errorCode(error);
  if (error instanceof SyncError || code === '') return error;
  const message = `${shown}: ${messageOf(error)}`;
  if (FULL_CODES.has(code)) {
    return new SyncError('file_store_full', message, {
      recovery: 'retry',
      hint: 'make room on its volume (content-sync files prune removes what nothing shows any more); fetching then resumes by itself',
      cause: error,
    });
  }
  if (UNUSABLE_CODES.has(code)) {
    return new ConfigError('file_store_failed', message, {
      hint: 'give this user the right to make files there, and check that its volume is mounted and may be written to',
      cause: error,
    });
  }
  return new SyncError('file_store_failed', message, {
    recovery: 'retry',
    hint: 'check the volume; what was stored before is whole',
    cause: error,
  });
}

/**
 * Creates a folder with those above it. Level by level, because Node's `recursive` never ends if a file system
 * responds ENOENT, as /proc does.
 */
export async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await makeFolder(path.dirname(folder));
  await mkdir(folder).catch((error: unknown) => {
    if (errorCode(error) !== 'EEXIST') throw error;
  });
}

/** Flushes a folder, so that files that were renamed into it survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}

/** Returns the sorted names of the object folders, or of all files, in a folder; ignores links. */
export async function listNames(folder: string, of: 'folders' | 'files'): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of await opendir(folder)) {
    const isWanted = of === 'files' ? entry.isFile() : entry.isDirectory() && /^[0-9a-f]{2}$/.test(entry.name);
    if (isWanted) names.push(entry.name);
  }
  return names.toSorted();
}

/** Removes files that were last written before a time; returns their number. The folder may be missing. */
export async function removeOldFiles(folder: string, before: number): Promise<number> {
  if ((await lstatOrNull(folder)) === null) return 0;
  let removed = 0;
  for (const name of await listNames(folder, 'files')) {
    const file = path.join(folder, name);
    const stat = await regularFile(file);
    if (stat === null || stat.mtimeMs >= before) continue;
    await rm(file, { force: true });
    removed += 1;
  }
  return removed;
}

/** Null for anything but a file. */
export async function regularFile(file: string): Promise<{ size: number; mtimeMs: number } | null> {
  const stat = await lstatOrNull(file);
  return stat?.isFile() === true ? stat : null;
}

export async function lstatOrNull(path: string): Promise<Stats | null> {
  try {
    return await lstat(path);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
}
