import { ConfigError, SyncError } from '../../model/errors.ts';
import type { ResourceShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import { shapeChanges } from '../../shape/evolve-shape.ts';
import { readTables } from '../../state/column-catalog.ts';
import type { Lease } from '../../state/leases.ts';
import { copiedTable, type CopiedTable } from '../../warehouse/copy/copied-tables.ts';
import { copyTable } from '../../warehouse/copy/copy-table.ts';
import { compareTable } from '../../warehouse/copy/compare-table.ts';
import { forgetTable, saveDigest, type ReceiptRow } from '../../warehouse/copy/receipt.ts';
import type { Snapshot } from '../../warehouse/copy/snapshot.ts';
import type { Staging } from '../../warehouse/copy/staging.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';

/** Where tables are copied to, by whom. */
export interface CopyPlace {
  staging: Staging;
  lease: Lease;
  signal: AbortSignal;
}

/** A table, and the file as of one moment that it is read from. */
export interface TableInSource {
  snapshot: Snapshot;
  table: CopiedTable;
}

/** Makes the copied tables of the resources that are not there yet, as a first sync would; returns all of them. */
export async function makeTables(
  { staging, lease }: CopyPlace,
  source: Warehouse,
  resources: readonly string[],
): Promise<CopiedTable[]> {
  const there = await staging.warehouse.tableNames();
  const made: ResourceShape[] = [];
  for (const resource of resources) {
    const after = await readTables(source, resource);
    if (after === null) continue;
    made.push(after);
    // One resource's tables are made together or not at all.
    if (after.tables.every(({ name }) => there.has(name))) continue;
    const changes = shapeChanges({ resource, tables: [] }, after);
    await staging.warehouse.evolve({ lease: lease.proof(), before: null, after, changes, statements: [] });
  }
  return made.flatMap(({ tables }) => tables.map(copiedTable));
}

/** Copies all tables. Throws `ConfigError('copy_refused')` with every row found that Postgres cannot hold. */
export async function copyAll(
  { staging, lease, signal }: CopyPlace,
  tables: readonly TableInSource[],
  copied: (table: string) => void,
): Promise<void> {
  const refused: string[] = [];
  for (const each of tables) {
    const { database } = staging;
    const refusals = await copyTable({ ...each, database, lease: () => lease.proof(), signal });
    refused.push(...refusals.map(({ text }) => visibleText(text)));
    copied(each.table.name);
  }
  if (refused.length === 0) return;
  throw new ConfigError('copy_refused', ['Postgres cannot hold these values as they are:', ...refused].join('\n'), {
    hint: 'mend them in the SQLite file, then run the same command again: it goes on where it was',
  });
}

/** Compares all tables, the whole of both. Throws `SyncError('copy_differs')` where one is not equal. */
export async function compareAll(
  { staging: { database }, signal }: CopyPlace,
  tables: readonly TableInSource[],
  compared: (row: ReceiptRow) => void,
): Promise<ReceiptRow[]> {
  const rows: ReceiptRow[] = [];
  const differences: string[] = [];
  for (const each of tables) {
    const {
      table,
      rows: count,
      copied,
      digest,
      isEqual,
      difference,
    } = await compareTable({ ...each, database, signal });
    if (isEqual) {
      await saveDigest(database, table, digest);
      rows.push({ table, rows: count, digest });
      compared({ table, rows: count, digest });
    } else {
      // What was copied before something else went wrong with it is not trusted by the next run.
      await forgetTable(database, each.table);
      differences.push(
        `${table}: ${count} rows in SQLite, ${copied} in Postgres${difference === null ? '' : `; ${difference}`}`,
      );
    }
  }
  if (differences.length === 0) return rows;
  throw new SyncError('copy_differs', ['the copy is not equal:', ...differences.map(visibleText)].join('\n'), {
    recovery: 'stop',
    hint: 'run the same command again: it copies these tables anew',
  });
}
