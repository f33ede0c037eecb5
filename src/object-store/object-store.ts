import type { Readable } from 'node:stream';

/** One content in a store. */
export interface StoredObject {
  sha256: string;
  bytes: number;
  /** Epoch milliseconds. */
  storedAt: number;
}

/** Where the bytes of files stand under their SHA-256: one object per distinct content. */
export interface ObjectStore {
  /** `StoreAddress.name`: what rows are kept under. */
  readonly name: string;
  /** As a person may read it. */
  readonly shown: string;
  /** Folder for unfinished downloads; on the same file system as a disk store. */
  readonly spool: string;
  /**
   * Durable when it resolves: a reader finds the whole object or none. The file at `path` is moved or removed.
   * Idempotent. Throws `SyncError` (`file_store_full`, retry) when there is no room.
   */
  put(object: { path: string; sha256: string; bytes: number; type: string }): Promise<void>;
  head(sha256: string): Promise<StoredObject | null>;
  /** Throws `SyncError` (`file_missing`, skip). */
  read(sha256: string): Promise<Readable>;
  list(): AsyncIterable<StoredObject>;
  /** No error if it is not there. */
  remove(sha256: string): Promise<void>;
  /** Removes unfinished downloads and uploads that are older than this; returns how many. */
  sweepUnfinished(olderThanMs: number): Promise<number>;
  close(): Promise<void>;
}
