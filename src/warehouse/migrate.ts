import type { Kysely } from 'kysely';
import { Migrator, type Migration } from 'kysely/migration';
import * as ownTables from '../../migrations/001-own-tables.ts';
import * as deletes from '../../migrations/002-deletes.ts';
import * as deliveries from '../../migrations/inbox/001-deliveries.ts';
import { ConfigError, messageOf } from '../model/errors.ts';

/** The steps by which a kind of database of ours came to be, by name and in order. */
export type Migrations = Readonly<Record<string, Migration>>;

/** Imported one by one, so that type stripping, a build and a bundle all find them. */
export const WAREHOUSE_MIGRATIONS: Migrations = { '001-own-tables': ownTables, '002-deletes': deletes };
export const INBOX_MIGRATIONS: Migrations = { '001-deliveries': deliveries };

/** Brings our own tables up to date. Throws `ConfigError` when the database was written by a newer version. */
export async function migrate<Tables>(own: Kysely<Tables>, migrations: Migrations, database: string): Promise<void> {
  const migrator = new Migrator({
    db: own,
    provider: { getMigrations: () => Promise.resolve({ ...migrations }) },
    migrationTableName: '_sync_migrations',
    migrationLockTableName: '_sync_migrations_lock',
  });
  const { error } = await migrator.migrateToLatest();
  if (error === undefined) return;
  const newer = /previously executed migration (\S+) is missing/.exec(messageOf(error))?.[1];
  if (newer !== undefined) {
    throw new ConfigError(
      'warehouse_newer',
      `${database} was last written by a newer content-sync (migration ${newer})`,
      {
        hint: 'run that version, or point `warehouse` at another database',
        cause: error,
      },
    );
  }
  throw error;
}
