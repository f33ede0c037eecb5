// Migrates the internal tables of a warehouse or an inbox, and refuses those that are missing or of another version.
import type { Kysely } from 'kysely';
import type { MigrationDialect } from '../../migrations/dialect.ts';
import { type Migrations, WAREHOUSE_MIGRATIONS } from '../../migrations/index.ts';
import { ConfigError } from '../model/errors.ts';

export { INBOX_MIGRATIONS, type Migrations, WAREHOUSE_MIGRATIONS } from '../../migrations/index.ts';

const LAST_KNOWN = Object.keys(WAREHOUSE_MIGRATIONS).toSorted().at(-1) ?? '';

/** The last migration that was applied, as a subquery; to be read in the transaction that writes. */
export const LAST_DONE = '(SELECT max("name") FROM "_sync_migrations")';

/**
 * Returns the error for a process that writes after a newer version has migrated the tables; null if none has.
 * `lastDone` is the result of `LAST_DONE`.
 */
export function migratedMeanwhile(lastDone: unknown): ConfigError | null {
  if (typeof lastDone !== 'string' || lastDone <= LAST_KNOWN) return null;
  return new ConfigError(
    'warehouse_newer',
    `a newer content-sync has migrated the warehouse (${lastDone}) while this process was running; this transaction was rolled back`,
    { hint: 'stop this process: the newer version continues from the last committed page' },
  );
}

/** Internal tables of a database: the steps that create and change them, and the table that lists the applied steps. */
interface MigrateOptions {
  migrations: Migrations;
  dialect: MigrationDialect;
  /** The address of the database, without secrets, for messages. */
  shown: string;
  /** `_sync_migrations` if absent. */
  table?: string;
}

/**
 * Applies the steps that are missing, within the caller's transaction, in which no other process migrates. Throws
 * `ConfigError` if a newer version has applied others.
 */
export async function migrate(own: Kysely<unknown>, options: MigrateOptions): Promise<void> {
  const { migrations, dialect, shown, table = '_sync_migrations' } = options;
  const db = own.withTables<Record<string, { name: string; timestamp: string }>>();
  const applied = db.schema.createTable(table).ifNotExists();
  await applied
    .addColumn('name', 'varchar(255)', (column) => column.notNull().primaryKey())
    .addColumn('timestamp', 'varchar(255)', (column) => column.notNull())
    .execute();
  const rows = await db.selectFrom(table).select('name').execute();
  const done = new Set(rows.map(({ name }) => name));
  if (isUpToDate(shown, done, migrations)) return;
  for (const name of Object.keys(migrations).toSorted()) {
    if (done.has(name)) continue;
    await migrations[name]?.up(own, dialect);
    await db.insertInto(table).values({ name, timestamp: new Date().toISOString() }).execute();
  }
}

/** True if all migrations were applied. Throws `ConfigError` if a newer version has applied others. */
export function isUpToDate(shown: string, done: ReadonlySet<string>, migrations: Migrations): boolean {
  const newer = [...done].find((step) => !(step in migrations));
  if (newer !== undefined) throw writtenByNewer(shown, newer);
  return Object.keys(migrations).every((step) => done.has(step));
}

/** For commands that only read: throws `ConfigError` unless the database is as this version writes it. */
export function refuseOtherVersion(shown: string, done: ReadonlySet<string>, migrations: Migrations): void {
  if (isUpToDate(shown, done, migrations)) return;
  const missing = Object.keys(migrations).find((step) => !done.has(step));
  throw new ConfigError(
    'warehouse_older',
    `${shown} was last written by an older content-sync (migration ${missing} has not been applied)`,
    { hint: 'run a command that writes, such as content-sync sync: it brings the warehouse up to date' },
  );
}

function writtenByNewer(shown: string, migration: string): ConfigError {
  return new ConfigError(
    'warehouse_newer',
    `${shown} was last written by a newer content-sync (migration ${migration})`,
    { hint: 'run that version, or point `warehouse` at another database' },
  );
}

/** For a file or schema without internal tables. */
export function missingWarehouse(shown: string): ConfigError {
  return new ConfigError('warehouse_missing', `${shown}: there is no warehouse yet`, {
    hint: 'content-sync backfill makes it; where there should be one, check `warehouse` in the config, and the folder that content-sync is started in',
  });
}
