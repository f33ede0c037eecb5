import { ConfigError, messageOf } from '../../model/errors.ts';
import { errorCode } from '../postgres/connection/errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { execute, transact } from '../postgres/connection/transact.ts';
import { copyCell } from '../postgres/pages/copy-text.ts';
import type { LeaseProof } from '../warehouse.ts';
import type { Compared } from './compare-table.ts';
import { quoted, type CopiedTable } from './copied-tables.ts';
import { forgetTable, readProgress, saveProgress, type Progress } from './receipt.ts';
import { targetColumns, type TargetColumn } from './target-columns.ts';
import type { SourceCell } from './value-kinds.ts';

/** One table on its way. */
export interface TableCopy extends Compared {
  /** For the next transaction: of the staging schema. */
  lease: () => LeaseProof;
}

/** Values that Postgres cannot hold are reported up to this many per table. */
const MOST_REFUSALS = 20;

interface Chunk {
  table: CopiedTable;
  rows: SourceCell[][];
  columns: readonly TargetColumn[];
}

/**
 * Copies the rows of a table that are not there yet, a chunk per transaction. Returns the rows that Postgres cannot
 * hold: their chunk is not there then, and nothing behind it.
 */
export async function copyTable(copying: TableCopy): Promise<UnfitRow[]> {
  const { table, snapshot, database, signal } = copying;
  const columns = await columnsOf(copying);
  if (table.isAfresh === true) await forgetTable(database, table);
  let progress = (await readProgress(database, table.name)) ?? { doneUpTo: null, rows: 0, isWhole: false };
  let after = keyBehind(progress, table, columns);
  const names = columns.map(({ name }) => name);
  const refused: UnfitRow[] = [];
  while (!progress.isWhole && refused.length < MOST_REFUSALS) {
    signal.throwIfAborted();
    const rows = snapshot.read(table, names, after);
    if (rows.length === 0 && refused.length > 0) break;
    const last = keyOf(rows.at(-1), table, columns) ?? after;
    progress = { doneUpTo: keyText(last), rows: progress.rows + rows.length, isWhole: rows.length === 0 };
    refused.push(...(await copyChunk(copying, { table, rows, columns }, refused.length === 0 ? progress : null)));
    after = last;
  }
  // A server that has not come by yet would plan the first questions for an empty table.
  await execute(database)(`ANALYZE ${quoted(database.schema)}.${quoted(table.name)}`);
  return refused;
}

/** Writes a chunk, and that it is there; one with refused rows is only tried, and so is one without `progress`. */
async function copyChunk(copying: TableCopy, chunk: Chunk, progress: Progress | null): Promise<UnfitRow[]> {
  const refused: UnfitRow[] = [];
  let { rows } = chunk;
  while (refused.length < MOST_REFUSALS) {
    const tried = { ...chunk, rows };
    const kept = refused.length === 0 ? progress : null;
    const refusal = unfitRow(tried) ?? (await sendChunk(copying, tried, kept));
    if (refusal === null) break;
    refused.push(refusal);
    rows = rows.toSpliced(refusal.row, 1);
  }
  return refused;
}

/** The row for which Postgres refused the chunk; null if it took it. Nothing stays without `progress`. */
async function sendChunk(copying: TableCopy, chunk: Chunk, progress: Progress | null): Promise<UnfitRow | null> {
  const { table, database, lease } = copying;
  try {
    const send = async (session: Session): Promise<void> => {
      if (chunk.rows.length > 0) await session.copyIn(copyStatement(table, chunk.columns), copyText(chunk));
      if (progress === null) throw new OnlyTried();
      await saveProgress(session, table.name, progress);
    };
    await transact(database, send, { lease: lease() });
    return null;
  } catch (error) {
    if (error instanceof OnlyTried) return null;
    const refusal = refusedRow(error, chunk);
    if (refusal === null) throw error;
    return refusal;
  }
}

/** Ends a transaction that is not to be committed. */
class OnlyTried extends Error {}

/** The columns of the new table, in its order. Throws `ConfigError` if the old one has others. */
async function columnsOf({ table, snapshot, database }: TableCopy): Promise<readonly TargetColumn[]> {
  const columns = await targetColumns(database, table.name);
  const known = new Set(columns.map(({ name }) => name));
  const foreign = snapshot.columns(table.name).find((name) => !known.delete(name));
  const [missing] = known;
  if (foreign === undefined && missing === undefined) return columns;
  const what = foreign === undefined ? `has no column "${missing}"` : `has a column "${foreign}" of somebody else`;
  throw new ConfigError('copy_columns', `the table "${table.name}" of the SQLite warehouse ${what}`, {
    hint: 'make its columns those that content-sync gave it, and run the same command again',
  });
}

function copyStatement({ name }: CopiedTable, columns: readonly TargetColumn[]): string {
  return `COPY ${quoted(name)} (${columns.map((column) => quoted(column.name)).join(', ')}) FROM STDIN`;
}

function copyText({ rows, columns }: Chunk): Buffer {
  const line = (row: SourceCell[]): string =>
    columns
      .map(({ kind }, at) => {
        const cell = row[at] ?? null;
        return copyCell(cell === null ? null : kind.written(cell));
      })
      .join('\t');
  return Buffer.from(rows.map((row) => `${line(row)}\n`).join(''));
}

function keyOf(
  row: SourceCell[] | undefined,
  { key }: CopiedTable,
  columns: readonly TargetColumn[],
): SourceCell[] | null {
  return row === undefined ? null : key.map((name) => row[columns.findIndex((column) => column.name === name)] ?? null);
}

function keyText(key: readonly SourceCell[] | null): string | null {
  return key === null ? null : JSON.stringify(key.map(String));
}

/** Integers are bound as such, because SQLite holds each of them for less than any text. */
function keyBehind(
  { doneUpTo }: Progress,
  { key }: CopiedTable,
  columns: readonly TargetColumn[],
): SourceCell[] | null {
  if (doneUpTo === null) return null;
  const parts: unknown = JSON.parse(doneUpTo);
  const texts = Array.isArray(parts) ? parts.map(String) : [];
  return key.map((name, at) => {
    const text = texts[at] ?? '';
    return columns.find((column) => column.name === name)?.isInteger === true ? BigInt(text) : text;
  });
}

/** A row that Postgres cannot hold as SQLite does. */
interface UnfitRow {
  /** Its place in the chunk. */
  row: number;
  /** For people: the value, and the statement that mends it in the SQLite file. */
  text: string;
}

/** Longer texts are not printed for a person to paste. */
const PASTED = 1_000;

/** The first row with a value of which Postgres would make nothing, or something else; null if none is. */
function unfitRow({ table, columns, rows }: Chunk): UnfitRow | null {
  for (const [row, cells] of rows.entries()) {
    for (const [at, column] of columns.entries()) {
      const why = unfitness(cells[at] ?? null, column);
      if (why === null) continue;
      const condition = conditionFor(table, columns, cells);
      const mend = why === NUL ? mendText(table, column, cells[at], condition) : '';
      return { row, text: `${table.name}.${column.name} where ${condition}: ${why}${mend}` };
    }
  }
  return null;
}

const NUL = 'a NUL, which Postgres cannot hold';

function unfitness(cell: SourceCell, { type, kind }: TargetColumn): string | null {
  if (cell === null || type === 'bytea') return null;
  if (Buffer.isBuffer(cell)) return `bytes, not a ${type}`;
  if (typeof cell === 'string' && cell.includes('\0')) return NUL;
  return kind.form?.test(String(cell)) === false ? `not a ${type} as content-sync writes it` : null;
}

/** A statement that makes of the text what content-sync would store today. */
function mendText(table: CopiedTable, column: TargetColumn, cell: SourceCell | undefined, condition: string): string {
  const text = String(cell).replaceAll('\0', '␀');
  if (text.length > PASTED) return '';
  const set = `${quoted(column.name)} = ${literal(text)}`;
  return `. As content-sync stores it now: UPDATE ${quoted(table.name)} SET ${set} WHERE ${condition};`;
}

/** The row that an error of COPY is about; null if it is about none. */
function refusedRow(error: unknown, { table, columns, rows }: Chunk): UnfitRow | null {
  const where = error instanceof Error && 'where' in error ? String(error.where) : '';
  const [, line, rest = ''] = /^COPY .*?, line (\d+)(?:, column ([^]*))?/m.exec(where) ?? [];
  const row = Number(line) - 1;
  const cells = rows[row];
  if (!/^(?:22|54)/.test(errorCode(error)) || cells === undefined) return null;
  const column = columns.find(({ name }) => rest === name || rest.startsWith(`${name}:`));
  const place = column === undefined ? table.name : `${table.name}.${column.name}`;
  return { row, text: `${place} where ${conditionFor(table, columns, cells)}: ${messageOf(error)}` };
}

/** `"id" = 'a'`: finds the row in SQLite. */
function conditionFor(table: CopiedTable, columns: readonly TargetColumn[], cells: readonly SourceCell[]): string {
  const key = table.key.length === 0 ? columns.map(({ name }) => name) : table.key;
  const parts = key.map((name) => {
    const cell = cells[columns.findIndex((column) => column.name === name)] ?? null;
    if (cell === null) return `${quoted(name)} IS NULL`;
    return `${quoted(name)} = ${typeof cell === 'string' ? literal(cell) : String(cell)}`;
  });
  return parts.join(' AND ');
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
