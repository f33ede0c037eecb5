import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/sync/report.ts';
import { eitherDatabase, USUAL, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const POSTS = Array.from({ length: 12 }, (_, index) => ({
  id: `p${index}`,
  author: `a${index % 2}`,
  updated_at: new Date(Date.UTC(2026, 0, 1 + index)).toISOString(),
}));

/** Takes every parameter but `$limit` and `$skip` for a filter by equality. */
async function strictService(database: TestDatabase, fields: Record<string, unknown>, posts: unknown[] = POSTS) {
  const stage = await ownService(database, { incremental: null, ...fields }, ({ searchParams }) => {
    const [size, skip] = [Number(searchParams.get('$limit') ?? 10), Number(searchParams.get('$skip') ?? 0)];
    const wanted = [...searchParams].filter(([name]) => !name.startsWith('$'));
    const found = posts.filter((post) =>
      wanted.every(([name, value]) => String(Reflect.get(Object(post), name)) === value),
    );
    return { body: { data: found.slice(skip, skip + size), total: found.length } };
  });
  const setFields = (more: Record<string, unknown>): void => {
    const report = { path: '/report', incremental: null, ...more };
    stage.setProfile({ resources: { content: null, images: null, analytics: null, report } });
  };
  return { ...stage, setFields };
}

const RIGHT = { style: 'offset', offset_param: '$skip', size_param: '$limit', size: 5, total: 'total' };

function codes({ status, resources: [report] }: RunReport): unknown[] {
  return [status, report?.error?.code ?? null, ...(report?.warnings ?? []).map(({ code }) => code)];
}

describe.for(eitherDatabase(import.meta.filename))('an empty first listing, on $name', (database) => {
  it.for<[what: string, fields: Record<string, unknown>, names: RegExp]>([
    ['the page', { page: { style: 'page', page_param: 'page', size_param: null, total: 'total' } }, /empty with page,/],
    ['the page size', { page: { ...RIGHT, size_param: 'limit' } }, /empty with limit,/],
    [
      'the order',
      { page: RIGHT, incremental: { mode: 'newest_first', query: { sort: '-updated_at' } } },
      /empty with sort,/,
    ],
    [
      'the page of one of several listings',
      {
        page: { ...RIGHT, size_param: 'limit' },
        partitions: { values: ['a0', 'a1'], param: 'author', field: 'author' },
      },
      /empty with limit,/,
    ],
  ])('fails if a parameter of %s hides the records', async ([, fields, names]) => {
    const stage = await strictService(database, fields);
    for (const command of ['backfill', 'sync', 'sync'] as const) {
      const report = await stage.run(command);
      expect(codes(report).slice(0, 2)).toEqual(['failed', 'pagination_invalid']);
      expect(report.resources[0]?.error?.message).toMatch(names);
    }
  });

  it('is ok with a warning if the listing is empty without parameters too', async () => {
    const stage = await strictService(database, { page: RIGHT }, []);
    expect(codes(await stage.run('backfill'))).toEqual(['ok', null, 'listing_empty']);
    expect(stage.service.requests).toHaveLength(2);
  });

  it('is partial if only the query of the profile keeps it empty', async () => {
    const stage = await strictService(database, { page: RIGHT, query: { sort: 'id' } });
    expect(codes(await stage.run('backfill'))).toEqual(['partial', null, 'listing_filtered']);
  });
});

describe.for([USUAL])('what a profile calls unverified, on $name', (database) => {
  it('makes a run partial until a full scan has verified it', async () => {
    const unverified = ['page.style', 'id', 'times.updated_at'];
    const stage = await strictService(database, { page: RIGHT, unverified });
    const report = await stage.run('backfill');
    expect(codes(report)).toEqual(['partial', null, 'profile_unverified']);
    expect(report.resources[0]?.warnings?.[0]?.message).toContain('guesses times.updated_at, and');
    stage.setFields({ page: RIGHT, unverified: ['page.style', 'id'] });
    expect(codes(await stage.run('sync'))).toEqual(['ok', null]);
  });

  it('is verified by no single page without a total', async () => {
    const page = { style: 'single' };
    const stage = await strictService(database, { page, unverified: ['page.style'] }, POSTS.slice(0, 3));
    for (const command of ['backfill', 'sync'] as const) {
      expect(codes(await stage.run(command))).toEqual(['partial', null, 'profile_unverified']);
    }
  });
});
