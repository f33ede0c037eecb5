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
});
