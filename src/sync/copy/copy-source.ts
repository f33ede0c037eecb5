import { existsSync } from 'node:fs';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import { acquireLease, type Lease } from '../../state/leases.ts';
import { openSnapshot } from '../../warehouse/copy/snapshot.ts';
import { databaseAt, openInbox, openWarehouse } from '../../warehouse/databases.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';

/** The SQLite warehouse that is copied, and the inbox beside it. */
export type CopySource = Awaited<ReturnType<typeof openSource>>;

/** Opens it, and brings it up to date as every command does. Throws `ConfigError` if there is nothing to copy. */
export async function openSource(address: string, clock: Clock) {
  const { file, inbox } = databaseAt(address);
  if (file === null) {
    throw new ConfigError('copy_source', 'the warehouse of the config is not SQLite: there is nothing to carry over', {
      hint: 'copy reads the SQLite warehouse that the config names and writes to the address behind --to',
    });
  }
  if (!existsSync(file)) {
    throw new ConfigError('copy_source', `${file}: there is no warehouse to copy`, {
      hint: 'check `warehouse` in the config; where nothing was synced yet, set it to Postgres and start there',
    });
  }
  const inboxFile = databaseAt(inbox).file ?? '';
  if (existsSync(inboxFile)) await (await openInbox(inbox, clock)).close();
  const warehouse = await openWarehouse(address, clock);
  return {
    warehouse,
    /** Those that are asked for, and all that the warehouse remembers. */
    resources: (asked: readonly string[]) => rememberedResources(warehouse, asked),
    /** Both files as they stand now; null for an inbox that was never made. */
    snapshots: () => {
      const snapshot = openSnapshot(file);
      const deliveries = existsSync(inboxFile) ? openSnapshot(inboxFile) : null;
      const close = (): void => [snapshot, deliveries].forEach((each) => each?.close());
      return { warehouse: snapshot, inbox: deliveries, close };
    },
    close: () => warehouse.close(),
  };
}

async function rememberedResources({ own }: Warehouse, asked: readonly string[]): Promise<string[]> {
  const columns = await own.selectFrom('_sync_columns').select('resource').distinct().execute();
  const checkpoints = await own.selectFrom('_sync_checkpoints').select('resource').execute();
  const leases = await own.selectFrom('_sync_leases').select('name as resource').execute();
  const known = [...columns, ...checkpoints, ...leases].map(({ resource }) => resource);
  return [...new Set([...asked, ...known])].toSorted();
}

/**
 * The last owner of each resource: a process that writes to a resource becomes its owner first, so that the same text means
 * that nothing was written in between.
 */
export async function ownersOf({ own }: Warehouse): Promise<string> {
  const columns = ['name', 'token', 'acquired_at'] as const;
  return JSON.stringify(await own.selectFrom('_sync_leases').select(columns).orderBy('name').execute());
}

/**
 * Becomes the owner of all resources, so that nobody writes to any. Returns the state in which the warehouse was
 * `before`, as `ownersOf` tells it, and in which it is from `now` on. Throws `SyncError('lease_held')` if another process
 * owns one.
 */
export async function leaseAll(warehouse: Warehouse, resources: readonly string[], clock: Clock) {
  const before = await ownersOf(warehouse);
  const leases: Lease[] = [];
  const release = async (): Promise<void> => {
    await Promise.all(leases.map((lease) => lease.release()));
  };
  try {
    for (const resource of resources) leases.push(await acquireLease(warehouse, resource, clock));
    return { before, now: await ownersOf(warehouse), release };
  } catch (error) {
    await release();
    throw error;
  }
}
