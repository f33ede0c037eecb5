// The interface that each kind of database (SQLite, Postgres) implements, with the types of its arguments and results.
import type { Kysely } from 'kysely';
import type { Clock } from '../model/clock.ts';
import type { Coordination } from './coordination.ts';
import type { Inbox, InboxViewer } from './inbox.ts';
import type { OwnTables } from './own-tables.ts';
import type { WarehouseReader } from './reading.ts';
import type { SnapshotReader } from './snapshot-reader.ts';
import type { Warehouse } from './warehouse.ts';

/**
 * The database at one address. Each kind of database implements it in its folder, and `databases.ts` lists the kinds: no
 * other code knows which kind it uses. All methods throw `ConfigError` if the database cannot be used, and `SyncError`.
 */
export interface Database {
  /** The address for messages, without user and password. */
  readonly shown: string;
  /** Its file; null for a server. */
  readonly file: string | null;
  /** Lets processes of several machines share the work; null if one process does all of it (SQLite). */
  readonly shared: SharedDatabase | null;
  /** Opens (and creates, and migrates) the warehouse. */
  openWarehouse(clock: Clock): Promise<Warehouse>;
  /** Opens the warehouse for reading, and changes nothing. Null if it has no internal tables. */
  openExistingWarehouse(clock: Clock): Promise<WarehouseReader | null>;
  /**
   * Opens a snapshot of the warehouse; null if it has no internal tables. `isShared` is true if another process has written
   * to the file of an earlier snapshot (`SnapshotLost`).
   */
  openSnapshot(clock: Clock, isShared: boolean): Promise<SnapshotReader | null>;
  /** Returns names of external tables and views. Throws `ConfigError` if the warehouse could not be created. */
  assertWritable(clock: Clock): Promise<ReadonlySet<string>>;
  /** Address of the inbox of the warehouse. */
  readonly inbox: string;
  /** Opens (and creates, and migrates) the inbox at this address. */
  openInbox(clock: Clock, options?: InboxOptions): Promise<Inbox>;
  /** Opens the inbox for reading; null if it does not exist. */
  openExistingInbox(clock: Clock): Promise<InboxViewer | null>;
  /** Grants a role the right to read the copied tables and views, or revokes it. */
  changeReaders(clock: Clock, request: ReadersRequest): Promise<Readers>;
  /** Writes the warehouse as of now into a file; returns its size. On a server, throws `ConfigError` with a hint. */
  backUp(to: string, signal: AbortSignal): Promise<number>;
  /** Throws if the file no longer exists. Only a server calls `own`, to query its sizes. */
  storedSizes(own: () => Kysely<OwnTables>): Promise<StoredSizes>;
}

/** Options that only some databases use. */
export interface InboxOptions {
  /** Called in the transaction that stores deliveries, to request that a process handles them. */
  requestDrain?: (execute: ExecuteSql) => Promise<void>;
}

/** A database in which processes of many machines share the work of its sources. */
export interface SharedDatabase {
  /** The same text for all sources of one database; contains no secret. */
  readonly id: string;
  /** The part of the database that only this source uses. */
  readonly namespace: string;
  openCoordination(clock: Clock): Promise<Coordination>;
  /** Statements that belong to no source. Opens no connection, and does not throw. */
  connect(clock: Clock): SharedStatements;
}

/** Statements on tables that all sources of a database share. */
export interface SharedStatements {
  /** Waits while the server cannot be reached: a statement may then run twice. */
  readonly execute: ExecuteSql;
  /**
   * Runs one or several statements on a separate connection, and returns values as the driver does. Retries for
   * `retryForMs` while the server cannot be reached, so that they may run twice; 0 for a single attempt.
   */
  run(text: string, values: readonly unknown[] | undefined, retryForMs: number): Promise<{ rows: unknown[] }>;
  close(): Promise<void>;
}

/** Runs one statement with bound values. */
export type ExecuteSql = <Row extends object = Record<string, unknown>>(
  text: string,
  values?: readonly unknown[],
) => Promise<SqlResult<Row>>;

export interface SqlResult<Row> {
  rows: Row[];
  /** Rows that were read or changed; null for a statement that does neither. */
  rowCount: number | null;
}

/** Sizes of a source's data in bytes; null if it has no such file. */
export interface StoredSizes {
  file_bytes: number | null;
  wal_bytes: number | null;
}

export interface ReadersRequest {
  /** The exact name, case-sensitive. */
  role: string;
  revoke: boolean;
}

/** The relations of one source that a role may read now, or no longer. */
export interface Readers {
  schema: string;
  /** True if the role was created, without a login. */
  isNew: boolean;
  /** Tables and views. */
  readable: string[];
  /** Relations of other roles, whose rights we may not change. */
  others: string[];
}
