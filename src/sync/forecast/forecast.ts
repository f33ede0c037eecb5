import type { ColumnType, WalkMode } from '../../model/vocabulary.ts';

/** What one walk of a resource will take. Null is not known: nothing here is guessed. */
export interface WalkForecast {
  mode: WalkMode;
  /** Records that will be read. */
  records: number | null;
  requests: number | null;
  /** Bytes of the answers, as they come over the network. */
  transfer_bytes: number | null;
}

/** What the copy of a resource will hold when all of it is copied. */
export interface CopyForecast {
  rows: number | null;
  child_rows: number | null;
  /** On the database's disk, with versions and indexes, without what it holds of other resources. */
  disk_bytes: number | null;
}

/** What is left to fetch of the files of a resource's records; those of records that change are asked for again. */
export interface FilesForecast {
  /** One for each file that is not here yet. */
  requests: number | null;
  /** Of their contents, each once for each file that shows it. */
  bytes: number | null;
  /** What the bytes are reckoned from: what the records say of the sizes, else the mean of those that are here. */
  by: 'records' | 'stored' | null;
}

/** A column that will be another one than it is, or that comes or goes. */
export interface ColumnForecast {
  table: string;
  column: string;
  /** Null for one that comes. */
  from: ColumnType | null;
  /** Null for one that goes: nothing fills it any more. */
  to: ColumnType | null;
}

/** What a run will do to one resource, from one page of each listing that it would read. */
export interface ResourceForecast {
  resource: string;
  /** How it is walked by the next run. */
  walk: WalkForecast;
  /** What a whole walk takes, such as each `full` one of the schedule. */
  whole: WalkForecast;
  copy: CopyForecast;
  /** Null if no files are copied. */
  files: FilesForecast | null;
  /** Why it is walked so, what is not known, and what will be done differently: sentences without a final period. */
  notes: string[];
  /** Of the page that was read, against the tables that stand; empty if there are none yet. */
  columns: ColumnForecast[];
  /** True if the run will be refused until the profile is put back, or the resource is copied anew. */
  is_refused: boolean;
}
