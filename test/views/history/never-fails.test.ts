import { describe, expect, it } from 'vitest';
import { ask } from '../../support/asking.ts';
import { jsonSuite, naughtyStrings } from '../../support/corpora.ts';
import { DATABASES } from '../../support/databases.ts';
import { ownService, type OwnService } from '../../support/own-service.ts';

/** What no record of ours is stored as, and people or another program may have put there all the same. */
const STRANGE = [
  '',
  'no json',
  '{',
  '{"at":',
  '[]',
  'null',
  '"text"',
  '12',
  '[[1],{"at":2}]',
  `${'['.repeat(5_000)}${']'.repeat(5_000)}`,
  `{"at":${'{"at":'.repeat(3_000)}1${'}'.repeat(3_000)}}`,
  '{"words":1e999999,"at":1e-999999,"n":1e400}',
  String.raw`{"words":"\ud800","n":"\u0000","at":"2024-01-01T00:00:00+99:00"}`,
  `{"words":"${'x'.repeat(30_000)}\\ud800","n":${'9'.repeat(40)}.${'9'.repeat(40)}}`,
  '{"at":"2024-02-30T00:00:00Z","day":"2024-02-30","n":"12","flag":"true"}',
  '{"at":"0000-00-00T00:00:00Z","day":"0000-01-01","n":[1],"flag":{}}',
  '{"at":"9999-12-31T23:59:59-23:59","day":20240101,"n":9223372036854775808,"flag":1}',
  '{"at":{"words":[]},"day":[],"list":{"a":1}}',
  '{"at":"２０２４-01-01T00:00:00Z","day":"2024-1-1"}',
];
const PLAIN =
  '{"id":"1","at":"2024-01-01T00:00:00Z","day":"2024-01-01","n":1,"d":1.5,"flag":true,"words":"x","list":[1]}';
const NUMERIC = '{"id":"2","big":1.234567890123456789012345}';

async function copied(database: (typeof DATABASES)[number], sent: readonly string[]): Promise<OwnService> {
  const fields = { updated: null, incremental: null, item: null, history: 'all', state: 'words' };
  const stage = await ownService(database, fields, () => ({ body: `{"data":[${sent.join(',')}],"next_cursor":null}` }));
  expect(await stage.run('backfill')).not.toMatchObject({ status: 'failed' });
  return stage;
}

/** Reads all columns of all views, and how many rows each has. */
async function readAll(address: string): Promise<number[]> {
  const counts: number[] = [];
  for (const view of ['report_history', 'report_changes', 'report_states']) {
    counts.push((await ask(address, `SELECT * FROM ${view}`)).length);
  }
  return counts;
}

function valuesOf(version: number): string {
  return `('report', ?, ${version}, '2024-01-0${version}', 'upsert', 'x', ?)`;
}

describe.for(DATABASES)('the views of history on $name', (database) => {
  it('never fail, whatever stands in a body', async () => {
    const stage = await copied(database, [PLAIN, NUMERIC]);
    const suite = [...jsonSuite('test_parsing').values()].map((bytes) => bytes.toString());
    const bodies = [...STRANGE, ...suite].map((body) => body.replaceAll('\0', ''));
    // Each as a first version, with a usual one behind it.
    const rows = bodies.flatMap((body, at) => [`s${at}`, body, `s${at}`, PLAIN]);
    await stage.write(
      `INSERT INTO _sync_versions (resource, id, version, valid_from, op, hash, body)
       VALUES ${bodies.map(() => `${valuesOf(1)}, ${valuesOf(2)}`).join(', ')}`,
      ...rows,
    );
    const [history, changes] = await readAll(stage.address);
    expect(history).toBe(2 + 2 * bodies.length);
    expect(changes).toBeGreaterThan(bodies.length);
    const odd = await ask(
      stage.address,
      `SELECT id, at, day, flag, list FROM report_history WHERE version = 1 AND id LIKE 's%'`,
    );
    const last = STRANGE.indexOf('{"at":{"words":[]},"day":[],"list":{"a":1}}');
    expect(odd.find(({ id }) => id === `s${last}`)).toMatchObject({ at: null, day: null, flag: null, list: null });
  });

  it('hold strings that break software as the view of live rows does', async () => {
    const strings = naughtyStrings();
    const sent = strings.map((text, at) => JSON.stringify({ id: `n${at}`, words: text, of: { list: [text] } }));
    const { address } = await copied(database, sent);
    const live = await ask(address, 'SELECT id, words FROM report_live ORDER BY id');
    expect(live).toHaveLength(strings.length);
    expect(await ask(address, 'SELECT id, words FROM report_history ORDER BY id')).toEqual(live);
  });
});
