// Writes generated files into a folder of the user without overwriting what the user has changed.
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ConfigError, messageOf } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { countOf } from '../observe/figures.ts';
import { textHash } from '../rows/records/record-key.ts';

/** What was done with the files of a folder, as paths within it. */
export interface WrittenFiles {
  written: string[];
  unchanged: string[];
  /** Not written by an export, or changed by hand since. */
  kept: string[];
  /** Written by an earlier export and no longer part of it. */
  removed: string[];
}

/** Contains the hashes of the written files by path: a file with another hash was changed by hand. */
const MANIFEST = '.content-sync-export.json';
/** Folders from which outdated files are removed. */
const REMOVABLE = /^(?:models|tests)\//;

/**
 * Writes files, but leaves alone those that were changed by hand unless `force` is set. Removes outdated files if
 * `isWhole`: false means that some wanted files may be missing. Throws `ConfigError` if the folder is not writable.
 */
export async function writeOwnedFiles(
  folder: string,
  files: ReadonlyMap<string, string>,
  choice: { force: boolean; isWhole: boolean },
): Promise<WrittenFiles> {
  try {
    return await writeAll(folder, files, choice);
  } catch (error) {
    const hint = 'name a folder that this user may write to';
    throw new ConfigError('usage', `${folder} cannot be written: ${messageOf(error)}`, { hint, cause: error });
  }
}

async function writeAll(
  folder: string,
  files: ReadonlyMap<string, string>,
  { force, isWhole }: { force: boolean; isWhole: boolean },
): Promise<WrittenFiles> {
  const done: WrittenFiles = { written: [], unchanged: [], kept: [], removed: [] };
  const manifest = path.join(folder, MANIFEST);
  const stored: Record<string, string> = JSON.parse((await textAt(manifest)) ?? '{}');
  const hashes = new Map(Object.entries(stored));
  for (const [name, text] of files) {
    const current = await textAt(path.join(folder, name));
    const isChanged = current !== null && textHash(current) !== hashes.get(name);
    if (current === text) done.unchanged.push(name);
    else if (isChanged && !force) done.kept.push(name);
    else {
      await writeWhole(path.join(folder, name), text);
      done.written.push(name);
    }
    if (!done.kept.includes(name)) hashes.set(name, textHash(text));
  }
  for (const [name, hash] of isWhole ? hashes : []) {
    if (files.has(name) || !REMOVABLE.test(name)) continue;
    hashes.delete(name);
    const current = await textAt(path.join(folder, name));
    if (current === null || textHash(current) !== hash) continue;
    await rm(path.join(folder, name));
    done.removed.push(name);
  }
  await writeWhole(manifest, `${JSON.stringify(Object.fromEntries(hashes), null, 2)}\n`);
  return done;
}

/** What was done, for the user; `leftOut` are views that are no longer copied. */
export function writtenText(
  folder: string,
  { written, unchanged, kept, removed }: WrittenFiles,
  leftOut: readonly string[] = [],
): string {
  const lines = [
    `${folder}: ${countOf(written.length, 'file')} written, ${unchanged.length} unchanged`,
    ...removed.map((name) => `removed, because its table no longer exists: ${name}`),
    ...leftOut.map((name) => `left out, because it is no longer copied: ${name}`),
    ...kept.map((name) => `not overwritten, because it was changed by hand: ${name}`),
    ...(kept.length === 0 ? [] : ['  → move your changes to a file of your own, or overwrite them with --force']),
  ];
  return lines.map(visibleText).join('\n');
}

/** With the line ends that were written: git may have changed them. */
async function textAt(file: string): Promise<string | null> {
  return existsSync(file) ? (await readFile(file, 'utf8')).replaceAll('\r\n', '\n') : null;
}

/** Writes to a temporary file and renames it, so that a reader never sees half a file. */
async function writeWhole(file: string, text: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(`${file}.part`, text);
  await rename(`${file}.part`, file);
}
