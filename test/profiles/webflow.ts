import type { JsonObject } from '../services/service-stage.ts';
import {
  found,
  foundIn,
  named,
  NOT_FOUND,
  numberIn,
  numeric,
  sends,
  Shelf,
  truthOf,
  withField,
  UNAUTHORISED,
  type DocumentedService,
} from './documented-service.ts';

/** Webflow's Data API v2: a site, its collections, and their items. */
export function webflow(): DocumentedService {
  const shelf = new Shelf(130, (n, rev, time) => ({
    id: named('62b7', n),
    cmsLocaleId: null,
    lastPublished: null,
    lastUpdated: time,
    createdOn: '2026-01-01T08:00:00.000Z',
    isArchived: false,
    isDraft: true,
    fieldData: { name: `Title ${n}.${rev}`, slug: `post-${n}` },
  }));
  const sites = [{ id: 's1', displayName: 'Blog', shortName: 'blog', lastUpdated: '2026-01-01T08:00:00.000Z' }];
  const posts = { id: 'c1', displayName: 'Posts', slug: 'posts', lastUpdated: '2026-01-01T08:00:00.000Z' };
  const collections = [posts, { ...posts, id: 'c2', displayName: 'Empty', slug: 'empty' }];
  const items = (collection: string | undefined): JsonObject[] => (collection === 'c1' ? shelf.rows() : []);
  return {
    profile: 'webflow',
    auth: { type: 'bearer', token: 'webflow-site-token' },
    refused: { type: 'bearer', token: 'webflow-no-token' },
    resources: { items: { page: { size: 50 } } },
    shelf,
    walks: 1,
    truth: () => ({
      sites: truthOf(sites, ({ id }) => id),
      collections: truthOf(withField(collections, 'site_id', 's1'), ({ id }) => ['s1', id]),
      items: truthOf(withField(shelf.rows(), 'collection_id', 'c1'), ({ id }) => ['c1', id]),
    }),
    answer: (url, asked) => {
      if (!sends(asked, 'authorization', 'Bearer webflow-site-token')) return UNAUTHORISED;
      const [, version, what, id, below, item] = url.pathname.split('/');
      if (version !== 'v2') return NOT_FOUND;
      if (what === 'sites' && below === 'collections') return { body: { collections } };
      if (what === 'sites') return id === undefined ? { body: { sites } } : foundIn(sites, id);
      if (what !== 'collections') return NOT_FOUND;
      if (below === undefined) return foundIn(collections, id, (one) => ({ ...one, fields: [] }));
      if (item !== undefined) return found(shelf.one(numberIn(item.slice(4))), (one) => one);
      const [offset, limit] = [numeric(url, 'offset', 0), Math.min(numeric(url, 'limit', 100), 100)];
      const all = items(id);
      return { body: { items: all.slice(offset, offset + limit), pagination: { limit, offset, total: all.length } } };
    },
  };
}
