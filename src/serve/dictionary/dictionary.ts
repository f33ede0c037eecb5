import type { ColumnType } from '../../model/vocabulary.ts';
import type { SchemaChangeStatus } from '../status/snapshot.ts';

/** What a table or view is to those who read it; `global` is of the whole source, `view` any other of ours. */
export const TABLE_KINDS = ['live', 'summary', 'history', 'changes', 'states', 'view', 'global', 'table'] as const;
export type TableKind = (typeof TABLE_KINDS)[number];

export interface DictionaryColumn {
  name: string;
  type: ColumnType;
  /** The type in the database's own words. */
  declared: string;
  /** The way from the record to the value; null if it is none of the service's. */
  source: string | null;
  description: string | null;
  /** `content.id` if it holds the key of a record. */
  references: string | null;
  /** True for the columns that name a row. */
  isKey: boolean;
  /** True if the profile hashes or excludes the field. */
  isPersonal: boolean;
  /** Epoch milliseconds. */
  first_seen: number | null;
}

/** A table or view that people may read. */
export interface DictionaryTable {
  name: string;
  kind: TableKind;
  /** Null if it is of the whole source. */
  resource: string | null;
  /** The copied table that a live view shows, and a table itself; null for all others. */
  table: string | null;
  description: string;
  columns: readonly DictionaryColumn[];
  /** Absent unless its resource is no longer copied. */
  is_copied?: false;
}

/** A column of one copied table that holds the key of another. */
export interface DictionaryRelation {
  from: { table: string; column: string };
  to: { table: string; column: string };
  /** `child`: an element of a list of the record. `key`: its column is all of the row's key, so that there is one at most. */
  kind: 'child' | 'key' | 'reference';
}

/** Times in epoch milliseconds; null if it has not happened yet. */
export interface Freshness {
  resource: string;
  last_success_at: number | null;
  last_full_at: number | null;
}

/** A query to begin with. */
export interface ExampleQuery {
  title: string;
  sql: string;
}

/** All that a copy says of itself. Every text of it may have come from the service. */
export interface Dictionary {
  source: string;
  /** Where it is; without user and password. */
  warehouse: string;
  /** When it was read, epoch milliseconds. */
  read_at: number;
  /** Those that people read first: by kind, each in the order of their names. */
  tables: readonly DictionaryTable[];
  relations: readonly DictionaryRelation[];
  freshness: readonly Freshness[];
  /** The newest first, a few hundred at most. */
  schema_log: readonly SchemaChangeStatus[];
  examples: readonly ExampleQuery[];
}

/** Rows that can be read, by table or view; those that are not counted are left out. */
export type RowCounts = Readonly<Record<string, number>>;
