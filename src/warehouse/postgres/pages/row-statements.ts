import type { Step } from '../connection/batch.ts';
import { escapeIdentifier } from 'pg';
import type { Cell, TableShape } from '../../../model/table.ts';
import { emptiedColumns } from '../../own-columns.ts';
import { insertedColumns, keyColumns, type TypedColumn } from './inserted-columns.ts';

/*
 * A source field may bear any name that a statement uses, a table too, but none that begins with an underscore: so what a
 * statement adds to the tables in its scope does.
 */

/** Rows from one parameter, a JSON array of arrays; each as `ROW`. */
const ROWS = `jsonb_array_elements($1::jsonb) AS "_row"`;
const ROW = '"_row"';
/** The row that stands there already. */
const THERE = '"_there"';

/** Rows that are new, in the text format of COPY. */
export function copyStatement(table: TableShape): string {
  return `COPY ${escapeIdentifier(table.name)} (${namesOf(insertedColumns(table))}) FROM STDIN`;
}

/** Rows of a resource's own table from one parameter, a JSON array of arrays; overwrites what was there. */
export function upsertStatement(table: TableShape): string {
  const columns = insertedColumns(table);
  const name = escapeIdentifier(table.name);
  const updates = columns.slice(table.key.length).map((column) => {
    const updated = escapeIdentifier(column.name);
    return `${updated} = excluded.${updated}`;
  });
  const emptied = emptiedColumns(table).map((column) => `${escapeIdentifier(column.name)} = NULL`);
  // The guard makes a late page harmless: what was asked for later stays.
  return `INSERT INTO ${name} AS ${THERE} (${namesOf(columns)}) SELECT ${valuesOf(columns)} FROM ${ROWS}
    ON CONFLICT (${namesOf(keyColumns(table))}) DO UPDATE SET ${[...updates, ...emptied].join(', ')}
    WHERE excluded."_synced_at" >= ${THERE}."_synced_at"`;
}

/**
 * Steps that each name their rows by keys, run so that they find them by these: as long as the server has no statistics of
 * what was just filled, it would read whole tables.
 */
export function byIndexes(steps: readonly Step[]): Step[] {
  return steps.length === 0 ? [] : [{ text: WITHOUT_SCANS }, ...steps, { text: WITH_SCANS }];
}

const WITHOUT_SCANS = 'SET LOCAL enable_seqscan TO off';
const WITH_SCANS = 'SET LOCAL enable_seqscan TO DEFAULT';

/** Deletes the rows of the records whose keys are in the one parameter. */
export function deleteStatement(table: TableShape): string {
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
export function jsonCell(cell: Cell | undefined): string | number | boolean | null {
  if (typeof cell === 'bigint') return String(cell);
  return Object.is(cell, -0) ? '-0' : (cell ?? null);
}
