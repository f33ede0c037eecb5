import type { TableRows } from '../../../model/table.ts';
import { perTable } from '../../per-table.ts';
import type { PageRows, WrittenRecord } from '../../warehouse.ts';
import type { Step } from '../connection/batch.ts';
import { CopyLines, copyRows } from './copy-text.ts';
import { copyStatement, deleteStatement, jsonCell, upsertStatement } from './row-statements.ts';
import { bytesOf, copyOfVersions, endVersions } from './version-writer.ts';

/** What writes a page; `isRepeated` where a transaction with it has failed before. */
export type PageSteps = (page: PageRows, isRepeated: boolean) => Step[];

/**
 * Writes the rows, children and versions of a page by statements whose number does not depend on the number of rows,
 * and whose text is made once per table shape and kept.
 *
 * What is new goes straight into the tables, what is changed over what is there. A page that has failed before takes no
 * row to be new: somebody may have written one since it was looked up, and it would fail in the same way again.
 */
export function createPageWriter(): PageSteps {
  const copyInto = perTable(copyStatement);
  const upsertInto = perTable(upsertStatement);
  const deleteFrom = perTable(deleteStatement);

  return (page, isRepeated) => {
    const [root, ...children] = page.rows;
    if (root === undefined || page.records.length === 0) return [];
    const mayBeThere = ({ version }: WrittenRecord): boolean => isRepeated || version > 1;
    const known = page.records.filter(mayBeThere);
    const changed = (): Step[] => {
      const rows = page.records.flatMap((record, index) => (mayBeThere(record) ? [jsonRow(root, page, index)] : []));
      const keys = known.map(({ key }) => key);
      return [
        { text: upsertInto(root.table), values: [JSON.stringify(rows)] },
        ...page.children.map((child) => ({ text: deleteFrom(child), values: [keys] })),
      ];
    };
    const fresh = (): Step => ({ text: copyInto(root.table), data: freshRows(root, page, mayBeThere) });
    const lists = children.filter(({ cells }) => cells.length > 0);
    return [
      ...(known.length > 0 ? changed() : []),
      ...endVersions(page, isRepeated),
      ...(known.length < page.records.length ? [fresh()] : []),
      ...lists.map(({ table, cells, width }) => ({ text: copyInto(table), data: copyRows(cells, width) })),
      ...copyOfVersions(page),
    ];
  };
}

/** The rows of a resource's own table that are new, stamped. */
function freshRows(
  { table, width, cells }: TableRows,
  { records, requestedAt }: PageRows,
  mayBeThere: (record: WrittenRecord) => boolean,
): Buffer {
  const lines = new CopyLines(bytesOf(records));
  const keys = table.key.length;
  records.forEach((record, index) => {
    if (mayBeThere(record)) return;
    const from = index * width;
    for (let cell = 0; cell < keys; cell += 1) lines.add(cells[from + cell]);
    lines.add(record.hash);
    lines.add(record.version);
    lines.add(requestedAt);
    for (let cell = keys; cell < width; cell += 1) lines.add(cells[from + cell]);
    lines.endLine();
  });
  return lines.data();
}

/** A row of a resource's own table, stamped. */
function jsonRow({ table, width, cells }: TableRows, { records, requestedAt }: PageRows, index: number): unknown[] {
  const [from, keys] = [index * width, table.key.length];
  const record = records[index];
  const stamps = [record?.hash, record?.version, requestedAt];
  const source = cells.slice(from + keys, from + width);
  return [...cells.slice(from, from + keys), ...stamps, ...source].map(jsonCell);
}
