import type { ResourceShape, ShapeChange, SourcePath } from '../../model/table.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { isWholePath, type ShapeProfile } from '../shape-tree.ts';
import { OVERFLOW } from './source-path.ts';

/**
 * Widenings that the stored values alone cannot tell, besides those to JSON: a timestamp stands as UTC and not as the
 * source wrote it, a double may have come with more digits than it is written with, and Postgres's numeric keeps the
 * number and not that it was written `1e400`. All others keep what the wider type would have stored.
 */
const INEXACT: Partial<Record<ColumnType, readonly ColumnType[]>> = {
  timestamp: ['text'],
  double: ['numeric', 'text'],
  numeric: ['text'],
};

/**
 * True if rows that stand already would look otherwise, had they been made by the shape as it is after the change.
 * Besides widenings: a column for a field that may stand in `_overflow`, and one of JSON for a field whose objects or
 * arrays have gone into columns or tables until now, or were empty and stand as null.
 */
export function changesStoredRows(before: ResourceShape, change: ShapeChange, profile: ShapeProfile): boolean {
  const { column, from } = change;
  if (from !== null) return column.type === 'json' || (INEXACT[from]?.includes(column.type) ?? false);
  const table = before.tables.find(({ name }) => name === change.table);
  if (table === undefined) return false;
  if (table.columns.some(({ path }) => path.at(-1) === OVERFLOW)) return true;
  if (column.type !== 'json') return false;
  return !isWholePath(column.path, profile) || [...table.columns, ...before.tables].some(isWithin(column.path));
}

function isWithin(path: SourcePath): (other: { path: SourcePath }) => boolean {
  return (other) => other.path.length > path.length && path.every((part, at) => other.path[at] === part);
}
