// The SQL expressions of managed views that differ between SQLite and Postgres. `src/views/` writes the views with them;
// `sqlite/views/dialect.ts` and `postgres/views/dialect.ts` implement them.
import type { ColumnType } from '../model/vocabulary.ts';

/** The SQL expressions of one kind of database. Values are literals, because views have no parameters. */
export interface ViewDialect {
  /** The types of columns, as users of the warehouse know them. */
  readonly types: Readonly<Record<ColumnType, string>>;
  /** A name in quotes. */
  id: (name: string) => string;
  literal: (text: string) => string;
  /** Converts a value to another type: to the nearest number, the UTC day of a time; NULL if that is impossible. */
  converted(sql: string, from: ColumnType, to: ColumnType): string;
  /** A value as a text, numbers by their digits. */
  text(sql: string, from: ColumnType): string;
  /** Gives an expression a type that programs can read: on SQLite only columns of tables have one. */
  declared(sql: string, type: ColumnType): string;
  /** Converts a day of an internal table, a text such as `2026-11-20`, to a date. */
  day(sql: string): string;
  /**
   * Facts about related rows for each row of a view, such as the number of its tags: `join` follows the table of the view,
   * `sqlOf` returns the expression of one fact.
   */
  perRow(alias: string, facts: readonly RowFact[], rows: RowsOf): { join: string; sqlOf: (name: string) => string };
  /** The type of a view's column for a table's column of `type`: SQLite shows a numeric as a double. */
  viewType(type: ColumnType): ColumnType;
  readonly falseLiteral: string;
  /** Computes `sql` once, and `use` from its result, although `use` names it several times. */
  computeOnce(sql: string, use: (name: string) => string): string;
  readonly bodies: BodyDialect;
  /** Returns one row for each of the fields whose values differ. */
  differingFields(fields: readonly FieldValues[]): DifferingFields;
}

/** Reads the columns of a table from the stored source text of an earlier version. The expressions fail for no content. */
export interface BodyDialect {
  /** A FROM clause with the versions as `v`; `value` and `list` refer to it. */
  from: string;
  /** The value at a path as the column has it, NULL if the type does not fit. `zone` is for times without a zone. */
  value(path: readonly string[], type: ColumnType, zone: string | null): string;
  /** The list at a path of keys as JSON; NULL if there is none. */
  list(path: readonly string[]): string;
}

/** A field, and the expressions of its values as texts. */
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

/** A fact about related rows: their number; or of `sql` the sum (NULL on overflow), first or last value, or joined texts. */
export interface RowFact {
  name: string;
  kind: 'count' | 'sum' | 'first' | 'last' | 'joined';
  type: ColumnType;
  sql: string;
}

/** The related rows, which are rows of another view. */
export interface RowsOf {
  /** Begins with ` FROM`, and ends with a WHERE that compares them with the row of the view. */
  from: string;
  /** The order of `joined`. */
  order: readonly string[];
}

/** A managed view as it shall be after the change. */
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
