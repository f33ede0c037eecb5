// Copies one table from SQLite to Postgres, reads it back and compares every value.
import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { escapeIdentifier as quoted } from 'pg';
import { ConfigError, errorCode, messageOf, SyncError } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';
import { canonicalDecimal, canonicalJson } from '../../rows/json/canonical-json.ts';
import type { Session } from '../postgres/connection/session.ts';

interface TableCopy {
  table: string;
  source: Database;
  /** A transaction in the schema of the copy, in which the table exists. */
  session: Session;
  signal: AbortSignal;
}

/** A column that both databases have. */
interface Column {
  name: string;
  isKey: boolean;
  /** Postgres's name of the type, such as `timestamp with time zone`. */
  type: string;
  kind: ValueKind;
}

/** A cell as SQLite returns it, integers as bigint. */
type SourceCell = string | number | bigint | Buffer | null;

/** Number and hash of the rows of a table: equal for the same rows in any order. */
interface Content {
  rows: number;
  sum: bigint;
}

/**
 * Copies the rows of a table, reads them back from Postgres and compares them with those of SQLite. Returns their
 * number. Throws `ConfigError('copy_refused')` for values that Postgres cannot hold, and `SyncError('copy_differs')`.
 */
export async function copyTable(copy: TableCopy): Promise<number> {
  const { table, session, signal } = copy;
  const columns = await matchColumns(copy);
  // Migrations have filled some internal tables.
  await session.execute(`DELETE FROM ${quoted(table)}`);
  const read: Content = { rows: 0, sum: 0n };
  const chunkSizes: number[] = [];
  for (const rows of readChunks(copy, columns)) {
    signal.throwIfAborted();
    await sendChunk(copy, columns, rows);
    addRows(read, columns, rows);
    chunkSizes.push(rows.length);
  }
  // Until autovacuum has analyzed the table, Postgres would plan queries for an empty one.
  await session.execute(`ANALYZE ${quoted(table)}`);
  const stored = await readContent(copy, columns, chunkSizes);
  if (stored.rows === read.rows && stored.sum === read.sum) return read.rows;
  const text = `${table}: the copy is not equal: ${read.rows} rows in SQLite, ${stored.rows} in Postgres`;
  throw new SyncError('copy_differs', stored.rows === read.rows ? `${text}, with other values` : text, {
    recovery: 'stop',
    hint: 'look for triggers and for other programs that write to the database, then run the same command again',
  });
}

/** Adds the SHA-256 of each row, so that neither database has to sort. */
function addRows(content: Content, columns: readonly Column[], rows: readonly (readonly unknown[])[]): void {
  for (const row of rows) {
    const cells = columns.map(({ kind }, at) => ((row[at] ?? null) === null ? null : kind.canonical(row[at])));
    content.rows += 1;
    content.sum = BigInt.asUintN(256, content.sum + BigInt(`0x${hash('sha256', JSON.stringify(cells))}`));
  }
}

/** The rows that are in memory at a time. */
const CHUNK_BYTES = 2 * 1_048_576;
const CHUNK_ROWS = 2_000;

/** Deliveries that are done are not processed again. */
const FILTERS: Readonly<Record<string, string>> = { _sync_deliveries: ` WHERE "state" IN ('waiting', 'dead')` };

function* readChunks({ table, source }: TableCopy, columns: readonly Column[]): Generator<SourceCell[][]> {
  const text = `SELECT ${list(columns)} FROM ${quoted(table)}${FILTERS[table] ?? ''}`;
  let [rows, bytes]: [SourceCell[][], number] = [[], 0];
  for (const row of source.prepare<[], SourceCell[]>(text).raw().safeIntegers().iterate()) {
    rows.push(row);
    for (const cell of row) bytes += typeof cell === 'string' || Buffer.isBuffer(cell) ? cell.length : 8;
    if (bytes < CHUNK_BYTES && rows.length < CHUNK_ROWS) continue;
    yield rows;
    [rows, bytes] = [[], 0];
  }
  if (rows.length > 0) yield rows;
}

function list(columns: readonly Column[]): string {
  return columns.map(({ name }) => quoted(name)).join(', ');
}

/** Reads the table in Postgres, in chunks of the sizes in which it was written, so that each fits into memory. */
async function readContent(
  { table, session, signal }: TableCopy,
  columns: readonly Column[],
  chunkSizes: readonly number[],
): Promise<Content> {
  const content: Content = { rows: 0, sum: 0n };
  await session.execute(`DECLARE "stored" NO SCROLL CURSOR FOR SELECT ${list(columns)} FROM ${quoted(table)}`);
  // The last one finds a row too many.
  for (const size of [...chunkSizes, 1]) {
    signal.throwIfAborted();
    const { rows } = await session.execute(`FETCH ${size} FROM "stored"`);
    const cells = rows.map((row) => columns.map(({ name }) => row[name]));
    addRows(content, columns, cells);
  }
  await session.execute('CLOSE "stored"');
  return content;
}

/** Returns the columns in Postgres's order. Throws `ConfigError` if SQLite has others. */
async function matchColumns({ table, source, session }: TableCopy): Promise<Column[]> {
  const { rows } = await session.execute<{ name: string; type: string }>(
    `SELECT attname AS name, trim('"' FROM format_type(atttypid, NULL)) AS type FROM pg_attribute
      WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    [quoted(table)],
  );
  const info = source.prepare<[string], [string, number]>('SELECT "name", "pk" FROM pragma_table_info(?)');
  const inSource = new Map(info.raw().all(table));
  const columns = rows.map(({ name, type }) => {
    const kind = VALUE_KINDS[type];
    if (kind === undefined) throw new Error(`${table}.${name}: copy does not know the type ${type}`);
    const keyPosition = inSource.get(name);
    if (keyPosition === undefined) throw unlikeColumns(table, `has no column "${name}"`);
    inSource.delete(name);
    return { name, isKey: keyPosition > 0, type, kind };
  });
  const [foreign] = inSource.keys();
  if (foreign !== undefined) throw unlikeColumns(table, `has a column "${foreign}" that content-sync did not make`);
  return columns;
}

function unlikeColumns(table: string, why: string): ConfigError {
  return new ConfigError('copy_columns', `the table "${table}" of the SQLite warehouse ${why}`, {
    hint: 'restore the columns that content-sync made, and run the same command again',
  });
}

async function sendChunk({ table, session }: TableCopy, columns: readonly Column[], rows: SourceCell[][]) {
  refuseUnfit(table, columns, rows);
  const values = columns.map(({ type }, at) => `("_row"->>${at})::${type}`);
  const text = `INSERT INTO ${quoted(table)} (${list(columns)}) OVERRIDING SYSTEM VALUE
    SELECT ${values.join(', ')} FROM jsonb_array_elements($1::jsonb) AS "_row"`;
  const cells = rows.map((row) => columns.map(({ kind }, at) => written(kind, row[at] ?? null)));
  try {
    await session.execute(text, [JSON.stringify(cells)]);
  } catch (error) {
    // Classes 22 and 54 are about a value, and a limit that it exceeds.
    throw /^(?:22|54)/.test(errorCode(error)) ? refusal([`${table}: ${messageOf(error)}`]) : error;
  }
}

function written(kind: ValueKind, cell: SourceCell): string | null {
  return cell === null ? null : kind.written(cell);
}

const MAX_REPORTED_VALUES = 20;

/** Throws `ConfigError` if the chunk has values that Postgres would refuse or read as something else. */
function refuseUnfit(table: string, columns: readonly Column[], rows: readonly SourceCell[][]): void {
  const found: string[] = [];
  for (const row of rows) {
    for (const [at, { name, type, kind }] of columns.entries()) {
      const cell = row[at] ?? null;
      if (cell === null || type === 'bytea' || found.length === MAX_REPORTED_VALUES) continue;
      const cellName = `${table}.${name} where ${toCondition(columns, row)}`;
      if (Buffer.isBuffer(cell)) found.push(`${cellName}: bytes, not a ${type}`);
      else if (String(cell).includes('\0')) found.push(`${cellName}: a NUL, which content-sync stores as ␀ now`);
      else if (kind.form?.test(String(cell)) === false) {
        found.push(`${cellName}: not a ${type} as content-sync writes it`);
      }
    }
  }
  if (found.length > 0) throw refusal(found);
}

function refusal(values: readonly string[]): ConfigError {
  const lines = ['Postgres cannot hold these values as they are:', ...values.map((value) => visibleText(value))];
  return new ConfigError('copy_refused', lines.join('\n'), {
    hint: 'fix them in the SQLite file, then run the same command again: it starts from the beginning',
  });
}

/** Returns a condition such as `"id" = 'a'` that finds the row in SQLite. */
function toCondition(columns: readonly Column[], row: readonly SourceCell[]): string {
  const hasKey = columns.some(({ isKey }) => isKey);
  const parts = columns.map(({ name, isKey }, at) => {
    const cell = row[at] ?? null;
    if (hasKey && !isKey) return null;
    if (cell === null) return `${quoted(name)} IS NULL`;
    return `${quoted(name)} = ${typeof cell === 'string' ? `'${cell.replaceAll("'", "''")}'` : String(cell)}`;
  });
  return parts.filter((part) => part !== null).join(' AND ');
}

/** How values of one Postgres type are written, and how those of both databases are compared. */
interface ValueKind {
  /** How its texts look in SQLite; Postgres would take others too (`yesterday`), and make something else of them. */
  form?: RegExp;
  /** SQLite's value, never null, as Postgres reads it. */
  written(cell: Exclude<SourceCell, null>): string;
  /** One text for equal values, whichever database they were read from; never called with null. */
  canonical(cell: unknown): string;
}

const plain: ValueKind = { written: textOf, canonical: textOf };
const whole: ValueKind = { ...plain, form: /^-?\d+$/ };
const time: ValueKind = {
  form: /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?$/,
  written: textOf,
  // SQLite's text leaves zero milliseconds out.
  canonical: (cell) => textOf(cell).replace(/^[^.]{19}$/, '$&.000'),
};

/** By the name that Postgres gives the type. */
const VALUE_KINDS: Readonly<Record<string, ValueKind>> = {
  boolean: { form: /^[01]$/, written: textOf, canonical: (cell) => TRUTHS[textOf(cell)] ?? textOf(cell) },
  integer: whole,
  bigint: whole,
  'double precision': { written: textOf, canonical: (cell) => String(Number(cell)) },
  numeric: { written: textOf, canonical: (cell) => canonicalDecimal(textOf(cell)) },
  date: { ...plain, form: /^\d{4}-\d\d-\d\d$/ },
  'timestamp without time zone': time,
  'timestamp with time zone': { ...time, written: (cell) => `${textOf(cell)}+00` },
  text: plain,
  jsonb: { written: textOf, canonical: (cell) => canonicalJson(textOf(cell)) },
  bytea: { written: (cell) => `\\x${hexOf(cell)}`, canonical: hexOf },
};

const TRUTHS: Readonly<Record<string, string>> = { 0: 'false', 1: 'true' };

/** Bytes where a text belongs are kept apart from the text of the same bytes, so that a comparison finds them. */
function textOf(cell: unknown): string {
  return Buffer.isBuffer(cell) ? `bytes ${cell.toString('hex')}` : String(cell);
}

function hexOf(cell: unknown): string {
  return Buffer.isBuffer(cell) ? cell.toString('hex') : `text ${String(cell)}`;
}
