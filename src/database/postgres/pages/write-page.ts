// Writes one page of records with one statement per table.
import { escapeIdentifier } from 'pg';
import type { Cell, TableRows, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { emptiedColumns, stampedColumns } from '../../table-layout.ts';
import type { PageRows } from '../../warehouse.ts';
import { DECLARED_TYPES } from '../connection/column-types.ts';
import type { Step } from '../connection/session.ts';

/** Returns the statements that write a page; their number does not depend on the number of rows. */
export function writePage(page: PageRows): Step[] {
  const [root, ...children] = page.rows;
  if (root === undefined || page.records.length === 0) return [];
  const keys = page.records.map(({ key }) => key);
  const rows = page.records.map((_, index) => stampedRow(root, page, index));
  return [
    // Until the server has statistics of tables that were just filled, it would read whole tables.
    { text: 'SET LOCAL enable_seqscan TO off' },
    { text: upsertStatement(root.table), values: [toJson(rows)] },
    // Also for new records: another process may have written them since they were looked up.
    ...page.children.map((child) => ({ text: deleteStatement(child), values: [keys] })),
    ...endVersions(page),
    { text: 'SET LOCAL enable_seqscan TO DEFAULT' },
    ...children.flatMap(({ table, cells, width }) => {
      const count = cells.length / width;
      const list = Array.from({ length: count }, (_, row) => cells.slice(row * width, (row + 1) * width));
      return count === 0 ? [] : [{ text: insertStatement(table), values: [toJson(list)] }];
    }),
    ...addVersions(page),
  ];
}

/** A row of a resource's own table, stamped. */
function stampedRow({ table, width, cells }: TableRows, page: PageRows, index: number): Cell[] {
  const [from, keys] = [index * width, table.key.length];
  const record = page.records[index];
  if (record === undefined) throw new Error('a row without its record');
  const stamps = stampedColumns(table).map(({ stamp }) => stamp(record, page));
  const source = cells.slice(from + keys, from + width);
  return [...cells.slice(from, from + keys), ...stamps, ...source];
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

const ADD = `INSERT INTO "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body")
  SELECT $1::text, "id", "version", $2::timestamptz, 'upsert', "hash", "body"
  FROM unnest($3::text[], $4::bigint[], $5::text[], $6::text[]) AS added("id", "version", "hash", "body")
  ON CONFLICT ("resource", "id", "version") DO UPDATE SET "valid_from" = excluded."valid_from",
    "valid_to" = NULL, "op" = excluded."op", "hash" = excluded."hash", "body" = excluded."body", "source_text" = NULL`;

function addVersions({ resource, history, requestedAt, records }: PageRows): Step[] {
  if (history === 'none') return [];
  const columns = [
    records.map(({ key }) => key),
    records.map(({ version }) => version),
    records.map(({ hash }) => hash),
    records.map(({ bytes }) => bytes.toString()),
  ];
  return [{ text: ADD, values: [resource, requestedAt, ...columns] }];
}

// Aliases begin with an underscore, because no name of a source field or table does.

/** Rows from one parameter, a JSON array of arrays; each as `INPUT_ROW`. */
const INPUT_ROWS = `jsonb_array_elements($1::jsonb) AS "_row"`;
const INPUT_ROW = '"_row"';
const EXISTING_ROW = '"_there"';

function insertStatement(table: TableShape): string {
  const columns = insertedColumns(table);
  const values = columns.map(({ type }, index) => `(${INPUT_ROW}->>${index})::${type}`).join(', ');
  return `INSERT INTO ${escapeIdentifier(table.name)} AS ${EXISTING_ROW} (${namesOf(columns)}) SELECT ${values} FROM ${INPUT_ROWS}`;
}

/** Inserts rows of a resource's own table, or overwrites existing ones. */
function upsertStatement(table: TableShape): string {
  const columns = insertedColumns(table);
  const updates = columns.slice(table.key.length).map((column) => {
    const updated = escapeIdentifier(column.name);
    return `${updated} = excluded.${updated}`;
  });
  const emptied = emptiedColumns(table).map((column) => `${escapeIdentifier(column.name)} = NULL`);
  // The condition makes a late page harmless: the row that was requested later stays.
  return `${insertStatement(table)}
    ON CONFLICT (${namesOf(keyColumns(table))}) DO UPDATE SET ${[...updates, ...emptied].join(', ')}
    WHERE excluded."_synced_at" >= ${EXISTING_ROW}."_synced_at"`;
}

/** Deletes the rows of the records whose keys are in the one parameter. */
function deleteStatement(table: TableShape): string {
  return `DELETE FROM ${escapeIdentifier(table.name)} WHERE ${escapeIdentifier(table.key[0] ?? '')} = ANY($1)`;
}

function namesOf(columns: readonly TypedColumn[]): string {
  return columns.map(({ name }) => escapeIdentifier(name)).join(', ');
}

/** Rows as a JSON array of arrays. */
function toJson(rows: readonly (readonly Cell[])[]): string {
  return JSON.stringify(rows.map((row) => row.map(jsonCell)));
}

/** Texts where JSON would lose a value: jsonb has no -0, and `JSON.stringify` no big integers. */
function jsonCell(cell: Cell): string | number | boolean | null {
  if (typeof cell === 'bigint') return String(cell);
  return Object.is(cell, -0) ? '-0' : cell;
}

interface TypedColumn {
  name: string;
  type: string;
}

/** The columns of a row as they are inserted. */
function insertedColumns(table: TableShape): TypedColumn[] {
  return [...keyColumns(table), ...declaredColumns(stampedColumns(table)), ...declaredColumns(table.columns)];
}

function keyColumns({ key }: TableShape): TypedColumn[] {
  return declaredColumns(key.map((name, index) => ({ name, type: index === 0 ? 'text' : 'integer' })));
}

function declaredColumns(columns: readonly { name: string; type: ColumnType }[]): TypedColumn[] {
  return columns.map(({ name, type }) => ({ name, type: DECLARED_TYPES[type] }));
}
