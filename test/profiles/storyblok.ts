import type { Reply } from '../pagination/listing-server.ts';
import type { JsonObject } from '../services/service-stage.ts';
import {
  found,
  NOT_FOUND,
  numberIn,
  numeric,
  Shelf,
  timeOf,
  truthOf,
  withField,
  UNAUTHORISED,
  type DocumentedService,
} from './documented-service.ts';

const TOKEN = 'public-token-of-the-space';

/** A page as Storyblok cuts it. */
function paged(url: URL, key: string, rows: readonly JsonObject[]): Reply {
  const size = Math.min(numeric(url, 'per_page', 25), 1000);
  const from = (numeric(url, 'page', 1) - 1) * size;
  return {
    headers: { Total: String(rows.length), 'Per-Page': String(size) },
    body: { [key]: rows.slice(from, from + size), cv: 7 },
  };
}

/** Storyblok's Content Delivery API; without a version of its cache it sends on to one. */
export function storyblok(): DocumentedService {
  const shelf = new Shelf(130, (n, rev, time) => ({
    id: 1000 + n,
    uuid: `uuid-${n}`,
    name: `Title ${n}.${rev}`,
    full_slug: `blog/post-${n}`,
    // Before it was published.
    updated_at: '2026-01-01T07:00:00.000Z',
    published_at: time,
    content: { _uid: `c${n}`, component: 'post', body: `Text ${rev}` },
  }));
  const sources = [{ id: 1, name: 'Colours', slug: 'colours', dimensions: [] }];
  const entries = [1, 2, 3].map((id) => ({ id, name: `c${id}`, value: `#00${id}`, dimension_value: null }));
  const tags = [{ name: 'news', taggings_count: 4 }];
  const stories = (url: URL): JsonObject[] => {
    const after = url.searchParams.get('published_at_gt');
    const since = after === null ? -Infinity : Date.parse(`${after.replace(' ', 'T')}Z`);
    return shelf.rows().filter((story) => timeOf(story, 'published_at') > since);
  };
  const lists: Record<string, (url: URL) => Reply> = {
    stories: (url) => paged(url, 'stories', stories(url)),
    datasources: (url) => paged(url, 'datasources', sources),
    datasource_entries: (url) =>
      paged(url, 'datasource_entries', url.searchParams.get('datasource') === 'colours' ? entries : []),
    tags: () => ({ body: { tags } }),
  };
  return {
    profile: 'storyblok',
    auth: { type: 'api_key', key: TOKEN },
    refused: { type: 'api_key', key: 'public-token-of-nobody' },
    resources: { stories: { page: { size: 50 } } },
    shelf,
    walks: 1,
    truth: () => ({
      stories: truthOf(shelf.rows(), ({ id }) => id),
      datasources: truthOf(sources, ({ id }) => id),
      datasource_entries: truthOf(withField(entries, 'datasource', 'colours'), ({ datasource, id }) => [
        datasource,
        id,
      ]),
      tags: truthOf(tags, ({ name }) => name),
    }),
    answer: (url) => {
      if (url.searchParams.get('token') !== TOKEN) return UNAUTHORISED;
      const [what = '', id] = url.pathname.slice('/v2/cdn/'.length).split('/');
      if (!url.searchParams.has('cv')) {
        url.searchParams.set('cv', '7');
        return { status: 301, headers: { location: url.href } };
      }
      if (id === undefined) return lists[what]?.(url) ?? NOT_FOUND;
      return found(shelf.one(numberIn(id) - 1000), (story) => ({ story, cv: 7 }));
    },
  };
}
