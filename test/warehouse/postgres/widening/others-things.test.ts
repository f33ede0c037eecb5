import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { openWarehouse } from '../../../../src/warehouse/databases.ts';
import { loadOnce } from '../../../support/content-loader.ts';
import { rowsOf } from '../../../support/copied-cells.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';
import { sampled } from '../../../support/length.ts';
import { BIG, scoreTable, SMALL, WIDER } from '../../../support/score-table.ts';

const SIZES = [
  { size: 'small', rows: SMALL },
  { size: 'big', rows: BIG },
] as const;

describe.skipIf(POSTGRES.missing !== null)('tables that grow under what others made on Postgres', () => {
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

  it('keep the type that a view of ours shows where somebody else has one on it', async () => {
    const { address } = await scoreTable(SMALL);
    const [owner, other] = [`owner_of_held_${process.pid}`, `other_of_held_${process.pid}`];
    const onView = `${ownedBy(owner, other).replace('AS SELECT score FROM content;', 'AS SELECT score FROM content_live;')};
      GRANT SELECT ON content_live TO ${other}`;
    await asOtherClient(address, (client) => client.query(onView));
    const limited = await openWarehouse(address.replace('postgres@', `${owner}@`), systemClock);
    onTestFinished(() => limited.close());
    expect(await loadOnce(limited, [WIDER])).toEqual({ besides: [] });
    expect(
      await rowsOf(
        address,
        `SELECT count(score)::int AS scores, count(score_text)::int AS texts, pg_typeof(max(score))::text AS type,
           (SELECT count(score)::int FROM reports.mine) AS mine FROM content_live`,
      ),
    ).toEqual([{ scores: SMALL, texts: SMALL + 1, type: 'bigint', mine: SMALL }]);
    // The table itself has widened.
    expect(await rowsOf(address, "SELECT score FROM content WHERE id = 'wider'")).toEqual([{ score: 'five' }]);
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
