import { messageOf } from '../../model/errors.ts';
import { errorCode } from '../postgres/connection/errors.ts';
import { quoted, type CopiedTable } from './copied-tables.ts';
import type { TargetColumn } from './target-columns.ts';
import type { SourceCell } from './value-kinds.ts';

/** A row that Postgres cannot hold as SQLite does. */
export interface UnfitRow {
  /** Its place in the chunk. */
  row: number;
  /** For people: the value, and the statement that mends it in the SQLite file. */
  text: string;
}

interface Chunk {
  table: CopiedTable;
  columns: readonly TargetColumn[];
  rows: readonly (readonly SourceCell[])[];
}

/** Longer texts are not printed for a person to paste. */
const PASTED = 1_000;

/** The first row with a value of which Postgres would make nothing, or something else; null if none is. */
export function unfitRow({ table, columns, rows }: Chunk): UnfitRow | null {
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
export function refusedRow(error: unknown, { table, columns, rows }: Chunk): UnfitRow | null {
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
