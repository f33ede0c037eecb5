import type { FileStatus } from '../../warehouse/file-rows.ts';

/** What a round did with the files of a resource, and how they stand at its end; sizes in bytes. */
export interface FilesFigures extends Record<FileStatus, number> {
  /** Contents that were fetched, and their bytes. */
  fetched: number;
  bytes: number;
  /** Files that were asked for, or whose record tells it, and are as they were. */
  unchanged: number;
}
