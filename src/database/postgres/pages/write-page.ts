// Writes one page of records with one statement per table.
import { escapeIdentifier } from 'pg';
import type { Cell, TableShape } from '../../../model/table.ts';
import { EXISTING_ROW, insertedColumns, overwriteClause, cellsToInsert } from '../../table-layout.ts';
import type { PageRows } from '../../warehouse.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';
import type { Step } from '../connection/session.ts';

/** Returns the statements that write a page; their number does not depend on the number of rows. */
export function writePage(page: PageRows): Step[] {
  const [root, ...children] = page.rows;
  if (root === undefined || page.records.length === 0) return [];
  const keys = page.records.map(({ key }) => key);
  return [
    // Until the server has statistics of tables that were just filled, it would read whole tables.
    { text: 'SET LOCAL enable_seqscan TO off' },
    {
      text: insertStatement(root.table) + overwriteClause(root.table, escapeIdentifier),
      values: toColumns(cellsToInsert(root, page), insertedColumns(root.table).length),
    },
    // Also for new records: another process may have written them since they were looked up.
    ...page.children.map((child) => ({ text: deleteStatement(child), values: [keys] })),
    ...endVersions(page),
    { text: 'SET LOCAL enable_seqscan TO DEFAULT' },
    ...children
      .filter(({ cells }) => cells.length > 0)
      .map(({ table, cells, width }) => ({ text: insertStatement(table), values: toColumns(cells, width) })),
    ...addVersions(page),
  ];
}

const CLOSE = `UPDATE "_sync_versions" AS v SET "valid_to" = $2 FROM unnest($3::text[], $4::bigint[]) AS old("id", "version")
  WHERE v."resource" = $1 AND v."id" = old."id" AND v."version" = old."version"`;
const DROP = `DELETE FROM "_sync_versions" WHERE "resource" = $1 AND "id" = ANY($2)`;

/** Closes or deletes the versions before those of the written records, as the history policy says. */
function endVersions({ resource, history, requestedAt, records }: PageRows): Step[] {
  const replaced = records.filter(({ version }) => version > 1);
  if (history === 'none' || replaced.length === 0) return [];
  const keys = replaced.map(({ key }) => key);
  const before = replaced.map(({ version }) => version - 1);
  return history === 'all'
    ? [{ text: CLOSE, values: [resource, requestedAt, keys, before] }]
    : [{ text: DROP, values: [resource, keys] }];
}

function addVersions({ resource, history, requestedAt, records }: PageRows): Step[] {
  if (history === 'none') return [];
  const cells = records.flatMap(({ key, version, hash, bytes }) => [key, version, hash, bytes.toString()]);
  return [{ text: ADD, values: [...toColumns(cells, 4), resource, requestedAt] }];
}

// Aliases begin with an underscore, because no name of a source field or table does.

/** Returns rows with columns `_1`, `_2` and so on from as many parameters, which are JSON arrays of a column's cells. */
function rowsFromParameters(columns: number): string {
  const numbers = Array.from({ length: columns }, (_, index) => index + 1);
  const arrays = numbers.map((number) => `json_array_elements_text($${number}::json)`);
  return `ROWS FROM (${arrays.join(', ')}) AS "_row" (${numbers.map((number) => `"_${number}"`).join(', ')})`;
}

const ADD = `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body")
  SELECT $5::text, "_1", "_2"::bigint, $6::timestamptz, 'upsert', "_3", "_4" FROM ${rowsFromParameters(4)}
  ON CONFLICT ("resource", "id", "version") DO UPDATE SET "valid_from" = excluded."valid_from",
    "valid_to" = NULL, "op" = excluded."op", "hash" = excluded."hash", "body" = excluded."body", "source_text" = NULL`;

function insertStatement(table: TableShape): string {
  const columns = insertedColumns(table);
  const names = columns.map(({ name }) => escapeIdentifier(name)).join(', ');
  const values = columns.map(({ type }, index) => `"_${index + 1}"::${DECLARED_TYPES[type]}`).join(', ');
  return `INSERT INTO ${escapeIdentifier(table.name)} AS ${EXISTING_ROW} (${names}) SELECT ${values} FROM ${rowsFromParameters(columns.length)}`;
}

/** Deletes the rows of the records whose keys are in the one parameter. */
function deleteStatement(table: TableShape): string {
  return `DELETE FROM ${escapeIdentifier(table.name)} WHERE ${escapeIdentifier(table.key[0] ?? '')} = ANY($1)`;
}

/** The cells of each column as a JSON array, from rows of `width` cells one after the other. */
function toColumns(cells: readonly Cell[], width: number): string[] {
  const columns = Array.from({ length: width }, (): (string | number | boolean | null)[] => []);
  for (const [at, cell] of cells.entries()) columns[at % width]?.push(jsonCell(cell));
  return columns.map((column) => JSON.stringify(column));
}

/** A cell as JSON holds it without a loss: `JSON.stringify` writes no -0 and no big integers. */
function jsonCell(cell: Cell): string | number | boolean | null {
  if (typeof cell === 'bigint') return String(cell);
  return Object.is(cell, -0) ? '-0' : cell;
}
