import type { CompiledQuery, Kysely, RawBuilder } from 'kysely';
import { SyncError } from '../model/errors.ts';
import type { Cell, Column, ResourceShape, ShapeChange, TableShape } from '../model/table.ts';
import type { KeyPlan } from './key-plan.ts';
import type { LeaseProof } from './lease-proof.ts';
import type { PageCommit } from './page-commit.ts';
import type { SnapshotReader } from './snapshot-reader.ts';
import type { TimeSpan } from './time-span.ts';
import type { NameState } from './name-state.ts';
import type { OwnTables, TimestampText } from './own-tables.ts';
import type { RowCounting } from './row-counting.ts';
import type { TableStaging, TableSwap } from './table-swap.ts';
import type { ViewChange, ViewDialect } from './view-dialect.ts';

export type { LeaseProof } from './lease-proof.ts';
export type { PageCommit, PageRows, WrittenRecord } from './page-commit.ts';

/** The state of a row that is already there. */
export interface StoredRow {
  hash: string;
  version: number;
  syncedAt: TimestampText;
  /** Null for a live row. */
  deletedAt: TimestampText | null;
  /** The cell of the column asked for as `updated`; null if there is none. */
  updated: Cell;
}

/** For a proof that does not hold any more. */
export function leaseLost(resource: string): SyncError {
  return new SyncError('lease_lost', `another process has taken over ${resource}; nothing of this was written`, {
    recovery: 'stop',
    hint: 'let the other process finish: it goes on from the last committed page',
  });
}

/** One step of schema evolution, committed whole or not at all. */
export interface ShapeGrowth {
  lease: LeaseProof;
  /** The tables that stand; null if the resource has none yet. */
  before: ResourceShape | null;
  after: ResourceShape;
  /** The tables and columns that `after` has and `before` had not, or not as wide. */
  changes: readonly ShapeChange[];
  /** All views of ours, each behind those that it stands on: those that read otherwise are made with it. */
  views: readonly ViewChange[];
  /** Columns that hold keys, as `table.column`: where texts have a collation, they get that of the keys. */
  references?: ReadonlySet<string>;
  /** Of tables and columns, as they are to read where the database shows any; `base` tells those that are ours. */
  comments?: readonly { table: string; column: string | null; base: string; comment: string }[];
  /** True if views of others that cannot follow are dropped; they keep a growth from being done otherwise. */
  dropsOthers?: boolean;
  /** Statements on own tables that remember it. */
  statements: readonly CompiledQuery[];
  /** Changes one row if nobody else has changed tables or views since this was planned; null where nobody can have. */
  claim: CompiledQuery | null;
}

/** A view of others that could not be made again after a growth. */
export interface DroppedView {
  /** With its schema. */
  name: string;
  /** The statement that made it. */
  definition: string;
}

/** For a growth that was planned from what is no longer so: to be planned again. */
export function growthOutdated(): SyncError {
  return new SyncError(GROWTH_OUTDATED, 'tables or views have changed since this change of them was planned', {
    recovery: 'stop',
    hint: 'run the same command again',
  });
}

export const GROWTH_OUTDATED = 'growth_outdated';

/** Tables to take out of the warehouse, committed whole or not at all. */
export interface TableRemoval {
  lease: LeaseProof;
  tables: readonly string[];
  /** Names of all views of ours, each with its columns in their order. */
  views: ReadonlyMap<string, readonly string[]>;
  /** Statements on own tables that belong to the same moment. */
  statements: readonly CompiledQuery[];
}

/** The state of a database that is written for months. */
export interface Upkeep {
  /** Bytes written but not yet copied into the database itself; grows while a reader holds a transaction open. */
  walBytes: number;
}

/**
 * One source's tables in an open database. Nothing above this folder knows which kind of database it is. All methods
 * throw `SyncError`.
 */
export interface Warehouse extends RowCounting {
  /** Queries on our own tables: reads and single statements. Never a transaction: that is what `apply` is for. */
  readonly own: Kysely<OwnTables>;
  /** How views are written for it. */
  readonly dialect: ViewDialect;
  /** A table as a statement of `own` names it. */
  readonly named: (table: string) => RawBuilder<unknown>;
  /** True if processes of other machines may write to it too. */
  readonly isOnNetwork: boolean;
  /** False if times are cut to milliseconds. */
  readonly keepsMicroseconds: boolean;
  /** Epoch milliseconds of the clock that all who write to it go by: the database's own, or this machine's. */
  now(): Promise<number>;
  /**
   * Rows already there among `keys`, by key, with the first of the cells in `updated` that is not null. Where these are
   * not of one type it is a text, and a moment has its `Z`.
   */
  stored(table: TableShape, keys: readonly string[], updated: readonly Column[]): Promise<Map<string, StoredRow>>;
  /** All of it as it stands now, whatever is written meanwhile; to be closed. One query at a time. */
  snapshot(): Promise<SnapshotReader>;
  /** Names of all tables and views that there are, ours and others', in lower case. */
  tableNames(): Promise<Set<string>>;
  /** True if the integer column holds a value that a double would change. */
  holdsBeyondDouble(table: string, column: string): Promise<boolean>;
  /** First and last time in columns of times, of those from one day (`YYYY-MM-DD`) on and before another; null for none. Reads the table. */
  timeSpan(table: TableShape, columns: readonly Column[], within: TimeSpan): Promise<TimeSpan | null>;
  /**
   * Adds and widens tables and columns, and makes views. Throws `table_exists` if somebody else made a table of that
   * name, `growth_outdated` if its claim does not hold any more, and `InUse` if what others made does not follow; then
   * nothing was changed.
   */
  evolve(growth: ShapeGrowth): Promise<readonly DroppedView[]>;
  /** Makes missing keys, collations and indexes, and takes away ours that nobody wants any more. Leaves for the next time what others (their locks, views, rights) do not let it do. */
  tendKeys(plan: KeyPlan, lease: () => LeaseProof): Promise<void>;
  /** Drops tables; views of ours on them stay, empty. Throws `table_in_use` if others' stand on the tables themselves. */
  dropTables(removal: TableRemoval): Promise<void>;
  /** Makes tables beside those that stand, to be filled by `commit` and to take their place by `swapTables`. */
  stageTables(staging: TableStaging): Promise<void>;
  /**
   * Puts staged tables in the place of those that stand, with the views of ours, the rights of others and what people
   * wrote and built on them. Throws `table_in_use` if something of others stands on the tables themselves that cannot
   * follow, and `growth_outdated` as `evolve` does; then nothing was changed.
   */
  swapTables(swap: TableSwap): Promise<void>;
  /** Writes one page. Throws `lease_lost` when somebody else owns the resource by now, or the database was set back. */
  commit(page: PageCommit): Promise<void>;
  /** Cells of a few live rows, by column; long texts are cut. */
  sample(table: TableShape, columns: readonly Column[], limit: number): Promise<Record<string, Cell>[]>;
  /** Keys of all rows of a resource's own table, deleted ones too, in the database's order: those behind `after`. */
  keysAfter(table: TableShape, after: string, limit: number): Promise<string[]>;
  /** Keys of a few live rows, spread over the table, that nothing suspects to be gone; may be fewer than there are. */
  liveSample(table: TableShape, resource: string, limit: number): Promise<string[]>;
  /**
   * Keys of live rows by the first of their cells in these columns that is not null; those without any are left out. Of
   * each column up to `limit`, the last ones first.
   */
  latestKeys(table: TableShape, columns: readonly Column[], limit: number): Promise<string[]>;
  /** Live rows of which that first cell is no time. Reads the table if the database has no index on the columns. */
  countUntimed(table: TableShape, columns: readonly Column[]): Promise<number>;
  /** The number that a query selects; it names tables and views without a schema, as views do. */
  selectCount(query: string): Promise<number>;
  /** Statements on own tables in one transaction, under the lease if one is given. */
  apply(statements: readonly CompiledQuery[], lease?: LeaseProof): Promise<void>;
  /**
   * Takes what was deleted from these tables out of free space and log, as far as the database lets one who owns them.
   * Returns false while a reader still needs what was there before: then to be called again.
   */
  clean(tables: readonly string[]): Promise<boolean>;
  /** Resolves once all that was committed before survives a power cut. */
  persist(): Promise<void>;
  /** Housekeeping that the database does not do by itself while nothing is written; to be called every ten seconds or so. Never throws. */
  upkeep(): Promise<Upkeep>;
  /** Cheap enough to be asked all the time. Does not throw; all else throws `warehouse_gone` if it is not `named`. */
  nameState(): NameState;
  close(): Promise<void>;
}
