import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { hasErrorCode } from '../connection/errors.ts';

/** The end of the name of a file that is to replace another one. */
export const RESTORED = '.restored';

/** Paths of files that are to be replaced. */
const decisionSchema = z.strictObject({ replace: z.array(z.string()) });

/** Once this file exists, the restore is completed. It is beside the inbox, whose path both files of a source know. */
function decisionFile(inbox: string): string {
  return `${inbox}.restore`;
}

/** Decides that the restored files replace the others: all of them or, before this is on disk, none. */
export function decideRestore(inbox: string, files: readonly string[]): void {
  const decision = decisionFile(inbox);
  writeFileSync(`${decision}.next`, JSON.stringify({ replace: files }), { mode: 0o600, flush: true });
  renameSync(`${decision}.next`, decision);
  syncFolder(decision);
}

/**
 * Completes a restore that was decided. It must run before the source's files are opened. A process that was killed, or
 * a concurrent one, may have done any of the steps.
 */
export function finishRestore(inbox: string): void {
  const decision = decisionFile(inbox);
  const files = readDecision(decision);
  if (files === null) return;
  for (const file of files) {
    try {
      renameSync(`${file}${RESTORED}`, file);
    } catch (error) {
      if (!hasErrorCode(error, /^ENOENT$/)) throw error;
    }
    syncFolder(file);
  }
  rmSync(decision, { force: true });
  syncFolder(decision);
}

function readDecision(decision: string): readonly string[] | null {
  if (!existsSync(decision)) return null;
  try {
    return decisionSchema.parse(JSON.parse(readFileSync(decision, 'utf8'))).replace;
  } catch (error) {
    // Another process has completed it since.
    if (!existsSync(decision)) return null;
    throw error;
  }
}

/** Makes the names in a file's folder durable, on systems that support it. */
export function syncFolder(file: string): void {
  try {
    const folder = openSync(path.dirname(file), 'r');
    try {
      fsyncSync(folder);
    } finally {
      closeSync(folder);
    }
  } catch {
    // Windows cannot open folders.
  }
}
