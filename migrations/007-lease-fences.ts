import type { Kysely } from 'kysely';

/**
 * A lease's number comes again if the database forgets that it was given, as a replica that takes over before it has
 * heard of everything does. Its fence does not; and the count shows what else was forgotten.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const leases = db.schema.alterTable('_sync_leases');
  await leases.addColumn('fence', 'text', (c) => c.notNull().defaultTo('')).execute();
  // Transactions of the owner.
  await leases.addColumn('commits', 'bigint', (c) => c.notNull().defaultTo(0)).execute();
}
