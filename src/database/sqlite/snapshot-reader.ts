import type { SQLOutputValue } from 'node:sqlite';
import type { ColumnType } from '../../model/vocabulary.ts';
import type { OwnTables } from '../own-tables.ts';
import {
  selectText,
  misfit,
  type DecimalSpan,
  type ReadColumn,
  type SnapshotReader,
  type ViewCell,
  type ViewQuery,
} from '../snapshot-reader.ts';
import type { UnchangedFile } from './connection/unchanged-file.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { columnText, INDEX, type ColumnIndex } from '../key-plan.ts';

const BATCH_ROWS = 1_000;
const BATCH_BYTES = 2 * 1_048_576;

/** Reads an open file as it stands now; closes it in the end. */
export function snapshotReader(file: UnchangedFile<OwnTables>): SnapshotReader {
  file.freeze();
  return {
    own: file.own,
    columns: (view) => Promise.resolve(declaredColumns(file, view)),
    rows: (query) => batches(file, query),
    decimalSpan: (view, column) => Promise.resolve(decimalSpan(file, view, column)),
    damage: (tables) => Promise.resolve(damageIn(file, tables)),
    missingIndexes: (wanted) => Promise.resolve(missingIndexes(file, wanted)),
    close: file.close,
  };
}

// oxlint-disable-next-line require-await
async function* batches(file: UnchangedFile<OwnTables>, query: ViewQuery): AsyncGenerator<ViewCell[][]> {
  let [batch, bytes]: [ViewCell[][], number] = [[], 0];
  for (const row of file.rows(selectText(query, VIEW_DIALECT))) {
    batch.push(query.columns.map((column, at) => cellOf(row[at] ?? null, column)));
    for (const cell of row) bytes += typeof cell === 'string' ? cell.length : 8;
    if (batch.length < BATCH_ROWS && bytes < BATCH_BYTES) continue;
    yield batch;
    [batch, bytes] = [[], 0];
  }
  if (batch.length > 0) yield batch;
}

const id = (name: string): string => VIEW_DIALECT.id(name);
const literal = (text: string): string => VIEW_DIALECT.literal(text);

function cellOf(value: SQLOutputValue, column: ReadColumn): ViewCell {
  if (value === null) return null;
  const cell = CELLS[column.type](value);
  if (cell === undefined) throw misfit(value, column);
  return cell;
}

const textCell = (value: SQLOutputValue): string => String(value);

/** A value of the driver's as one of a column; undefined if it is none. */
const CELLS: Readonly<Record<ColumnType, (value: SQLOutputValue) => ViewCell | undefined>> = {
  boolean: (value) => (value === 0n || value === 1n ? value === 1n : undefined),
  integer: (value) =>
    typeof value === 'number' ? (Number.isInteger(value) ? BigInt(value) : undefined) : asNumber(value),
  double: (value) => (typeof value === 'bigint' ? Number(value) : asNumber(value)),
  numeric: (value) => plainDigits(String(value)),
  date: textCell,
  timestamp: textCell,
  text: textCell,
  json: textCell,
};

function asNumber(value: SQLOutputValue): number | bigint | undefined {
  return typeof value === 'number' || typeof value === 'bigint' ? value : undefined;
}

/** A number as Postgres writes its numerics: `5e-7` as `0.0000005`. */
function plainDigits(text: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?[eE]([+-]?\d+)$/.exec(text) ?? [];
  if (whole === '') return text;
  const point = whole.length + Number(power);
  const padded = `${'0'.repeat(Math.max(0, 1 - point))}${whole}${fraction}`.padEnd(point, '0');
  const [before, behind] = [padded.slice(0, Math.max(1, point)), padded.slice(Math.max(1, point))];
  return `${sign}${before.replace(/^0+(?=\d)/, '')}${behind === '' ? '' : `.${behind}`}`;
}

function decimalSpan(
  file: UnchangedFile<OwnTables>,
  view: string,
  { name, digits = name }: ReadColumn,
): DecimalSpan | null {
  const span = { whole: 0, scale: 0 };
  for (const [value] of file.rows(`SELECT ${id(digits)} FROM ${id(view)} WHERE ${id(digits)} IS NOT NULL`)) {
    const [, whole = '', fraction = ''] = /^-?(\d+)(?:\.(\d+))?$/.exec(plainDigits(String(value))) ?? [];
    if (whole === '') return null;
    span.whole = Math.max(span.whole, whole.length);
    span.scale = Math.max(span.scale, fraction.length);
  }
  return span.whole === 0 ? null : span;
}

/** By SQLite's own words for types, and ours. */
const DECLARED: readonly (readonly [RegExp, ColumnType])[] = [
  [/BOOL/i, 'boolean'],
  [/INT/i, 'integer'],
  [/TIMESTAMP|DATETIME/i, 'timestamp'],
  [/DATE/i, 'date'],
  [/REAL|FLOA|DOUB|NUMERIC/i, 'double'],
  [/./, 'text'],
];

function declaredColumns(file: UnchangedFile<OwnTables>, view: string): ReadColumn[] | null {
  const rows = [...file.rows(`SELECT "name", "type" FROM pragma_table_info(${literal(view)}) ORDER BY "cid"`)];
  if (rows.length === 0) return null;
  return rows.map(([name, declared]) => {
    const found = DECLARED.find(([pattern]) => pattern.test(String(declared)));
    return { name: String(name), type: found?.[1] ?? foundType(file, view, String(name)) };
  });
}

/** Of an expression, which SQLite declares no type for: by its values. */
function foundType(file: UnchangedFile<OwnTables>, view: string, column: string): ColumnType {
  const name = id(column);
  const [[kinds, isTime] = []] = file.rows(
    `SELECT group_concat(DISTINCT typeof(${name})), min(${name} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9]*')
      FROM ${id(view)} WHERE ${name} IS NOT NULL`,
  );
  if (kinds === 'integer') return 'integer';
  if (kinds === 'real' || kinds === 'integer,real' || kinds === 'real,integer') return 'double';
  return isTime === 1n ? 'timestamp' : 'text';
}

/** Sentences that are asked for at most: a broken file has one for each of its pages. */
const MOST = 100;

/** What SQLite finds broken in the whole file, and child rows of these tables without the row that they belong to. */
function damageIn(file: UnchangedFile<OwnTables>, tables: readonly string[]): string[] {
  const broken = [...file.rows(`PRAGMA integrity_check(${MOST})`)].map(([text]) => String(text));
  const checked = tables.flatMap((table) => [...file.rows(`PRAGMA foreign_key_check(${VIEW_DIALECT.id(table)})`)]);
  const dangling = checked.map(
    ([table, row, parent]) => `row ${String(row)} of ${String(table)} refers to none of ${String(parent)}`,
  );
  return [...broken.filter((text) => text !== 'ok'), ...dangling.slice(0, MOST)];
}

function missingIndexes(file: UnchangedFile<OwnTables>, wanted: readonly ColumnIndex[]): string[] {
  const rows = file.rows("SELECT name FROM sqlite_schema WHERE type = 'index'");
  const standing = new Set([...rows].map(([name]) => String(name)));
  return wanted.map((index) => `${INDEX}${columnText(index)}`).filter((name) => !standing.has(name));
}
