// The SQL expressions that each kind of database provides for managed views.
import type { ColumnType } from '../model/vocabulary.ts';

/** SQL expressions of one kind of database for managed views. Values are literals, because views have no parameters. */
export interface ViewDialect {
  /** The types of columns, as users of the warehouse know them. */
  readonly types: Readonly<Record<ColumnType, string>>;
  /** A quoted name. */
  id: (name: string) => string;
  literal: (text: string) => string;
  /** A value converted to another type: the nearest number, the UTC day of a time; NULL if that is impossible. */
  converted(sql: string, from: ColumnType, to: ColumnType): string;
  /** A value as a text, numbers by their digits. */
  text(sql: string, from: ColumnType): string;
  /** An expression whose type programs can read: on SQLite only a table's column has one. */
  declared(sql: string, type: ColumnType): string;
  /** A day of an internal table, a text such as `2026-11-20`, as a date. */
  day(sql: string): string;
  /** Facts about other rows for each row of a view: the join after its own table, and the expression of each by name. */
  perRow(alias: string, facts: readonly RowFact[], rows: RowsOf): { join: string; sqlOf: (name: string) => string };
  /** The type that a view shows for a column of `type`. */
  shown(type: ColumnType): ColumnType;
  /** False as a literal. */
  readonly no: string;
  /** An expression over a value that is computed once. */
  once(sql: string, use: (name: string) => string): string;
  /** Values from the source texts of versions. */
  readonly bodies: BodyDialect;
  /** The rows of those fields whose values differ. */
  differing(fields: readonly FieldValues[]): DifferingFields;
}

/** Columns of a table, read from the source text of a record. No content makes these expressions fail. */
export interface BodyDialect {
  /** A FROM clause with the versions as `v`; `value` and `list` refer to it. */
  from: string;
  /** The value at a path as the column has it, NULL if the type does not fit. `zone` is for times without a zone. */
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

/** The join after the FROM of the values, its condition, and the columns of its rows. */
interface DifferingFields {
  join: string;
  where: string;
  field: string;
  before: string;
  after: string;
}

/** The number of rows, the sum of `sql` (NULL on overflow), its first or last value, or its texts joined by commas. */
export interface RowFact {
  name: string;
  kind: 'count' | 'sum' | 'first' | 'last' | 'joined';
  type: ColumnType;
  sql: string;
}

/** Rows of another view. */
export interface RowsOf {
  /** Begins with ` FROM`, and ends with a WHERE that names the row of the view. */
  from: string;
  /** The order of `joined`. */
  order: readonly string[];
}

/** A managed view as it is to be. */
export interface ViewChange {
  name: string;
  /** Its current name, which a table needs now; absent if the name does not change. */
  former?: string;
  /** The function that returns its rows at a time, on databases with functions. */
  asOf?: string;
  /** True if it is new, or its query changes. */
  isChanged: boolean;
  /** Its SELECT, on one line. */
  query: string;
  /** For users who choose tables and columns. */
  description: string;
  columns: readonly ViewChangeColumn[];
}

interface ViewChangeColumn {
  name: string;
  type: ColumnType;
  description: string | null;
}
