import { sql } from 'kysely';
import { deleteCheckpoint } from '../state/checkpoints.ts';
import { saveReshape } from '../state/reshapes.ts';
import { forgetSeen } from '../state/seen.ts';
import type { LeaseProof, Warehouse } from '../warehouse/warehouse.ts';

/**
 * Takes a resource out of the warehouse, so that a backfill can build it anew under another profile: its tables,
 * their catalogue, its versions and its checkpoint, in one transaction. Needs none of them to be sound.
 */
export async function forgetResource(warehouse: Warehouse, resource: string, lease: LeaseProof): Promise<void> {
  const { own } = warehouse;
  const tables = await own
    .selectFrom('_sync_columns')
    .select('table_name')
    .distinct()
    .where('resource', '=', resource)
    .execute();
  await warehouse.apply(
    [
      ...tables.map((table) => sql`DROP TABLE IF EXISTS ${sql.id(table.table_name)}`.compile(own)),
      own.deleteFrom('_sync_columns').where('resource', '=', resource).compile(),
      own.deleteFrom('_sync_versions').where('resource', '=', resource).compile(),
      saveReshape(own, resource, null),
      forgetSeen(own, resource),
      own.deleteFrom('_sync_suspects').where('resource', '=', resource).compile(),
      deleteCheckpoint(own, resource),
    ],
    lease,
  );
}
