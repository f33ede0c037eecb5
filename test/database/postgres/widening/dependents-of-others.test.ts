import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../../src/observe/system-clock.ts';
import { openWarehouse } from '../../../../src/database/databases.ts';
import { loadOnce } from '../../../support/content-loader.ts';
import { rowsOf } from '../../../support/copied-cells.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';
import { scoreTable, SMALL, WIDER } from '../../../support/score-table.ts';

const SCORES = `SELECT count(*)::int AS rows, count(score)::int AS scores, pg_typeof(max(score))::text AS type FROM content`;
const UNCHANGED = { rows: SMALL, scores: SMALL, type: 'bigint' };

describe.skipIf(POSTGRES.missing !== null)('objects of others on tables that widen, on Postgres', () => {
  it.each([
    ['a view', 'CREATE VIEW many AS SELECT id FROM content WHERE score > 5', 'view many (of postgres)'],
    ['a constraint', 'ALTER TABLE content ADD CONSTRAINT low CHECK (score < 1e9)', 'constraint low on table content'],
  ])(
    '%s that cannot follow keeps the column as it is, and records that do not fit are rejected',
    async (_, made, by) => {
      const { address, load } = await scoreTable(SMALL);
      await asOtherClient(address, (client) => client.query(made));
      expect(await load([WIDER])).toMatchObject({ inserted: 0, rejected: 1 });
      expect(await rowsOf(address, SCORES)).toEqual([UNCHANGED]);
      const [reject] = await rowsOf(address, 'SELECT reason, detail FROM _sync_rejects');
      expect(reject).toEqual({ reason: 'contract', detail: expect.stringContaining(`while ${by} depends on it`) });
      // Later records of the run are stored as far as they fit.
      expect(await load(['{"id":"later","score":70}'])).toMatchObject({ inserted: 1, rejected: 0 });
    },
  );

  it('the view of another role on a table is not touched', async () => {
    const { address } = await scoreTable(SMALL);
    const [owner, other] = [`owner_${process.pid}`, `other_${process.pid}`];
    await asOtherClient(address, (client) => client.query(ownedBy(owner, other, 'content')));
    const limited = await openWarehouse(address.replace('postgres@', `${owner}@`), systemClock);
    onTestFinished(() => limited.close());
    await loadOnce(limited, [WIDER]);
    expect(await rowsOf(address, SCORES)).toEqual([UNCHANGED]);
    expect(await rowsOf(address, "SELECT viewowner FROM pg_views WHERE viewname = 'mine'")).toEqual([
      { viewowner: other },
    ]);
    expect(await rowsOf(address, 'SELECT count(score)::int AS n FROM reports.mine')).toEqual([{ n: SMALL }]);
  });

  it('a view of ours on which another role has one keeps its type, the table gets the wider one', async () => {
    const { address } = await scoreTable(SMALL);
    const [owner, other] = [`owner_of_held_${process.pid}`, `other_of_held_${process.pid}`];
    await asOtherClient(address, (client) => client.query(ownedBy(owner, other, 'content_live')));
    const limited = await openWarehouse(address.replace('postgres@', `${owner}@`), systemClock);
    onTestFinished(() => limited.close());
    const { heldViews } = await loadOnce(limited, [WIDER]);
    expect(heldViews).toMatchObject([
      {
        view: 'content_live',
        by: `view reports.mine (of ${other})`,
        columns: [{ name: 'score', type: 'integer', needs: 'text' }, { name: 'rate' }],
      },
    ]);
    expect(
      await rowsOf(
        address,
        `SELECT count(score)::int AS scores, pg_typeof(max(score))::text AS type,
           (SELECT count(score)::int FROM reports.mine) AS mine FROM content_live`,
      ),
    ).toEqual([{ scores: SMALL, type: 'bigint', mine: SMALL }]);
    expect(await rowsOf(address, "SELECT score FROM content WHERE id = 'wider'")).toEqual([{ score: 'five' }]);
  });
});

/** Gives a warehouse to `owner`, with a view on `relation` that is `other`'s. */
const ownedBy = (owner: string, other: string, relation: string): string => `
  CREATE ROLE ${owner} LOGIN; CREATE ROLE ${other}; CREATE SCHEMA reports AUTHORIZATION ${other};
  ALTER SCHEMA blog OWNER TO ${owner}; ALTER SCHEMA content_sync OWNER TO ${owner};
  GRANT USAGE ON SCHEMA blog TO ${other}; GRANT SELECT ON ${relation} TO ${other};
  DO $$ DECLARE t record; BEGIN FOR t IN SELECT schemaname, tablename AS name FROM pg_tables
      UNION ALL SELECT schemaname, viewname FROM pg_views LOOP
    IF t.schemaname IN ('blog', 'content_sync') THEN
      EXECUTE format('ALTER TABLE %I.%I OWNER TO ${owner}', t.schemaname, t.name);
    END IF; END LOOP; END $$;
  CREATE VIEW reports.mine AS SELECT score FROM ${relation}; ALTER VIEW reports.mine OWNER TO ${other}`;
