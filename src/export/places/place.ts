import { SyncError } from '../../model/errors.ts';

/** A file that stands in a place. */
export interface PlacedFile {
  /** Below the place, with forward slashes. */
  path: string;
  /** Epoch milliseconds. */
  changedAt: number;
}

/** One file as it is written. It is not there, or not whole, before `close`. */
export interface PartSink {
  write(bytes: Uint8Array): Promise<void>;
  close(): Promise<void>;
  /** Leaves nothing of it, as far as that can be done. Never throws. */
  abort(): Promise<void>;
}

/** Where an export lies. All methods throw `SyncError`, and `ConfigError` if the place cannot be used. */
export interface Place {
  /** For people. */
  readonly shown: string;
  /** True if nobody else writes to it meanwhile. */
  readonly isLocked: boolean;
  /** All files; none if the place is not there yet. */
  list(): Promise<PlacedFile[]>;
  /** Null if it is not there. */
  readManifest(): Promise<string | null>;
  create(path: string): Promise<PartSink>;
  /** In place of `previous`, at once or not at all. Throws `export_busy` if another one stands there by now. */
  putManifest(text: string, previous: string | null): Promise<void>;
  /** Those that are there. */
  remove(paths: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export const MANIFEST = 'manifest.json';

export function exportBusy(shown: string, by: string): SyncError {
  return new SyncError('export_busy', `${shown}: another export writes there${by}`, {
    recovery: 'stop',
    hint: 'let it finish, and run the same command again; or export to another place',
  });
}
