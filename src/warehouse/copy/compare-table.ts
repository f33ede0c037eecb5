import { createHash, type Hash } from 'node:crypto';
import { transact, type Database } from '../postgres/connection/transact.ts';
import { quoted, type CopiedTable } from './copied-tables.ts';
import type { Snapshot } from './snapshot.ts';
import { targetColumns, type TargetColumn } from './target-columns.ts';
import type { SourceCell } from './value-kinds.ts';

/** How a table stands in both databases, read back from both. */
export interface Comparison {
  table: string;
  /** Rows in SQLite, of those that are copied. */
  rows: number;
  /** Rows in Postgres. */
  copied: number;
  /** SHA-256 over all values in SQLite, each in its one spelling, in the order of the key. */
  digest: string;
  /** True if Postgres's rows give the same. */
  isEqual: boolean;
  /** Describes the first row that differs, for a message; null if none does. */
  difference: string | null;
}

export interface Compared {
  table: CopiedTable;
  snapshot: Snapshot;
  /** The staging schema. */
  database: Database;
  signal: AbortSignal;
}

/** The whole table is compared by few large statements, which may take their time. */
const STATEMENT_MS = 600_000;

/** Reads a table in both databases, a chunk at a time, and compares it value by value. */
export async function compareTable({ table, snapshot, database, signal }: Compared): Promise<Comparison> {
  const columns = await targetColumns(database, table.name);
  const names = columns.map(({ name }) => name);
  const keyAt = table.key.map((name) => names.indexOf(name));
  const [ours, theirs] = [createHash('sha256'), createHash('sha256')];
  let [rows, difference, after]: [number, string | null, SourceCell[] | null] = [0, null, null];
  for (;;) {
    signal.throwIfAborted();
    const chunk = snapshot.read(table, names, after);
    if (chunk.length === 0) break;
    const written = inOrder(table, linesOf(chunk, columns));
    const stored = inOrder(table, await storedLines(database, table, columns, { chunk, keyAt }));
    difference ??= firstDifference(written, stored);
    hashLines(ours, written);
    hashLines(theirs, stored);
    rows += chunk.length;
    after = keyAt.map((at) => chunk.at(-1)?.[at] ?? null);
  }
  const copied = await countRows(database, table);
  const digest = ours.digest('hex');
  const isEqual = digest === theirs.digest('hex') && copied === rows;
  return { table: table.name, rows, copied, digest, isEqual, difference };
}

/** A table without a key has no order of its own in either database. */
function inOrder({ key }: CopiedTable, lines: readonly string[]): readonly string[] {
  return key.length === 0 ? lines.toSorted() : lines;
}

/** One line per row: its values as JSON, each in the one spelling that both databases share. */
function linesOf(rows: readonly (readonly unknown[])[], columns: readonly TargetColumn[]): string[] {
  return rows.map((row) =>
    JSON.stringify(columns.map(({ kind }, at) => ((row[at] ?? null) === null ? null : kind.canonical(row[at])))),
  );
}

/** The rows of the same keys in Postgres, in the order of the chunk; those that are not there are left out. */
async function storedLines(
  database: Database,
  table: CopiedTable,
  columns: readonly TargetColumn[],
  { chunk, keyAt }: { chunk: readonly SourceCell[][]; keyAt: readonly number[] },
): Promise<string[]> {
  const { text, values } =
    table.key.length === 0 ? wholeQuery(table, columns) : keyedQuery(table, columns, chunk, keyAt);
  const stored = await transact(
    database,
    async ({ execute }) => {
      // By the key's index, whatever the server thinks of a table that it does not know yet.
      await execute(
        'SET LOCAL enable_hashjoin TO off; SET LOCAL enable_mergejoin TO off; SET LOCAL enable_seqscan TO off',
      );
      return (await execute(text, values)).rows;
    },
    { statementMs: STATEMENT_MS },
  );
  return linesOf(
    stored.map((row) => columns.map(({ name }) => row[name])),
    columns,
  );
}

function keyedQuery(
  { name, key }: CopiedTable,
  columns: readonly TargetColumn[],
  chunk: readonly SourceCell[][],
  keyAt: readonly number[],
): { text: string; values: unknown[] } {
  const typeOf = (part: string): string => columns.find((column) => column.name === part)?.type ?? 'text';
  const arrays = key.map((part, at) => `pg_catalog.unnest($${at + 1}::${typeOf(part)}[])`).join(', ');
  const parts = key.map((_, at) => `"part${at}"`);
  const isSame = key.map((part, at) => `${quoted(name)}.${quoted(part)} = "_asked".${parts[at] ?? ''}`).join(' AND ');
  return {
    text: `SELECT ${selected(name, columns)} FROM ROWS FROM (${arrays}) WITH ORDINALITY AS "_asked" (${[...parts, '"place"'].join(', ')})
      JOIN ${quoted(name)} ON ${isSame} ORDER BY "_asked"."place"`,
    values: keyAt.map((at) => chunk.map((row) => row[at]?.toString() ?? null)),
  };
}

/** In SQLite such a table is read as a whole too. */
function wholeQuery({ name }: CopiedTable, columns: readonly TargetColumn[]): { text: string; values: unknown[] } {
  return { text: `SELECT ${selected(name, columns)} FROM ${quoted(name)}`, values: [] };
}

function selected(table: string, columns: readonly TargetColumn[]): string {
  return columns.map((column) => `${quoted(table)}.${quoted(column.name)}`).join(', ');
}

async function countRows(database: Database, { name }: CopiedTable): Promise<number> {
  return transact(
    database,
    async ({ execute }) => {
      const { rows } = await execute<{ n: number }>(`SELECT count(*) AS n FROM ${quoted(name)}`);
      return rows[0]?.n ?? 0;
    },
    { statementMs: STATEMENT_MS },
  );
}

function firstDifference(written: readonly string[], stored: readonly string[]): string | null {
  const at = written.findIndex((line, place) => line !== stored[place]);
  return at < 0 ? null : `${shortened(written[at])} in SQLite is not ${shortened(stored[at])} in Postgres`;
}

function shortened(line = 'nothing'): string {
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}

function hashLines(hash: Hash, lines: readonly string[]): void {
  for (const line of lines) hash.update(line).update('\n');
}
