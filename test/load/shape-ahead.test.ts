import { describe, expect, it, onTestFinished } from 'vitest';
import { openPageLoader, type PageLoader } from '../../src/load/page-loader.ts';
import type { LoadablePage } from '../../src/load/prepare-page.ts';
import { shapeAhead } from '../../src/load/shape-ahead.ts';
import { fieldAt } from '../../src/shape/records/field-at.ts';
import { parseAround, readRest, unreadOf } from '../../src/shape/json/parse-body.ts';
import { roughDigits } from '../../src/shape/json/json-size.ts';
import { parseJson } from '../../src/shape/json/parse-json.ts';
import { selectRecords } from '../../src/shape/records/select-records.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/state/owned-resource.ts';
import { pageThreads } from '../../src/warehouse/page-thread/thread-budget.ts';
import type { Warehouse } from '../../src/warehouse/warehouse.ts';
import { POSTGRES, warehouseOn } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { profilesFor, profileWith, type ProfileChoice } from '../support/page-records.ts';
import { freshSeed, randomFrom, type Random } from '../support/random.ts';

/** So many are worth a thread. */
const LARGE = 110;

/** A first walk of one listing, whose bodies come and are loaded as those of `walk`; `threads`: 0 for none. */
async function firstWalk(threads: number, profile: ProfileChoice, watched = (warehouse: Warehouse) => warehouse) {
  const most = pageThreads.most;
  pageThreads.most = threads;
  onTestFinished(() => void (pageThreads.most = most));
  const { warehouse: real, rows, write } = await warehouseOn(POSTGRES);
  let shaped = 0;
  const { shaper } = real;
  if (shaper === null) throw new Error('Postgres has a shaper');
  const warehouse = watched({
    ...real,
    shaper: {
      shape: async (...asked) => {
        const body = await shaper.shape(...asked);
        if (body !== null) shaped += 1;
        return body;
      },
    },
  });
  const owned = await ownResources(warehouse, systemClock).acquire('content');
  onTestFinished(() => owned.release());
  const context = {
    warehouse,
    owned,
    ...profilesFor(profileWith(profile)),
    runId: 'run',
    clock: systemClock,
    signal: new AbortController().signal,
  };
  const loader = await openPageLoader(context, { acceptsOlder: false }, { isFirstWalk: true });
  /** A body as it is after its page's turn has come. */
  const come = async (texts: readonly string[], at: number): Promise<LoadablePage> => pageOf(loader, texts, at);
  const load = async (page: LoadablePage) => {
    loader.prepare(page);
    return loader.load(page, () => []);
  };
  return { come, load, rows, write, shaped: () => shaped };
}

/** Short bodies may lie in one memory, one behind the other. */
const memory = { whole: Buffer.alloc(2 ** 20), end: 0 };

function bodyOf(text: string): Buffer {
  const { length } = Buffer.from(text);
  if (memory.end + length > memory.whole.length) Object.assign(memory, { whole: Buffer.alloc(2 ** 20), end: 0 });
  const bytes = memory.whole.subarray(memory.end, memory.end + length);
  bytes.write(text);
  memory.end += length;
  return bytes;
}

async function pageOf({ known }: PageLoader, texts: readonly string[], requestedAt: number): Promise<LoadablePage> {
  const bytes = bodyOf(`{"data":[${texts.join(',')}]}`);
  const around = parseAround(bytes, roughDigits(bytes));
  const unread = around === null ? null : unreadOf(fieldAt(around, 'data'));
  const elements = unread === null ? [] : ((await known?.recognise(unread, requestedAt)) ?? []);
  const isRead = unread !== null && readRest(unread, elements);
  const records = selectRecords(bytes, isRead && around !== null ? around : parseJson(bytes.toString()), 'data');
  if (records === null) throw new Error('a page without records');
  return { records, requestedAt };
}

const TABLES = ['content', 'content_tags', 'content_links', '_sync_versions', '_sync_rejects', '_sync_columns'];

/** Columns with what differs by nature. */
const OTHER = new Set(['run_id', 'first_seen']);

const asText = (value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);

/** All that a walk has left, without what differs by nature: when it was first seen, and in which run. */
async function left({ rows }: Pick<Awaited<ReturnType<typeof firstWalk>>, 'rows'>): Promise<Record<string, unknown>> {
  const tables = await Promise.all(
    TABLES.map(async (table) => {
      const found = await rows(`SELECT * FROM ${table}`);
      const alike = found.map((row) => JSON.stringify(row, (name, value) => (OTHER.has(name) ? null : asText(value))));
      return [table, alike.toSorted()] as const;
    }),
  );
  return Object.fromEntries(tables);
}

const day = (random: Random): string => `20${random.whole(10, 26)}-0${random.whole(1, 9)}-1${random.whole(0, 9)}`;

/** Values that one field of a listing may have: mostly those that it had before. */
const VALUES: Readonly<Record<string, (random: Random) => string>> = {
  title: (random) => JSON.stringify(random.pick(['a', 'ä ß €', '𝄞', 'tab\there', 'x'.repeat(300), ''])),
  count: (random) => random.pick(['0', '-0', '17', '-3', '9007199254740993', '4503599627370497']),
  ratio: (random) => random.pick(['0.5', '1e3', '-2.25', '0.1234567890123456789']),
  is_open: (random) => random.pick(['true', 'false', 'null']),
  on: (random) => JSON.stringify(day(random)),
  at: (random) => JSON.stringify(`${day(random)}T0${random.whole(0, 9)}:00:00${random.pick(['Z', '.125Z', '+02:00'])}`),
  tags: (random) => JSON.stringify(random.pick([[], ['a'], ['a', 'b', 'a']])),
  links: (random) => JSON.stringify(random.pick([[], [{ to: 'x', n: 1 }], [{ to: 'y' }, { n: 2 }]])),
  by: (random) => JSON.stringify({ id: random.whole(1, 9), name: 'Zoë' }),
};

/** What comes now and then: other types, new fields, and what cannot be a row. */
const RARE: readonly ((id: string, random: Random) => string)[] = [
  (id) => `{"id":"${id}","title":7}`,
  (id) => `{"id":"${id}","count":1.5}`,
  (id) => `{"id":"${id}","on":"soon"}`,
  (id, random) => `{"id":"${id}","new_${random.whole(1, 3)}":true}`,
  (id) => `{"id":"${id}","title":"\\u0000 \\ud800"}`,
  () => '{"title":"no key"}',
  () => '{"id":null}',
  (id) => `{"id":"${id}","title":"one"},{"id":"${id}","title":"two"}`,
  (id) => `{"id":"${id}","deep":${'['.repeat(120)}${']'.repeat(120)}}`,
];

function recordText(id: string, random: Random): string {
  const fields = Object.entries(VALUES).filter(() => random.chance(0.8));
  const members = fields.map(([name, value]) => `"${name}":${value(random)}`);
  return `{${[`"id":"${id}"`, `"updated_at":"${day(random)}T10:00:00Z"`, ...members].join(',')}}`;
}

/** Pages of a listing; `rare`: how many of them have something that is. */
function pagesOf(random: Random, count: number, rare: number): string[][] {
  return Array.from({ length: count }, (_, page) => {
    // Of some a thread makes several parts, which end up in one COPY.
    const size = random.pick([LARGE, LARGE, 128, 129, 300]);
    const texts = Array.from({ length: size }, (__, at) => recordText(`${page}-${at}`, random));
    if (random.chance(rare)) texts.splice(random.whole(0, size - 1), 0, random.pick(RARE)(`${page}-x`, random));
    // A record that has moved on to this page.
    if (page > 0 && random.chance(rare / 2)) texts.push(recordText(`${page - 1}-0`, random));
    return texts;
  });
}

/** A large page of plain records. */
const plain = (page: number): string[] =>
  Array.from({ length: LARGE }, (_, at) => `{"id":"${page}-${at}","n":${at},"tags":["${page}","b"]}`);

/** A walk that has the thread by now. */
async function begun(watched?: (warehouse: Warehouse) => Warehouse) {
  const walk = await firstWalk(1, { history: 'all' }, watched);
  for (const at of [0, 1, 2]) await walk.load(await walk.come(plain(at), 1_000 + at));
  const counts = () =>
    walk.rows(`SELECT (SELECT count(*) FROM content) AS records, (SELECT count(*) FROM content_tags) AS tags,
      (SELECT count(*) FROM _sync_versions) AS versions`);
  return { ...walk, counts };
}

describe.skipIf(POSTGRES.missing !== null)('pages of a first walk whose records are read in a thread', () => {
  const seed = freshSeed();

  it.each(
    (['all', 'none'] as const).flatMap((history) =>
      Array.from({ length: longOrShort(20, 2) }, (_, at) => ({ history, seed: seed + at })),
    ),
  )('leave what they leave without one: history $history, SEED=$seed', async ({ history, seed: drawn }) => {
    const profile = { history, updated: 'updated_at' };
    const [with1, without] = [await firstWalk(1, profile), await firstWalk(0, profile)];
    for (const walk of [with1, without]) {
      pageThreads.most = walk === with1 ? 1 : 0;
      const pages = pagesOf(randomFrom(drawn), 12, 0.4);
      // Two are ahead of the one that is loaded, as in a walk: what they rest on may change until it is their turn.
      const ahead: Promise<LoadablePage>[] = [];
      for (const [at, texts] of [...pages, [], []].entries()) {
        if (texts.length > 0) ahead.push(walk.come(texts, 1_700_000_000_000 + at));
        const next = at < 2 ? undefined : ahead.shift();
        if (next !== undefined) await walk.load(await next);
      }
    }
    expect(with1.shaped()).toBeGreaterThan(0);
    expect(without.shaped()).toBe(0);
    const rows = await left(with1);
    expect(rows).toEqual(await left(without));
    expect(rows['content']).toHaveLength(Number((await with1.rows('SELECT count(*) AS n FROM content'))[0]?.['n']));
  });

  it('are written together if they are small and have come meanwhile', async () => {
    const { come, load, shaped, counts } = await begun();
    const before = shaped();
    const parts = [await come(plain(3), 2_000), await come(plain(4), 2_001)];
    const both = { records: parts.flatMap(({ records }) => records), requestedAt: 2_000 };
    expect(await load(both)).toMatchObject({ records: 2 * LARGE, inserted: 2 * LARGE });
    expect(shaped() - before).toBe(2);
    const all = BigInt(5 * LARGE);
    expect(await counts()).toEqual([{ records: all, tags: 2n * all, versions: all }]);
  });

  it('are written over what somebody else has written just then', async () => {
    let insert: (() => Promise<unknown>) | null = null;
    const { come, load, write, rows, counts } = await begun((warehouse) => ({
      ...warehouse,
      commit: async (page) => {
        await insert?.();
        insert = null;
        return warehouse.commit(page);
      },
    }));
    const page = await come(plain(3), 2_000);
    const old = `INSERT INTO content (id, n, _hash, _version, _synced_at) VALUES ('3-7', 0, '', 1, '1970-01-01')`;
    insert = () => write(old).then(() => write(`INSERT INTO content_tags VALUES ('3-7', 5, 'stray')`));
    expect(await load(page)).toMatchObject({ inserted: LARGE });
    expect(await rows(`SELECT n, _version FROM content WHERE id = '3-7'`)).toEqual([{ n: 7n, _version: 1n }]);
    const all = BigInt(4 * LARGE);
    expect(await counts()).toEqual([{ records: all, tags: 2n * all, versions: all }]);
  });

  it.each<[string, ProfileChoice]>([
    ['a page begins with the last record of the one before', { page: { style: 'offset', size: 100 } }],
    ['some are left out', { filter: [{ field: 'kind', in: ['post'] }] }],
    ['their key has several parts', { id: ['a', 'b'] }],
  ])('are read here where %s', async (_, choice) => {
    const { warehouse } = await warehouseOn(POSTGRES);
    const owned = await ownResources(warehouse, systemClock).acquire('content');
    onTestFinished(() => owned.release());
    const profile = profilesFor(profileWith(choice));
    const { signal } = new AbortController();
    expect(shapeAhead({ warehouse, owned, ...profile, runId: 'run', clock: systemClock, signal })).toBeNull();
  });
});
