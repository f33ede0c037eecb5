import type { CompiledQuery, Kysely } from 'kysely';
import { ConfigError, SyncError } from '../model/errors.ts';
import type { ResourceShape, ShapeChange, TableRows, TableShape } from '../model/table.ts';
import type { HistoryPolicy } from '../model/vocabulary.ts';
import type { KeyPlan } from './key-plan.ts';
import type { OwnTables, TimestampText } from './own-tables.ts';
import type { RowQueries } from './reading.ts';
import type { SnapshotReader } from './snapshot-reader.ts';
import type { ViewChange, ViewDialect } from './view-dialect.ts';

export type { StoredRow } from './reading.ts';

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

/**
 * One source's tables in an open database. Nothing above this folder knows which kind of database it is. All methods
 * throw `SyncError`.
 */
export interface Warehouse extends RowQueries {
  /** Queries on our own tables: reads and single statements. Never a transaction: that is what `apply` is for. */
  readonly own: Kysely<OwnTables>;
  /** How views are written for it. */
  readonly dialect: ViewDialect;
  /** True if processes of other machines may write to it too. */
  readonly isOnNetwork: boolean;
  /** False if times are cut to milliseconds. */
  readonly keepsMicroseconds: boolean;
  /** Epoch milliseconds of the clock that all who write to it go by: the database's own, or this machine's. */
  now(): Promise<number>;
  /** All of it as it stands now, whatever is written meanwhile; to be closed. One query at a time. */
  snapshot(): Promise<SnapshotReader>;
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
  upkeep(): Promise<void>;
  close(): Promise<void>;
}

/**
 * The owner of a resource, as checked inside every transaction that writes it; and that all that the owner was told to
 * be committed is still there, because what it writes next rests on that.
 */
export interface LeaseProof {
  name: string;
  token: number;
  /** Never given twice, while a token may be: by a database that has forgotten an owner. */
  fence: string;
  /** The lease lives until then once the transaction is through. */
  expiresAt: TimestampText;
  /** The owner's transactions so far: a database that knows of fewer was set back. */
  commits: () => number;
  /** To be called after each one, even if nobody can tell whether it was committed: then it is found out. */
  committed: () => void;
}

/** The stamps of a row of a resource's own table, and what is remembered of its record. */
export interface WrittenRecord {
  key: string;
  /** 1 is a record never seen before. */
  version: number;
  hash: string;
  /** Stands in `_synced_at` in place of the page's time: of a row that is only written again. */
  syncedAt?: TimestampText;
  /** The source as it came, UTF-8. */
  bytes: Buffer;
}

/** The part of a page that becomes rows. */
export interface PageRows {
  resource: string;
  history: HistoryPolicy;
  /** True if all rows are there already, and are written again. */
  isRewrite?: true;
  /** When the page was asked for: stands in `_synced_at` and `valid_from`, and a later one wins. */
  requestedAt: TimestampText;
  /** Rows per table, the resource's own table first; only what is new or changed. */
  rows: readonly TableRows[];
  /** All child tables of the resource: what a changed record had there goes, even if no new row comes. */
  children: readonly TableShape[];
  /** One per row of the resource's own table, in the same order. */
  records: readonly WrittenRecord[];
}

/** Everything that one page changes, committed whole or not at all. */
interface PageCommit {
  rows: PageRows;
  lease: LeaseProof;
  /** Statements on own tables (checkpoint, rejects, ...) that belong to the same moment. */
  statements: readonly CompiledQuery[];
}

/** Tables that are made, empty, beside those of a resource. */
export interface TableStaging {
  lease: LeaseProof;
  shape: ResourceShape;
  /** The names that they get, by those of the shape; what stands under one is dropped. */
  names: ReadonlyMap<string, string>;
  /** As in a growth. */
  references: ReadonlySet<string>;
}

/** Staged tables that take the place of others, committed whole or not at all. */
export interface TableSwap extends TableStaging {
  /** All tables of the resource that stand. */
  dropped: readonly string[];
  /** Names of all views of ours that stand, each with its columns in their order: those on tables that are no more stay, empty. */
  standing: ReadonlyMap<string, readonly string[]>;
  /** All views of ours, as in a growth. None shows another type than it does now. */
  views: readonly ViewChange[];
  comments: readonly { table: string; column: string | null; base: string; comment: string }[];
  statements: readonly CompiledQuery[];
  claim: CompiledQuery;
}

/** A column of a table that cannot widen, because something stands on it that others made. */
export interface UsedColumn {
  table: string;
  column: string;
  /** Such as `view reports.mine (of reporting)`. */
  by: string;
}

/** A view of ours that cannot show another type, for the same reason. */
export interface UsedView {
  view: string;
  by: string;
}

/** For a growth that others' views, indexes or constraints do not follow: nothing of it was done. */
export class InUse extends ConfigError {
  readonly columns: readonly UsedColumn[];
  readonly views: readonly UsedView[];

  constructor(columns: readonly UsedColumn[], views: readonly UsedView[], cause?: unknown) {
    const places = [...columns.map(({ table, column }) => `${table}.${column}`), ...views.map(({ view }) => view)];
    const by = [...new Set([...columns, ...views].map((each) => each.by))].join(', ');
    super('column_in_use', `${[...new Set(places)].join(', ')} must widen, and something stands on it: ${by}`, {
      hint: 'drop it, run the same command again, and make it again to fit, best on the views of the copy',
      cause,
    });
    this.columns = columns;
    this.views = views;
  }
}
