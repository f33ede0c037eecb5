import { sql } from 'kysely';
import { readShape } from '../state/column-catalog.ts';
import { deleteCheckpoint } from '../state/checkpoints.ts';
import type { LeaseProof, Warehouse } from '../warehouse/warehouse.ts';

/**
 * Takes a resource out of the warehouse, so that a backfill can build it anew under another profile: its tables,
 * their catalogue, its versions and its checkpoint, in one transaction.
 */
export async function forgetResource(warehouse: Warehouse, resource: string, lease: LeaseProof): Promise<void> {
  const { own } = warehouse;
  const shape = await readShape(own, resource);
  const drops = shape?.tables.map((table) => sql`DROP TABLE IF EXISTS ${sql.id(table.name)}`.compile(own)) ?? [];
  await warehouse.apply(
    [
      ...drops,
      own.deleteFrom('_sync_columns').where('resource', '=', resource).compile(),
      own.deleteFrom('_sync_versions').where('resource', '=', resource).compile(),
      deleteCheckpoint(own, resource),
    ],
    lease,
  );
}
