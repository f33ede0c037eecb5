import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** What was done with the files of a folder, as paths within it. */
export interface WrittenFiles {
  written: string[];
  unchanged: string[];
  /** Not ours, or changed by hand since we wrote them. */
  kept: string[];
  /** Of ours, and no longer wanted. */
  removed: string[];
}

/** What begins and ends a comment, by the end of a file's name. */
const COMMENTS: Readonly<Record<string, readonly [string, string]>> = {
  '.yml': ['# ', ''],
  '.yaml': ['# ', ''],
  '.service': ['# ', ''],
  '.timer': ['# ', ''],
  '.sql': ['{# ', ' #}'],
  '.md': ['<!-- ', ' -->'],
};

const MARK = /content-sync export wrote this, with the sum ([0-9a-f]{16})/;

/**
 * Writes files that each say in their first line who wrote them, so that another time those that were changed by hand
 * are told from those that were not: only the latter are written anew, or removed if they are no longer wanted. `force`
 * writes the wanted ones whatever stands there; `isWhole` is false if some that are wanted may be missing.
 */
export async function writeOwnedFiles(
  folder: string,
  files: ReadonlyMap<string, string>,
  { force, isWhole }: { force: boolean; isWhole: boolean },
): Promise<WrittenFiles> {
  const done: WrittenFiles = { written: [], unchanged: [], kept: [], removed: [] };
  for (const [name, body] of files) done[await writeOne(folder, name, body, force)].push(name);
  if (!isWhole) return done;
  for (const name of await filesIn(folder)) {
    if (files.has(name)) continue;
    const text = await readFile(path.join(folder, name), 'utf8');
    if (!isOurs(text)) continue;
    await rm(path.join(folder, name));
    done.removed.push(name);
  }
  return done;
}

async function writeOne(
  folder: string,
  name: string,
  body: string,
  force: boolean,
): Promise<'written' | 'unchanged' | 'kept'> {
  const file = path.join(folder, name);
  const text = marked(name, body);
  const there = existsSync(file) ? await readFile(file, 'utf8') : null;
  if (there?.replaceAll('\r\n', '\n') === text) return 'unchanged';
  if (there !== null && !force && !isOurs(there)) return 'kept';
  await mkdir(path.dirname(file), { recursive: true });
  // A reader never sees half a file.
  await writeFile(`${file}.part`, text);
  await rename(`${file}.part`, file);
  return 'written';
}

function marked(name: string, body: string): string {
  const [begin = '', end = ''] = COMMENTS[path.extname(name)] ?? [];
  return `${begin}content-sync export wrote this, with the sum ${sumOf(body)}: changed by hand, it is left alone.${end}\n${body}`;
}

/** True if we wrote the text and nobody has changed it. */
function isOurs(text: string): boolean {
  const [first = '', ...rest] = text.replaceAll('\r\n', '\n').split('\n');
  return MARK.exec(first)?.[1] === sumOf(rest.join('\n'));
}

function sumOf(body: string): string {
  return createHash('sha256').update(body).digest('hex').slice(0, 16);
}

/** Where files of ours may stand. */
const PLACES = ['models', 'tests'];

async function filesIn(folder: string): Promise<string[]> {
  const found = await Promise.all(
    PLACES.map(async (place) => {
      const entries = await readdir(path.join(folder, place), { recursive: true, withFileTypes: true }).catch(() => []);
      const files = entries.filter((entry) => entry.isFile() && path.extname(entry.name) in COMMENTS);
      return files.map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
    }),
  );
  return found.flat().toSorted();
}
