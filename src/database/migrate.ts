// Migrates the internal tables of a warehouse or an inbox to this version. Refuses tables that a newer version has
// migrated, and for commands that only read also older ones.
import type { Kysely } from 'kysely';
import type { MigrationDialect } from '../../migrations/dialect.ts';
import { type Migrations, WAREHOUSE_MIGRATIONS } from '../../migrations/index.ts';
import { ConfigError } from '../model/errors.ts';

export { INBOX_MIGRATIONS, type Migrations, WAREHOUSE_MIGRATIONS } from '../../migrations/index.ts';

const NEWEST_MIGRATION = Object.keys(WAREHOUSE_MIGRATIONS).toSorted().at(-1) ?? '';

/** A subquery for the last applied migration, for the transaction that writes. */
export const LAST_APPLIED = '(SELECT max("name") FROM "_sync_migrations")';

/**
 * Returns an error if a newer version has migrated the tables while this process was running, else null. `lastApplied`
 * is the result of `LAST_APPLIED`.
 */
export function newerMigrationError(lastApplied: unknown): ConfigError | null {
  if (typeof lastApplied !== 'string' || lastApplied <= NEWEST_MIGRATION) return null;
  return new ConfigError(
    'warehouse_newer',
    `a newer content-sync has migrated the warehouse (${lastApplied}) while this process was running; this transaction was rolled back`,
    { hint: 'stop this process: the newer version continues from the last committed page' },
  );
}

interface MigrateOptions {
  migrations: Migrations;
  dialect: MigrationDialect;
  /** The address of the database, without secrets, for messages. */
  shown: string;
  /** The table that lists the applied migrations; `_sync_migrations` if absent. */
  table?: string;
}

/**
 * Applies the missing migrations, within the caller's transaction, in which no other process migrates. Throws
 * `ConfigError` if a newer version has applied others.
 */
export async function migrate(own: Kysely<unknown>, options: MigrateOptions): Promise<void> {
  const { migrations, dialect, shown, table = '_sync_migrations' } = options;
  const db = own.withTables<Record<string, { name: string; timestamp: string }>>();
  await db.schema
    .createTable(table)
    .ifNotExists()
    .addColumn('name', 'varchar(255)', (column) => column.notNull().primaryKey())
    .addColumn('timestamp', 'varchar(255)', (column) => column.notNull())
    .execute();
  const rows = await db.selectFrom(table).select('name').execute();
  const applied = new Set(rows.map(({ name }) => name));
  if (isUpToDate(shown, applied, migrations)) return;
  for (const name of Object.keys(migrations).toSorted()) {
    if (applied.has(name)) continue;
    await migrations[name]?.up(own, dialect);
    await db.insertInto(table).values({ name, timestamp: new Date().toISOString() }).execute();
  }
}

/** True if all migrations were applied. Throws `ConfigError` if a newer version has applied others. */
export function isUpToDate(shown: string, applied: ReadonlySet<string>, migrations: Migrations): boolean {
  const newer = [...applied].find((name) => !(name in migrations));
  if (newer !== undefined) throw newerWarehouse(shown, newer);
  return Object.keys(migrations).every((name) => applied.has(name));
}

/** For commands that only read: throws `ConfigError` unless exactly the migrations of this version were applied. */
export function refuseOtherVersion(shown: string, applied: ReadonlySet<string>, migrations: Migrations): void {
  if (isUpToDate(shown, applied, migrations)) return;
  const missing = Object.keys(migrations).find((name) => !applied.has(name));
  throw new ConfigError(
    'warehouse_older',
    `${shown} was last written by an older content-sync (migration ${missing} has not been applied)`,
    { hint: 'run a command that writes, such as content-sync sync: it brings the warehouse up to date' },
  );
}

function newerWarehouse(shown: string, migration: string): ConfigError {
  return new ConfigError(
    'warehouse_newer',
    `${shown} was last written by a newer content-sync (migration ${migration})`,
    { hint: 'run that version, or point `warehouse` at another database' },
  );
}

/** The error for a file or schema without internal tables. */
export function missingWarehouse(shown: string): ConfigError {
  return new ConfigError('warehouse_missing', `${shown}: there is no warehouse yet`, {
    hint: 'content-sync backfill makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
  });
}
