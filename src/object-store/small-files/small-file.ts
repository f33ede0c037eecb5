/** A file that is written beside its place, made durable and renamed. */
export interface SmallFile {
  /** Where it is written, and where it goes; both on one file system. */
  path: string;
  target: string;
  bytes: number;
  /** Rights, such as `0o640`. */
  fileMode: number;
}

/** Files that a thread is to write, with their contents one behind the other. */
export interface AskedFiles {
  /** Number of the first; the others follow. */
  first: number;
  files: readonly SmallFile[];
  contents: Uint8Array<ArrayBuffer>;
}

/** One that is written, or why it is not: what the file system said. */
export interface WrittenFile {
  number: number;
  error: { message: string; code: string } | null;
}
