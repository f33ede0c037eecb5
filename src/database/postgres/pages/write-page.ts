// Writes one page of records to a resource's table, the child tables of its lists, and the history of versions. One statement
// per table, however many rows it has: each statement costs a round trip to the server.
import { escapeIdentifier } from 'pg';
import type { Cell, TableShape } from '../../../model/table.ts';
import { cellsToInsert, EXISTING_ROW, insertedColumns, overwriteClause } from '../../table-layout.ts';
import type { PageRows } from '../../warehouse.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';
import type { Step } from '../connection/session.ts';

/** Returns the statements of the transaction that writes a page. */
export function writePage(page: PageRows): Step[] {
  const [root, ...children] = page.rows;
  if (root === undefined || page.records.length === 0) return [];
  const keys = page.records.map(({ key }) => key);
  return [
    // Without statistics of a table that was just filled, the planner would read the whole table for each statement.
    { text: 'SET LOCAL enable_seqscan TO off' },
    {
      text: insertStatement(root.table) + overwriteClause(root.table, escapeIdentifier),
      values: toColumns(cellsToInsert(root, page), insertedColumns(root.table).length),
    },
    // New records too: another process may have written them after this one looked for stored rows.
    ...page.children.map((child) => ({ text: deleteStatement(child), values: [keys] })),
    ...endVersions(page),
    { text: 'SET LOCAL enable_seqscan TO DEFAULT' },
    ...children
      .filter(({ cells }) => cells.length > 0)
      .map(({ table, cells, width }) => ({ text: insertStatement(table), values: toColumns(cells, width) })),
    ...addVersions(page),
  ];
}

const CLOSE_VERSIONS = `UPDATE "_sync_versions" AS v SET "valid_to" = $2 FROM unnest($3::text[], $4::bigint[]) AS old("id", "version")
  WHERE v."resource" = $1 AND v."id" = old."id" AND v."version" = old."version"`;
const DELETE_VERSIONS = `DELETE FROM "_sync_versions" WHERE "resource" = $1 AND "id" = ANY($2)`;

/** Ends or deletes the previous versions of the written records, as the history policy of the profile says. */
function endVersions({ resource, history, requestedAt, records }: PageRows): Step[] {
  const replaced = records.filter(({ version }) => version > 1);
  if (history === 'none' || replaced.length === 0) return [];
  const keys = replaced.map(({ key }) => key);
  const before = replaced.map(({ version }) => version - 1);
  return history === 'all'
    ? [{ text: CLOSE_VERSIONS, values: [resource, requestedAt, keys, before] }]
    : [{ text: DELETE_VERSIONS, values: [resource, keys] }];
}

function addVersions({ resource, history, requestedAt, records }: PageRows): Step[] {
  if (history === 'none') return [];
  const cells = records.flatMap(({ key, version, hash, bytes }) => [key, version, hash, bytes.toString()]);
  return [{ text: ADD_VERSIONS, values: [...toColumns(cells, 4), resource, requestedAt] }];
}

/**
 * Returns rows with columns `_1`, `_2` and so on. Each comes from a parameter, a JSON array of the cells of one column. The
 * aliases begin with an underscore, because no name of a source field or table does.
 */
function rowsFromParameters(columns: number): string {
  const numbers = Array.from({ length: columns }, (_, index) => index + 1);
  const arrays = numbers.map((number) => `json_array_elements_text($${number}::json)`);
  return `ROWS FROM (${arrays.join(', ')}) AS "_row" (${numbers.map((number) => `"_${number}"`).join(', ')})`;
}

const ADD_VERSIONS = `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body")
  SELECT $5::text, "_1", "_2"::bigint, $6::timestamptz, 'upsert', "_3", "_4" FROM ${rowsFromParameters(4)}
  ON CONFLICT ("resource", "id", "version") DO UPDATE SET "valid_from" = excluded."valid_from",
    "valid_to" = NULL, "op" = excluded."op", "hash" = excluded."hash", "body" = excluded."body", "source_text" = NULL`;

function insertStatement(table: TableShape): string {
  const columns = insertedColumns(table);
  const names = columns.map(({ name }) => escapeIdentifier(name)).join(', ');
  const values = columns.map(({ type }, index) => `"_${index + 1}"::${DECLARED_TYPES[type]}`).join(', ');
  return `INSERT INTO ${escapeIdentifier(table.name)} AS ${EXISTING_ROW} (${names}) SELECT ${values} FROM ${rowsFromParameters(columns.length)}`;
}

/** Deletes the rows of the records whose keys are in the array `$1`. */
function deleteStatement(table: TableShape): string {
  return `DELETE FROM ${escapeIdentifier(table.name)} WHERE ${escapeIdentifier(table.key[0] ?? '')} = ANY($1)`;
}

/** The cells of each column as a JSON array, from rows of `width` cells one after the other. */
function toColumns(cells: readonly Cell[], width: number): string[] {
  const columns = Array.from({ length: width }, (): (string | number | boolean | null)[] => []);
  for (const [at, cell] of cells.entries()) columns[at % width]?.push(jsonCell(cell));
  return columns.map((column) => JSON.stringify(column));
}

/** Returns a cell that JSON keeps exactly: as a text for -0 and big integers, which `JSON.stringify` changes or rejects. */
function jsonCell(cell: Cell): string | number | boolean | null {
  if (typeof cell === 'bigint') return String(cell);
  return Object.is(cell, -0) ? '-0' : cell;
}
