// Writes one page of records: COPY for new rows, upserts for changed ones.
import type { TableRows, Cell, TableShape } from '../../../model/table.ts';
import type { ColumnType } from '../../../model/vocabulary.ts';
import { stampedColumns, emptiedColumns } from '../../table-layout.ts';
import type { PageRows, WrittenRecord } from '../../warehouse.ts';
import type { Step } from '../connection/session.ts';
import { escapeIdentifier } from 'pg';
import { DECLARED_TYPES } from '../connection/column-types.ts';

/**
 * The statements that write a page, whose number does not depend on the number of rows: new rows are copied into the
 * tables, changed ones are upserted. If a transaction with the page has failed before (`isRepeated`), no row is assumed
 * to be new: another process may have written it since it was looked up.
 */
export function writePage(page: PageRows, isRepeated: boolean): Step[] {
  const [root] = page.rows;
  if (root === undefined || page.records.length === 0) return [];
  const mayExist = ({ version }: WrittenRecord): boolean => isRepeated || page.isRewrite === true || version > 1;
  const known = page.records.filter(mayExist);
  const changed = (): Step[] => {
    const rows = page.records.flatMap((record, index) =>
      mayExist(record) ? [stampedRow(root, page, index).map(jsonCell)] : [],
    );
    const keys = known.map(({ key }) => key);
    return [
      { text: upsertStatement(root.table), values: [JSON.stringify(rows)] },
      ...page.children.map((child) => ({ text: deleteStatement(child), values: [keys] })),
    ];
  };
  return [
    ...byIndexes([...(known.length > 0 ? changed() : []), ...endVersions(page, isRepeated)]),
    ...copySteps(page, mayExist),
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
const DROP_SAME = `DELETE FROM "_sync_versions" AS v USING unnest($2::text[], $3::bigint[]) AS same("id", "version")
  WHERE v."resource" = $1 AND v."id" = same."id" AND v."version" = same."version"`;

/**
 * Closes or drops the versions before those of the written records, as the history policy says; with `isRepeated` also
 * those that are there although they were thought to be new.
 */
function endVersions(page: PageRows, isRepeated: boolean): Step[] {
  const { resource, history, requestedAt, records } = page;
  if (history === 'none') return [];
  const replaced = records.filter(({ version }) => version > 1);
  const keys = keysOf(replaced);
  const before = versionsOf(replaced).map((version) => version - 1);
  const end =
    history === 'all'
      ? { text: CLOSE, values: [resource, requestedAt, keys, before] }
      : { text: DROP, values: [resource, keys] };
  return [
    ...(isRepeated ? [{ text: DROP_SAME, values: [resource, keysOf(records), versionsOf(records)] }] : []),
    ...(replaced.length === 0 ? [] : [end]),
  ];
}

function keysOf(records: readonly WrittenRecord[]): string[] {
  return records.map(({ key }) => key);
}

function versionsOf(records: readonly WrittenRecord[]): number[] {
  return records.map(({ version }) => version);
}

/*
 * A source field may bear any name that a statement uses, a table too, but none that begins with an underscore: so what a
 * statement adds to the tables in its scope does.
 */

/** Rows from one parameter, a JSON array of arrays; each as `ROW`. */
const ROWS = `jsonb_array_elements($1::jsonb) AS "_row"`;
const ROW = '"_row"';
/** Alias of the existing row. */
const THERE = '"_there"';

/** Rows that are new, in the text format of COPY. */
function copyStatement(table: TableShape): string {
  return `COPY ${escapeIdentifier(table.name)} (${namesOf(insertedColumns(table))}) FROM STDIN`;
}

/** Rows of a resource's own table from one parameter, a JSON array of arrays; overwrites what was there. */
function upsertStatement(table: TableShape): string {
  const columns = insertedColumns(table);
  const name = escapeIdentifier(table.name);
  const updates = columns.slice(table.key.length).map((column) => {
    const updated = escapeIdentifier(column.name);
    return `${updated} = excluded.${updated}`;
  });
  const emptied = emptiedColumns(table).map((column) => `${escapeIdentifier(column.name)} = NULL`);
  // The condition makes a late page harmless: the row that was requested later stays.
  return `INSERT INTO ${name} AS ${THERE} (${namesOf(columns)}) SELECT ${valuesOf(columns)} FROM ${ROWS}
    ON CONFLICT (${namesOf(keyColumns(table))}) DO UPDATE SET ${[...updates, ...emptied].join(', ')}
    WHERE excluded."_synced_at" >= ${THERE}."_synced_at"`;
}

/**
 * Steps that each name their rows by keys, run so that they find them by these: as long as the server has no statistics of
 * what was just filled, it would read whole tables.
 */
function byIndexes(steps: readonly Step[]): Step[] {
  return steps.length === 0 ? [] : [{ text: WITHOUT_SCANS }, ...steps, { text: WITH_SCANS }];
}

const WITHOUT_SCANS = 'SET LOCAL enable_seqscan TO off';
const WITH_SCANS = 'SET LOCAL enable_seqscan TO DEFAULT';

/** Deletes the rows of the records whose keys are in the one parameter. */
function deleteStatement(table: TableShape): string {
  return `DELETE FROM ${escapeIdentifier(table.name)} WHERE ${escapeIdentifier(table.key[0] ?? '')} = ANY($1)`;
}

function namesOf(columns: readonly TypedColumn[]): string {
  return columns.map(({ name }) => escapeIdentifier(name)).join(', ');
}

/** The elements of a row. */
function valuesOf(columns: readonly TypedColumn[]): string {
  return columns.map(({ type }, index) => `(${ROW}->>${index})::${type}`).join(', ');
}

/** A cell as JSON holds it without a loss: jsonb has no -0, and `JSON.stringify` no big integers. */
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

const VERSIONS = `COPY "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body") FROM STDIN`;

/** Copies the new rows of a page, its child rows and the versions of all its records into the tables. */
function copySteps(page: PageRows, mayExist: (record: WrittenRecord) => boolean): Step[] {
  const { resource, history, requestedAt, records, rows } = page;
  const [root, ...children] = rows;
  const fresh =
    root === undefined
      ? []
      : records.flatMap((record, index) => (mayExist(record) ? [] : [stampedRow(root, page, index)]));
  const versions = records.map(({ key, version, hash, bytes }) => {
    return [resource, key, version, requestedAt, 'upsert', hash, bytes.toString()];
  });
  return [
    ...(root === undefined || fresh.length === 0 ? [] : [copyStep(copyStatement(root.table), fresh)]),
    ...children.flatMap(({ table, cells, width }) => {
      const list = Array.from({ length: cells.length / width }, (_, row) =>
        cells.slice(row * width, (row + 1) * width),
      );
      return list.length === 0 ? [] : [copyStep(copyStatement(table), list)];
    }),
    ...(history === 'none' ? [] : [copyStep(VERSIONS, versions)]),
  ];
}

/** Encodes row by row: to encode one long text takes twice as long. */
function copyStep(text: string, rows: readonly (readonly Cell[])[]): Step {
  return { text, data: Buffer.concat(rows.map((row) => Buffer.from(`${row.map(copyCell).join('\t')}\n`))) };
}

/** Postgres's text format of COPY: a line per row, tabs between cells, and escapes for what would be ambiguous. */
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

export function copyCell(cell: Cell | undefined): string {
  if (typeof cell === 'string') return cell.replaceAll(/[\\\n\r\t]/g, (sign) => ESCAPES[sign] ?? sign);
  if (cell === null || cell === undefined) return '\\N';
  return Object.is(cell, -0) ? '-0' : String(cell);
}
