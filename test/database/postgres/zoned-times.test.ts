import { Kysely, PostgresDialect } from 'kysely';
import { Pool } from 'pg';
import { describe, expect, it } from 'vitest';
import { VALUE_PARSERS } from '../../../src/database/postgres/connection/column-types.ts';
import { zoneTimes } from '../../../src/database/postgres/connection/open-database.ts';
import { asOtherClient, POSTGRES, preparedAddress } from '../../support/databases.ts';
import { journey } from '../../support/journey.ts';

const KOLKATA = 'Asia/Kolkata';

async function rows(address: string, text: string): Promise<Record<string, unknown>[]> {
  return asOtherClient(address, async (client) => (await client.query<Record<string, unknown>>(text)).rows);
}

/** Every column of ours that holds times. */
const TIMES = `SELECT relname AS "table", attname AS "column", format_type(atttypid, atttypmod) AS type
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
  WHERE relnamespace = 'blog'::regnamespace AND relkind = 'r' AND format_type(atttypid, atttypmod) LIKE 'timestamp%'`;

describe.runIf(POSTGRES.missing === null)('times of our own tables', () => {
  it('F145 are moments, right in whatever zone the sessions are', async () => {
    const address = await preparedAddress(POSTGRES);
    const name = new URL(address).pathname.slice(1);
    await rows(address, `ALTER DATABASE ${name} SET timezone TO '${KOLKATA}'`);
    const database = { ...POSTGRES, setting: () => Promise.resolve(address) };
    const blog = await journey({ database, sandbox: { generate: { content: 30, images: 0, analytics: 0 } } });
    const before = Date.now();
    await blog.run('backfill');
    blog.sandbox.store.remove('content', 'cnt_000000001');
    for (const _ of [1, 2]) await blog.run('backfill');
    blog.sandbox.store.put('content', { id: 'cnt_000000001', title: 'back', updated_at: '2026-01-01T00:00:00Z' });
    const { status } = await blog.run('backfill');
    expect(status).toBe('ok');
    const times = await rows(address, TIMES);
    expect(times.length).toBeGreaterThan(20);
    expect(times.filter(({ type }) => type !== 'timestamp with time zone')).toEqual([]);
    // None lies before the test began, nor in what is still to come.
    for (const time of times) {
      const [table, column] = [String(time['table']), String(time['column'])];
      if (!table.startsWith('_sync_')) continue;
      const off = await rows(
        address,
        `SELECT "${column}" AS at FROM "${table}" WHERE "${column}" <> 'epoch' AND "${column}" NOT BETWEEN to_timestamp(${before / 1_000}) - interval '1 minute'
          AND clock_timestamp() + interval '20 minutes'`,
      );
      expect([table, column, off]).toEqual([table, column, []]);
    }
    expect(await rows(address, 'SELECT count(*)::int AS n FROM sync_deletes WHERE restored_at > deleted_at')).toEqual([
      { n: 1 },
    ]);
    expect(await rows(address, 'SELECT count(*)::int AS n FROM _sync_leases WHERE expires_at > now()')).toEqual([
      { n: 0 },
    ]);
  });

  it('come from tables without zones; views on these are created again with the new types', async () => {
    const address = await preparedAddress(POSTGRES);
    const database = { ...POSTGRES, setting: () => Promise.resolve(address) };
    const blog = await journey({ database, sandbox: { generate: { content: 3, images: 0, analytics: 0 } } });
    await blog.run('backfill', { resources: ['content'] });
    await rows(
      address,
      `CREATE TABLE _sync_older AS SELECT id, valid_from AT TIME ZONE 'UTC' AS valid_from FROM _sync_versions;
       CREATE VIEW mine AS SELECT id, valid_from FROM _sync_older;
       CREATE VIEW above AS SELECT max(valid_from) AS latest FROM mine`,
    );
    await migrated(address);
    const same = 'SELECT count(*)::int AS n FROM mine JOIN _sync_versions USING (id, valid_from)';
    expect(await rows(address, same)).toEqual([{ n: 3 }]);
    expect(await rows(address, 'SELECT pg_typeof(latest)::text AS type FROM above')).toEqual([
      { type: 'timestamp with time zone' },
    ]);
    const left = await rows(address, `${TIMES} AND format_type(atttypid, atttypmod) <> 'timestamp with time zone'`);
    expect(left).toEqual([]);
  });
});

/** The step by itself, in a session as the migrations have it. */
async function migrated(address: string): Promise<void> {
  const url = new URL(address);
  url.searchParams.delete('schema');
  const pool = new Pool({
    connectionString: url.href,
    options: '-c search_path=blog -c timezone=UTC',
    max: 1,
    types: VALUE_PARSERS,
  });
  // Its database may go before it has left.
  pool.on('error', () => undefined);
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
  try {
    await zoneTimes(db);
  } finally {
    await db.destroy();
  }
}
