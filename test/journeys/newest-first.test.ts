import { describe, expect, it } from 'vitest';
import type { Responder } from '../pagination/listing-server.ts';
import { eitherDatabase, type TestDatabase, USUAL } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

interface Entry {
  id: string;
  title: string;
  created: number;
  updated: number | null;
}

type Order = (a: Entry, b: Entry) => number;

const newestFirst: Order = (a, b) => (b.updated ?? Infinity) - (a.updated ?? Infinity) || (a.id < b.id ? -1 : 1);
const lastCreatedFirst: Order = (a, b) => b.created - a.created;
const byId: Order = (a, b) => (a.id < b.id ? -1 : 1);

const HOUR = 3_600_000;
const NUMBERED = { style: 'page', page_param: 'page', size: 10, total: 'total' };

async function stageOf(database: TestDatabase, sorted: Order, fields: Record<string, unknown> = {}) {
  const entries = new Map<string, Entry>();
  const start = Math.floor(Date.now() / 1_000) * 1_000 - 80 * HOUR;
  for (let nth = 0; nth < 60; nth += 1) {
    const id = `r${(nth * 37) % 60}`;
    entries.set(id, { id, title: `Title of ${id}`, created: start + nth * HOUR, updated: start + nth * HOUR });
  }
  const before: { page: (number: number) => void } = { page: () => undefined };
  const respond: Responder = ({ pathname, searchParams }) => {
    const id = /^\/v1\/report\/(.+)$/.exec(pathname)?.[1];
    if (id !== undefined) {
      const found = entries.get(id);
      return found === undefined ? { status: 404, body: {} } : { body: shown(found) };
    }
    before.page(Number(searchParams.get('page')));
    const order = searchParams.get('sort') === '-updated' ? sorted : byId;
    const all = [...entries.values()].toSorted(order);
    const [page, limit] = [Number(searchParams.get('page')), Number(searchParams.get('limit'))];
    return { body: { data: all.slice((page - 1) * limit, page * limit).map(shown), total: all.length } };
  };
  const incremental = { mode: 'newest_first', query: { sort: '-updated' } };
  const stage = await ownService(database, { page: NUMBERED, item: '/report/{id}', incremental, ...fields }, respond);
  const run = async (command: 'backfill' | 'sync') => {
    stage.service.requests.splice(0);
    const { resources } = await stage.run(command);
    const [{ status, mode, warnings = [] } = { status: 'none', mode: 'none' }] = resources;
    return { status, mode, codes: warnings.map(({ code }) => code) };
  };
  const unlike = async (): Promise<string[]> => {
    const rows = await stage.column<string>("SELECT id || ' ' || title FROM report WHERE _deleted_at IS NULL");
    return [
      ...new Set(rows).symmetricDifference(new Set([...entries.values()].map(({ id, title }) => `${id} ${title}`))),
    ];
  };
  const change = (id: string): void => {
    const entry = entries.get(id) ?? { id, created: Date.now() };
    entries.set(id, { ...entry, title: `Changed at ${Date.now()}`, updated: Date.now() });
  };
  return { ...stage, before, entries, run, unlike, change, asked: () => stage.service.requests.length };
}

function shown({ id, title, updated }: Entry): object {
  return { id, title, updated_at: updated === null ? null : new Date(updated).toISOString() };
}

describe.for(eitherDatabase(import.meta.filename))('a listing that is newest first, on $name', (database) => {
  it.for<[what: string, fields: Record<string, unknown>, most: number]>([
    ['by pages with a total', {}, 2],
    // Without a total, only a second look shows that nothing moved.
    ['by pages without one', { page: { ...NUMBERED, total: null } }, 4],
  ])('is read until it is older than the cursor: %s', async ([, fields, most]) => {
    const stage = await stageOf(database, newestFirst, fields);
    expect(await stage.run('backfill')).toEqual({ status: 'ok', mode: 'full', codes: [] });
    for (const ids of [['r5', 'new'], ['r5', 'r6', 'r41'], []]) {
      for (const id of ids) stage.change(id);
      expect(await stage.run('sync')).toEqual({ status: 'ok', mode: 'incremental', codes: [] });
      expect([await stage.unlike(), stage.asked() <= most]).toEqual([[], true]);
    }
    for (const id of [...stage.entries.keys()].slice(0, 35)) stage.change(id);
    expect(await stage.run('sync')).toEqual({ status: 'ok', mode: 'incremental', codes: [] });
    expect(await stage.unlike()).toEqual([]);
    stage.entries.delete('r7');
    stage.entries.delete('r41');
    expect(await stage.run('backfill')).toEqual({ status: 'ok', mode: 'full', codes: [] });
    expect(await stage.unlike()).toEqual([]);
  });

  it('is not believed where it is in another order: everything is walked, each time', async () => {
    const stage = await stageOf(database, byId);
    expect(await stage.run('backfill')).toEqual({ status: 'ok', mode: 'full', codes: ['filter_not_believed'] });
    stage.change('r5');
    expect(await stage.run('sync')).toEqual({ status: 'ok', mode: 'full', codes: ['filter_not_believed'] });
    expect(await stage.unlike()).toEqual([]);
  });
});

describe('what moves meanwhile', () => {
  it.for(['goes from a page that was read', 'changes on a page to come'])(
    'is not missed if a record %s',
    async (what) => {
      const stage = await stageOf(USUAL, newestFirst);
      await stage.run('backfill');
      for (const id of [...stage.entries.keys()].slice(0, 35)) stage.change(id);
      const [first = '', , , third = ''] = [...stage.entries.values()].toSorted(newestFirst).map(({ id }) => id);
      stage.before.page = (number) => {
        if (number !== 2) return;
        stage.before.page = () => undefined;
        if (what.startsWith('goes')) stage.entries.delete(first);
        else stage.change('r55');
      };
      const { status, mode } = await stage.run('sync');
      expect([status, mode]).toEqual(['ok', 'incremental']);
      stage.change(third);
      await stage.run('sync');
      const gone = what.startsWith('goes') ? 1 : 0;
      expect((await stage.unlike()).length).toBe(gone);
    },
  );
});

describe('an order that looks right', () => {
  it('is not believed once a record that changed does not come first', async () => {
    const stage = await stageOf(USUAL, lastCreatedFirst);
    expect(await stage.run('backfill')).toEqual({ status: 'ok', mode: 'full', codes: [] });
    // The newest by creation: it is where it should be, and sets the cursor.
    stage.change('r23');
    stage.change('r5');
    await stage.run('sync');
    stage.change('r5');
    expect(await stage.run('backfill')).toEqual({ status: 'ok', mode: 'full', codes: ['filter_not_believed'] });
    expect(await stage.unlike()).toEqual([]);
    stage.change('r6');
    expect(await stage.run('sync')).toMatchObject({ status: 'ok', mode: 'full' });
    expect(await stage.unlike()).toEqual([]);
  });
});
