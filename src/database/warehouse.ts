// The interface of an open warehouse, with the arguments and errors of its methods. `database/sqlite/warehouse.ts` and
// `database/postgres/warehouse.ts` implement it; everything above works alike with either.
import type { CompiledQuery } from 'kysely';
import { ConfigError, SyncError } from '../model/errors.ts';
import type { ResourceShape, ShapeChange } from '../model/table.ts';
import type { TimestampText } from './own-tables.ts';
import type { TableAccess } from './reading.ts';
import type { SnapshotReader } from './snapshot-reader.ts';
import type { ViewChange, ViewDialect } from './view-dialect.ts';
import type { KeyPlan, PageRows } from './table-layout.ts';

export type { StoredRow } from './reading.ts';
export type { PageRows } from './table-layout.ts';

/** One source's tables in an open database. All methods throw `SyncError`. */
export interface Warehouse extends TableAccess {
  readonly dialect: ViewDialect;
  /** True if processes of other machines may write to it too. */
  readonly isOnNetwork: boolean;
  /** False if times are cut to milliseconds. */
  readonly keepsMicroseconds: boolean;
  /** Epoch milliseconds of the clock that all its writers share: the database's own, or this machine's. */
  now(): Promise<number>;
  /** Opens a snapshot; later writes are not seen. One query at a time. */
  snapshot(): Promise<SnapshotReader>;
  /**
   * Adds and widens tables and columns, and creates views. Throws `table_exists` for an external table of that name,
   * `growth_outdated` if its claim fails, and `TableInUseError` if external objects do not fit; then nothing was changed.
   */
  evolve(growth: ShapeGrowth): Promise<readonly DroppedView[]>;
  /** Creates and drops managed keys and indexes. Skips what locks, external views or missing rights prevent. */
  maintainKeys(plan: KeyPlan, lease: () => LeaseProof): Promise<void>;
  /** Drops tables; managed views on them stay, empty. Throws `table_in_use` if external objects depend on the tables. */
  dropTables(removal: TableRemoval): Promise<void>;
  /** Creates additional tables, to be filled by `commit` and to replace those by `swapTables`. */
  stageTables(staging: TableStaging): Promise<void>;
  /**
   * Replaces tables by the staged ones, with managed views, rights, comments and external objects. Throws `table_in_use`
   * if an external object does not fit, and `growth_outdated` as `evolve` does; then nothing was changed.
   */
  swapTables(swap: TableSwap): Promise<void>;
  /** Writes one page. Throws `lease_lost` if another process owns the resource, or the database was rolled back. */
  commit(page: PageCommit): Promise<void>;
  /** Returns the number that a query selects; it names tables and views without a schema, as views do. */
  selectCount(query: string): Promise<number>;
  /** Runs statements on internal tables in one transaction, under the lease if one is given. */
  apply(statements: readonly CompiledQuery[], lease?: LeaseProof): Promise<void>;
  /** Removes deleted rows of the tables from free space and log. Returns false while a reader still needs them. */
  clean(tables: readonly string[]): Promise<boolean>;
  /** Resolves once all earlier commits survive a power cut. */
  persist(): Promise<void>;
  /** Housekeeping, to be called every ten seconds or so. Never throws. */
  upkeep(): Promise<void>;
  close(): Promise<void>;
}

/** The error for a lease that is no longer held. */
export function leaseLost(resource: string): SyncError {
  return new SyncError('lease_lost', `another process has taken over ${resource}; nothing of this was written`, {
    recovery: 'stop',
    hint: 'let the other process finish: it goes on from the last committed page',
  });
}

/** Shows in every transaction that this process still owns the resource, and that its earlier commits still exist. */
export interface LeaseProof {
  name: string;
  token: number;
  /** A unique text, because a token may be used again after the database was restored from a backup. */
  fence: string;
  /** The end of the lease after the transaction. */
  expiresAt: TimestampText;
  /** The owner's transactions so far: a database with fewer was rolled back. */
  commits: () => number;
  /** Called after every commit, including those with an unknown outcome. */
  committed: () => void;
}

export interface ColumnComment {
  table: string;
  /** Null for that of the table itself. */
  column: string | null;
  /** The part that does not depend on the profile: a comment without it was written by a user, and is not replaced. */
  base: string;
  comment: string;
}

/** One step of schema evolution: new tables and columns, and wider types, committed as a whole. */
export interface ShapeGrowth {
  lease: LeaseProof;
  /** The existing tables; null if the resource has none yet. */
  before: ResourceShape | null;
  after: ResourceShape;
  /** The tables and columns that are new in `after`, or wider than in `before`. */
  changes: readonly ShapeChange[];
  /** All managed views in dependency order; changed ones are recreated. */
  views: readonly ViewChange[];
  /** Columns that hold keys of other records, as `table.column`: they get the collation of keys. */
  references?: ReadonlySet<string>;
  comments?: readonly ColumnComment[];
  /** True to drop external views that do not fit; otherwise they prevent the growth. */
  dropsOthers?: boolean;
  /** Statements on internal tables that record the growth. */
  statements: readonly CompiledQuery[];
  /**
   * The statement that fails the step if tables or views have changed since it was planned: it then changes no row. Null
   * if nothing can have changed.
   */
  claim: CompiledQuery | null;
}

/** An external view that could not be created again after a growth. */
export interface DroppedView {
  /** With its schema. */
  name: string;
  /** The statement that created it. */
  definition: string;
}

/** The error for a growth that was planned from an outdated state. The caller plans it again. */
export function growthOutdated(): SyncError {
  return new SyncError(GROWTH_OUTDATED, 'tables or views have changed since this change of them was planned', {
    recovery: 'stop',
    hint: 'run the same command again',
  });
}

export const GROWTH_OUTDATED = 'growth_outdated';

/** The error for an external table or view with the name of a new table: it is never written to. */
export function tableExists(name: string): ConfigError {
  return new ConfigError('table_exists', `the warehouse has a table or view "${name}" that content-sync did not make`, {
    hint: 'rename it, or point `warehouse` at a database or schema of its own',
  });
}

/** Tables to drop, committed as a whole. */
export interface TableRemoval {
  lease: LeaseProof;
  tables: readonly string[];
  /** Names of all managed views, each with its columns in order. */
  views: ReadonlyMap<string, readonly string[]>;
  /** Statements on internal tables in the same transaction. */
  statements: readonly CompiledQuery[];
}

/** Empty tables to create in addition to those of a resource. */
export interface TableStaging {
  lease: LeaseProof;
  shape: ResourceShape;
  /** The temporary name of each table of the shape; an existing table of that name is dropped. */
  names: ReadonlyMap<string, string>;
  /** As in a growth. */
  references: ReadonlySet<string>;
}

/** Staged tables that replace others, committed as a whole. */
export interface TableSwap extends TableStaging {
  /** All existing tables of the resource. */
  dropped: readonly string[];
  /** All existing managed views, each with its columns in order: those on removed tables stay, empty. */
  existingViews: ReadonlyMap<string, readonly string[]>;
  /** All managed views as they are to be, as in a growth; no types change. */
  views: readonly ViewChange[];
  comments: readonly ColumnComment[];
  statements: readonly CompiledQuery[];
  claim: CompiledQuery;
}

/** All changes of one page, committed as a whole. */
interface PageCommit {
  rows: PageRows;
  lease: LeaseProof;
  /** Statements on internal tables (checkpoint, rejects, ...) in the same transaction. */
  statements: readonly CompiledQuery[];
}

/** A column that cannot widen because of an external object. */
export interface UsedColumn {
  table: string;
  column: string;
  /** Such as `view reports.mine (of reporting)`. */
  by: string;
}

/** A managed view whose types cannot change for the same reason. */
export interface UsedView {
  view: string;
  by: string;
}

/** The error for a growth that external views, indexes or constraints prevent. */
export class TableInUseError extends ConfigError {
  readonly columns: readonly UsedColumn[];
  readonly views: readonly UsedView[];

  constructor(columns: readonly UsedColumn[], views: readonly UsedView[], cause?: unknown) {
    const places = [...columns.map(({ table, column }) => `${table}.${column}`), ...views.map(({ view }) => view)];
    const by = [...new Set([...columns, ...views].map((each) => each.by))].join(', ');
    super('table_in_use', `${[...new Set(places)].join(', ')} must widen, and something stands on it: ${by}`, {
      hint: 'drop it, run the same command again, and make it again to fit, best on the views of the copy',
      cause,
    });
    this.columns = columns;
    this.views = views;
  }
}
