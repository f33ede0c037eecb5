import type { Clock } from '../../model/clock.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { ResourceShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import { shapeChanges } from '../../shape/evolve-shape.ts';
import { readTables } from '../../state/column-catalog.ts';
import { acquireLease, type Lease } from '../../state/leases.ts';
import { compareTable } from '../../warehouse/copy/compare-table.ts';
import { copiedTable, INBOX_TABLES, OWN_TABLES } from '../../warehouse/copy/copied-tables.ts';
import { copyTable, type TableCopy } from '../../warehouse/copy/copy-table.ts';
import { forgetTable, resumeOrBegin, saveDigest, type ReceiptRow } from '../../warehouse/copy/receipt.ts';
import {
  dropViews,
  findReceipt,
  openStaging,
  publish,
  targetUsed,
  type Staging,
} from '../../warehouse/copy/staging.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { leaseAll, openSource, ownersOf, type CopySource } from './copy-source.ts';
import type { LoadContext } from '../../load/load-context.ts';
import { viewGrowth } from '../../load/grow-views.ts';

/** The lease of the staging schema. */
const COPY = 'copy';

export interface CopyRequest {
  /** Address of a SQLite warehouse, and of the Postgres schema that it becomes. */
  from: string;
  to: string;
  /** Those of the source; what else the warehouse remembers comes along. */
  resources: readonly string[];
  /** The source's profile: its views are made by it. */
  whole: LoadContext['whole'];
  clock: Clock;
  signal: AbortSignal;
  watcher: CopyWatcher;
}

/** Called for every table that was copied, and for every one that was then found to be equal. */
export interface CopyWatcher {
  copied: (table: string) => void;
  compared: (row: ReceiptRow) => void;
}

export interface CopyReport {
  /** `already`: a copy of the source as it stands was finished before. */
  outcome: 'copied' | 'already';
  /** True if it went on with a copy that was interrupted. */
  isResumed: boolean;
  tables: ReceiptRow[];
}

/**
 * Copies a SQLite warehouse to Postgres: all of it, compared value by value, before anybody sees it there. A copy
 * that was interrupted goes on where it was, unless the source was written to meanwhile. Nothing is ever changed in the
 * source. Throws `ConfigError` and `SyncError`.
 */
export async function copyWarehouse(request: CopyRequest): Promise<CopyReport> {
  const { from, to, whole, clock, signal, watcher } = request;
  const opened = new AsyncDisposableStack();
  try {
    const source = await openSource(from, clock);
    opened.defer(() => source.close());
    const receipt = await findReceipt(to, clock);
    if (receipt !== null) {
      if (receipt.fingerprint !== (await ownersOf(source.warehouse))) throw targetUsed(to, receipt.finishedAt);
      return { outcome: 'already', isResumed: false, tables: receipt.tables };
    }
    const resources = await source.resources(request.resources);
    const leases = await leaseAll(source.warehouse, resources, clock);
    opened.defer(() => leases.release());
    const staging = await openStaging(to, clock);
    opened.defer(() => staging.close());
    const lease = await acquireLease(staging.warehouse, COPY, clock);
    opened.defer(() => lease.release());
    const isResumed = await resumeOrBegin(staging.database, leases.before, leases.now);
    const place = { staging, lease, signal, whole, clock };
    const tables = await copyResources(place, source, { resources, watcher });
    return { outcome: 'copied', isResumed, tables };
  } finally {
    await opened.disposeAsync();
  }
}

async function copyResources(
  place: CopyPlace,
  source: CopySource,
  { resources, watcher }: Pick<CopyRequest, 'resources' | 'watcher'>,
): Promise<ReceiptRow[]> {
  const { warehouse, inbox, close } = source.snapshots();
  try {
    const shapes = await makeTables(place, source.warehouse, resources);
    const copied = shapes.flatMap(({ tables }) => tables.map(copiedTable));
    const all: TableInSource[] = [...copied, ...OWN_TABLES].map((table) => ({ snapshot: warehouse, table }));
    if (inbox !== null) all.push(...INBOX_TABLES.map((table) => ({ snapshot: inbox, table })));
    await copyAll(place, all, watcher.copied);
    const tables = await compareAll(place, all, watcher.compared);
    for (const shape of shapes) await makeViews(place, shape);
    await publish(place.staging, () => place.lease.proof(), inbox?.lastNumber('_sync_deliveries') ?? 0);
    return tables;
  } finally {
    close();
  }
}

/** Where tables are copied to, by whom. */
interface CopyPlace {
  staging: Staging;
  lease: Lease;
  signal: AbortSignal;
  whole: LoadContext['whole'];
  clock: Clock;
}

/** A table, and the file as of one moment that it is read from. */
type TableInSource = Pick<TableCopy, 'snapshot' | 'table'>;

/** Makes the copied tables of the resources that are not there yet, as a first sync would; returns all of them. */
async function makeTables(
  { staging, lease }: CopyPlace,
  source: Warehouse,
  resources: readonly string[],
): Promise<ResourceShape[]> {
  await dropViews(staging, lease.proof());
  const there = await staging.warehouse.tableNames();
  const made: ResourceShape[] = [];
  for (const resource of resources) {
    const after = await readTables(source, resource);
    if (after === null) continue;
    made.push(after);
    // One resource's tables are made together or not at all.
    if (after.tables.every(({ name }) => there.has(name))) continue;
    const changes = shapeChanges({ resource, tables: [] }, after);
    const nothingElse = { views: [], statements: [], claim: null };
    await staging.warehouse.evolve({ lease: lease.proof(), before: null, after, changes, ...nothingElse });
  }
  return made;
}

/** The views of all tables that are there, as this database writes them, with the columns that they have in the source. */
async function makeViews(
  { staging: { warehouse }, lease, whole, clock }: CopyPlace,
  shape: ResourceShape,
): Promise<void> {
  const growth = await viewGrowth({ warehouse, whole, clock }, shape);
  await warehouse.evolve({ ...growth, lease: lease.proof(), before: shape, after: shape, changes: [] });
}

/** Copies all tables. Throws `ConfigError('copy_refused')` with every row found that Postgres cannot hold. */
async function copyAll(
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

/** Compares all tables, the whole of both. Throws `SyncError('copy_differs')` if one is not equal. */
async function compareAll(
  { staging: { database }, signal }: CopyPlace,
  tables: readonly TableInSource[],
  compared: (row: ReceiptRow) => void,
): Promise<ReceiptRow[]> {
  const rows: ReceiptRow[] = [];
  const differences: string[] = [];
  for (const each of tables) {
    const { copied, isEqual, difference, ...row } = await compareTable({ ...each, database, signal });
    if (isEqual) {
      await saveDigest(database, row.table, row.digest);
      rows.push(row);
      compared(row);
    } else {
      // What was copied before something else went wrong with it is not trusted by the next run.
      await forgetTable(database, each.table);
      const detail = difference === null ? '' : `; ${difference}`;
      differences.push(`${row.table}: ${row.rows} rows in SQLite, ${copied} in Postgres${detail}`);
    }
  }
  if (differences.length === 0) return rows;
  throw new SyncError('copy_differs', ['the copy is not equal:', ...differences.map(visibleText)].join('\n'), {
    recovery: 'stop',
    hint: 'run the same command again: it copies these tables anew',
  });
}
