import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../../src/sync/report.ts';
import { eitherDatabase, type TestDatabase } from '../../support/databases.ts';
import { ownService } from '../../support/own-service.ts';

const SIZE = 10;
const HOUR = 3_600_000;
const at = (hour: number): string => new Date(Date.UTC(2026, 0, 1) + hour * HOUR).toISOString();

interface Post {
  id: string;
  title: string;
  created: string;
  updated: string;
}

const newPost = (hour: number): Post => ({ id: `p${hour}`, title: 'new', created: at(hour), updated: at(hour) });

/** Thirty-three posts of as many hours, in pages with a total, behind a filter by this field. */
async function blog(database: TestDatabase, filter: 'created' | 'updated', fields: Record<string, unknown> = {}) {
  const behaviour = { filter, beforeFilter: (): unknown => undefined, hidden: '' };
  const posts = new Map(Array.from({ length: 33 }, (_, hour) => [`p${hour}`, newPost(hour)]));
  const edit = (id: string, hour: number): void => {
    posts.set(id, { ...newPost(Number(id.slice(1))), title: `edited at ${hour}`, updated: at(hour) });
  };
  const page = { style: 'page', page_param: 'page', size: SIZE, total: 'total' };
  const profile = { page, incremental: { param: 'after', format: 'iso' }, updated: 'updated', ...fields };
  const stage = await ownService(database, profile, ({ pathname, searchParams }) => {
    const id = /\/report\/(.+)$/.exec(pathname)?.[1];
    const alone = id === undefined ? undefined : posts.get(id);
    if (id !== undefined) return alone === undefined ? { status: 404, body: {} } : { body: alone };
    const after = searchParams.get('after') ?? '';
    if (after !== '') behaviour.beforeFilter();
    const hidden = after === '' ? '' : behaviour.hidden;
    const listed = [...posts.values()]
      .filter((post) => post[behaviour.filter] >= after && post.id !== hidden)
      .toReversed();
    const from = (Number(searchParams.get('page')) - 1) * SIZE;
    return { body: { data: listed.slice(from, from + SIZE), total: listed.length } };
  });
  const unlike = async (): Promise<string[]> => {
    const rows = await stage.read((db) =>
      db.prepare<[], string>("SELECT id || ' ' || title FROM report WHERE _deleted_at IS NULL").pluck().all(),
    );
    return [
      ...new Set(rows).symmetricDifference(new Set([...posts.values()].map(({ id, title }) => `${id} ${title}`))),
    ];
  };
  const setFields = (more: Record<string, unknown>): void => {
    const report = { path: '/report', ...profile, ...more };
    stage.setProfile({ resources: { content: null, images: null, analytics: null, report } });
  };
  const asked = (): string[] => stage.service.requests.splice(0);
  return { ...stage, behaviour, posts, edit, unlike, asked, setFields };
}

function told({ status, resources: [report] }: RunReport): unknown[] {
  return [status, report?.mode, ...(report?.warnings ?? []).map(({ code }) => code)];
}

const ALONE = { item: '/report/{id}' };
const DOUBTED = ['ok', 'full', 'filter_not_believed'];

describe.for(eitherDatabase(import.meta.filename))('a filter after a full walk, on $name', (database) => {
  it('is not believed where it goes by the time of creation, however much is new after the edit that shows it', async () => {
    const stage = await blog(database, 'created', ALONE);
    stage.edit('p3', 29.5);
    expect(told(await stage.run('backfill'))).toEqual(DOUBTED);
    for (const hour of [40, 41, 42]) {
      stage.edit(`p${hour - 36}`, hour);
      for (let more = 0; more < SIZE; more += 1) {
        const post = newPost(hour * SIZE + more);
        stage.posts.set(post.id, post);
      }
      expect(told(await stage.run('sync'))).toEqual(DOUBTED);
      expect(await stage.unlike()).toEqual([]);
    }
  });

  it('is not trusted again because a wider look-back lists the record that speaks against it', async () => {
    const incremental = { param: 'after', format: 'iso', lookback: '3h' };
    const stage = await blog(database, 'created', { ...ALONE, incremental });
    // The question begins at 29:03, so that p28 and p29 are missing; three hours before p29 it is listed.
    for (const [index, hour] of [31.1, 31.2, 31.3, 31.4].entries()) stage.edit(`p${28 + index}`, hour);
    expect(told(await stage.run('backfill'))).toEqual(DOUBTED);
    for (const hour of [40, 41]) {
      stage.edit('p4', hour);
      expect(told(await stage.run('sync'))).toEqual(DOUBTED);
      expect(await stage.unlike()).toEqual([]);
    }
    stage.behaviour.filter = 'updated';
    stage.edit('p5', 42);
    expect(told(await stage.run('sync'))).toEqual(['ok', 'incremental']);
    expect(await stage.unlike()).toEqual([]);
  });

  it('is tried anew under another parameter', async () => {
    const stage = await blog(database, 'created', ALONE);
    stage.edit('p3', 29.5);
    expect(told(await stage.run('backfill'))).toEqual(DOUBTED);
    stage.behaviour.filter = 'updated';
    stage.setFields({ incremental: { param: 'after', format: 'as_sent' } });
    stage.edit('p4', 40);
    expect(told(await stage.run('sync'))).toEqual(['ok', 'incremental']);
  });

  it('is found out by the next walk where no record can be read alone', async () => {
    const stage = await blog(database, 'created');
    stage.edit('p3', 29.5);
    expect(told(await stage.run('backfill'))).toEqual(['ok', 'full']);
    stage.edit('p4', 40);
    expect(told(await stage.run('sync'))).toEqual(DOUBTED);
    expect(await stage.unlike()).toEqual([]);
  });

  it('is believed for one request where it lists what changed', async () => {
    const stage = await blog(database, 'updated', ALONE);
    stage.edit('p3', 29.5);
    expect(told(await stage.run('backfill'))).toEqual(['ok', 'full']);
    expect(stage.asked().map((address) => address.includes('after='))).toEqual([false, false, false, false, true]);
    stage.edit('p4', 40);
    expect(told(await stage.run('sync'))).toEqual(['ok', 'incremental']);
    expect(stage.asked()).toHaveLength(1);
    expect(await stage.unlike()).toEqual([]);
  });

  it('may not show yet what changed within the look-back, and is believed all the same', async () => {
    const stage = await blog(database, 'updated', ALONE);
    const post = { ...newPost(0), id: 'now', updated: new Date(Date.now() - 60_000).toISOString() };
    stage.posts.set('now', post);
    stage.behaviour.hidden = 'now';
    expect(told(await stage.run('backfill'))).toEqual(['ok', 'full']);
    stage.behaviour.hidden = '';
    stage.posts.set('now', { ...post, title: 'edited' });
    expect(told(await stage.run('sync'))).toEqual(['ok', 'incremental']);
    expect(await stage.unlike()).toEqual([]);
  });

  it.for<[what: string, fields: Record<string, unknown>]>([
    ['can be read alone', ALONE],
    ['cannot be read alone', {}],
  ])('is not disproved by a record that goes before it is asked for, and %s', async ([, fields]) => {
    const stage = await blog(database, 'updated', fields);
    stage.behaviour.beforeFilter = () => stage.posts.delete('p32');
    expect(told(await stage.run('backfill'))).toEqual(['ok', 'full']);
    for (let run = 0; run < 2; run += 1) {
      const { resources } = await stage.run('sync');
      expect((resources[0]?.warnings ?? []).map(({ code }) => code)).not.toContain('filter_not_believed');
    }
    stage.edit('p4', 40);
    expect(told(await stage.run('sync'))[1]).toBe('incremental');
  });
});
