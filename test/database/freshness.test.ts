import { describe, expect, it } from 'vitest';
import { asOtherClient, DATABASES, type TestDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

const SMALL = { generate: { content: 6, images: 2, analytics: 2 } };

/** In the words of both databases. */
const FRESHNESS = `SELECT resource, CAST(last_success_at AS TEXT) AS last_success_at,
  CAST(last_full_at AS TEXT) AS last_full_at, last_run_status, last_run_error, CAST(open_rejects AS TEXT) AS open_rejects
  FROM sync_freshness ORDER BY resource`;

/** As another program would ask. */
function ask(database: TestDatabase, address: string, text: string): Promise<Record<string, unknown>[]> {
  return database.name === 'sqlite'
    ? database.read(address, (db) => db.prepare<[], Record<string, unknown>>(text).all())
    : asOtherClient(address, async (client) => (await client.query<Record<string, unknown>>(text)).rows);
}

/** How each database tells the columns of a view, and what they are to be. */
const COLUMNS = {
  sqlite: {
    text: "SELECT name, upper(type) AS type FROM pragma_table_info('sync_freshness')",
    types: { moment: 'TIMESTAMP', text: 'TEXT', count: 'BIGINT', flag: 'BOOLEAN' },
  },
  postgres: {
    text: `SELECT column_name AS name, data_type AS type FROM information_schema.columns
      WHERE table_name = 'sync_freshness' ORDER BY ordinal_position`,
    types: {
      moment: 'timestamp with time zone',
      text: 'text',
      count: 'bigint',
      flag: 'boolean',
    },
  },
} as const;

describe.for(DATABASES)('how fresh the copy is, on $name', (database) => {
  it('is told for each resource: last success, last whole walk, last run, records set aside', async () => {
    const blog = await journey({ database, sandbox: SMALL });
    await blog.run('backfill', { resources: ['content', 'images'] });
    blog.sandbox.faults.add({ fault: 'status', status: 403, resource: 'analytics' });
    await blog.run('backfill', { resources: ['analytics'] });
    await blog.write(`INSERT INTO _sync_rejects (resource, hash, reason, detail, body, run_id, first_seen, last_seen, resolved_at)
      VALUES ('content', 'a', 'r', 'd', '{}', 'x', '2026-11-21 10:00:00.000', '2026-11-21 10:00:00.000', NULL),
        ('content', 'b', 'r', 'd', '{}', 'x', '2026-11-21 10:00:00.000', '2026-11-21 10:00:00.000', '2026-11-21 10:00:00.000')`);
    const rows = await ask(database, blog.address, FRESHNESS);
    const moment = expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d/);
    const fresh = { last_success_at: moment, last_full_at: moment, last_run_status: 'ok', last_run_error: null };
    expect(rows).toEqual([
      {
        resource: 'analytics',
        last_success_at: null,
        last_full_at: null,
        last_run_status: 'failed',
        last_run_error: expect.stringMatching(/\w/),
        open_rejects: '0',
      },
      { resource: 'content', ...fresh, open_rejects: '1' },
      { resource: 'images', ...fresh, open_rejects: '0' },
    ]);
  });

  it('has a type in each column, which BI clients go by', async () => {
    const blog = await journey({ database, sandbox: SMALL });
    await blog.run('backfill', { resources: ['images'] });
    const { text, types } = COLUMNS[database.name];
    const columns = await ask(database, blog.address, text);
    expect(Object.fromEntries(columns.map(({ name, type }) => [name, type]))).toEqual({
      resource: types.text,
      last_success_at: types.moment,
      last_full_at: types.moment,
      last_run_status: types.text,
      last_run_started_at: types.moment,
      last_run_finished_at: types.moment,
      last_run_error: types.text,
      open_rejects: types.count,
      last_run_warnings: types.text,
      newest_record_at: types.moment,
      rows_live: types.count,
      rows_deleted: types.count,
      rows_altered: types.count,
      last_verified_at: types.moment,
      last_verification: types.text,
      is_copied: types.flag,
    });
  });
});
