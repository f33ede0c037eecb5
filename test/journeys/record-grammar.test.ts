import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Reply } from '../pagination/listing-server.ts';
import { eitherDatabase, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

/** A document as the service keeps it, by id. */
type Doc = Record<string, unknown>;

const PAGE = 3;
const LONG = '12345678901234567890';

/**
 * A store of documents by number, listed as `{ rows: [{ id, doc }], next }`, of which each can be read alone at
 * `/report/<id>` and those that changed since a moment are listed with `since`. `wrap` is how a page holds its entries.
 */
async function store(
  database: TestDatabase,
  fields: Record<string, unknown>,
  wrap: (entries: [string, Doc][]) => unknown,
) {
  const docs = new Map<string, Doc>();
  const respond = ({ pathname, searchParams }: URL): Reply => {
    const alone = decodeURIComponent(pathname.split('/report/')[1] ?? '');
    if (alone !== '') {
      const doc = docs.get(alone);
      return doc === undefined ? { status: 404, body: {} } : { body: sent(wrap([[alone, doc]])) };
    }
    const since = searchParams.get('since');
    const listed = [...docs].filter(
      ([, doc]) => since === null || JSON.stringify(doc['at']) >= JSON.stringify(dated(since, doc)),
    );
    const from = listed.findIndex(([id]) => markOf(id) === searchParams.get('cursor')) + 1;
    const last = from + PAGE < listed.length ? listed[from + PAGE - 1] : undefined;
    const next = last === undefined ? null : markOf(last[0]);
    return { body: sent({ ...asObject(wrap(listed.slice(from, from + PAGE))), next }) };
  };
  const page = { style: 'cursor', next_cursor: 'next', size: PAGE };
  const stage = await ownService(database, { page, ...fields }, respond, { deletes: { max_part: 1 } });
  const all = (query: string): Promise<unknown[]> =>
    stage.read((db) => db.prepare<[], Doc>(query).all().map(withPlainJson));
  return { stage, docs, all };
}

/** A cursor in which no number is counted on. */
function markOf(id: string): string {
  return hash('sha1', id, 'hex');
}

const isJson = (cell: unknown): cell is string => typeof cell === 'string' && /^\{"\w+": /.test(cell);

/** Postgres writes blanks into JSON, except in bodies, which are text. */
function withPlainJson(row: Doc): Doc {
  return Object.fromEntries(
    Object.entries(row).map(([name, cell]) => [name, isJson(cell) ? JSON.stringify(JSON.parse(cell)) : cell]),
  );
}

/** The marker of a long number becomes its digits. */
function sent(body: unknown): string {
  return JSON.stringify(body).replaceAll('"<long>"', LONG);
}

function asObject(value: unknown): object {
  return typeof value === 'object' && value !== null ? value : {};
}

/** The moment in the form that the document has its own in. */
function dated(since: string, { at }: Doc): unknown {
  return typeof at === 'string' ? since : { __type: 'Date', iso: since };
}

const MOMENT = (minute: number): string => `2026-11-20T10:${String(minute).padStart(2, '0')}:00.000Z`;

const wrapped = (id: string, minute: number, rest: Doc = {}): Doc => ({
  _id: { $oid: id },
  at: { __type: 'Date', iso: MOMENT(minute) },
  title: { en: `title of ${id}`, de: 'Titel' },
  ...rest,
});

const wrap = (entries: [string, Doc][]) => ({ data: entries.map(([id, doc]) => ({ id, ...doc })) });

const fill = (docs: Map<string, Doc>) => {
  for (let id = 1; id <= 9; id += 1)
    docs.set(`r${id}`, { at: MOMENT(id), type: id % 3 === 0 ? 'page' : 'post', gone: null });
};

const idsOf = (...numbers: number[]) => numbers.map((id) => ({ id: `r${id}` }));

describe.for(eitherDatabase(import.meta.filename))('records behind arrays and maps on $name', (database) => {
  it('are copied from the docs of rows, with the rows that have none set aside', async () => {
    const fields = { records: 'rows[*].doc', item: '/report/{id}', item_record: 'rows[0].doc', updated: 'at' };
    const { stage, docs, all } = await store(database, fields, (entries) => ({
      rows: entries.map(([id, doc]) => ('none' in doc ? { id } : { id, doc: { ...doc, id } })),
    }));
    for (let id = 1; id <= 7; id += 1) docs.set(`d${id}`, { at: MOMENT(id), views: '<long>', 'a.b': id });
    docs.set('d8', { at: MOMENT(8), none: true });
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'partial', inserted: 7, rejected: 1 });
    expect(await all('SELECT reason, body FROM _sync_rejects')).toEqual([
      { reason: 'record_missing', body: '{"id":"d8"}' },
    ]);
    expect(await all("SELECT id, views, a_b FROM report WHERE id = 'd7'")).toEqual([{ id: 'd7', views: LONG, a_b: 7 }]);
    const [body] = await all("SELECT body FROM _sync_versions WHERE id = 'd7'");
    expect(body).toEqual({ body: `{"at":"${MOMENT(7)}","views":${LONG},"a.b":7,"id":"d7"}` });
    docs.delete('d8');
    docs.delete('d2');
    docs.set('d3', { at: MOMENT(30), views: 1, 'a.b': 0 });
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', updated: 1, deleted: 1, rejected: 0 });
    const ids = ['d1', 'd3', 'd4', 'd5', 'd6', 'd7'].map((id) => ({ id }));
    expect(await all('SELECT id FROM report WHERE _deleted_at IS NULL ORDER BY id')).toEqual(ids);
  });

  it('are copied from the values of a map, with its key as the id', async () => {
    const fields = { records: 'pages.*', key_field: 'slug', id: 'slug', updated: 'at' };
    const { stage, docs, all } = await store(
      database,
      { ...fields, item: '/report/{id}', item_record: 'pages.*' },
      (entries) => ({ pages: Object.fromEntries(entries) }),
    );
    for (let id = 1; id <= 5; id += 1) docs.set(`p ${id}`, { at: MOMENT(id), n: id });
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', inserted: 5 });
    docs.delete('p 1');
    docs.set('p 4', { at: MOMENT(40), n: 44, more: { x: 1 } });
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', updated: 1, deleted: 1 });
    expect(await all('SELECT slug, n, more_x FROM report WHERE _deleted_at IS NULL ORDER BY 1')).toEqual([
      { slug: 'p 2', n: 2, more_x: null },
      { slug: 'p 3', n: 3, more_x: null },
      { slug: 'p 4', n: 44, more_x: 1 },
      { slug: 'p 5', n: 5, more_x: null },
    ]);
    expect(await all("SELECT body FROM _sync_versions WHERE id = 'p 5'")).toEqual([
      { body: `{"slug":"p 5","at":"${MOMENT(5)}","n":5}` },
    ]);
  });
});

describe.for(eitherDatabase(import.meta.filename))('unwrapped values on $name', (database) => {
  const fields = {
    records: 'data',
    id: '_id',
    updated: 'at',
    unwrap: [{ field: '__type', equals: 'Date', value: 'iso' }, { only: '$oid' }, { keys: ['en', 'de'], value: 'en' }],
    item: '/report/{id}',
    item_record: 'data[0]',
    incremental: { param: 'since', lookback: '20s' },
  };
  const open = () => store(database, fields, (entries) => ({ data: entries.map(([, doc]) => doc) }));

  it('make ids, times and columns, while bodies stay as they came; reshaping sees the same', async () => {
    const { stage, docs, all } = await open();
    for (let id = 1; id <= 5; id += 1) docs.set(`x${id}`, wrapped(`x${id}`, id, { n: id }));
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', inserted: 5 });
    expect(await all("SELECT title FROM report WHERE title LIKE '{%'")).toEqual([]);
    const [table] = await all('SELECT * FROM report ORDER BY n');
    expect(table).toMatchObject({ title: 'title of x1', n: 1 });
    const body = JSON.stringify(wrapped('x1', 1, { n: 1 }));
    expect(await all("SELECT body FROM _sync_versions WHERE id = 'x1'")).toEqual([{ body }]);

    // A column that becomes JSON has all rows written again from their bodies.
    docs.set('x2', wrapped('x2', 20, { n: { deep: 1 } }));
    docs.delete('x3');
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', mode: 'incremental', updated: 1 });
    expect(await all('SELECT title, n FROM report ORDER BY title')).toMatchObject([
      { title: 'title of x1', n: '1' },
      { title: 'title of x2', n: '{"deep":1}' },
      { title: 'title of x3' },
      { title: 'title of x4' },
      { title: 'title of x5' },
    ]);
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', updated: 0, deleted: 1 });
    stage.setReport({ ...fields, unwrap: [] });
    await expect(stage.run('sync')).rejects.toMatchObject({ code: 'profile_changed' });
  });
});

describe.for(eitherDatabase(import.meta.filename))('a filter on fields on $name', (database) => {
  const filter = [
    { field: 'type', in: ['post'] },
    { field: 'gone', exists: false },
  ];
  const fields = { records: 'data', updated: 'at', filter };
  const item = { item: '/report/{id}', item_record: 'data[0]' };
  const incremental = { incremental: { param: 'since', lookback: '20s' } };
  const live = 'SELECT id FROM report WHERE _deleted_at IS NULL ORDER BY id';

  it.each([
    ['read alone', { ...item, ...incremental }],
    ['not read alone', incremental],
  ])('leaves records out, and deletes at once what no longer matches, %s', async (_, more) => {
    const { stage, docs, all } = await store(database, { ...fields, ...more }, wrap);
    fill(docs);
    const first = await stage.run('backfill');
    expect(first.resources[0]).toMatchObject({ status: 'ok', records: 6, inserted: 6, rejected: 0 });
    expect(await all(live)).toEqual(idsOf(1, 2, 4, 5, 7, 8));
    docs.set('r2', { at: MOMENT(20), type: 'page', gone: null });
    docs.set('r4', { at: MOMENT(21), type: 'post', gone: MOMENT(21) });
    docs.set('r3', { at: MOMENT(22), type: 'post', gone: null });
    const second = await stage.run('sync');
    expect(second.resources[0]).toMatchObject({
      status: 'ok',
      mode: 'incremental',
      inserted: 1,
      deleted: 2,
      rejected: 0,
    });
    expect(await all(live)).toEqual(idsOf(1, 3, 5, 7, 8));
    docs.set('r2', { at: MOMENT(30), type: 'post', gone: null });
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', updated: 1, deleted: 0 });
    expect(await all(live)).toEqual(idsOf(1, 2, 3, 5, 7, 8));
    expect(await all('SELECT * FROM _sync_suspects')).toEqual([]);
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', unchanged: 6, deleted: 0 });
  });

  it('takes a record that is read alone and left out as gone', async () => {
    const { stage, docs, all } = await store(database, { ...fields, ...item, ...incremental }, wrap);
    fill(docs);
    await stage.run('backfill');
    docs.set('r1', { at: MOMENT(20), type: 'page', gone: null });
    docs.set('r6', { at: MOMENT(20), type: 'post', gone: null });
    const app = await stage.open();
    const expected = () => ({ after: Date.parse(MOMENT(20)), isDelete: false });
    const { signal } = new AbortController();
    const outcomes: string[] = [];
    for (const key of ['r1', 'r6', 'r9'])
      outcomes.push(await app.refetch({ resource: 'report', key, expected, signal }));
    await app.close();
    expect(outcomes).toEqual(['deleted', 'loaded', 'behind']);
    expect(await all(live)).toEqual(idsOf(2, 4, 5, 6, 7, 8));
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok', unchanged: 6, deleted: 0 });
  });

  it('reads a record alone that an older state of the listing leaves out', async () => {
    const { stage, docs, all } = await store(database, { ...fields, ...item }, (entries) =>
      entries.length === 1 || !isLate ? wrap(entries) : wrap(entries.map(([id, doc]) => [id, before.get(id) ?? doc])),
    );
    let isLate = false;
    const before = new Map<string, Doc>();
    fill(docs);
    await stage.run('backfill');
    before.set('r5', { at: MOMENT(5), type: 'page', gone: null });
    docs.set('r5', { at: MOMENT(20), type: 'post', gone: null });
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', updated: 1 });
    isLate = true;
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', deleted: 0 });
    expect(await all(live)).toEqual(idsOf(1, 2, 4, 5, 7, 8));
  });
});
