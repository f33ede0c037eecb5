// The interface of a file store, and the paths of its objects.
import type { Readable } from 'node:stream';
import { SyncError } from '../model/errors.ts';

/** The content of a file in a store. */
export interface StoredObject {
  sha256: string;
  bytes: number;
  /** Epoch milliseconds. */
  storedAt: number;
}

/** Stores files under the SHA-256 of their bytes, in a folder or a bucket: one object per distinct content. */
export interface ObjectStore {
  /** `StoreAddress.name`, which rows refer to. */
  readonly name: string;
  /** Its name in messages. */
  readonly shown: string;
  /** Folder for unfinished downloads; on the same file system as a disk store. */
  readonly spool: string;
  /**
   * Moves the file at `path` into the store. After it has resolved, a reader finds the complete object, even after a power
   * cut; before that, the complete object or none. Idempotent. Throws `SyncError` (`file_store_full`, retry) without room.
   */
  put(object: { path: string; sha256: string; bytes: number; type: string }): Promise<void>;
  /** Looks an object up without reading it; null if the store does not have it. */
  head(sha256: string): Promise<StoredObject | null>;
  /** Throws `SyncError` (`file_missing`, skip). */
  read(sha256: string): Promise<Readable>;
  list(): AsyncIterable<StoredObject>;
  /** A missing object is no error. */
  remove(sha256: string): Promise<void>;
  /** Removes unfinished downloads and uploads that are older than this; returns their number. */
  removeUnfinished(olderThanMs: number): Promise<number>;
  /** Marks the store as that of a database, by a name of letters and digits, unless it has an owner. */
  setOwner(owner: string): Promise<void>;
  /** The stored owner; null without one. */
  owner(): Promise<string | null>;
  close(): Promise<void>;
}

/** Name of the file or object that holds the owner. */
export const OWNER = '.owner';

const SHA256 = /^[0-9a-f]{64}$/;

/** Returns the path of an object below its store: a folder named by its first two digits, and its hash. */
export function objectPath(sha256: string): string {
  // The hash may come from a service, which must not choose another path.
  if (!SHA256.test(sha256)) throw objectMissing(sha256);
  return `${sha256.slice(0, 2)}/${sha256}`;
}

/** Returns the hash of the object at a path below its store; null for any other path. */
export function objectAt(path: string): string | null {
  const [, folder = '', sha256 = ''] = /^([0-9a-f]{2})\/([0-9a-f]{64})$/.exec(path) ?? [];
  return sha256.startsWith(folder) && sha256 !== '' ? sha256 : null;
}

/** The error for an object that a store should have. */
export function objectMissing(sha256: string): SyncError {
  return new SyncError('file_missing', `the store has no object ${sha256}`, {
    recovery: 'skip',
    hint: 'content-sync files verify --repair fetches what is missing again',
  });
}
