import { Kysely, PostgresDialect } from 'kysely';
import { Pool } from 'pg';
import { describe, expect, it } from 'vitest';
import { VALUE_PARSERS } from '../../../src/database/postgres/connection/column-types.ts';
import { zoneTimes } from '../../../src/database/postgres/connection/open-database.ts';
import { asOtherClient, POSTGRES, preparedAddress } from '../../support/databases.ts';
import { journey } from '../../support/journey.ts';

async function rows(address: string, text: string): Promise<Record<string, unknown>[]> {
  return asOtherClient(address, async (client) => (await client.query<Record<string, unknown>>(text)).rows);
}

/** Every column of ours that holds times. */
const TIMES = `SELECT relname AS "table", attname AS "column", format_type(atttypid, atttypmod) AS type
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
  WHERE relnamespace = 'blog'::regnamespace AND relkind = 'r' AND format_type(atttypid, atttypmod) LIKE 'timestamp%'`;

describe.runIf(POSTGRES.missing === null)('times of our own tables', () => {
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
