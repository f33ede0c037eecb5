import {
  allPages,
  call,
  keyedBy,
  listOf,
  objectOf,
  textAt,
  type Edit,
  type JsonObject,
  type LiveService,
} from './live-service.ts';

const BASE = 'http://127.0.0.1:4110';
const TOKEN = 'directus-lab-static-token-0001';
const SIZE = 100;

const own = (name: string): Record<string, unknown> => ({ path: `/items/${name}`, item: `/items/${name}/{id}` });

/** With a token that may read what everybody did. */
const DELETE_FEED = {
  path: '/activity',
  query: {
    'filter[action][_eq]': 'delete',
    'filter[collection][_eq]': 'articles',
    'filter[timestamp][_gte]': '{since}',
    sort: 'id',
  },
  records: 'data',
  id: 'item',
  at: 'timestamp',
  format: 'iso',
};

/** Collections with and without times of change, and files. */
export function directus(): LiveService {
  const api = async (path: string, init: Parameters<typeof call>[1] = {}) =>
    objectOf((await call(`${BASE}${path}`, { ...init, headers: { authorization: `Bearer ${TOKEN}` } })).json ?? {})[
      'data'
    ] ?? null;
  const read = (path: string, fields: string): Promise<JsonObject[]> =>
    allPages(SIZE, (page) => api(`${path}?limit=${SIZE}&page=${page}&sort=id&fields=${fields}`));
  const some = async (nth: number): Promise<string> =>
    textAt(listOf(await api('/items/articles?limit=50&fields=id&sort=slug'))[nth], 'id');
  const EDITS: Record<Edit, (nth: number) => Promise<unknown>> = {
    create: (nth) =>
      api('/items/articles', {
        method: 'POST',
        json: { title: `New ${nth} — ü`, slug: `new-${Date.now()}`, status: 'draft' },
      }),
    update: async (nth) =>
      api(`/items/articles/${await some(nth)}`, { method: 'PATCH', json: { title: `Changed ${nth} “again”` } }),
    hide: async () => undefined,
    show: async () => undefined,
    remove: async (nth) => api(`/items/articles/${await some(nth)}`, { method: 'DELETE' }),
  };
  const untimed = { updated: null, incremental: null };
  return {
    script: 'directus',
    version: 'Directus 12.4.0',
    shrink: async (left) => {
      for (const name of ['articles', 'article_stats']) {
        const rest = (await read(`/items/${name}`, 'id')).slice(left).map((each) => textAt(each, 'id'));
        if (rest.length > 0) await api(`/items/${name}`, { method: 'DELETE', json: rest });
      }
    },
    profile: 'directus',
    baseUrl: BASE,
    auth: { type: 'bearer', token: TOKEN },
    resources: {
      articles: { ...own('articles'), delete_feed: DELETE_FEED },
      authors: own('authors'),
      tags: { ...own('tags'), ...untimed },
      article_stats: own('article_stats'),
    },
    compared: ['articles', 'authors', 'tags', 'article_stats', 'files'],
    edited: 'articles',
    edits: ['create', 'update', 'remove'],
    truth: async (resource) =>
      keyedBy('id', await (resource === 'files' ? read('/files', '*') : read(`/items/${resource}`, '*'))),
    edit: async (edit, nth) => void (await EDITS[edit](nth)),
  };
}
