import { describe, expect, it } from 'vitest';
import { toYaml } from '../../src/probe/profile.ts';
import { type FakeRecord, fakeService, type FakeShape, SECRET, USER } from './fake-service.ts';
import { copyBy, probed } from './probed.ts';
import { sampled } from '../support/length.ts';

const SHAPES: Record<string, FakeShape> = {
  'a cursor, updated_since': { auth: 'bearer', pages: 'cursor', envelope: 'data', filter: 'since', item: 'bare' },
  'a token that is left out at the end': {
    auth: 'header',
    pages: 'token',
    envelope: 'items',
    filter: 'modifiedAfter',
    item: 'data',
    updated: 'modified',
    times: 'seconds',
  },
  'a cursor that goes on, with has_more': {
    auth: 'query',
    pages: 'hasMore',
    envelope: 'results',
    filter: 'none',
    item: 'bare',
  },
  'pages with a total': { auth: 'basic', pages: 'page', envelope: 'data', filter: 'gte', item: 'data' },
  'pages from zero, epoch': {
    auth: 'none',
    pages: 'zeroPage',
    envelope: 'content',
    filter: 'epoch',
    item: 'bare',
    times: 'epoch',
  },
  'headers and a bare list, past the end 400': {
    auth: 'lenient',
    pages: 'headers',
    envelope: '',
    filter: 'modifiedAfter',
    item: 'bare',
    cap: -100,
    times: 'local',
    updated: 'modified_gmt',
  },
  'brackets, strict, a lasting id': {
    auth: 'bearer',
    pages: 'bracket',
    envelope: 'data',
    filter: 'dollar',
    item: 'data',
    strict: true,
    rowNumbers: true,
    updated: 'updatedAt',
  },
  'an expression over texts': {
    auth: 'query',
    pages: 'counted',
    envelope: '*',
    filter: 'words',
    item: 'list',
    times: 'seconds',
  },
  'offsets with a count': { auth: 'plain', pages: 'offset', envelope: 'rows', filter: 'since', item: 'none' },
  'offsets and nothing else, null until changed, 403': {
    auth: 'bearer',
    pages: 'bareOffset',
    envelope: 'data',
    filter: 'either',
    item: 'data',
    nullable: true,
    missing: 403,
  },
  'next addresses': { auth: 'header', pages: 'nextUrl', envelope: 'data.items', filter: 'since', item: 'bare' },
  'after the last key': { auth: 'bearer', pages: 'keyset', envelope: 'data', filter: 'epoch', item: 'bare' },
  'all at once': { auth: 'bearer', pages: 'single', envelope: 'items', filter: 'none', item: 'bare' },
  'newest first': { auth: 'basic', pages: 'page', envelope: 'data', filter: 'sorted', item: 'bare' },
  'a small cap': { auth: 'header', pages: 'page', envelope: 'data', filter: 'since', item: 'bare', cap: 10 },
};

/** Shapes of which deletes are followed as well. */
const OF_DELETES = new Set(sampled(Object.keys(SHAPES), 4));

const byId = (records: readonly FakeRecord[]): FakeRecord[] =>
  records.toSorted((a, b) => Number(a['id']) - Number(b['id']));

describe('a profile by experiment', () => {
  it.each(Object.entries(SHAPES))('%s: the copy by it equals the service', async (name, shape) => {
    const service = await fakeService(shape);
    const result = await probed(service.url, {
      auth: shape.auth === 'query' ? 'query:key' : undefined,
      credential: { secret: SECRET, user: shape.auth === 'basic' || shape.auth === 'lenient' ? USER : undefined },
    });
    if (process.env['SHOW']) console.log(toYaml(result), service.requests.length, service.requests);
    expect(result.requests).toBeLessThanOrEqual(60);
    const copy = copyBy(result);
    expect(await copy.faults()).toEqual([]);
    const first = await copy.run('backfill');
    const ended = first.resources.map(({ resource, status, error, warnings = [] }) => ({
      resource,
      status,
      error,
      // Without a total nobody knows the end of a short listing but by an empty page.
      warnings: warnings.filter(({ code }) => code !== 'page_size_differs'),
    }));
    expect(ended).toEqual(
      result.resources.map(({ name }) => ({ resource: name, status: 'ok', error: undefined, warnings: [] })),
    );
    for (const [name, records] of service.collections) expect(byId(copy.bodies(name))).toEqual(byId(records));
    service.change('posts', 5, { title: 'changed' });
    service.change('authors', 1, { title: 'changed, too' });
    service.add('posts', { section: 'news' });
    expect((await copy.run('sync')).resources.map(({ status }) => status)).toEqual(result.resources.map(() => 'ok'));
    if (!OF_DELETES.has(name)) return;
    service.remove('posts', 2);
    // What is deleted is found by walks over everything; by two of them where no record can be read alone.
    await copy.run('backfill');
    await copy.run('backfill');
    for (const [name, records] of service.collections) expect(byId(copy.bodies(name))).toEqual(byId(records));
  });
});
