import { randomUUID } from 'node:crypto';
import type { Warehouse } from '../../warehouse/warehouse.ts';

/** The name by which this database, and whatever it is moved to, marks the stores that are its own; made with its first use. */
export async function fileOwner({ own, apply }: Pick<Warehouse, 'own' | 'apply'>): Promise<string> {
  const found = own.selectFrom('_sync_file_owner').select('owner');
  const known = await found.executeTakeFirst();
  if (known !== undefined) return known.owner;
  const made = own.insertInto('_sync_file_owner').values({ id: 1, owner: randomUUID() });
  await apply([made.onConflict((conflict) => conflict.doNothing()).compile()]);
  return (await found.executeTakeFirstOrThrow()).owner;
}
