// What a destination of exports has to provide.
import type { Readable } from 'node:stream';
import { SyncError } from '../../model/errors.ts';

/** A file in a place. */
export interface PlacedFile {
  /** Relative to the place, with forward slashes. */
  path: string;
  /** Epoch milliseconds. */
  changedAt: number;
}

/** The destination of an export. All methods throw `SyncError`, or `ConfigError` if the place cannot be used. */
export interface ExportPlace {
  /** Its name in messages. */
  readonly shown: string;
  /** True if no other export can write to it at the same time. */
  readonly isLocked: boolean;
  /** Lists all files; none if the place does not exist yet. */
  list(): Promise<PlacedFile[]>;
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

export const MANIFEST = 'manifest.json';

export function exportBusy(shown: string, by: string): SyncError {
  return new SyncError('export_failed', `${shown}: another export writes there${by}`, {
    recovery: 'stop',
    hint: 'let it finish, and run the same command again; or export to another place',
  });
}
