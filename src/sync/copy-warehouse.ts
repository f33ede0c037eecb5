import { existsSync } from 'node:fs';
import { viewGrowth } from '../load/grow-views.ts';
import type { LoadContext } from '../load/load-context.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import type { ResourceShape } from '../model/table.ts';
import { shapeChanges } from '../rows/evolve-shape.ts';
import { readTables } from '../database/state/column-catalog.ts';
import { acquireLease, type Lease } from '../database/state/leases.ts';
import { copyTable } from '../database/copy/copy-table.ts';
import { openSourceFile, type SourceFile } from '../database/copy/source-file.ts';
import { emptyStaging, openStaging, publish, refuseUsedTarget, type Staging } from '../database/copy/staging.ts';
import { databaseAt, openInbox, openWarehouse } from '../database/databases.ts';
import type { Warehouse } from '../database/warehouse.ts';

/** The lease of the staging schema. */
const STAGING_LEASE = 'copy';

export interface CopyRequest {
  /** Address of a SQLite warehouse. */
  from: string;
  /** Address of a Postgres schema without tables. */
  to: string;
  /** Resources of the source; others that the warehouse has are copied too. */
  resources: readonly string[];
  /** The source's profile, from which its views are created. */
  whole: LoadContext['whole'];
  clock: Clock;
  signal: AbortSignal;
  /** Called after each table. */
  onTable: (table: CopiedTable) => void;
}

export interface CopiedTable {
  table: string;
  rows: number;
}

/**
 * Copies a SQLite warehouse and its inbox to Postgres and compares every value. The schema gets its tables in one
 * transaction at the end; a copy that was interrupted starts from the beginning. Nothing is changed in the source except
 * its leases. Throws `ConfigError` and `SyncError`.
 */
export async function copyWarehouse(request: CopyRequest): Promise<CopiedTable[]> {
  const { from, to, clock } = request;
  const opened = new AsyncDisposableStack();
  try {
    const { file, inboxFile } = await migrateFiles(from, clock);
    const source = await openWarehouse(from, clock);
    opened.defer(() => source.close());
    await refuseUsedTarget(to, clock);
    const resources = await listResources(source, request.resources);
    for (const resource of resources) {
      const held = await acquireLease(source, resource, clock);
      opened.defer(() => held.release());
    }
    const staging = await openStaging(to, clock);
    opened.defer(() => staging.close());
    const lease = await acquireLease(staging.warehouse, STAGING_LEASE, clock);
    opened.defer(() => lease.release());
    await emptyStaging(staging, lease.proof());
    const shapes = await createTables({ staging, lease }, source, resources);
    const files = [file, ...(existsSync(inboxFile) ? [inboxFile] : [])].map(openSourceFile);
    opened.defer(() => files.forEach((each) => each.close()));
    const copied = await copyTables({ staging, lease }, files, shapes, request);
    const { warehouse } = staging;
    for (const shape of shapes) {
      const growth = await viewGrowth({ warehouse, whole: request.whole, clock }, shape);
      await warehouse.evolve({ ...growth, lease: lease.proof(), before: shape, after: shape, changes: [] });
    }
    await publish(staging, lease.proof(), files[1]?.lastNumber('_sync_deliveries') ?? 0);
    return copied;
  } finally {
    await opened.disposeAsync();
  }
}

/** Returns the paths of the warehouse and its inbox, migrated to this version. Throws `ConfigError` if it cannot be copied. */
async function migrateFiles(address: string, clock: Clock): Promise<{ file: string; inboxFile: string }> {
  const { file, inbox } = databaseAt(address);
  if (file === null) {
    throw new ConfigError('copy_source', 'the warehouse of the config is not SQLite: there is nothing to copy', {
      hint: 'copy reads the SQLite warehouse that the config names and writes to the address given with --to',
    });
  }
  if (!existsSync(file)) {
    throw new ConfigError('copy_source', `${file}: there is no warehouse to copy`, {
      hint: 'check `warehouse` in the config; if nothing was synced yet, set it to Postgres and start there',
    });
  }
  const inboxFile = databaseAt(inbox).file ?? '';
  if (existsSync(inboxFile)) await (await openInbox(inbox, clock)).close();
  return { file, inboxFile };
}

/** The requested resources and all that the warehouse has state of. */
async function listResources({ own }: Warehouse, requested: readonly string[]): Promise<string[]> {
  const columns = await own.selectFrom('_sync_columns').select('resource').distinct().execute();
  const checkpoints = await own.selectFrom('_sync_checkpoints').select('resource').execute();
  const leases = await own.selectFrom('_sync_leases').select('name as resource').execute();
  const known = [...columns, ...checkpoints, ...leases].map(({ resource }) => resource);
  return [...new Set([...requested, ...known])].toSorted();
}

interface Target {
  staging: Staging;
  lease: Lease;
}

/** Creates the tables of the resources, as a first sync would. */
async function createTables(
  { staging, lease }: Target,
  source: Warehouse,
  resources: readonly string[],
): Promise<ResourceShape[]> {
  const shapes: ResourceShape[] = [];
  for (const resource of resources) {
    const after = await readTables(source, resource);
    if (after === null) continue;
    shapes.push(after);
    const changes = shapeChanges({ resource, tables: [] }, after);
    const noViews = { views: [], statements: [], claim: null };
    await staging.warehouse.evolve({
      lease: lease.proof(),
      before: null,
      after,
      changes,
      ...noViews,
    });
  }
  return shapes;
}

async function copyTables(
  { staging, lease }: Target,
  files: readonly SourceFile[],
  shapes: readonly ResourceShape[],
  { signal, onTable }: CopyRequest,
): Promise<CopiedTable[]> {
  const ofResources = shapes.flatMap(({ tables }) => tables.map(({ name }) => name));
  const copied: CopiedTable[] = [];
  for (const [at, source] of files.entries()) {
    for (const table of [...(at === 0 ? ofResources : []), ...source.ownTables()]) {
      const { database } = staging;
      const rows = await copyTable({ table, source, database, lease: () => lease.proof(), signal });
      copied.push({ table, rows });
      onTable({ table, rows });
    }
  }
  return copied;
}
