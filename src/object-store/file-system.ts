import { existsSync, type Stats } from 'node:fs';
import { lstat, mkdir, open, opendir, rm } from 'node:fs/promises';
import path from 'node:path';
import { ConfigError, messageOf, SyncError } from '../model/errors.ts';

const UNUSABLE = new Set([
  'EACCES',
  'EEXIST',
  'EISDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'ENOENT',
  'ENOTDIR',
  'EPERM',
  'EROFS',
  'EXDEV',
]);
const FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Runs `work` on a file or folder of a store, and throws errors of the file system as `SyncError` or `ConfigError`. */
export async function mapStoreErrors<T>(shown: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw storeFault(shown, error);
  }
}

/** What a failed call of the file system means for a store; anything else as it is. */
export function storeFault(shown: string, error: unknown): unknown {
  const code = codeOf(error);
  if (error instanceof SyncError || code === '') return error;
  const message = `${shown}: ${messageOf(error)}`;
  if (FULL.has(code)) {
    return new SyncError('file_store_full', message, {
      recovery: 'retry',
      hint: 'make room on its volume (content-sync files prune removes what nothing shows any more); fetching goes on by itself then',
      cause: error,
    });
  }
  if (UNUSABLE.has(code)) {
    return new ConfigError('file_store_unwritable', message, {
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

/** The code of a failed call of the file system; empty for anything else. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** Makes a folder with those above it. Level by level: Node's own `recursive` never ends where a file system answers ENOENT, as /proc does. */
export async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await makeFolder(path.dirname(folder));
  await mkdir(folder).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error;
  });
}

/** What was renamed into a folder is there after a power cut once the folder is on the disk as well. */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}

/** Folders, or files, by their names; links are neither. */
export async function namesIn(folder: string, areFolders: boolean): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of await opendir(folder)) {
    const isWanted = areFolders ? entry.isDirectory() && /^[0-9a-f]{2}$/.test(entry.name) : entry.isFile();
    if (isWanted) names.push(entry.name);
  }
  return names.toSorted();
}

/** Removes the files of a folder that were not written to since then; a folder that is not there has none. */
export async function sweepFolder(folder: string, before: number): Promise<number> {
  if ((await lstatOf(folder)) === null) return 0;
  let swept = 0;
  for (const name of await namesIn(folder, false)) {
    const file = path.join(folder, name);
    const stat = await regularFile(file);
    if (stat === null || stat.mtimeMs >= before) continue;
    await rm(file, { force: true });
    swept += 1;
  }
  return swept;
}

/** Null if it is not there, or no file. */
export async function regularFile(file: string): Promise<{ size: number; mtimeMs: number } | null> {
  const stat = await lstatOf(file);
  return stat?.isFile() === true ? stat : null;
}

export async function lstatOf(place: string): Promise<Stats | null> {
  try {
    return await lstat(place);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}
