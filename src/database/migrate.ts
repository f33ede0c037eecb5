import type { Kysely } from 'kysely';
import { Migrator } from 'kysely/migration';
import * as ownTables from '../../migrations/001-own-tables.ts';
import * as deletes from '../../migrations/002-deletes.ts';
import * as freshness from '../../migrations/003-freshness.ts';
import * as proofs from '../../migrations/004-proofs.ts';
import * as olderStates from '../../migrations/005-older-states.ts';
import * as leaseFences from '../../migrations/007-lease-fences.ts';
import * as statedDeletes from '../../migrations/008-stated-deletes.ts';
import * as serviceNotices from '../../migrations/009-service-notices.ts';
import * as tokens from '../../migrations/010-tokens.ts';
import * as views from '../../migrations/011-views.ts';
import * as timesDeletesCalendar from '../../migrations/012-times-deletes-calendar.ts';
import * as examples from '../../migrations/013-examples.ts';
import * as history from '../../migrations/014-history.ts';
import * as growth from '../../migrations/015-growth.ts';
import * as sourceTexts from '../../migrations/016-source-texts.ts';
import * as declaredTypes from '../../migrations/017-declared-types.ts';
import * as pauses from '../../migrations/021-pauses.ts';
import * as runHistory from '../../migrations/018-run-history.ts';
import * as verifications from '../../migrations/019-verifications.ts';
import * as forgotten from '../../migrations/020-forgotten.ts';
import * as alerts from '../../migrations/022-alerts.ts';
import * as ranges from '../../migrations/023-ranges.ts';
import * as calendarCovers from '../../migrations/024-calendar-covers.ts';
import * as files from '../../migrations/025-files.ts';
import * as windows from '../../migrations/026-windows.ts';
import * as fileOwner from '../../migrations/027-file-owner.ts';
import * as noRanges from '../../migrations/028-no-ranges.ts';
import * as checks from '../../migrations/029-checks.ts';
import * as microseconds from '../../migrations/030-microseconds.ts';
import * as goneColumns from '../../migrations/031-gone-columns.ts';
import * as wideningViews from '../../migrations/032-widening-views.ts';
import * as readableViews from '../../migrations/033-readable-views.ts';
import * as deliveries from '../../migrations/inbox/001-deliveries.ts';
import * as roomAndDifferences from '../../migrations/inbox/002-room-and-differences.ts';
import * as zonedTimes from '../../migrations/inbox/003-zoned-times.ts';
import type { MigrationDialect } from '../../migrations/dialect.ts';
import { ConfigError, messageOf } from '../model/errors.ts';

/** The steps by which a kind of database of ours came to be, by name and in order. */
export type Migrations = Readonly<
  Record<string, { up: (db: Kysely<unknown>, dialect: MigrationDialect) => Promise<void> }>
>;

/** Imported one by one, so that type stripping, a build and a bundle all find them. */
export const WAREHOUSE_MIGRATIONS: Migrations = {
  '001-own-tables': ownTables,
  '002-deletes': deletes,
  '003-freshness': freshness,
  '004-proofs': proofs,
  '005-older-states': olderStates,
  '007-lease-fences': leaseFences,
  '008-stated-deletes': statedDeletes,
  '009-service-notices': serviceNotices,
  '010-tokens': tokens,
  '011-views': views,
  '012-times-deletes-calendar': timesDeletesCalendar,
  '013-examples': examples,
  '014-history': history,
  '015-growth': growth,
  '016-source-texts': sourceTexts,
  '017-declared-types': declaredTypes,
  '021-pauses': pauses,
  '018-run-history': runHistory,
  '019-verifications': verifications,
  '020-forgotten': forgotten,
  '022-alerts': alerts,
  '023-ranges': ranges,
  '024-calendar-covers': calendarCovers,
  '025-files': files,
  '026-windows': windows,
  '027-file-owner': fileOwner,
  '028-no-ranges': noRanges,
  '029-checks': checks,
  '030-microseconds': microseconds,
  '031-gone-columns': goneColumns,
  '032-widening-views': wideningViews,
  '033-readable-views': readableViews,
};
export const INBOX_MIGRATIONS: Migrations = {
  '001-deliveries': deliveries,
  '002-room-and-differences': roomAndDifferences,
  '003-zoned-times': zonedTimes,
};

/** The last step that this version knows of: they are done in the order of their names. */
const LAST_STEP = Object.keys(WAREHOUSE_MIGRATIONS).toSorted().at(-1) ?? '';

/** The last of the steps that are done, as a subquery; to be asked in the transaction that writes. */
export const LAST_DONE = '(SELECT max("name") FROM "_sync_migrations")';

/**
 * The fault of a process that goes on writing although a newer version has brought the tables up to date; null
 * if none has. `lastDone` is what `LAST_DONE` answers.
 */
export function migratedMeanwhile(lastDone: unknown): ConfigError | null {
  if (typeof lastDone !== 'string' || lastDone <= LAST_STEP) return null;
  return new ConfigError(
    'warehouse_newer',
    `a newer content-sync has migrated the warehouse while this one was at work (${lastDone}); nothing of this was written`,
    { hint: 'stop this process: the newer version goes on from the last committed page' },
  );
}

interface MigrateOptions {
  migrations: Migrations;
  dialect: MigrationDialect;
  /** The database, for messages. */
  shown: string;
  /** Where the tables are to be; the connection's own place if absent. */
  schema?: string;
  /** The table that remembers the steps; `_sync_migrations` if absent. */
  table?: string;
}

/** Brings our own tables up to date. Throws `ConfigError` when the database was written by a newer version. */
export async function migrate<Tables>(own: Kysely<Tables>, options: MigrateOptions): Promise<void> {
  const { migrations, dialect, shown, schema, table = '_sync_migrations' } = options;
  const steps = Object.entries(migrations).map(
    ([name, { up }]) => [name, { up: (db: Kysely<unknown>) => up(db, dialect) }] as const,
  );
  const migrator = new Migrator({
    db: own,
    provider: { getMigrations: () => Promise.resolve(Object.fromEntries(steps)) },
    migrationTableName: table,
    migrationLockTableName: `${table}_lock`,
    ...(schema === undefined ? {} : { migrationTableSchema: schema }),
  });
  // The caller's transaction is around all of it.
  const { error } = await migrator.migrateToLatest({ disableTransactions: true });
  if (error === undefined) return;
  const newer = /previously executed migration (\S+) is missing/.exec(messageOf(error))?.[1];
  if (newer === undefined) throw error;
  throw writtenByNewer(shown, newer, error);
}

/** True if all steps are done. Throws `ConfigError` if a newer version has done others. */
export function isUpToDate(shown: string, done: ReadonlySet<string>, migrations: Migrations): boolean {
  const newer = [...done].find((step) => !(step in migrations));
  if (newer !== undefined) throw writtenByNewer(shown, newer);
  return Object.keys(migrations).every((step) => done.has(step));
}

/** Throws `ConfigError` if a database is not as this version writes it: for those who only read, and so cannot change that. */
export function refuseOtherVersion(shown: string, done: ReadonlySet<string>, migrations: Migrations): void {
  if (isUpToDate(shown, done, migrations)) return;
  const missing = Object.keys(migrations).find((step) => !done.has(step));
  throw new ConfigError(
    'warehouse_older',
    `${shown} was last written by an older content-sync (migration ${missing} is to come)`,
    { hint: 'run a command that writes, such as content-sync sync: it brings the warehouse up to date' },
  );
}

function writtenByNewer(shown: string, migration: string, cause?: unknown): ConfigError {
  return new ConfigError(
    'warehouse_newer',
    `${shown} was last written by a newer content-sync (migration ${migration})`,
    { hint: 'run that version, or point `warehouse` at another database', cause },
  );
}
