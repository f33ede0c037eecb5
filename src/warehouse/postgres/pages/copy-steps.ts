import type { TableRows, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { oncePer } from '../../once-per.ts';
import type { Step } from '../connection/batch.ts';
import type { CopyData, CopyMemory } from '../connection/copy-data.ts';
import { CopyFields, PUT_CELL, TYPE_NUMBERS, type PutCell } from './copy-binary.ts';
import { addRows, CELL_BYTES, CopyLines, type CopyFormat } from './copy-text.ts';
import { copyStatement, insertedTypes, typesStatement } from './row-statements.ts';

/** Rows to be copied into a table, as they are written in either format. */
export interface CopiedRows {
  table: TableShape;
  /** About so many. */
  bytes: number;
  write: (lines: CopyFormat) => void;
}

type Written = Omit<CopiedRows, 'table'>;

/** Thrown if columns have other types than we gave them: somebody has changed a table of ours. */
export class OtherTypes extends Error {}

/**
 * Returns steps that copy rows into tables of a resource; `asText` for the format that columns of any type take. The
 * other one costs half as much, and a field of it says nothing of its type: so the columns are looked at first, in
 * the same transaction, from which on nobody can change them.
 */
export function createCopySteps(memory: CopyMemory) {
  const textInto = oncePer(copyStatement);
  const plans = oncePer((table: TableShape) => binaryPlan(table));

  return (rows: readonly CopiedRows[], asText: boolean): Step[] => {
    const steps = rows.map((each) => {
      const plan = asText ? null : plans(each.table);
      const data = plan === null ? null : fieldsOf(memory, each, plan.puts);
      return plan === null || data === null
        ? { text: textInto(each.table), data: linesOf(memory, each), checked: [] }
        : { text: plan.text, data, checked: [each.table] };
    });
    return [...typesSteps(steps.flatMap((step) => step.checked)), ...steps.map(({ text, data }) => ({ text, data }))];
  };
}

interface BinaryPlan {
  text: string;
  puts: readonly PutCell[];
}

/** Null if it has a column that is only written as text. */
function binaryPlan(table: TableShape): BinaryPlan | null {
  const puts = putsOf(insertedTypes(table));
  return puts === null ? null : { text: `${copyStatement(table)} (FORMAT binary)`, puts };
}

function putsOf(types: readonly ColumnType[]): readonly PutCell[] | null {
  const puts = types.flatMap((type) => PUT_CELL[type] ?? []);
  return puts.length === types.length ? puts : null;
}

/** The server's own bound is 1664 for a result, and 1600 for a table. */
const MOST_COLUMNS = 1600;
/** In one statement: the server thinks about the order of more tables, although it reads none. */
const MOST_TABLES = 4;

function typesSteps(tables: readonly TableShape[]): Step[] {
  const columns = tables.reduce((sum, table) => sum + insertedTypes(table).length, 0);
  const size = columns > MOST_COLUMNS ? 1 : MOST_TABLES;
  const groups = Math.ceil(tables.length / size);
  return Array.from({ length: groups }, (_, group) => typesStep(tables.slice(group * size, (group + 1) * size)));
}

function typesStep(tables: readonly TableShape[]): Step {
  const expected = tables.flatMap((table) => insertedTypes(table).map((type) => TYPE_NUMBERS[type]));
  return {
    text: typesStatement(tables),
    refuseTypes: (types) =>
      types.length === expected.length && types.every((type, index) => type === expected[index])
        ? null
        : new OtherTypes('columns of a table of ours have other types than we gave them'),
  };
}

/** Null if a cell is none that the format can say. */
function fieldsOf(memory: CopyMemory, { bytes, write }: Written, puts: readonly PutCell[]): CopyData | null {
  const fields = new CopyFields(memory, bytes, puts);
  write(fields);
  return fields.data();
}

/** Rows in the format that columns of any type take. */
export function linesOf(memory: CopyMemory, { bytes, write }: Written): CopyData {
  const lines = new CopyLines(memory, bytes);
  write(lines);
  return lines.data();
}

/** Rows of a child table. */
export function listedRows({ table, cells, width }: TableRows): CopiedRows {
  return { table, bytes: cells.length * CELL_BYTES, write: (lines) => addRows(lines, cells, width) };
}

const VERSIONS = `COPY "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body") FROM STDIN`;
const VERSION_PUTS = putsOf(['text', 'text', 'integer', 'timestamp', 'text', 'text', 'text']) ?? [];

/** Of a table of ours alone, whose columns are as our migrations made them. */
export function versionsStep(memory: CopyMemory, rows: Written): Step {
  const data = fieldsOf(memory, rows, VERSION_PUTS);
  return data === null
    ? { text: VERSIONS, data: linesOf(memory, rows) }
    : { text: `${VERSIONS} (FORMAT binary)`, data };
}
