import { remembered } from './live-stage.ts';
import {
  allPages,
  call,
  type Edit,
  type JsonObject,
  keyedBy,
  listOf,
  type LiveService,
  objectOf,
  textAt,
  type TrueRecord,
} from './live-service.ts';

const BASE = 'http://127.0.0.1:4120';
const SIZE = 100;

const RESOURCES = {
  articles: {
    path: '/articles',
    item: '/articles/{id}',
    partitions: { values: ['published', 'draft'], param: 'status', field: 'publication_state' },
  },
  authors: { path: '/authors', item: '/authors/{id}' },
  tags: { path: '/tags', item: '/tags/{id}' },
  article_stats: { path: '/article-stats', item: '/article-stats/{id}' },
};

/** Both sides of a document have its id. */
const ofSide = (side: string, records: readonly JsonObject[]): TrueRecord[] =>
  records.map((record) => ({
    id: JSON.stringify([side, textAt(record, 'documentId')]),
    record: { ...record, publication_state: side },
  }));

/** Articles on their published and their draft side, further collections, and files. */
export function strapi(): LiveService {
  const { readToken, fullToken }: Record<string, string> = JSON.parse(remembered('strapi', 'state.json'));
  const api = async (path: string, init: Parameters<typeof call>[1] = {}) =>
    (await call(`${BASE}/api${path}`, { ...init, headers: { authorization: `Bearer ${fullToken}` } })).json;
  const read = (collection: string, query: string): Promise<JsonObject[]> =>
    allPages(SIZE, async (page) => {
      const paging = `pagination[page]=${page}&pagination[pageSize]=${SIZE}&sort=documentId:asc&populate=*`;
      return objectOf(await api(`/${collection}?${paging}${query}`))['data'] ?? null;
    });
  const sides = async (): Promise<TrueRecord[]> => {
    const [published, drafts] = [await read('articles', '&status=published'), await read('articles', '&status=draft')];
    return [...ofSide('published', published), ...ofSide('draft', drafts)];
  };
  const published = async (nth: number): Promise<string> => {
    const { data } = objectOf(await api('/articles?status=published&pagination[pageSize]=50&fields[0]=title'));
    return textAt(listOf(data)[nth], 'documentId');
  };
  const EDITS: Record<Edit, (nth: number) => Promise<unknown>> = {
    create: (nth) =>
      api('/articles?status=published', {
        method: 'POST',
        json: { data: { title: `New ${nth} — ü`, slug: `new-${Date.now()}-${nth}` } },
      }),
    // A draft is edited; the published side stays.
    update: async (nth) =>
      api(`/articles/${await published(nth)}?status=${nth % 2 === 0 ? 'draft' : 'published'}`, {
        method: 'PUT',
        json: { data: { title: `Changed ${nth} “again”` } },
      }),
    hide: async () => undefined,
    show: async () => undefined,
    remove: async (nth) => api(`/articles/${await published(nth)}`, { method: 'DELETE' }),
  };
  return {
    script: 'strapi',
    version: 'Strapi 5.54.0',
    shrink: async (left) => {
      for (const each of (await read('articles', '&status=draft')).slice(left)) {
        await api(`/articles/${textAt(each, 'documentId')}`, { method: 'DELETE' });
      }
      const stats = await read('article-stats', '');
      for (const each of stats.slice(left))
        await api(`/article-stats/${textAt(each, 'documentId')}`, { method: 'DELETE' });
    },
    profile: 'strapi',
    baseUrl: BASE,
    auth: { type: 'bearer', token: readToken },
    resources: RESOURCES,
    compared: ['articles', 'authors', 'tags', 'article_stats', 'files'],
    edited: 'articles',
    edits: ['create', 'update', 'remove'],
    truth: async (resource) => {
      if (resource === 'articles') return sides();
      if (resource === 'files') return keyedBy('id', listOf(await api('/upload/files?populate=*')));
      return keyedBy('documentId', await read(resource.replace('_', '-'), ''));
    },
    edit: async (edit, nth) => void (await EDITS[edit](nth)),
  };
}
