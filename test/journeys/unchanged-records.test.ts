import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { sampled } from '../support/length.ts';
import { ownService } from '../support/own-service.ts';
import { freshSeed, type Random, randomFrom } from '../support/random.ts';

const SIZE = 100;
const WALKS = 5;

/** A record as its service keeps it, and how it writes it. */
interface Kept {
  id: string;
  title: string;
  updated_at: string;
  list: { id: string }[];
  style: number;
}

/** Texts that look like the seams between records, and are none. */
const TITLES = ['plain', '},{"id":"1"', '{"id":"2","by":{"id":"3"}},', 'é🙂', '\\', '"},{"', 'x'.repeat(300)];

/** The ways in which a record may be written: other spacing, other order, a key that comes twice, a number with many digits. */
const STYLES: readonly ((record: Kept) => string)[] = [
  ({ id, title, updated_at, list }) => JSON.stringify({ id, title, by: { id: 'x' }, updated_at, list }),
  ({ id, title, updated_at, list }) =>
    JSON.stringify({ by: { id: '1', updated_at: '2020-01-01T00:00:00Z' }, id, title, updated_at, list }),
  ({ id, title, updated_at, list }) => JSON.stringify({ id, title, updated_at, list }, null, 1),
  ({ id, title, updated_at, list }) => `{"id":"0",${JSON.stringify({ id, title, updated_at, list }).slice(1)}`,
  ({ id, title, updated_at, list }) =>
    `{"n":12345678901234567890.5,${JSON.stringify({ id, title, updated_at, list }).slice(1)}`,
];

function changed(random: Random, id: string, walk: number): Kept {
  return {
    id,
    title: `${random.pick(TITLES)} ${random.whole(0, 9)}`,
    updated_at: `2026-11-${10 + walk}T12:00:${String(random.whole(10, 59))}Z`,
    list: Array.from({ length: random.whole(0, 3) }, (_, at) => ({ id: String(at) })),
    style: random.chance(0.8) ? 0 : random.whole(0, STYLES.length - 1),
  };
}

/** What the service holds, changed a little before each walk. */
function change(random: Random, records: Map<string, Kept>, walk: number): void {
  for (const [id, record] of records) {
    const drawn = random.next();
    // The same in other letters, or another state under the same time of change.
    if (drawn < 0.02) records.set(id, { ...record, style: random.whole(0, STYLES.length - 1) });
    else if (drawn < 0.06) records.set(id, { ...changed(random, id, walk), updated_at: record.updated_at });
    else if (drawn < 0.1) records.set(id, changed(random, id, walk));
  }
  for (let at = 0; at < 5; at += 1) records.set(`new${walk}-${at}`, changed(random, `new${walk}-${at}`, walk));
}

it.each([
  [DATABASES[0], { style: 'page', page_param: 'page', size_param: 'limit', total: 'total' }],
  [DATABASES[1], { style: 'cursor', cursor_param: 'page', next_cursor: 'next_cursor', size_param: 'limit' }],
])('a copy equals a service of which little has changed, walk after walk, on %o', async (database, page) => {
  if (database === undefined) throw new Error('there are two databases');
  const seed = freshSeed();
  const random = randomFrom(seed);
  const records = new Map<string, Kept>();
  for (let at = 0; at < 4 * SIZE; at += 1) records.set(String(at), changed(random, String(at), 0));
  // An answer that is broken once is asked for again.
  let broken = 0;
  const copy = await ownService(
    database,
    { page: { ...page, size: SIZE }, history: 'all', incremental: null },
    (url, count) => {
      const nth = Number(url.searchParams.get('page') ?? 1);
      const all = [...records.values()];
      const shown = all.slice((nth - 1) * SIZE, nth * SIZE).map((record) => STYLES[record.style]?.(record) ?? '');
      const next = nth * SIZE < all.length ? `"${nth + 1}"` : 'null';
      const body = `{"total":${all.length},"next_cursor":${next},"data":[${shown.join(',')}]}`;
      if (count % 7 !== 3) return { body };
      broken += 1;
      const middle = body.indexOf('"title":"', body.length / 2);
      return { body: `${body.slice(0, middle)}"title":${body.slice(middle + 9)}` };
    },
  );
  for (let walk = 0; walk < WALKS; walk += 1) {
    if (walk > 0) change(random, records, walk);
    const { status } = await copy.run('backfill');
    const rows = await copy.all<{
      id: string;
      title: string;
      updated: string;
      list: string;
    }>(`SELECT id, title, substr(updated_at, 1, 19) AS updated,
           (SELECT count(*) FROM report_list l WHERE l.report_id = r.id) AS list FROM report r WHERE _deleted_at IS NULL`);
    const found = Object.fromEntries(
      rows.map(({ id, title, updated, list }) => [id, [title, updated.replace(' ', 'T'), Number(list)]]),
    );
    const expected = Object.fromEntries(
      Array.from(records, ([id, { title, updated_at, list }]) => [id, [title, updated_at.slice(0, 19), list.length]]),
    );
    expect([seed, walk, status, found]).toEqual([seed, walk, 'ok', expected]);
  }
  expect(broken).toBeGreaterThan(0);
});

const KINDS = DATABASES.flatMap((database, at) =>
  sampled(['all', 'none'] as const, 2, at).map((history) => ({ database, history })),
);

describe.for(KINDS)('fields that change with every response, $database.name, $history', ({ database, history }) => {
  it('are named by a warning; with compare: false they are stored, and a change of them alone is none', async () => {
    let responses = 0;
    let title = 'old';
    const record = (id: number): object => ({
      id,
      title,
      updated_at: title === 'old' ? '2026-01-01T00:00:00Z' : '2026-01-02T00:00:00Z',
      views: responses,
      image: { alt: 'x', url: `https://cdn.example/${id}.png?signature=${responses}` },
      files: [{ name: 'a', url: `https://cdn.example/${id}.pdf?signature=${responses}` }],
    });
    const all = Array.from({ length: 20 }, (_, at) => at + 1);
    const resource = { path: '/report', page: { style: 'cursor' }, item: '/report/{id}', history };
    const stage = await ownService(database, resource, ({ pathname }) => {
      responses += 1;
      const [, id] = /\/report\/(\d+)$/.exec(pathname) ?? [];
      return { body: id === undefined ? { data: all.map(record), next_cursor: null } : record(Number(id)) };
    });
    const backfill = async () => (await stage.run('backfill')).resources[0];
    await backfill();
    const [warning] = (await backfill())?.warnings ?? [];
    // Without bodies nothing shows which fields have changed.
    const named = 'fields: { views: { compare: false }, image.url: { compare: false }, files.url: { compare: false } }';
    expect([warning?.code, warning?.hint.includes(named)]).toEqual(
      history === 'all' ? ['fields_volatile', true] : [undefined, undefined],
    );

    const fields = { views: { compare: false }, 'image.url': { compare: false }, 'files.url': { compare: false } };
    stage.setReport({ ...resource, fields });
    await backfill();
    expect(await backfill()).toMatchObject({ status: 'ok', updated: 0, unchanged: 20 });
    expect(await stage.command('verify')).toMatchObject({ code: 0 });

    title = 'new';
    const before = responses;
    expect(await backfill()).toMatchObject({ status: 'ok', updated: 20 });
    const rows = await stage.all<{ views: number }>('SELECT views FROM report');
    expect(Math.min(...rows.map(({ views }) => views))).toBeGreaterThan(before);
    expect(await stage.command('verify', '--internal')).toMatchObject({ code: 0 });
    await stage.write("UPDATE report SET title = 'damaged' WHERE id = '3'");
    expect(await stage.command('verify')).toMatchObject({ code: 3 });
  });
});
