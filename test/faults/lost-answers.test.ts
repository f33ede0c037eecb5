import { describe, expect, it } from 'vitest';
import { longOrShort } from '../support/length.ts';
import { releaseDeletes } from '../../src/database/state/suspects.ts';
import { POSTGRES, postgresAt, preparedPostgres } from '../support/databases.ts';
import { flakyProxy } from '../support/flaky-proxy.ts';
import { smallStage } from '../support/small-stage.ts';

/** What is done in one round, with an answer of the server's lost on the way. */
interface LossyRounds {
  /** One round; the answer of this number is lost, and its connection. Returns how many answers there were. */
  round: (lost: number) => Promise<number>;
}

/**
 * A small copy on Postgres. A round of it is a whole walk that finds one record new, one changed and one gone, whose
 * delete is held; and a person's word that lets it go on. At the end of each all is looked at.
 */
async function lossyRounds(): Promise<LossyRounds> {
  const url = await preparedPostgres();
  let [answers, lost] = [0, Infinity];
  const proxy = await flakyProxy(url, ({ letter }) => letter === 'Z' && (answers += 1) === lost);
  const database = postgresAt(url, proxy.through);
  const stage = await smallStage({}, {}, { database, source: { deletes: { max_rows: 0 } } });
  const { service } = stage;
  for (let id = 0; id < 25; id += 1) service.put(`old${id}`);
  await stage.walk('backfill');
  let rounds = 0;

  async function confirmed(): Promise<number> {
    const app = await stage.open();
    try {
      await app.warehouse.apply(releaseDeletes(app.warehouse.own, 'content', []));
      return (await app.confirmReleased('content', new AbortController().signal)).deleted;
    } finally {
      await app.close();
    }
  }

  return {
    round: async (number) => {
      rounds += 1;
      service.put(`new${rounds}`);
      service.put('old1', { title: `changed ${rounds}` });
      service.records.delete(rounds === 1 ? 'old0' : `new${rounds - 1}`);
      [answers, lost] = [0, number];
      const cuts = proxy.cuts();
      const done = { inserted: 1, updated: 1, deleted: 0, held: 1 };
      expect(await stage.walk('backfill')).toMatchObject({ status: 'partial', ...done });
      expect(await confirmed()).toBe(1);
      lost = Infinity;
      expect(await stage.unlike()).toEqual([]);
      expect(proxy.cuts() - cuts).toBe(number <= answers ? 1 : 0);
      const kept = await stage.read((db) => ({
        run: db
          .prepare('SELECT status, inserted, updated, held FROM _sync_runs ORDER BY started_at DESC LIMIT 1')
          .get(),
        runs: db.prepare('SELECT count(*) FROM _sync_runs').pluck().get(),
        suspects: db.prepare("SELECT count(*) FROM _sync_suspects WHERE state <> 'settled'").pluck().get(),
        versions: db.prepare("SELECT max(version) FROM _sync_versions WHERE id = 'old1'").pluck().get(),
      }));
      const run = { status: 'partial', inserted: 1, updated: 1, held: 1 };
      expect(kept).toEqual({ run, runs: rounds + 1, suspects: 0, versions: rounds + 1 });
      return answers;
    },
  };
}

const MISSING = POSTGRES.missing;

/** Parts of a round; the long form loses every answer once. */
const PLACES = [0.3, 0.5, 0.7, 0.9];

describe.skipIf(MISSING !== null)('pages, deletes, releases and run records on Postgres', () => {
  it('are written once where an answer of the server is lost', async () => {
    const { round } = await lossyRounds();
    const all = await round(Infinity);
    expect(all).toBeGreaterThan(50);
    const some = PLACES.map((place) => Math.round(place * all));
    for (const lost of longOrShort(
      Array.from({ length: all }, (_, at) => at + 1),
      some,
    ))
      await round(lost);
  });
});
