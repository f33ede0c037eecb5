import type { Session } from '../postgres/connection/session.ts';
import { transact } from '../postgres/connection/transact.ts';
import type { LeaseProof } from '../warehouse.ts';
import { quoted } from './copied-tables.ts';
import { targetUsed, type Staging } from './staging.ts';

/** Moving every table takes a lock on each; nobody else knows of them yet. */
const PUBLISH_MS = 600_000;

/**
 * Makes the staging schema the one that it is for, in one transaction: from then on it is a warehouse like all others.
 * Throws `ConfigError('copy_target_used')` where somebody else has made something there meanwhile.
 */
export async function publish(staging: Staging, lease: () => LeaseProof, lastDelivery: number): Promise<void> {
  const { database, schema } = staging;
  const options = { statementMs: PUBLISH_MS, lockMs: PUBLISH_MS, lease: lease() };
  await transact(
    database,
    async (session) => {
      await session.execute("SELECT pg_advisory_xact_lock(hashtext('content-sync migrations'))");
      if ((await relationsIn(session, schema)).length > 0) throw targetUsed(staging.address);
      await session.execute(`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`);
      await session.execute(`UPDATE "_sync_copy" SET "finished_at" = now() AT TIME ZONE 'UTC'`);
      await session.execute('TRUNCATE "_sync_leases"');
      await numberDeliveriesFrom(session, lastDelivery);
      for (const { name, kind } of await relationsIn(session, database.schema)) {
        await session.execute(`ALTER ${kind} ${quoted(name)} SET SCHEMA ${quoted(schema)}`);
      }
      await session.execute(`DROP SCHEMA ${quoted(database.schema)}`);
    },
    options,
  );
}

/** The number of a delivery is never given again, also where it is gone. */
async function numberDeliveriesFrom({ execute }: Session, last: number): Promise<void> {
  if (last === 0) return;
  await execute(`SELECT setval(pg_get_serial_sequence('"_sync_deliveries"', 'seq'), $1)`, [last]);
}

const KINDS = { r: 'TABLE', p: 'TABLE', v: 'VIEW', m: 'MATERIALIZED VIEW', f: 'FOREIGN TABLE' } as const;

/** Tables and views of a schema: what belongs to them (indexes, sequences) goes with them. */
async function relationsIn({ execute }: Session, schema: string): Promise<{ name: string; kind: string }[]> {
  const { rows } = await execute<{ name: string; relkind: keyof typeof KINDS }>(
    `SELECT relname AS name, relkind FROM pg_class
      WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relkind = ANY($2)`,
    [schema, Object.keys(KINDS)],
  );
  return rows.map(({ name, relkind }) => ({ name, kind: KINDS[relkind] }));
}
