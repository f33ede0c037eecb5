import { createHash } from 'node:crypto';
import { escapeIdentifier as quoted } from 'pg';
import type { Clock } from '../../model/clock.ts';
import { ConfigError } from '../../model/errors.ts';
import { readAddress } from '../../config/warehouse-address.ts';
import { shownAddress, type PostgresAddress } from '../postgres/address.ts';
import { INBOX_TABLES, openDatabase } from '../postgres/connection/open-database.ts';
import { borrowDatabase } from '../postgres/connection/pools.ts';
import type { Session } from '../postgres/connection/session.ts';
import { transact, type Database } from '../postgres/connection/transact.ts';
import { openWarehouse } from '../postgres/warehouse.ts';
import type { LeaseProof, Warehouse } from '../warehouse.ts';

const MAX_NAME_BYTES = 63;
/** Locking and moving every table takes time. */
const PUBLISH_MS = 600_000;

/** The schema that is filled first: the schema of the address gets the tables when all are complete. */
export interface Staging {
  readonly database: Database;
  readonly warehouse: Warehouse;
  /** The address and the schema that get the tables. */
  readonly address: string;
  readonly schema: string;
  close(): Promise<void>;
}

/** Opens the staging schema for a Postgres address, and creates it if necessary. Throws `ConfigError`. */
export async function openStaging(address: string, clock: Clock): Promise<Staging> {
  const { connection, schema } = targetAt(address);
  const staged = { connection, schema: stagingName(schema) };
  const opened = new AsyncDisposableStack();
  try {
    const warehouse = await openWarehouse(staged, clock);
    opened.defer(() => warehouse.close());
    const deliveries = await openDatabase(staged, clock, INBOX_TABLES);
    opened.defer(() => deliveries.close());
    const { database } = deliveries;
    return { database, warehouse, address, schema, close: () => opened.disposeAsync() };
  } catch (error) {
    await opened.disposeAsync();
    throw error;
  }
}

/** Throws `ConfigError('copy_target_used')` if the schema of the address has any table or view. */
export async function refuseUsedTarget(address: string, clock: Clock): Promise<void> {
  const { database, release } = borrowDatabase(targetAt(address), clock);
  try {
    await transact(database, (session) => refuseUsed(session, address, database.schema), {
      retryForMs: 5_000,
      mayRepeat: true,
    });
  } finally {
    await release();
  }
}

async function refuseUsed(session: Session, address: string, schema: string): Promise<void> {
  if ((await listRelations(session, schema)).length === 0) return;
  throw new ConfigError('copy_target_used', `${shownAddress(targetAt(address))} is not empty: nothing was copied`, {
    hint: 'use it if an earlier copy filled it: a schema has tables only if its copy was complete; else name another database or an unused schema, such as postgres://host/database?schema=blog_new',
  });
}

function targetAt(address: string): PostgresAddress {
  const target = readAddress(address);
  if (target?.kind === 'postgres') return target;
  throw new Error('copy needs an address of Postgres');
}

function stagingName(schema: string): string {
  const name = `_sync_copying_${schema}`;
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name;
  return `_sync_copying_${createHash('sha256').update(schema).digest('hex').slice(0, 32)}`;
}

/** Removes what opening created and what a killed copy left. Views are created at the end, so that no name is taken. */
export async function emptyStaging({ database }: Staging, lease: LeaseProof): Promise<void> {
  const empty = async (session: Session): Promise<void> => {
    for (const { name, kind } of await listRelations(session, database.schema)) {
      if (/^_sync_(?:inbox_)?migrations|^_sync_leases$/.test(name)) continue;
      const isInternal = kind === 'TABLE' && name.startsWith('_sync_');
      await session.execute(isInternal ? `TRUNCATE ${quoted(name)}` : `DROP ${kind} IF EXISTS ${quoted(name)} CASCADE`);
    }
  };
  await transact(database, empty, { lease, statementMs: PUBLISH_MS });
}

/**
 * Moves everything into the schema of the address, in one transaction. Throws `ConfigError('copy_target_used')` if
 * another program has created a table there since.
 */
export async function publish(staging: Staging, lease: LeaseProof, lastDelivery: number): Promise<void> {
  const { database, address, schema } = staging;
  const move = async (session: Session): Promise<void> => {
    await session.execute("SELECT pg_advisory_xact_lock(hashtext('content-sync migrations'))");
    await refuseUsed(session, address, schema);
    await session.execute(`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`);
    await session.execute('TRUNCATE "_sync_leases"');
    // The number of a deleted delivery is not used again.
    const setNumber = `SELECT setval(pg_get_serial_sequence('"_sync_deliveries"', 'seq'), $1)`;
    if (lastDelivery > 0) await session.execute(setNumber, [lastDelivery]);
    for (const { name, kind } of await listRelations(session, database.schema)) {
      await session.execute(`ALTER ${kind} ${quoted(name)} SET SCHEMA ${quoted(schema)}`);
    }
    for (const statement of await functionMoves(session, database.schema, schema)) await session.execute(statement);
    await session.execute(`DROP SCHEMA ${quoted(database.schema)}`);
  };
  await transact(database, move, { statementMs: PUBLISH_MS, lockMs: PUBLISH_MS, lease });
}

const KINDS = {
  r: 'TABLE',
  p: 'TABLE',
  v: 'VIEW',
  m: 'MATERIALIZED VIEW',
  f: 'FOREIGN TABLE',
} as const;

/** Tables and views of a schema, without their indexes and sequences. */
async function listRelations({ execute }: Session, schema: string) {
  const { rows } = await execute<{ name: string; relkind: keyof typeof KINDS }>(
    `SELECT relname AS name, relkind FROM pg_class
      WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relkind = ANY($2)`,
    [schema, Object.keys(KINDS)],
  );
  return rows.map(({ name, relkind }) => ({ name, kind: KINDS[relkind] }));
}

/**
 * The statements that move the functions of a schema, after its views. A function in SQL names the views that it reads
 * with their schema, so that it is created again.
 */
async function functionMoves({ execute }: Session, from: string, to: string): Promise<string[]> {
  const { rows } = await execute<{ statement: string }>(
    `SELECT CASE lanname WHEN 'sql'
        THEN replace(pg_get_functiondef(f.oid), format('%I.', $1::text), format('%I.', $2::text))
          || format('; DROP FUNCTION %s', f.oid::regprocedure)
        ELSE format('ALTER FUNCTION %s SET SCHEMA %I', f.oid::regprocedure, $2::text) END AS statement
     FROM pg_proc f JOIN pg_language ON pg_language.oid = prolang
     WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) ORDER BY f.oid`,
    [from, to],
  );
  return rows.map(({ statement }) => statement);
}
