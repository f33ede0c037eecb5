// What a destination of exports has to provide.
import type { Readable } from 'node:stream';
import { SyncError } from '../../model/errors.ts';

export interface TargetFile {
  /** Relative to the target, with forward slashes. */
  path: string;
  /** Epoch milliseconds. */
  changedAt: number;
}

/** The destination of an export. All methods throw `SyncError`, or `ConfigError` if the target cannot be used. */
export interface ExportTarget {
  /** Its name in messages. */
  readonly shown: string;
  /** True if no other export can write to it at the same time. */
  readonly isLocked: boolean;
  /** Lists all files; none if the target does not exist yet. */
  list(): Promise<TargetFile[]>;
  /** Returns null if there is no manifest. */
  readManifest(): Promise<string | null>;
  /** Writes a file, which is missing or incomplete if this throws. */
  write(path: string, body: Readable): Promise<void>;
  /** Replaces `previous` atomically. Throws `export_failed` if another export has replaced it. */
  putManifest(text: string, previous: string | null): Promise<void>;
  /** Removes files; missing ones are no error. */
  remove(paths: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

/** The name of the file that lists the files of an export. */
export const MANIFEST = 'manifest.json';

/** The error for a target to which another export writes; `by` says which, and begins with a colon, or is empty. */
export function exportBusy(shown: string, by: string): SyncError {
  return new SyncError('export_failed', `${shown}: another export writes there${by}`, {
    recovery: 'stop',
    hint: 'let it finish, and run the same command again; or export to another target',
  });
}
