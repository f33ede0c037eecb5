import type { TableRows } from '../../model/table.ts';
import { perTable } from '../per-table.ts';
import type { PageCommit, WrittenRecord } from '../warehouse.ts';
import { CopyLines, copyCell, copyRows } from './copy-text.ts';
import { copyStatement, deleteStatement, jsonCell, upsertStatement } from './row-statements.ts';
import type { Session } from './session.ts';
import { copyOfVersions, endVersions } from './version-writer.ts';

/** Writes a page; `isRepeated` where a transaction with it has failed before. */
export type PageWriter = (session: Session, page: PageCommit, isRepeated: boolean) => Promise<void>;

/**
 * Writes the rows, children and versions of a page with statements whose number does not depend on the number of rows,
 * and whose text is made once per table shape and kept. Runs inside the caller's transaction.
 *
 * What is new goes straight into the tables, what is changed over what is there. A page that has failed before takes no
 * row to be new: somebody may have written one since it was looked up, and it would fail in the same way again.
 */
export function createPageWriter(): PageWriter {
  const copyInto = perTable(copyStatement);
  const upsertInto = perTable(upsertStatement);
  const deleteFrom = perTable(deleteStatement);

  return async (session, page, isRepeated) => {
    const [root, ...children] = page.rows;
    if (root === undefined || page.records.length === 0) return;
    const mayBeThere = ({ version }: WrittenRecord): boolean => isRepeated || version > 1;
    const known = page.records.filter(mayBeThere);
    if (known.length > 0) {
      const rows = page.records.flatMap((record, index) => (mayBeThere(record) ? [jsonRow(root, page, index)] : []));
      await session.execute(upsertInto(root.table), [JSON.stringify(rows)]);
      const keys = known.map(({ key }) => key);
      for (const child of page.children) await session.execute(deleteFrom(child), [keys]);
    }
    await endVersions(session, page, isRepeated);
    const lists = children.filter(({ cells }) => cells.length > 0);
    const fresh = known.length === page.records.length ? [] : [freshRows(root, page, mayBeThere)];
    await session.copyAll([
      ...fresh.map((data) => ({ statement: copyInto(root.table), data })),
      ...lists.map(({ table, cells, width }) => ({ statement: copyInto(table), data: copyRows(cells, width) })),
      ...copyOfVersions(page),
    ]);
  };
}

/** The rows of a resource's own table that are new, stamped. */
function freshRows(
  { table, width, cells }: TableRows,
  { records, requestedAt }: PageCommit,
  mayBeThere: (record: WrittenRecord) => boolean,
): Buffer {
  const lines = new CopyLines();
  const keys = table.key.length;
  records.forEach((record, index) => {
    if (mayBeThere(record)) return;
    const from = index * width;
    let line = copyCell(cells[from]);
    for (let cell = 1; cell < keys; cell += 1) line += `\t${copyCell(cells[from + cell])}`;
    line += `\t${record.hash}\t${record.version}\t${requestedAt}`;
    for (let cell = keys; cell < width; cell += 1) line += `\t${copyCell(cells[from + cell])}`;
    lines.addText(`${line}\n`);
  });
  return lines.data();
}

/** A row of a resource's own table, stamped. */
function jsonRow({ table, width, cells }: TableRows, { records, requestedAt }: PageCommit, index: number): unknown[] {
  const [from, keys] = [index * width, table.key.length];
  const record = records[index];
  const stamps = [record?.hash, record?.version, requestedAt];
  const source = cells.slice(from + keys, from + width);
  return [...cells.slice(from, from + keys), ...stamps, ...source].map(jsonCell);
}
