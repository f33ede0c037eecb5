import { describe, expect, it, onTestFinished } from 'vitest';
import { openPageLoader, type PageLoader } from '../../src/load/page-loader.ts';
import type { LoadablePage } from '../../src/load/prepare-page.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/state/owned-resource.ts';
import type { Warehouse } from '../../src/warehouse/warehouse.ts';
import { asOtherClient, DATABASES, POSTGRES, warehouseOn, type TestDatabase } from '../support/databases.ts';
import { profilesFor, profileWith, recordsOf } from '../support/page-records.ts';

/** A walk's loader, and one of a re-fetch; how far each page has come is noted. */
async function stageOn(database: TestDatabase, isFirstWalk = true) {
  const { warehouse, rows, write, address } = await warehouseOn(database);
  const owned = await ownResources(warehouse, systemClock).acquire('content');
  onTestFinished(() => owned.release());
  const noted: string[] = [];
  let pages = 0;
  const watched: Warehouse = {
    ...warehouse,
    commit: (page) => {
      const name = String((pages += 1));
      noted.push(`sent ${name}`);
      const commit = warehouse.commit(page);
      void commit.then(
        () => noted.push(`done ${name}`),
        () => noted.push(`failed ${name}`),
      );
      return commit;
    },
  };
  const context = {
    warehouse: watched,
    owned,
    ...profilesFor(profileWith({ history: 'all' })),
    runId: 'run',
    clock: systemClock,
    signal: new AbortController().signal,
  };
  const open = (isFirst: boolean): Promise<PageLoader> =>
    openPageLoader(context, { acceptsOlder: true }, { isFirstWalk: isFirst });
  const walk = await open(isFirstWalk);
  /** Sends the pages as a walk does; the answers, and what was noted since. */
  const walked = async (...all: readonly LoadablePage[]) => {
    noted.length = 0;
    const answers: Promise<unknown>[] = [];
    for (const each of all) {
      walk.prepare(each);
      const { sent, answered } = walk.send(each, () => []);
      answers.push(answered);
      await sent.catch(() => undefined);
    }
    return { ended: await Promise.allSettled(answers), noted: [...noted] };
  };
  const standing = () => rows('SELECT id, n, _version FROM content ORDER BY 1');
  return { owned, walk, refetch: await open(false), walked, standing, rows, write, address };
}

let moment = 1_000;

function page(isNew: boolean, ...texts: string[]): LoadablePage {
  return { records: recordsOf(texts), requestedAt: (moment += 1_000), isNew };
}

const row = (id: string, n: bigint, version: bigint) => ({ id, n, _version: version });
const BEGUN = page(true, '{"id":"0","n":0}');

describe.for(DATABASES)('pages that are sent, on $name', (database) => {
  it('are each there once, in their order', async () => {
    const { walked, standing, owned } = await stageOn(database);
    await walked(BEGUN);
    const { ended, noted } = await walked(
      page(true, '{"id":"1","n":1}'),
      page(true, '{"id":"2","n":2}'),
      page(true, '{"id":"3","n":3}'),
    );
    expect(ended.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
    expect(noted.filter((note) => note.startsWith('done'))).toEqual(['done 2', 'done 3', 'done 4']);
    expect(await standing()).toEqual([row('0', 0n, 1n), row('1', 1n, 1n), row('2', 2n, 1n), row('3', 3n, 1n)]);
    expect(owned.oldestTurn).toBe(owned.turns);
  });

  it('wait for each other where they share a record, or the tables grow', async () => {
    const { walked, standing } = await stageOn(database, false);
    await walked(BEGUN);
    const { ended, noted } = await walked(
      page(false, '{"id":"1","n":1}'),
      page(false, '{"id":"1","n":2}'),
      page(false, '{"id":"2","n":3,"more":1}'),
      page(false, '{"id":"3","n":4,"more":2}'),
    );
    expect(ended.map(({ status }) => status)).toEqual(Array.from({ length: 4 }, () => 'fulfilled'));
    expect(noted.slice(0, 6)).toEqual(['sent 2', 'done 2', 'sent 3', 'done 3', 'sent 4', 'done 4']);
    expect((await standing()).slice(1)).toEqual([row('1', 2n, 2n), row('2', 3n, 1n), row('3', 4n, 1n)]);
  });

  it('are seen whole by whoever writes next', async () => {
    const { walk, refetch, walked, standing } = await stageOn(database);
    await walked(BEGUN);
    const first = page(true, '{"id":"1","n":1}');
    walk.prepare(first);
    const { answered } = walk.send(first, () => []);
    const again = refetch.load(page(false, '{"id":"1","n":2}'), () => []);
    expect(await Promise.all([answered, again])).toMatchObject([{ inserted: 1 }, { updated: 1 }]);
    expect((await standing()).slice(1)).toEqual([row('1', 2n, 2n)]);
  });
});

describe.skipIf(POSTGRES.missing !== null)('pages that are sent on postgres', () => {
  it('are sent before the one before is answered', async () => {
    const { walk, walked, standing, address } = await stageOn(POSTGRES);
    await walked(BEGUN);
    await asOtherClient(address, async (client) => {
      await client.query('BEGIN; LOCK TABLE content IN SHARE MODE');
      const pages = [page(true, '{"id":"1","n":1}'), page(true, '{"id":"2","n":2}')];
      for (const each of pages) walk.prepare(each);
      const turns = pages.map((each) => walk.send(each, () => []));
      await Promise.all(turns.map(({ sent }) => sent));
      await client.query('COMMIT');
      await Promise.all(turns.map(({ answered }) => answered));
    });
    expect((await standing()).slice(1)).toEqual([row('1', 1n, 1n), row('2', 2n, 1n)]);
  });

  it('fail with the one before, and what follows them as well', async () => {
    const { walk, walked, standing, write } = await stageOn(POSTGRES);
    await walked(BEGUN);
    await write('ALTER TABLE content ADD CHECK (n < 10)');
    const failing = await walked(page(true, '{"id":"1","n":11}'), page(true, '{"id":"2","n":2}'));
    expect(failing.ended).toMatchObject([{ reason: { code: '23514' } }, { reason: { code: '23514' } }]);
    // Nothing of the walk may come behind the gap.
    const last = page(true, '{"id":"3","n":3}');
    await expect(walk.load(last, () => [])).rejects.toMatchObject({ code: '23514' });
    expect(await standing()).toEqual([row('0', 0n, 1n)]);
  });

  it('are not sent behind one that sets a record aside', async () => {
    const { walked, rows } = await stageOn(POSTGRES);
    await walked(BEGUN);
    const { noted } = await walked(page(true, '{"id":"1","n":1}', '{"n":5}'), page(true, '{"id":"2","n":2}'));
    expect(noted).toEqual(['sent 2', 'done 2', 'sent 3', 'done 3']);
    expect(await rows('SELECT count(*) AS n FROM _sync_rejects')).toEqual([{ n: 1n }]);
  });
});
