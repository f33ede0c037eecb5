// `warehouse copy`: leases, tables and views around the copy of the files.
import { existsSync } from 'node:fs';
import { type CopiedTable, copyFiles, type FilesCopy } from '../database/copy/copy-files.ts';
import { databaseAt, openInbox, openWarehouse } from '../database/databases.ts';
import { readTables } from '../database/state/catalog.ts';
import { acquireLease } from '../database/state/leases.ts';
import type { Warehouse } from '../database/warehouse.ts';
import { viewGrowth } from '../load/grow-views.ts';
import type { LoadContext } from '../load/load-context.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import type { ResourceShape } from '../model/table.ts';

export interface CopyRequest extends Omit<FilesCopy, 'files' | 'shapes'> {
  /** Address of a SQLite warehouse. */
  from: string;
  /** Resources of the source; others that the warehouse has are copied too. */
  resources: readonly string[];
  /** The source's profile, from which its views are created. */
  whole: LoadContext['whole'];
}

/**
 * Copies a SQLite warehouse and its inbox to Postgres and compares every value. The schema gets all tables in one
 * transaction, and then the views. Nothing is changed in the source except its leases. Throws `ConfigError` and
 * `SyncError`.
 */
export async function copyWarehouse(request: CopyRequest): Promise<CopiedTable[]> {
  const { from, to, clock } = request;
  const files = await findFiles(from, clock);
  await using opened = new AsyncDisposableStack();
  const source = await openWarehouse(from, clock);
  opened.defer(() => source.close());
  const shapes: ResourceShape[] = [];
  for (const resource of await listResources(source, request.resources)) {
    const lease = await acquireLease(source, resource, clock);
    opened.defer(() => lease.release());
    shapes.push(...[await readTables(source, resource)].filter((shape) => shape !== null));
  }
  const copied = await copyFiles({ ...request, files, shapes });
  const target = await openWarehouse(to, clock);
  opened.defer(() => target.close());
  for (const shape of shapes) await createViews(target, shape, request);
  return copied;
}

/** Returns the paths of the warehouse and its inbox, if there is one. Throws `ConfigError` if it cannot be copied. */
async function findFiles(address: string, clock: Clock): Promise<string[]> {
  const { file, inbox } = databaseAt(address);
  if (file === null) {
    throw new ConfigError('copy_refused', 'the warehouse of the config is not SQLite: there is nothing to copy', {
      hint: 'copy reads the SQLite warehouse that the config names and writes to the address given with --to',
    });
  }
  if (!existsSync(file)) {
    throw new ConfigError('copy_refused', `${file}: there is no warehouse to copy`, {
      hint: 'check `warehouse` in the config; if nothing was synced yet, set it to Postgres and start there',
    });
  }
  const inboxFile = databaseAt(inbox).file ?? '';
  if (!existsSync(inboxFile)) return [file];
  // Migrates it.
  await (await openInbox(inbox, clock)).close();
  return [file, inboxFile];
}

/** The requested resources and all that the warehouse has state of. */
async function listResources({ own }: Warehouse, requested: readonly string[]): Promise<string[]> {
  const columns = await own.selectFrom('_sync_columns').select('resource').distinct().execute();
  const checkpoints = await own.selectFrom('_sync_checkpoints').select('resource').execute();
  const leases = await own.selectFrom('_sync_leases').select('name as resource').execute();
  const known = [...columns, ...checkpoints, ...leases].map(({ resource }) => resource);
  return [...new Set([...requested, ...known])].toSorted();
}

/** Their SQL differs from that of SQLite. If this is interrupted, the next sync creates them. */
async function createViews(warehouse: Warehouse, shape: ResourceShape, { whole, clock }: CopyRequest): Promise<void> {
  const lease = await acquireLease(warehouse, shape.resource, clock);
  try {
    const growth = await viewGrowth({ warehouse, whole, clock }, shape);
    await warehouse.evolve({ ...growth, lease: lease.proof(), before: shape, after: shape, changes: [] });
  } finally {
    await lease.release();
  }
}
