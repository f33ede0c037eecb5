import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { z } from 'zod';

/** What a restore leaves beside a file: the one that takes its place, and the one that had it until then. */
export const RESTORED = '.restored';
const REPLACED = '.replaced';

/** Paths of files that are to be replaced. */
const decisionSchema = z.strictObject({ replace: z.array(z.string()) });

/** From here on a restore is done, whoever carries it out: beside the inbox, whose name both files of a source know. */
function decisionOf(inbox: string): string {
  return `${inbox}.restore`;
}

/** Decides that the restored files take their places, all of them or, before this is on disk, none. */
export function decideRestore(inbox: string, files: readonly string[]): void {
  const decision = decisionOf(inbox);
  const next = `${decision}.next`;
  writeFileSync(next, JSON.stringify({ replace: files }), { mode: 0o600, flush: true });
  renameSync(next, decision);
  syncFolder(decision);
}

/**
 * Carries out a restore that was decided, if there is one; called before a source's files are opened, by whomever. Each
 * step may have been done already, by a process that was killed or by one that does the same just now.
 */
export function finishRestore(inbox: string): void {
  const decision = decisionOf(inbox);
  const files = decided(decision);
  if (files === null) return;
  for (const file of files) {
    // The old file stays reachable until all is done.
    unless(NOT_LINKED, () => linkSync(file, `${file}${REPLACED}`));
    unless(MOVED, () => renameSync(`${file}${RESTORED}`, file));
    syncFolder(file);
  }
  rmSync(decision, { force: true });
  syncFolder(decision);
  for (const file of files) rmSync(`${file}${REPLACED}`, { force: true });
}

/** What a killed restore has left beside these files. */
export function leftoversOf(files: readonly string[]): string[] {
  return files.flatMap((file) => [RESTORED, REPLACED].map((end) => file + end)).filter((file) => existsSync(file));
}

function decided(decision: string): readonly string[] | null {
  if (!existsSync(decision)) return null;
  try {
    return decisionSchema.parse(JSON.parse(readFileSync(decision, 'utf8'))).replace;
  } catch (error) {
    // Another process has finished it since.
    if (!existsSync(decision)) return null;
    throw error;
  }
}

/** Codes of what is done already. */
const MOVED: readonly string[] = ['ENOENT'];
/** There is none, it is linked already, or the file system knows no links. */
const NOT_LINKED: readonly string[] = ['ENOENT', 'EEXIST', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK', 'ENOSYS'];

function unless(passed: readonly string[], step: () => void): void {
  try {
    step();
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && passed.includes(String(error.code)))) throw error;
  }
}

/** Makes the names in a file's folder durable, where the system can. */
export function syncFolder(file: string): void {
  try {
    const folder = openSync(path.dirname(file), 'r');
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  } catch {
    // Such as on Windows, where folders cannot be opened.
  }
}
