import type { TableRows, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { oncePer } from '../../once-per.ts';
import { stampedColumns } from '../../own-columns.ts';
import type { PageRows, WrittenRecord } from '../../warehouse.ts';
import { joinedData, type CopyData, type CopyMemory } from '../connection/copy-data.ts';
import { CopyFields, PUT_CELL, type PutCell } from './copy-binary.ts';
import { addRows, CELL_BYTES, CopyLines, type CopyFormat } from './copy-text.ts';
import { insertedColumns } from './inserted-columns.ts';

/** Rows as a COPY takes them. */
export interface EncodedCopy {
  /** True of the format that costs half as much, and that only some types of columns have. */
  isBinary: boolean;
  data: CopyData;
}

/** Rows of a table of the resource. */
export interface EncodedRows extends EncodedCopy {
  table: TableShape;
}

/** The new rows of a page, its child rows and the versions of all its records. */
export interface EncodedPage {
  /** The resource's own table first. */
  rows: readonly EncodedRows[];
  /** None where no bodies are kept. */
  versions: readonly EncodedCopy[];
}

/** What tells rows that are new from those that are written over what is there. */
interface Encoding {
  mayBeThere: (record: WrittenRecord) => boolean;
  /** True for the format that columns of any type take. */
  asText: boolean;
}

/** Pure but for the memory: it may run in any thread. */
export function encodePage(memory: CopyMemory, page: PageRows, { mayBeThere, asText }: Encoding): EncodedPage {
  const [root, ...children] = page.rows;
  const fresh = root === undefined || page.records.every(mayBeThere) ? [] : [freshRows(root, page, mayBeThere)];
  const lists = children.filter(({ cells }) => cells.length > 0).map(listedRows);
  return {
    rows: [...fresh, ...lists].map((rows) => {
      const { isBinary, data } = encoded(memory, rows, asText ? null : putsInto(rows.table));
      return { table: rows.table, isBinary, data };
    }),
    versions: page.history === 'none' ? [] : [encoded(memory, versionsOf(page), VERSION_PUTS)],
  };
}

/** The pages as one: each table is copied into once per format. */
export function joinedPages(memory: CopyMemory, pages: readonly EncodedPage[]): EncodedPage {
  const [first] = pages;
  if (first !== undefined && pages.length === 1) return first;
  return {
    rows: joinedCopies(
      memory,
      pages.flatMap(({ rows }) => rows),
      ({ table }) => table.name,
    ),
    versions: joinedCopies(
      memory,
      pages.flatMap(({ versions }) => versions),
      () => '',
    ),
  };
}

function joinedCopies<Copy extends EncodedCopy>(
  memory: CopyMemory,
  copies: readonly Copy[],
  nameOf: (copy: Copy) => string,
): Copy[] {
  const alike = Map.groupBy(copies, (copy) => `${copy.isBinary} ${nameOf(copy)}`);
  const joined: Copy[] = [];
  for (const parts of alike.values()) {
    const [first] = parts;
    if (first !== undefined)
      joined.push({
        ...first,
        data: joinedData(
          memory,
          parts.map(({ data }) => data),
        ),
      });
  }
  return joined;
}

/** Rows to be copied into a table, as they are written in either format. */
interface CopiedRows {
  table: TableShape;
  /** About so many. */
  bytes: number;
  write: (lines: CopyFormat) => void;
}

type Written = Omit<CopiedRows, 'table'>;

function encoded(memory: CopyMemory, rows: Written, puts: readonly PutCell[] | null): EncodedCopy {
  const data = puts === null ? null : fieldsOf(memory, rows, puts);
  return data === null ? { isBinary: false, data: linesOf(memory, rows) } : { isBinary: true, data };
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

/** Null if the table has a column that is only written as text. */
const putsInto = oncePer((table: TableShape) => putsOf(insertedColumns(table).map(({ kind }) => kind)));

function putsOf(types: readonly ColumnType[]): readonly PutCell[] | null {
  const puts = types.flatMap((type) => PUT_CELL[type] ?? []);
  return puts.length === types.length ? puts : null;
}

/** Rows of a child table. */
export function listedRows({ table, cells, width }: TableRows): CopiedRows {
  return { table, bytes: cells.length * CELL_BYTES, write: (lines) => addRows(lines, cells, width) };
}

/** The rows of a resource's own table that are new, stamped. */
function freshRows({ table, width, cells }: TableRows, page: PageRows, mayBeThere: Encoding['mayBeThere']): CopiedRows {
  const keys = table.key.length;
  const stamped = stampedColumns(table);
  const write = (lines: CopyFormat): void =>
    page.records.forEach((record, index) => {
      if (mayBeThere(record)) return;
      const from = index * width;
      for (let cell = 0; cell < keys; cell += 1) lines.add(cells[from + cell]);
      for (const { stamp } of stamped) lines.add(stamp(record, page));
      for (let cell = keys; cell < width; cell += 1) lines.add(cells[from + cell]);
      lines.endLine();
    });
  return { table, bytes: bytesOf(page.records), write };
}

const VERSION_PUTS = putsOf(['text', 'text', 'integer', 'timestamp', 'text', 'text', 'text']);

/** The source of every written record. */
function versionsOf({ resource, requestedAt, records }: PageRows): Written {
  const write = (lines: CopyFormat): void => {
    for (const { key, version, hash, bytes } of records) {
      for (const cell of [resource, key, version, requestedAt, 'upsert', hash]) lines.add(cell);
      lines.addBytes(bytes);
      lines.endLine();
    }
  };
  return { bytes: bytesOf(records), write };
}

/** Bytes of a record besides its source, approximately. */
const BESIDE_BYTES = 128;

/** Approximate bytes of the records in a COPY, whole or as a row. */
function bytesOf(records: readonly WrittenRecord[]): number {
  return records.reduce((sum, { bytes }) => sum + bytes.length + BESIDE_BYTES, 0);
}
