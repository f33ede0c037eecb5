import type { ResourceShape, ShapeChange, SourcePath } from '../model/table.ts';
import type { ColumnType } from '../model/words.ts';
import { OVERFLOW } from './source-path.ts';

/**
 * Widenings that the stored values alone cannot tell: a timestamp stands as UTC and not as the source wrote it, the text
 * `5` may have been a text or a number, a double may have come with more digits than it is written with, and Postgres's
 * numeric keeps the number and not that it was written `1e400`.
 * All others keep what the wider type would have stored.
 */
const INEXACT: Partial<Record<ColumnType, readonly ColumnType[]>> = {
  timestamp: ['text', 'json'],
  double: ['numeric', 'text', 'json'],
  numeric: ['text'],
  text: ['json'],
};

/**
 * True if rows that stand already would look otherwise, had they been made by the shape as it is after the change.
 * Besides widenings: the JSON column of a field whose objects or arrays have gone into columns or tables until now, and
 * a column for a field that may stand in `_overflow`.
 */
export function isInexact(before: ResourceShape, { table, column, from }: ShapeChange): boolean {
  if (from !== null) return INEXACT[from]?.includes(column.type) ?? false;
  const columns = before.tables.find(({ name }) => name === table)?.columns ?? [];
  if (columns.some(({ path }) => path.at(-1) === OVERFLOW)) return true;
  return column.type === 'json' && (columns.some(isWithin(column.path)) || before.tables.some(isWithin(column.path)));
}

function isWithin(path: SourcePath): (other: { path: SourcePath }) => boolean {
  return (other) => other.path.length > path.length && path.every((part, at) => other.path[at] === part);
}
