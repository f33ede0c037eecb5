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
  /** A time of a table of ours as a moment. */
  moment(sql: string): string;
  /** A value of type `from` as one of type `to`; NULL where it cannot be converted. A number may become the nearest one that the type has, a moment its day in UTC. */
  converted(sql: string, from: ColumnType, to: ColumnType): string;
  /** A value as a text, numbers by their digits. */
  text(sql: string, from: ColumnType): string;
  /** The month of a date, or that of a moment in UTC, as a text such as `2026-11`. */
  month(sql: string, type: ColumnType): string;
  /** A moment of UTC, such as `2026-11-20 00:00:00`, as a literal that times can be compared with. */
  at(text: string): string;
  /** The type that a view shows a column of `type` as: one that its readers know. */
  shown(type: ColumnType): ColumnType;
}

/** A view of ours as the database is told to make it. */
export interface ViewChange {
  name: string;
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
