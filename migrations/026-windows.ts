import type { Kysely } from 'kysely';
import type { MigrationDialect } from './dialect.ts';

/** The windows of reports: when each was asked for, what it held, and whether it may still change. */
export async function up(db: Kysely<unknown>, { timestamp }: MigrationDialect): Promise<void> {
  await db.schema
    .createTable('_sync_windows')
    .ifNotExists()
    .addColumn('resource', 'text', (c) => c.notNull())
    // Days of the reports' own zone, `YYYY-MM-DD`; the end is the first day behind the window.
    .addColumn('window_start', 'text', (c) => c.notNull())
    .addColumn('window_end', 'text', (c) => c.notNull())
    // Null for one that was never taken over, because its first answer is held.
    .addColumn('fetched_at', timestamp)
    .addColumn('is_final', 'integer', (c) => c.notNull())
    .addColumn('rows', 'bigint', (c) => c.notNull())
    // Of keys and hashes of its rows.
    .addColumn('digest', 'text')
    // JSON: sums as the service tells them and as they were counted, where they differ.
    .addColumn('totals', 'text')
    .addColumn('capped', 'integer', (c) => c.notNull())
    // When its rows last changed.
    .addColumn('changed_at', timestamp)
    .addColumn('dropped_at', timestamp)
    // An answer that took away so much that a person decides: since when, what it was, and when the person said yes.
    .addColumn('held_at', timestamp)
    .addColumn('held', 'text')
    .addColumn('released_at', timestamp)
    .addPrimaryKeyConstraint('_sync_windows_pk', ['resource', 'window_start'])
    .execute();
}
