import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { shadowColumn } from '../../src/warehouse/postgres/widening/widening.ts';
import { startScript } from '../support/child-script.ts';
import { rowsOf } from '../support/copied-cells.ts';
import { asOtherClient, POSTGRES } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { freshSeed, randomFrom } from '../support/random.ts';
import { BIG, LEFT_OVER, scoreTable, SUMS, sumsOf, WIDER } from '../support/score-table.ts';

const SCRIPT = new URL('widening-child.ts', import.meta.url);
const KILLS = longOrShort(6, 1);
/** About as long as the widening takes here. */
const LONGEST_MS = 1_200;

/** What the columns are, and what the catalog takes them for: as of one moment. */
const STATE = `SELECT
  ARRAY(SELECT format_type(atttypid, NULL) FROM pg_attribute
    WHERE attrelid = 'content'::regclass AND attname IN ('score', 'rate') ORDER BY attname) AS types,
  ARRAY(SELECT type FROM _sync_columns WHERE column_name IN ('score', 'rate') ORDER BY column_name) AS catalog`;
const NARROW = { types: ['double precision', 'bigint'], catalog: ['double', 'integer'] };
const WIDE = { types: ['text', 'text'], catalog: ['text', 'text'] };

describe.skipIf(POSTGRES.missing !== null)('the widening of a big table on Postgres', () => {
  it('F118 leaves a whole table wherever it is killed, and the next one finishes it', async () => {
    const seed = freshSeed();
    const random = randomFrom(seed);
    const { address, load } = await scoreTable(BIG);
    await asOtherClient(address, (client) => client.query('CREATE INDEX by_score ON content (score)'));
    for (let kill = 0; kill < KILLS; kill += 1) {
      const { child, ready, ended } = startScript(SCRIPT, [address, WIDER]);
      await ready;
      await sleep(random.whole(0, LONGEST_MS));
      child.kill('SIGKILL');
      await ended;
      const [sums] = await rowsOf(address, SUMS);
      const isLoaded = Number(sums?.['rows']) > BIG;
      expect({ seed, kill, sums }).toEqual({ seed, kill, sums: sumsOf(BIG, isLoaded ? 1 : 0) });
      expect([NARROW, WIDE]).toContainEqual((await rowsOf(address, STATE))[0]);
    }
    await load([WIDER]);
    expect(await rowsOf(address, SUMS)).toEqual([sumsOf(BIG, 1)]);
    expect(await rowsOf(address, STATE)).toEqual([WIDE]);
    expect(await rowsOf(address, "SELECT indexdef FROM pg_indexes WHERE indexname = 'by_score'")).toHaveLength(1);
    expect(await rowsOf(address, LEFT_OVER)).toEqual([]);
  });

  it('F118 beside a column that others keep from widening is whole too wherever it is killed', async () => {
    const seed = freshSeed();
    const random = randomFrom(seed);
    const { address, load } = await scoreTable(BIG);
    await asOtherClient(address, (client) =>
      client.query('CREATE VIEW high AS SELECT id FROM content WHERE score > 5'),
    );
    for (let kill = 0; kill < KILLS; kill += 1) {
      const { child, ready, ended } = startScript(SCRIPT, [address, WIDER]);
      await ready;
      await sleep(random.whole(0, LONGEST_MS));
      child.kill('SIGKILL');
      await ended;
      const [high] = await rowsOf(address, 'SELECT count(*)::int AS n FROM high');
      expect({ seed, kill, high }).toEqual({ seed, kill, high: { n: BIG - 6 } });
    }
    await load([WIDER]);
    expect(
      await rowsOf(address, 'SELECT count(score)::int AS scores, count(score_text)::int AS texts FROM content'),
    ).toEqual([{ scores: BIG, texts: BIG + 1 }]);
    const columns = await rowsOf(
      address,
      "SELECT column_name || ' ' || role || ' ' || type AS is FROM _sync_columns WHERE column_name LIKE 'score%' ORDER BY 1",
    );
    expect(columns).toEqual([{ is: 'score kept integer' }, { is: 'score_text source text' }]);
    expect(
      await rowsOf(
        address,
        "SELECT attname FROM pg_attribute WHERE attname LIKE '\\_sync\\_wider%' AND NOT attisdropped",
      ),
    ).toEqual([]);
  });

  it('fills again what another process has written since an earlier try, and clears away what nobody wants', async () => {
    const { address, load } = await scoreTable(BIG);
    const [score, rate] = (['integer', 'double'] as const).map((from) => {
      const name = from === 'integer' ? 'score' : 'rate';
      return shadowColumn({ column: { name, path: [name], type: 'text' }, from, source: name });
    });
    await asOtherClient(address, async (client) => {
      await client.query(
        `ALTER TABLE content ADD COLUMN "${score}" text, ADD COLUMN "${rate}" text, ADD COLUMN _sync_wider_other text`,
      );
      await client.query(`UPDATE content SET "${score}" = 'stale', "${rate}" = 'stale' WHERE id < '5'`);
    });
    await load([WIDER]);
    expect(await rowsOf(address, SUMS)).toEqual([sumsOf(BIG, 1)]);
    expect(await rowsOf(address, "SELECT 1 FROM content WHERE 'stale' IN (score, rate)")).toEqual([]);
    expect(await rowsOf(address, LEFT_OVER)).toEqual([]);
  });

  it('stops at once where another process has taken the resource over', async () => {
    const { address, load } = await scoreTable(BIG);
    const loaded = load([WIDER]).then(
      () => 'loaded',
      (error: unknown) => error,
    );
    await asOtherClient(address, async (client) => {
      for (;;) {
        const { rows } = await client.query(`${LEFT_OVER} LIMIT 1`);
        if (rows.length > 0) break;
        await sleep(2);
      }
      await client.query("UPDATE _sync_leases SET token = token + 1 WHERE name = 'content'");
    });
    expect(await loaded).toMatchObject({ code: 'lease_lost' });
    expect(await rowsOf(address, STATE)).toEqual([NARROW]);
    expect(await rowsOf(address, SUMS)).toEqual([sumsOf(BIG)]);
  });
});
