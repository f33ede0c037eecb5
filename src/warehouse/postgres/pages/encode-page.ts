import type { TableRows } from '../../../model/table.ts';
import { stampedColumns } from '../../own-columns.ts';
import type { PageRows, WrittenRecord } from '../../warehouse.ts';
import type { Step } from '../connection/batch.ts';
import { CopyLines } from './copy-text.ts';
import { copyStatement } from './row-statements.ts';

const VERSIONS = `COPY "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body") FROM STDIN`;

/** Copies the new rows of a page, its child rows and the versions of all its records into the tables. */
export function copySteps(page: PageRows, mayExist: (record: WrittenRecord) => boolean): Step[] {
  const [root, ...children] = page.rows;
  const lists = children.filter(({ cells }) => cells.length > 0);
  const isFresh = root !== undefined && !page.records.every(mayExist);
  return [
    ...(isFresh ? [{ text: copyStatement(root.table), data: freshRows(root, page, mayExist) }] : []),
    ...lists.map(copyRows),
    ...(page.history === 'none' ? [] : [{ text: VERSIONS, data: versionsOf(page) }]),
  ];
}

/** Approximate bytes of a cell in a list of short ones. */
const CELL_BYTES = 16;

/** Copies the rows of a child table. */
function copyRows({ table, cells, width }: TableRows): Step {
  const lines = new CopyLines(cells.length * CELL_BYTES);
  for (let at = 0; at < cells.length; at += width) {
    for (let cell = 0; cell < width; cell += 1) lines.add(cells[at + cell]);
    lines.endLine();
  }
  return { text: copyStatement(table), data: lines.data() };
}

/** The rows of a resource's own table that are new, stamped. */
function freshRows({ table, width, cells }: TableRows, page: PageRows, mayExist: (record: WrittenRecord) => boolean) {
  const keys = table.key.length;
  const stamped = stampedColumns(table);
  const lines = new CopyLines(bytesOf(page.records));
  page.records.forEach((record, index) => {
    if (mayExist(record)) return;
    const from = index * width;
    for (let cell = 0; cell < keys; cell += 1) lines.add(cells[from + cell]);
    for (const { stamp } of stamped) lines.add(stamp(record, page));
    for (let cell = keys; cell < width; cell += 1) lines.add(cells[from + cell]);
    lines.endLine();
  });
  return lines.data();
}

/** The source of every written record. */
function versionsOf({ resource, requestedAt, records }: PageRows): Buffer {
  const lines = new CopyLines(bytesOf(records));
  for (const { key, version, hash, bytes } of records) {
    for (const cell of [resource, key, version, requestedAt, 'upsert', hash]) lines.add(cell);
    lines.addBytes(bytes);
    lines.endLine();
  }
  return lines.data();
}

/** Bytes of a record besides its source, approximately. */
const EXTRA_BYTES = 128;

/** Approximate bytes of the records in a COPY, whole or as a row. */
function bytesOf(records: readonly WrittenRecord[]): number {
  return records.reduce((sum, { bytes }) => sum + bytes.length + EXTRA_BYTES, 0);
}
