import type { CompiledQuery, Kysely } from 'kysely';
import type { Cell, ResourceShape, ShapeChange, TableRows, TableShape } from '../model/table.ts';
import type { HistoryPolicy } from '../model/words.ts';
import type { OwnTables, TimestampText } from './own-tables.ts';

/** What is known of a row that is already there. */
export interface StoredRow {
  hash: string;
  version: number;
  syncedAt: TimestampText;
  /** The cell of the column asked for as `updated`; null where there is none. */
  updated: Cell;
}

/** Columns of ours in one row of a resource's own table. */
export interface RowStamp {
  hash: string;
  version: number;
}

/** One body to be remembered; `version` 1 is a record never seen before. */
export interface NewVersion {
  id: string;
  version: number;
  hash: string;
  body: string;
}

/** The owner of a resource, as checked inside every transaction that writes it. */
export interface LeaseProof {
  name: string;
  token: number;
  /** The lease lives until then once the transaction is through. */
  expiresAt: TimestampText;
}

/** Everything that one page changes, committed whole or not at all. */
export interface PageCommit {
  lease: LeaseProof;
  resource: string;
  history: HistoryPolicy;
  /** When the page was asked for: stands in `_synced_at` and `valid_from`, and a later one wins. */
  requestedAt: TimestampText;
  /** Rows per table, the resource's own table first; only what is new or changed. */
  rows: readonly TableRows[];
  /** All child tables of the resource: what `replaced` had there goes, also where no new row comes. */
  children: readonly TableShape[];
  /** One per row of the resource's own table, in the same order. */
  stamps: readonly RowStamp[];
  /** Keys among them that were there before: their children are replaced. */
  replaced: readonly string[];
  versions: readonly NewVersion[];
  /** Statements on own tables (checkpoint, rejects, ...) that belong to the same moment. */
  statements: readonly CompiledQuery[];
}

/**
 * One source's database. `sqlite/` and later `postgres/` export the same things in the same order; nothing above
 * this folder knows which one it talks to. All methods throw `SyncError`.
 */
export interface Warehouse {
  /** Queries on our own tables: reads and single statements. Never a transaction: that is what `apply` is for. */
  readonly own: Kysely<OwnTables>;
  /** Rows already there among `keys`, by key; `updated` names the column to bring along. */
  stored(table: TableShape, keys: readonly string[], updated: string | null): Promise<Map<string, StoredRow>>;
  /** The stored body of a record's version; null where the history keeps none. */
  storedBody(resource: string, id: string, version: number): Promise<string | null>;
  /** Adds and widens tables and columns, with the statements that remember it, in one transaction. */
  evolve(shape: ResourceShape, changes: readonly ShapeChange[], statements: readonly CompiledQuery[]): Promise<void>;
  /** Writes one page. Throws `lease_lost` when somebody else owns the resource by now. */
  commit(page: PageCommit): Promise<void>;
  /** Statements on own tables in one transaction, under the lease where one is given. */
  apply(statements: readonly CompiledQuery[], lease?: LeaseProof): Promise<void>;
  /** Live rows of a table of ours or of a resource; 0 where the table is not there yet. */
  count(table: string): Promise<number>;
  close(): Promise<void>;
}
