import type { Stats } from 'node:fs';
import { lstat, opendir, rm } from 'node:fs/promises';
import path from 'node:path';
import { codeOf } from './file-faults.ts';

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
