// Reads views and tables in one read transaction, for exports and for `verify`.
import type { SQLOutputValue } from 'node:sqlite';
import type { ColumnType } from '../../model/vocabulary.ts';
import type { OwnTables } from '../own-tables.ts';
import {
  type DecimalSpan,
  typeMismatch,
  type ReadColumn,
  selectText,
  type SnapshotReader,
  type ViewCell,
  type ViewQuery,
} from '../snapshot-reader.ts';
import type { ReadOnlyFile } from './connection/read-only-file.ts';
import { VIEW_DIALECT } from './views/dialect.ts';

const BATCH_ROWS = 1_000;
const BATCH_BYTES = 2 * 1_048_576;

type File = ReadOnlyFile<OwnTables>;

/** Reads a snapshot of an open file, and closes the file at the end. */
export function snapshotReader(file: File): SnapshotReader {
  file.freeze();
  return {
    own: file.own,
    rows: (query) => readBatches(file, query),
    decimalSpan: (view, column) => Promise.resolve(measureDecimals(file, view, column)),
    close: file.close,
  };
}

// oxlint-disable-next-line require-await
async function* readBatches(file: File, query: ViewQuery): AsyncGenerator<ViewCell[][]> {
  let [batch, bytes]: [ViewCell[][], number] = [[], 0];
  for (const row of file.rows(selectText(query, VIEW_DIALECT))) {
    batch.push(query.columns.map((column, at) => toCell(row[at] ?? null, column)));
    for (const cell of row) bytes += typeof cell === 'string' ? cell.length : 8;
    if (batch.length < BATCH_ROWS && bytes < BATCH_BYTES) continue;
    yield batch;
    [batch, bytes] = [[], 0];
  }
  if (batch.length > 0) yield batch;
}

function toCell(value: SQLOutputValue, column: ReadColumn): ViewCell {
  if (value === null) return null;
  const cell = CELLS[column.type](value);
  if (cell === undefined) throw typeMismatch(value, column);
  return cell;
}

/** Converts a value of the driver to one of a column; undefined if it has another type. */
const CELLS: Readonly<Record<ColumnType, (value: SQLOutputValue) => ViewCell | undefined>> = {
  boolean: (value) => (value === 0n || value === 1n ? value === 1n : undefined),
  integer: (value) =>
    typeof value === 'number' ? (Number.isInteger(value) ? BigInt(value) : undefined) : toNumber(value),
  double: (value) => (typeof value === 'bigint' ? Number(value) : toNumber(value)),
  numeric: (value) => expandExponent(String(value)),
  date: String,
  timestamp: String,
  text: String,
  json: String,
};

function toNumber(value: SQLOutputValue): number | bigint | undefined {
  return typeof value === 'number' || typeof value === 'bigint' ? value : undefined;
}

/** Writes a number as Postgres writes numerics: `5e-7` as `0.0000005`. */
function expandExponent(text: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?[eE]([+-]?\d+)$/.exec(text) ?? [];
  if (whole === '') return text;
  const point = whole.length + Number(power);
  const padded = `${'0'.repeat(Math.max(0, 1 - point))}${whole}${fraction}`.padEnd(point, '0');
  const [before, after] = [padded.slice(0, Math.max(1, point)), padded.slice(Math.max(1, point))];
  return `${sign}${before.replace(/^0+(?=\d)/, '')}${after === '' ? '' : `.${after}`}`;
}

/** Counts the digits of a numeric column, in `digits` if that is another column; null if a value has other characters. */
function measureDecimals(file: File, view: string, { name, digits = name }: ReadColumn): DecimalSpan | null {
  const { id } = VIEW_DIALECT;
  const span = { whole: 0, scale: 0 };
  for (const [value] of file.rows(`SELECT ${id(digits)} FROM ${id(view)} WHERE ${id(digits)} IS NOT NULL`)) {
    const [, whole = '', fraction = ''] = /^-?(\d+)(?:\.(\d+))?$/.exec(expandExponent(String(value))) ?? [];
    if (whole === '') return null;
    span.whole = Math.max(span.whole, whole.length);
    span.scale = Math.max(span.scale, fraction.length);
  }
  return span.whole === 0 ? null : span;
}
