import type { Cell, TableRows } from '../../../model/table.ts';
import type { RowRewrite } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import { copyRows } from './encode-page.ts';
import { deleteStatement, jsonCell, rewriteStatement } from './row-statements.ts';

/** Writes records anew that have their rows already; what is gone by now stays gone. Inside the caller's transaction. */
export async function rewriteRows(session: Session, { rows, versions, children }: RowRewrite): Promise<void> {
  const [root, ...lists] = rows;
  if (root === undefined || root.cells.length === 0) return;
  const there = await updateRoot(session, root, versions);
  for (const table of children) await session.execute(deleteStatement(table), [[...there]]);
  for (const { table, width, cells } of lists) {
    const kept = rowsOf(cells, width).filter(([key]) => there.has(String(key)));
    if (kept.length === 0) continue;
    await session.runAll([copyRows({ table, width, cells: kept.flat() })]);
  }
}

/** The keys of the records that were there in that version. */
async function updateRoot(
  session: Session,
  { table, width, cells }: TableRows,
  versions: RowRewrite['versions'],
): Promise<Set<string>> {
  const rows = rowsOf(cells, width).map((row) => {
    const json = row.map(jsonCell);
    json.unshift(versions.get(String(row[0])) ?? null);
    return json;
  });
  const { rows: there } = await session.execute<{ key: string }>(rewriteStatement(table), [JSON.stringify(rows)]);
  return new Set(there.map(({ key }) => key));
}

function rowsOf(cells: readonly Cell[], width: number): Cell[][] {
  return Array.from({ length: cells.length / width }, (_, row) => cells.slice(row * width, (row + 1) * width));
}
