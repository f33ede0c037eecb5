import type { Kysely } from 'kysely';
import { Migrator, type Migration } from 'kysely/migration';
import * as ownTables from '../../migrations/001-own-tables.ts';
import * as deletes from '../../migrations/002-deletes.ts';
import { ConfigError, messageOf } from '../model/errors.ts';
import type { OwnTables } from './own-tables.ts';

/** Imported one by one, so that type stripping, a build and a bundle all find them. */
const MIGRATIONS: Readonly<Record<string, Migration>> = { '001-own-tables': ownTables, '002-deletes': deletes };

/** Brings our own tables up to date. Throws `ConfigError` when the warehouse was written by a newer version. */
export async function migrate(own: Kysely<OwnTables>, warehouse: string): Promise<void> {
  const migrator = new Migrator({
    db: own,
    provider: { getMigrations: () => Promise.resolve({ ...MIGRATIONS }) },
    migrationTableName: '_sync_migrations',
    migrationLockTableName: '_sync_migrations_lock',
  });
  const { error } = await migrator.migrateToLatest();
  if (error === undefined) return;
  const newer = /previously executed migration (\S+) is missing/.exec(messageOf(error))?.[1];
  if (newer !== undefined) {
    throw new ConfigError(
      'warehouse_newer',
      `${warehouse} was last written by a newer content-sync (migration ${newer})`,
      {
        hint: 'run that version, or point `warehouse` at another database',
        cause: error,
      },
    );
  }
  throw error;
}
