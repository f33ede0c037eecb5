import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';

/** The file that takes the place of another one, beside that. */
export const RESTORED = '.restored';

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
    try {
      renameSync(`${file}${RESTORED}`, file);
    } catch (error) {
      // It is done already.
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    }
    syncFolder(file);
  }
  rmSync(decision, { force: true });
  syncFolder(decision);
}

/** What a killed restore has left beside these files. */
export function leftoversOf(files: readonly string[]): string[] {
  return files.map((file) => file + RESTORED).filter((file) => existsSync(file));
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
