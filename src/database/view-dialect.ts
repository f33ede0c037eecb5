import type { ColumnType } from '../model/vocabulary.ts';

/**
 * SQL of one kind of database for the views that people read: expressions in, expressions out. Views are text that
 * stays in the database, so values stand in it as literals and never as parameters.
 */
export interface ViewDialect {
  /** The types of columns as people who read the warehouse know them. */
  readonly types: Readonly<Record<ColumnType, string>>;
  /** A name of a table or column. */
  id(name: string): string;
  /** A text as a literal. */
  literal(text: string): string;
  /** A value of type `from` as one of type `to`; NULL where it cannot be converted. A number may become the nearest one that the type has, a moment its day in UTC. */
  converted(sql: string, from: ColumnType, to: ColumnType): string;
  /** A value as a text, numbers by their digits. */
  text(sql: string, from: ColumnType): string;
  /** An expression as a column of a view that programs find the type of: where only what a table holds has one. */
  declared(sql: string, type: ColumnType): string;
  /** A day of one of our own tables, which is a text such as `2026-11-20`, as a date. */
  day(sql: string): string;
  /**
   * Facts about other rows for each row of a view: what is joined behind its own table, and the value of each by name. Only
   * those that are asked for are looked up, and only for the rows that are.
   */
  perRow(alias: string, facts: readonly RowFact[], rows: RowsOf): { join: string; sqlOf: (name: string) => string };
  /** The type that a view shows a column of `type` as: one that its readers know. */
  shown(type: ColumnType): ColumnType;
  /** What is not so. */
  readonly no: string;
  /** SQL over what it stands for, worked out once. */
  once(sql: string, use: (name: string) => string): string;
  /** Values out of the source texts of versions. */
  readonly bodies: BodyDialect;
  /** The rows of those fields of which the two values differ. */
  differing(fields: readonly FieldValues[]): DifferingFields;
}

/** What a column of a table holds, read from the source text of a record. Whatever stands there, nothing of it fails. */
export interface BodyDialect {
  /** From FROM on: the versions as `v`, and what `value` and `list` look into. */
  from: string;
  /**
   * The value at a path of keys as a column of the type has it, NULL if that cannot hold it. `zone` is the one in which
   * a time is read that names none.
   */
  value(path: readonly string[], type: ColumnType, zone: string | null): string;
  /** The list at a path of keys as JSON; NULL if there is none. */
  list(path: readonly string[]): string;
}

/** A field, and its values as texts. */
export interface FieldValues {
  field: string;
  before: string;
  after: string;
}

/** Behind the FROM of the values: the rows, and the columns of each. */
interface DifferingFields {
  join: string;
  /** Where `join` is followed by conditions. */
  where: string;
  field: string;
  before: string;
  after: string;
}

/**
 * What is said of several rows: their number; the sum of `sql`, 0 for none, and NULL if the type cannot hold it; its first
 * or last value; or its texts in their order, with commas between.
 */
export interface RowFact {
  name: string;
  kind: 'count' | 'sum' | 'first' | 'last' | 'joined';
  /** Of the fact. */
  type: ColumnType;
  sql: string;
}

/** Rows of another view. */
export interface RowsOf {
  /** From FROM on, with a WHERE that names the row in question; with its leading space. */
  from: string;
  /** What `joined` goes by. */
  order: readonly string[];
}

/** A view of ours as the database is told to make it. */
export interface ViewChange {
  name: string;
  /** The name under which it stands so far, which a table needs now; absent if it stands under its own, or not at all. */
  former?: string;
  /** The function that gives its rows of a moment, on databases that have such functions; absent if it has none. */
  asOf?: string;
  /** True if it is new, or reads otherwise than before. */
  isChanged: boolean;
  /** Its SELECT, on one line. */
  query: string;
  /** For people who choose tables and columns. */
  description: string;
  columns: readonly ViewChangeColumn[];
}

interface ViewChangeColumn {
  name: string;
  type: ColumnType;
  description: string | null;
}
