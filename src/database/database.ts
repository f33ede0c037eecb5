import type { Kysely } from 'kysely';
import type { Clock } from '../model/clock.ts';
import type { Coordination } from './coordination.ts';
import type { InboxViewer } from './inbox-queries.ts';
import type { Inbox } from './inbox.ts';
import type { ForgottenRow, OwnTables } from './own-tables.ts';
import type { WarehouseReader } from './reading.ts';
import type { SnapshotReader } from './snapshot-reader.ts';
import type { Warehouse } from './warehouse.ts';

/**
 * All that the house needs to know of the database at one address. Each kind of database declares it in its folder, and
 * `databases.ts` names the kinds; nothing above knows which one it talks to. All methods throw `ConfigError` if the
 * database cannot be used, and `SyncError`.
 */
export interface Database {
  /** Where it is, as a person would look for it; never with user or password. */
  readonly shown: string;
  /** The file that holds it; null for a server. */
  readonly file: string | null;
  /** The part that processes of many machines share; null if one process does all the work. */
  readonly shared: SharedDatabase | null;
  /** Opens (and makes, and migrates) the warehouse. */
  openWarehouse(clock: Clock): Promise<Warehouse>;
  /** The warehouse for those who only read: nothing is made or changed. Null if nothing of ours is there. */
  lookForWarehouse(clock: Clock): Promise<WarehouseReader | null>;
  /** The warehouse as it stands now, for those who read much of it; `isBeside` after `snapshot_lost`. Null if nothing of ours is there. */
  openSnapshot(clock: Clock, isBeside: boolean): Promise<SnapshotReader | null>;
  /** Names of tables and views that others made, where no warehouse is. Throws `ConfigError` if none could be made. */
  refuseMaking(clock: Clock): Promise<ReadonlySet<string>>;
  /** Address of the inbox that belongs to the warehouse. */
  readonly inbox: string;
  /** Opens (and makes, and migrates) the inbox at this address. */
  openInbox(clock: Clock, options?: InboxOptions): Promise<Inbox>;
  /** The inbox for those who only read; null if it is not there. */
  lookForInbox(clock: Clock): Promise<InboxViewer | null>;
  /** Lets a role read the copied tables and views, or no longer. */
  changeReaders(clock: Clock, request: ReadersRequest): Promise<Readers>;
  /** Writes warehouse and inbox as of one moment into one file. Throws `backup_unsupported`, with what to use instead, on a server. */
  backUp(request: BackupRequest): Promise<BackupReport>;
  /** Puts those of a backup in their place, both or none. Throws as `backUp` does, and `warehouse_in_use`. */
  restore(request: RestoreRequest): Promise<RestoreReport>;
  /** Files with rows in them that a killed restore has left. */
  restoreLeftovers(): string[];
  /** Throws if the warehouse is gone. `own` is called if the database itself has to be asked. */
  storedSizes(own: () => Kysely<OwnTables>): Promise<StoredSizes>;
}

/** Options that only some databases use; the others ignore them. */
export interface InboxOptions {
  /** Called in a transaction that leaves deliveries to be worked on: what it writes is there if they are. */
  asked?: (execute: ExecuteSql) => Promise<void>;
}

/** A database on which processes of many machines share the work of its sources. */
export interface SharedDatabase {
  /** The same text for all sources of one database; holds no secret. */
  readonly id: string;
  /** The source's own part of the database, which no other source of it has. */
  readonly namespace: string;
  openCoordination(clock: Clock): Promise<Coordination>;
  /** Statements that belong to no source. Opens no connection by itself, and does not throw. */
  connect(clock: Clock): SharedStatements;
}

/** Statements on tables that all sources of a database share, over the connections that they share. */
export interface SharedStatements {
  /** Waits for the server if it is away: a statement may then run twice. */
  readonly execute: ExecuteSql;
  /**
   * Runs text of one or several statements on a connection of its own, and gives values as the driver does by itself.
   * Tries for `retryForMs` while the server is away: it may then run twice; 0 for a single attempt.
   */
  run(text: string, values: readonly unknown[] | undefined, retryForMs: number): Promise<{ rows: unknown[] }>;
  close(): Promise<void>;
}

/** Runs one statement; values are bound. */
export type ExecuteSql = <Row extends object = Record<string, unknown>>(
  text: string,
  values?: readonly unknown[],
) => Promise<SqlResult<Row>>;

export interface SqlResult<Row> {
  rows: Row[];
  /** Rows that were read or changed; null for a statement that does neither. */
  rowCount: number | null;
}

/** Sizes in bytes of all that a source has in the warehouse; null if there is no such thing. */
export interface StoredSizes {
  file_bytes: number | null;
  wal_bytes: number | null;
}

export interface ReadersRequest {
  /** As it stands in the database, upper and lower case told apart. */
  role: string;
  /** Views, and no tables. */
  viewsOnly: boolean;
  /** Take the rights away instead. */
  revoke: boolean;
}

/** The tables of one source that a role may read now, or may no longer. */
export interface Readers {
  schema: string;
  /** The role was made just now, without a login. */
  isNew: boolean;
  /** Tables and views. */
  readable: string[];
  /** Those that belong to other roles: their rights are not ours to give. */
  others: string[];
}

export interface BackupRequest {
  /** The file to write; one that is there is replaced at the end, if it is a backup itself. */
  to: string;
  /** Name of the source. */
  source: string;
  /** Of content-sync. */
  version: string;
  clock: Clock;
  signal: AbortSignal;
}

export interface BackupReport {
  /** The moment as of which warehouse and inbox are in it, epoch milliseconds. */
  takenAt: number;
  /** Of the file. */
  bytes: number;
  hasInbox: boolean;
}

export interface RestoreRequest extends Pick<BackupRequest, 'source' | 'clock' | 'signal'> {
  /** A file that a backup has written. */
  from: string;
  /**
   * Called before the restored files take their places, if the warehouse that is replaced knows of erased records: has
   * the restored one know of them too. Returns how many of them are in it, and are to be erased again. Nothing is
   * restored if it throws.
   */
  carryForgotten(restored: RestoredParts, forgotten: readonly ForgottenRow[]): Promise<number>;
}

/** What is to take the place of a source's files, open and up to date. */
export interface RestoredParts {
  warehouse: Warehouse;
  /** Null if there is none. */
  inbox: Inbox | null;
}

export interface RestoreReport extends Pick<BackupReport, 'takenAt'> {
  /** Deliveries that were acknowledged after the backup: they wait to be worked on again. Null if they could not be read. */
  deliveries: number | null;
  /**
   * Records that were erased after the backup and are in it: to be erased again. Null if the warehouse that is replaced
   * is gone or could not be read.
   */
  forgotten: number | null;
}
