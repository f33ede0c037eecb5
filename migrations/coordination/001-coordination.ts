import { sql, type Kysely } from 'kysely';

/** What all processes on one Postgres share. There is no such thing on SQLite. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createBudgets(db);
  await createLeads(db);
}

/** One row per origin and credential, changed with every request that is sent. */
async function createBudgets(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('budgets')
    .addColumn('name', 'text', (c) => c.notNull().primaryKey())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('version', 'bigint', (c) => c.notNull())
    // Tells the change that made the row what it is, so that one whose answer was lost is known again.
    .addColumn('change', 'uuid', (c) => c.notNull())
    .addColumn('changed_at', 'timestamptz', (c) => c.notNull())
    .execute();
  // In the row itself: a value beside it would be written twice, and vacuumed by other rules.
  await sql`ALTER TABLE budgets ALTER COLUMN state SET STORAGE MAIN`.execute(db);
  await suitFrequentChanges(db, 'budgets');
}

/** Which process looks after a source's schedule, and until when. */
async function createLeads(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('leads')
    .addColumn('source', 'text', (c) => c.notNull().primaryKey())
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('until', 'timestamptz', (c) => c.notNull())
    .execute();
  await suitFrequentChanges(db, 'leads');
}

/**
 * Room beside each row, so that its next forms lie on the same page and are tidied away by the next write there; and,
 * if a long reader forbids that, a vacuum soon after. The tables are tiny: the room costs nothing.
 */
async function suitFrequentChanges(db: Kysely<unknown>, table: string): Promise<void> {
  await sql`ALTER TABLE ${sql.table(table)} SET (
    fillfactor = 10,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
  )`.execute(db);
}
