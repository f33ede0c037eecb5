import { escapeIdentifier } from 'pg';
import type { TableRows, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { oncePer } from '../../once-per.ts';
import type { Step } from '../connection/batch.ts';
import type { CopyData, CopyMemory } from '../connection/copy-data.ts';
import { errorCode } from '../connection/errors.ts';
import { refusedWith, refusing } from '../connection/refusing.ts';
import { textArray } from '../connection/text-array.ts';
import { CopyFields, PUT_CELL, TYPE_NUMBERS, type PutCell } from './copy-binary.ts';
import { addRows, CELL_BYTES, CopyLines, type CopyFormat } from './copy-text.ts';
import { copyStatement, insertedColumns } from './row-statements.ts';

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
 * other one costs half as much, and a field of it says nothing of its type: so the columns are looked at behind it, in
 * the same transaction.
 */
export function createCopySteps(memory: CopyMemory) {
  const textInto = oncePer(copyStatement);
  const plans = oncePer((table: TableShape) => binaryPlan(table));
  const looked = typesSteps();

  return (rows: readonly CopiedRows[], asText: boolean): Step[] => {
    const steps = rows.map((each) => {
      const plan = asText ? null : plans(each.table);
      const data = plan === null ? null : fieldsOf(memory, each, plan.puts);
      return plan === null || data === null
        ? { text: textInto(each.table), data: linesOf(memory, each), checked: [] }
        : { text: plan.text, data, checked: [each.table] };
    });
    const copies = steps.map(({ text, data, checked }) => ({
      text,
      data,
      ...(checked.length > 0 ? { explain: asOtherTypes } : {}),
    }));
    return [...copies, ...looked(steps.flatMap(({ checked }) => checked))];
  };
}

interface BinaryPlan {
  text: string;
  puts: readonly PutCell[];
}

/** Null if it has a column that is only written as text. */
function binaryPlan(table: TableShape): BinaryPlan | null {
  const puts = putsOf(insertedColumns(table).map(({ kind }) => kind));
  return puts === null ? null : { text: `${copyStatement(table)} (FORMAT binary)`, puts };
}

function putsOf(types: readonly ColumnType[]): readonly PutCell[] | null {
  const puts = types.flatMap((type) => PUT_CELL[type] ?? []);
  return puts.length === types.length ? puts : null;
}

/**
 * After the rows were copied, which nobody can change the tables from then on: whatever they did before shows here. Most
 * pages write the same tables as the page before.
 */
function typesSteps(): (tables: readonly TableShape[]) => Step[] {
  let last: { tables: readonly TableShape[]; step: Step } | null = null;
  return (tables) => {
    if (tables.length === 0) return [];
    const isSame = last?.tables.length === tables.length && last.tables.every((table, at) => table === tables[at]);
    if (last === null || !isSame) last = { tables, step: typesStep(tables) };
    return [last.step];
  };
}

function typesStep(tables: readonly TableShape[]): Step {
  const expected = tables.flatMap((table, index) =>
    insertedColumns(table).map(({ name, kind }) => `${index + 1} ${TYPE_NUMBERS[kind]} ${name}`),
  );
  return {
    text: TYPES,
    values: [textArray(tables.map(({ name }) => escapeIdentifier(name))), textArray(expected)],
    explain: (error) => (refusedWith(error) === null ? error : otherTypes()),
  };
}

/** Of columns: the place of the table, the number of the type, and the name. */
const TYPES = `SELECT ${refusing('count(*) = cardinality($2::text[])', 'count(*)::text')} FROM pg_catalog.pg_attribute
  WHERE attrelid = ANY ($1::text[]::regclass[])
    AND (array_position($1::text[]::regclass[], attrelid) || ' ' || atttypid || ' ' || attname) = ANY ($2::text[])`;

/** What cannot be read as the type that a column has by now, or has another length. */
function asOtherTypes(error: Error): Error {
  return /^(?:22|08P01)/.test(errorCode(error)) ? otherTypes() : error;
}

function otherTypes(): OtherTypes {
  return new OtherTypes('columns of a table of ours have other types than we gave them');
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
