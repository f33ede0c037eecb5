import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { openWarehouse } from '../../../../src/warehouse/databases.ts';
import { rowsOf } from '../../../support/copied-cells.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';
import { loadOnce } from '../../../support/content-loader.ts';
import { sampled } from '../../../support/length.ts';
import { loading } from '../../../support/page-loading.ts';
import { madeByPeople, peoplesOwn } from '../../../support/made-by-people.ts';
import { BIG, LEFT_OVER, scoreTable, SMALL, SUMS, sumsOf, WIDER } from '../../../support/score-table.ts';

/** What readers may be made to wait at most. */
const MOST_WAIT_MS = 2_000;
const SIZES = [
  { size: 'small', rows: SMALL },
  { size: 'big', rows: BIG },
] as const;

describe.skipIf(POSTGRES.missing !== null)('tables that grow on Postgres', () => {
  it.each(SIZES)('keep what people made on a $size one through a widening', async ({ size, rows }) => {
    const { address, load } = await scoreTable(rows);
    const role = `reader_of_${size}_${process.pid}`;
    await asOtherClient(address, (client) => client.query(madeByPeople(role)));
    const before = await peoplesOwn(address);
    await load([WIDER]);
    expect(await peoplesOwn(address)).toEqual(before);
    expect(await rowsOf(address, 'SELECT * FROM best')).toEqual([{ top: String(rows - 1) }]);
    expect(await rowsOf(address, 'SELECT count(*)::int AS n FROM kept')).toEqual([{ n: rows }]);
    expect(await rowsOf(address, SUMS)).toEqual([sumsOf(rows, 1)]);
    expect(await rowsOf(address, LEFT_OVER)).toEqual([]);
  });

  it.each(SIZES)('F135 a $size one is read all the while, in whole states only', async ({ rows }) => {
    const { address, load } = await scoreTable(rows);
    const stop = new AbortController();
    const reading = asOtherClient(address, (client) => poll(client, stop.signal));
    await load([WIDER]);
    stop.abort();
    const { longestMs, seen } = await reading;
    expect(longestMs).toBeLessThan(MOST_WAIT_MS);
    const whole = new Set([sumsOf(rows), sumsOf(rows, 1)].map((sums) => JSON.stringify(sums)));
    expect([...seen].filter((sums) => !whole.has(sums))).toEqual([]);
  });

  it('F135 a statement that is open keeps its table as it was, and nobody waits behind the widening for long', async () => {
    const { address, load } = await scoreTable(SMALL);
    await asOtherClient(address, async (holder) => {
      await holder.query('BEGIN');
      await holder.query('DECLARE rows CURSOR FOR SELECT * FROM content ORDER BY id');
      const first = await holder.query('FETCH 3 FROM rows');
      const stop = new AbortController();
      const reading = asOtherClient(address, (client) => poll(client, stop.signal));
      const loaded = load(['{"id":"wider","score":"five","rate":"low","added":true}']);
      await sleep(2_500);
      const rest = await holder.query('FETCH ALL FROM rows');
      expect(first.rows.length + rest.rows.length).toBe(SMALL);
      expect(rest.fields.map(({ name }) => name)).toEqual(first.fields.map(({ name }) => name));
      expect(rest.rows[0]).toHaveProperty('score');
      await holder.query('COMMIT');
      await loaded;
      stop.abort();
      const { longestMs, seen } = await reading;
      expect(longestMs).toBeLessThan(MOST_WAIT_MS);
      expect(seen.size).toBeLessThanOrEqual(2);
    });
    expect(await rowsOf(address, 'SELECT score, added FROM content WHERE added')).toEqual([
      { score: 'five', added: true },
    ]);
  });

  it('leave a column to the views that cannot stand on a wider one, and put that beside', async () => {
    const { address, load } = await scoreTable(SMALL);
    await asOtherClient(address, (client) =>
      client.query(
        'CREATE VIEW many AS SELECT id FROM content WHERE score > 5; CREATE VIEW most AS SELECT * FROM many',
      ),
    );
    await load([WIDER]);
    expect(await rowsOf(address, BESIDE)).toEqual([besideOf(SMALL)]);
    expect(await rowsOf(address, 'SELECT count(*)::int AS n FROM most')).toEqual([{ n: SMALL - 6 }]);
    // What fits goes on filling the old one.
    await load(['{"id":"later","score":70}', '{"id":"word","score":"70"}', '{"id":"0","score":"none"}']);
    expect(await rowsOf(address, "SELECT id FROM most WHERE id !~ '[0-9]' ORDER BY 1")).toEqual([
      { id: 'later' },
      { id: 'word' },
    ]);
    expect(await rowsOf(address, "SELECT score, score_text FROM content WHERE id = '0'")).toEqual([
      { score: null, score_text: 'none' },
    ]);
    // Wider once more, now without anything on it.
    await load(['{"id":"object","score":{"a":1}}']);
    expect(await rowsOf(address, "SELECT score, score_text FROM content WHERE id IN ('later', 'object')")).toEqual([
      { score: '70', score_text: '70' },
      { score: null, score_text: { a: 1 } },
    ]);
    expect(await rowsOf(address, LEFT_OVER_COLUMNS)).toEqual([]);
  });

  it.each(sampled(SIZES, 2))('lose no constraint on a $size one: the wider column comes beside', async ({ rows }) => {
    const { address, load } = await scoreTable(rows);
    await asOtherClient(address, (client) =>
      client.query('ALTER TABLE content ADD CONSTRAINT low CHECK (score < 1e9)'),
    );
    await load([WIDER]);
    expect(await rowsOf(address, BESIDE)).toEqual([besideOf(rows)]);
    expect(await rowsOf(address, "SELECT conname FROM pg_constraint WHERE conname = 'low'")).toHaveLength(1);
    expect(await rowsOf(address, LEFT_OVER_COLUMNS)).toEqual([]);
  });

  it.each(sampled(SIZES, 2, 1))(
    'do not touch the view of another role on a $size one, and tell of it',
    async ({ size, rows }) => {
      const { address } = await scoreTable(rows);
      const [owner, other] = [`owner_of_${size}_${process.pid}`, `other_of_${size}_${process.pid}`];
      await asOtherClient(address, (client) => client.query(ownedBy(owner, other)));
      const limited = await openWarehouse(address.replace('postgres@', `${owner}@`), systemClock);
      onTestFinished(() => limited.close());
      const { besides } = await loadOnce(limited, [WIDER]);
      expect(besides).toEqual([{ table: 'content', column: 'score', by: `view reports.mine (of ${other})` }]);
      expect(await rowsOf(address, BESIDE)).toEqual([besideOf(rows)]);
      expect(await rowsOf(address, "SELECT viewowner FROM pg_views WHERE viewname = 'mine'")).toEqual([
        { viewowner: other },
      ]);
      expect(await rowsOf(address, 'SELECT count(score)::int AS n FROM reports.mine')).toEqual([{ n: rows }]);
      expect(await rowsOf(address, LEFT_OVER_COLUMNS)).toEqual([]);
    },
  );

  it('F116 take hundreds of new columns with one record', async () => {
    const { address, load } = await scoreTable(SMALL);
    const members = Array.from({ length: 190 }, (_, at) => `"f${at}":${at}`).join(',');
    await load([`{"id":"many",${members}}`]);
    expect(await rowsOf(address, 'SELECT f0, f189 FROM content WHERE f189 IS NOT NULL')).toEqual([
      { f0: '0', f189: '189' },
    ]);
  });

  it('refuse where somebody else has a table of that name', async () => {
    const address = await POSTGRES.address();
    const warehouse = await openWarehouse(address, systemClock);
    onTestFinished(() => warehouse.close());
    await asOtherClient(address, (client) => client.query('CREATE VIEW content AS SELECT 1 AS mine'));
    await expect(loading(warehouse)).rejects.toMatchObject({ name: 'ConfigError', code: 'table_exists' });
    expect(await rowsOf(address, 'SELECT * FROM content')).toEqual([{ mine: 1 }]);
    expect(await rowsOf(address, 'SELECT * FROM _sync_columns')).toEqual([]);
  });

  it('F110 bear names as long as names get, with an index and a key of their own', async () => {
    const address = await POSTGRES.address();
    const warehouse = await openWarehouse(address, systemClock);
    onTestFinished(() => warehouse.close());
    const resource = `a${'b'.repeat(61)}`;
    const lists = ['one', 'two'].map((end) => `"${'l'.repeat(80)}_${end}":["${end}"]`);
    for (const name of [`${resource}c`, `${resource}d`]) {
      const { load } = await loading(warehouse, { resource: name, resources: [`${resource}c`, `${resource}d`] });
      await load([`{"id":"1",${lists.join(',')},"pkey":["p"]}`]);
    }
    const indexes = await rowsOf(address, "SELECT indexname FROM pg_indexes WHERE indexname LIKE '\\_sync\\_deleted%'");
    expect(indexes).toHaveLength(2);
    const keys = await rowsOf(address, "SELECT conname FROM pg_constraint WHERE conname LIKE '\\_sync\\_key%'");
    expect(keys).toHaveLength(8);
  });

  it('say of themselves what they are', async () => {
    const { address, load } = await scoreTable(SMALL);
    await load(['{"id":"more","added":1}']);
    const rows = await rowsOf(
      address,
      `SELECT attname AS name, col_description(attrelid, attnum) AS comment FROM pg_attribute
       WHERE attrelid = 'content'::regclass AND attnum > 0 ORDER BY attname`,
    );
    expect(Object.fromEntries(rows.map(({ name, comment }) => [name, comment]))).toMatchObject({
      id: 'The key of the content record.',
      added: 'Field added of the content record.',
      score: 'Field score of the content record.',
      _synced_at: expect.stringContaining('asked'),
      _deleted_at: expect.stringContaining('no longer'),
    });
    expect(
      await rowsOf(
        address,
        "SELECT obj_description('content_tags'::regclass) AS comment, obj_description('content'::regclass) AS own",
      ),
    ).toEqual([{ comment: expect.stringContaining('Lists'), own: expect.stringContaining('content records') }]);
  });
});

/** How the column that stays and the wider one are filled, and what the view shows. */
const BESIDE = `SELECT count(score)::int AS scores, pg_typeof(max(score))::text AS type,
    count(score_text)::int AS texts, max(score_text) FILTER (WHERE id = 'wider') AS wider, count(rate)::int AS rates,
    (SELECT count(score)::int FROM content_live) AS shown FROM content`;

function besideOf(rows: number): Record<string, unknown> {
  // Nobody was promised a type before the first walk has ended: the view shows the text.
  return { scores: rows, type: 'bigint', texts: rows + 1, wider: 'five', rates: rows + 1, shown: rows + 1 };
}

const LEFT_OVER_COLUMNS = `SELECT attname FROM pg_attribute WHERE attname LIKE '\\_sync\\_wider%' AND NOT attisdropped
  UNION ALL SELECT relname FROM pg_class WHERE relname LIKE '\\_sync\\_wider%'`;

/** Gives a warehouse to `owner`, with a view on it that is `other`'s. */
const ownedBy = (owner: string, other: string): string => `
  CREATE ROLE ${owner} LOGIN; CREATE ROLE ${other}; CREATE SCHEMA reports AUTHORIZATION ${other};
  ALTER SCHEMA blog OWNER TO ${owner}; ALTER SCHEMA content_sync OWNER TO ${owner};
  GRANT USAGE ON SCHEMA blog TO ${other}; GRANT SELECT ON content TO ${other};
  DO $$ DECLARE t record; BEGIN FOR t IN SELECT schemaname, tablename AS name FROM pg_tables
      UNION ALL SELECT schemaname, viewname FROM pg_views LOOP
    IF t.schemaname IN ('blog', 'content_sync') THEN
      EXECUTE format('ALTER TABLE %I.%I OWNER TO ${owner}', t.schemaname, t.name);
    END IF; END LOOP; END $$;
  CREATE VIEW reports.mine AS SELECT score FROM content; ALTER VIEW reports.mine OWNER TO ${other}`;

/** Asks again and again; how long the longest answer took, and what the answers were. */
async function poll(client: Client, signal: AbortSignal): Promise<{ longestMs: number; seen: Set<string> }> {
  const seen = new Set<string>();
  let longestMs = 0;
  while (!signal.aborted) {
    const started = performance.now();
    const { rows } = await client.query<Record<string, unknown>>(SUMS);
    longestMs = Math.max(longestMs, performance.now() - started);
    seen.add(JSON.stringify(rows[0]));
    await sleep(10);
  }
  return { longestMs, seen };
}
