import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
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
});
