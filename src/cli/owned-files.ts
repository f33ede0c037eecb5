import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ConfigError, messageOf } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { countOf } from '../observe/figures.ts';

/** What was done with the files of a folder, as paths within it. */
export interface WrittenFiles {
  written: string[];
  unchanged: string[];
  /** Not ours, or changed by hand since we wrote them. */
  kept: string[];
  /** Of ours, and no longer wanted. */
  removed: string[];
}

/** What begins and ends a comment, by the end of a file's name; `line` is where it stands, from 0. */
const COMMENTS: Readonly<Record<string, { begin: string; end: string; line: number }>> = {
  '.yml': { begin: '# ', end: '', line: 0 },
  '.yaml': { begin: '# ', end: '', line: 0 },
  '.service': { begin: '# ', end: '', line: 0 },
  '.timer': { begin: '# ', end: '', line: 0 },
  '.sql': { begin: '{# ', end: ' #}', line: 0 },
  '.md': { begin: '<!-- ', end: ' -->', line: 0 },
  // JSON has no comments: a dashboard has a description.
  '.json': { begin: '  "description": "', end: '",', line: 1 },
};

const MARK = /content-sync export wrote this, with the sum ([0-9a-f]{16})/;

/**
 * Writes files that each say at their beginning who wrote them, so that another time those that were changed by hand
 * are told from those that were not: only the latter are written anew, or removed if they are no longer wanted. `force`
 * writes the wanted ones whatever stands there; `isWhole` is false if some that are wanted may be missing. Throws
 * `ConfigError` for a folder that cannot be written.
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
  for (const [name, body] of files) done[await writeOne(folder, name, body, force)].push(name);
  if (!isWhole) return done;
  for (const name of await filesIn(folder)) {
    if (files.has(name)) continue;
    const text = await readFile(path.join(folder, name), 'utf8');
    if (!isOurs(name, text)) continue;
    await rm(path.join(folder, name));
    done.removed.push(name);
  }
  return done;
}

/** What was done, for a person; `leftOut` are views that are no longer copied. */
export function writtenText(
  folder: string,
  { written, unchanged, kept, removed }: WrittenFiles,
  leftOut: readonly string[] = [],
): string {
  const lines = [
    `${folder}: ${countOf(written.length, 'file')} written, ${unchanged.length} as they were`,
    ...removed.map((name) => `removed, because its table is gone: ${name}`),
    ...leftOut.map((name) => `left out, because it is no longer copied: ${name}`),
    ...kept.map((name) => `left alone, because it was changed by hand: ${name}`),
    ...(kept.length === 0 ? [] : ['  → move your changes to a file of your own, or write them over with --force']),
  ];
  return lines.map(visibleText).join('\n');
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
  if (there !== null && !force && !isOurs(name, there)) return 'kept';
  await mkdir(path.dirname(file), { recursive: true });
  // A reader never sees half a file.
  await writeFile(`${file}.part`, text);
  await rename(`${file}.part`, file);
  return 'written';
}

function marked(name: string, body: string): string {
  const { begin = '', end = '', line = 0 } = COMMENTS[path.extname(name)] ?? {};
  const mark = `${begin}content-sync export wrote this, with the sum ${sumOf(body)}: changed by hand, it is left alone.${end}`;
  return body.split('\n').toSpliced(line, 0, mark).join('\n');
}

/** True if we wrote the text and nobody has changed it. */
function isOurs(name: string, text: string): boolean {
  const lines = text.replaceAll('\r\n', '\n').split('\n');
  const [mark = ''] = lines.splice(COMMENTS[path.extname(name)]?.line ?? 0, 1);
  return MARK.exec(mark)?.[1] === sumOf(lines.join('\n'));
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
