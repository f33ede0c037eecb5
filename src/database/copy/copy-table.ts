import { hash } from 'node:crypto';
import { escapeIdentifier as quoted } from 'pg';
import { ConfigError, messageOf, SyncError } from '../../model/errors.ts';
import { visibleText } from '../../model/visible-text.ts';
import { canonicalDecimal, canonicalJson } from '../../rows/json/canonical-json.ts';
import { errorCode } from '../postgres/connection/errors.ts';
import { type Database, execute, transact } from '../postgres/connection/transact.ts';
import { copyCell } from '../postgres/pages/write-page.ts';
import type { LeaseProof } from '../warehouse.ts';
import type { SourceCell, SourceFile } from './source-file.ts';

interface TableCopy {
  table: string;
  source: SourceFile;
  /** The staging schema, in which the table exists and is empty. */
  database: Database;
  /** Returns the proof for the next transaction. */
  lease: () => LeaseProof;
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

/** Analyzing or reading back a large table takes longer than a page. */
const STATEMENT_MS = 600_000;

/**
 * Copies the rows of a table, reads them back from Postgres and compares them with those of SQLite. Returns their
 * number. Throws `ConfigError('copy_refused')` for values that Postgres cannot hold, and `SyncError('copy_differs')`.
 */
export async function copyTable(copy: TableCopy): Promise<number> {
  const { table, source, database, signal } = copy;
  const columns = await matchColumns(copy);
  const names = columns.map(({ name }) => name);
  const read: Content = { rows: 0, sum: 0n };
  const chunkSizes: number[] = [];
  for (const rows of source.chunks(table, names)) {
    signal.throwIfAborted();
    await sendChunk(copy, columns, rows);
    addRows(read, columns, rows);
    chunkSizes.push(rows.length);
  }
  // Until autovacuum has analyzed the table, Postgres would plan queries for an empty one.
  await execute(database, { statementMs: STATEMENT_MS })(`ANALYZE ${quoted(database.schema)}.${quoted(table)}`);
  const stored = await readContent(copy, columns, chunkSizes);
  if (stored.rows === read.rows && stored.sum === read.sum) return read.rows;
  const text = `${table}: the copy is not equal: ${read.rows} rows in SQLite, ${stored.rows} in Postgres`;
  throw new SyncError('copy_differs', stored.rows === read.rows ? `${text}, with other values` : text, {
    recovery: 'stop',
    hint: 'look for triggers and for other programs that write to the database, then run the same command again',
  });
}

/** Number and hash of the rows of a table: equal for the same rows in any order. */
interface Content {
  rows: number;
  sum: bigint;
}

/** Adds the SHA-256 of each row, so that neither database has to sort. */
function addRows(content: Content, columns: readonly Column[], rows: readonly (readonly unknown[])[]): void {
  for (const row of rows) {
    const cells = columns.map(({ kind }, at) => ((row[at] ?? null) === null ? null : kind.canonical(row[at])));
    content.rows += 1;
    content.sum = BigInt.asUintN(256, content.sum + BigInt(`0x${hash('sha256', JSON.stringify(cells))}`));
  }
}

/** Reads the table in Postgres, in chunks of the sizes in which it was written, so that each fits into memory. */
async function readContent(
  { table, database, signal }: TableCopy,
  columns: readonly Column[],
  chunkSizes: readonly number[],
): Promise<Content> {
  return transact(
    database,
    async ({ execute: run }) => {
      const content: Content = { rows: 0, sum: 0n };
      const names = columns.map(({ name }) => quoted(name)).join(', ');
      await run(`DECLARE "stored" NO SCROLL CURSOR FOR SELECT ${names} FROM ${quoted(table)}`);
      // The last one finds a row too many.
      for (const size of [...chunkSizes, 1]) {
        signal.throwIfAborted();
        const { rows } = await run(`FETCH ${size} FROM "stored"`);
        const cells = rows.map((row: Readonly<Record<string, unknown>>) => columns.map(({ name }) => row[name]));
        addRows(content, columns, cells);
      }
      return content;
    },
    { statementMs: STATEMENT_MS, mayRepeat: true },
  );
}

/** Returns the columns in Postgres's order. Throws `ConfigError` if SQLite has others. */
async function matchColumns({ table, source, database }: TableCopy): Promise<Column[]> {
  const { rows } = await execute(database)<{ name: string; type: string }>(
    `SELECT attname AS name, trim('"' FROM format_type(atttypid, NULL)) AS type FROM pg_attribute
      JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE nspname = $1 AND relname = $2 AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    [database.schema, table],
  );
  const inSource = new Map(source.columns(table).map((column) => [column.name, column]));
  const columns = rows.map(({ name, type }) => {
    const kind = VALUE_KINDS[type];
    if (kind === undefined) throw new Error(`${table}.${name}: copy does not know the type ${type}`);
    const column = inSource.get(name);
    if (column === undefined) throw unlikeColumns(table, `has no column "${name}"`);
    inSource.delete(name);
    return { name, isKey: column.isKey, type, kind };
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

async function sendChunk({ table, database, lease }: TableCopy, columns: Column[], rows: SourceCell[][]) {
  refuseUnfit(table, columns, rows);
  const names = columns.map(({ name }) => quoted(name)).join(', ');
  const lines = rows.map((row) => `${row.map((cell, at) => copyText(cell, columns[at])).join('\t')}\n`);
  const data = Buffer.from(lines.join(''));
  try {
    const copy = { text: `COPY ${quoted(table)} (${names}) FROM STDIN`, data };
    await transact(database, (session) => session.runAll([copy]), { lease: lease() });
  } catch (error) {
    const where = error instanceof Error && 'where' in error ? String(error.where) : '';
    const row = rows[Number(/^COPY .*?, line (\d+)/m.exec(where)?.[1]) - 1];
    // Classes 22 and 54 are about a value, and a limit that it exceeds.
    if (row === undefined || !/^(?:22|54)/.test(errorCode(error))) throw error;
    const column = columns.find(({ name }) => where.includes(`, column ${name}`))?.name;
    const place = column === undefined ? table : `${table}.${column}`;
    throw refusal([`${place} where ${toCondition(columns, row)}: ${messageOf(error)}`]);
  }
}

function copyText(cell: SourceCell, column: Column | undefined): string {
  return copyCell(cell === null ? null : column?.kind.written(cell));
}

const MAX_REPORTED_VALUES = 20;
/** Longer texts are not printed as a statement to paste. */
const MAX_PASTED_CHARACTERS = 1_000;

/** Throws `ConfigError` if the chunk has values that Postgres would refuse or read as something else. */
function refuseUnfit(table: string, columns: readonly Column[], rows: readonly SourceCell[][]): void {
  const found: string[] = [];
  for (const row of rows) {
    for (const [at, { name, type, kind }] of columns.entries()) {
      const cell = row[at] ?? null;
      if (cell === null || type === 'bytea' || found.length === MAX_REPORTED_VALUES) continue;
      const place = (): string => `${table}.${name} where ${toCondition(columns, row)}`;
      if (Buffer.isBuffer(cell)) found.push(`${place()}: bytes, not a ${type}`);
      else if (String(cell).includes('\0')) {
        const text = toLiteral(String(cell).replaceAll('\0', '␀'));
        const fix = `UPDATE ${quoted(table)} SET ${quoted(name)} = ${text} WHERE ${toCondition(columns, row)};`;
        const shown = text.length > MAX_PASTED_CHARACTERS ? '' : `. As content-sync stores it now: ${fix}`;
        found.push(`${place()}: a NUL, which Postgres cannot hold${shown}`);
      } else if (kind.form?.test(String(cell)) === false) {
        found.push(`${place()}: not a ${type} as content-sync writes it`);
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
    return `${quoted(name)} = ${typeof cell === 'string' ? toLiteral(cell) : String(cell)}`;
  });
  return parts.filter((part) => part !== null).join(' AND ');
}

function toLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** How values of one Postgres type are written, and how those of both databases are compared. */
export interface ValueKind {
  /** How its texts look in SQLite; Postgres would take others too (`yesterday`), and make something else of them. */
  form?: RegExp;
  /** SQLite's value, never null, as Postgres reads it. */
  written(cell: Exclude<SourceCell, null>): string;
  /** One text for equal values, whichever database they were read from; never called with null. */
  canonical(cell: unknown): string;
}

const plain: ValueKind = { written: textOf, canonical: textOf };
const time: ValueKind = {
  form: /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?$/,
  written: textOf,
  canonical: (cell) => withMilliseconds(textOf(cell)),
};

/** By the name that Postgres gives the type. */
const VALUE_KINDS: Readonly<Record<string, ValueKind>> = {
  boolean: { form: /^[01]$/, written: textOf, canonical: (cell) => TRUTHS[textOf(cell)] ?? textOf(cell) },
  integer: plain,
  bigint: plain,
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

/** SQLite's text leaves them out if there are none. */
function withMilliseconds(text: string): string {
  return /^[^.]{19}$/.test(text) ? `${text}.000` : text;
}
