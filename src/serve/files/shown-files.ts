import type { Readable } from 'node:stream';

/** A content that a row of a copy names. */
export interface ShownFile {
  sha256: string;
  bytes: number;
  /** By its content. */
  type: string;
}

/** The contents of files of the sources that are served, for who looks at them. */
export interface ShownFiles {
  /** Null if no row names it, or there is no such source. */
  find(source: string, sha256: string): Promise<ShownFile | null>;
  /** A part of it. Throws `SyncError` (`file_missing`) if the store does not have it. */
  read(source: string, sha256: string, part: { from: number; bytes: number }): Promise<Readable>;
}
