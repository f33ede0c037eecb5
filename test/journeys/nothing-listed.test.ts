import { describe, expect, it } from 'vitest';
import type { ResourceReport } from '../../src/sync/report.ts';
import { startListing, type Reply, type Responder } from '../pagination/listing-server.ts';
import { journey, type Journey } from '../support/journey.ts';
import { sampled } from '../support/length.ts';

/** How a service says that a list has nothing in it, and the setting for it. */
const SPELLINGS: Readonly<Record<string, { reply: (rest?: object) => Reply; empty: string | number | null }>> = {
  null: { reply: (rest) => ({ body: { data: null, ...rest } }), empty: null },
  'no key': { reply: (rest) => ({ body: { meta: {}, ...rest } }), empty: 'absent' },
  'an empty object': { reply: (rest) => ({ body: { data: {}, ...rest } }), empty: 'object' },
  'status 204': { reply: () => ({ status: 204, body: '' }), empty: 204 },
  'status 404': { reply: () => ({ status: 404, body: { error: 'no data' } }), empty: 404 },
};

const DAY_MS = 86_400_000;
const daysAgo = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);

/** Resources in which one list has nothing in it. */
const PLACES = {
  'a listing': { report: {} },
  "one parent's listing": {
    posts: { path: '/posts' },
    report: { path: '/posts/{partition}/notes', updated: null, partitions: { parent: 'posts', field: 'post_id' } },
  },
  'a window of a report': {
    report: {
      id: ['date', 'page'],
      updated: null,
      path: '/days',
      windows: { field: 'date', from_param: 'from', to_param: 'to', start: daysAgo(5), largest: '1d', restate: '24h' },
    },
  },
  'a feed of changes': {
    report: {
      path: '/posts',
      updated: null,
      incremental: {
        mode: 'feed',
        path: '/changes',
        query: { since: '{cursor}' },
        next: 'token',
        start: { walk: 'token' },
        expired: { status: [410] },
      },
    },
  },
} as const;

type Place = keyof typeof PLACES;

/** Rows that are right, or that are right at least: what is behind the empty list. */
const ROWS: Readonly<Record<Place, number>> = {
  'a listing': 0,
  "one parent's listing": 2,
  'a window of a report': 5,
  'a feed of changes': 3,
};

/** An empty copy of an empty listing is told. */
const warningsOf = (place: Place): string[] => (place === 'a listing' ? ['listing_empty'] : []);

const codesOf = ({ warnings = [] }: { warnings?: readonly { code: string }[] }): string[] =>
  warnings.map(({ code }) => code);

const respond =
  (nothing: Reply): Responder =>
  ({ pathname, searchParams }) => {
    const path = pathname.replace('/v1', '');
    if (['/report', '/changes', '/posts/p2/notes'].includes(path)) return nothing;
    const posts = [1, 2, 3].map((id) => ({ id: `p${id}`, updated_at: '2026-01-01T00:00:00Z' }));
    if (path === '/posts') return { body: { data: posts, next_cursor: null, token: 't0' } };
    if (path === '/days') {
      const date = searchParams.get('from') ?? '';
      return date === daysAgo(2) ? nothing : { body: { data: [{ date, page: '/a', views: 1 }], next_cursor: null } };
    }
    return { body: { data: [{ id: `${path.split('/')[2]}-n`, text: 'x' }], next_cursor: null } };
  };

async function copy(place: Place, nothing: Reply, fields: object): Promise<{ stage: Journey; report: ResourceReport }> {
  const service = await startListing(respond(nothing));
  const { report, ...others } = { posts: null, ...PLACES[place] } as Record<string, object | null>;
  const stage = await journey({
    profile: {
      http: { attempts: 1 },
      resources: {
        content: null,
        images: null,
        analytics: null,
        ...Object.fromEntries(
          Object.entries({ ...others, report: { path: '/report', ...report, ...fields } })
            .filter(([, resource]) => resource !== null)
            .map(([name, resource]) => [name, { page: { style: 'cursor' }, ...resource }]),
        ),
      },
    },
    source: { base_url: service.url.href },
  });
  await stage.run('backfill');
  const { resources } = await stage.run('sync');
  const found = resources.find(({ resource }) => resource === 'report');
  if (found === undefined) throw new Error('no report');
  return { stage, report: found };
}

async function rows(stage: Journey): Promise<number> {
  return stage.read((db) => {
    const isThere = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'report'").get() !== undefined;
    return isThere ? (db.prepare<[], number>('SELECT count(*) FROM report').pluck().get() ?? -1) : 0;
  });
}

const places: readonly Place[] = ['a listing', "one parent's listing", 'a window of a report', 'a feed of changes'];
const matrix = places.flatMap((place) => Object.keys(SPELLINGS).map((spelling) => ({ place, spelling })));

describe('a list with nothing in it', () => {
  it.each(sampled(matrix, 3))('is told by $spelling in $place, as the profile says', async ({ place, spelling }) => {
    const { reply, empty } = SPELLINGS[spelling] ?? { reply: () => ({}), empty: null };
    const { stage, report } = await copy(place, reply({ next_cursor: null }), { empty: [empty] });
    expect([report.status, codesOf(report)]).toEqual(['ok', warningsOf(place)]);
    expect(await rows(stage)).toBeGreaterThanOrEqual(ROWS[place]);
  });

  it.each(sampled(matrix, 3, 1))(
    'by $spelling in $place is no empty list unless a setting says so',
    async ({ place, spelling }) => {
      const { reply, empty } = SPELLINGS[spelling] ?? { reply: () => ({}), empty: null };
      const { report } = await copy(place, reply({ next_cursor: null }), {});
      // A parent that is gone has no listing.
      if (place === "one parent's listing" && spelling === 'status 404') return;
      expect(report.status).not.toBe('ok');
      const texts = [report.error?.hint, ...(report.warnings ?? []).map(({ hint }) => hint)].join('\n');
      expect(texts).toContain(`empty: [${empty}]`);
    },
  );

  it.each(places.flatMap((place) => ['null', 'no key', 'an empty object'].map((spelling) => ({ place, spelling }))))(
    'needs no setting beside a total of 0: $spelling in $place',
    async ({ place, spelling }) => {
      const nothing = SPELLINGS[spelling]?.reply({ pagination: { total: 0 } }) ?? {};
      const { stage, report } = await copy(place, nothing, {});
      expect([report.status, codesOf(report)]).toEqual(['ok', warningsOf(place)]);
      expect(await rows(stage)).toBeGreaterThanOrEqual(ROWS[place]);
    },
  );

  it('is none beside a total of more, whatever the profile says of the place of records', async () => {
    const { report } = await copy('a listing', { body: { items: [{ id: 1 }], total: 1, count: 0 } }, {});
    expect(report).toMatchObject({ status: 'failed', error: { code: 'bad_page' } });
  });
});
