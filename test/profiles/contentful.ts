import type { Reply } from '../pagination/listing-server.ts';
import type { JsonObject } from '../services/service-stage.ts';
import {
  found,
  named,
  NOT_FOUND,
  numberIn,
  numeric,
  sends,
  Shelf,
  truthOf,
  UNAUTHORISED,
  type DocumentedService,
} from './documented-service.ts';

const BASE = '/spaces/blog/environments/master';

const recordOf = (type: string) => (n: number, rev: number, time: string) => ({
  metadata: { tags: [] },
  sys: { id: named(type, n), type, revision: rev, createdAt: '2026-01-01T08:00:00.000Z', updatedAt: time },
  fields: { title: { 'en-US': `Title ${n}.${rev}`, 'de-CH': `Titel ${n}.${rev}` } },
});

/** Contentful's Content Delivery API, with the stream of its Sync API. */
export function contentful(): DocumentedService {
  const shelf = new Shelf(130, recordOf('Entry'));
  const assets = new Shelf(20, recordOf('Asset'));
  const types = new Shelf(3, recordOf('ContentType'));
  const all = (): JsonObject[] => [...shelf.rows(), ...assets.rows()];
  const delta = (from: number): JsonObject[] =>
    shelf.since(from).map(({ record, n, time }) => {
      return record ?? { sys: { type: 'DeletedEntry', id: named('Entry', n), deletedAt: time } };
    });
  const sync = (url: URL): Reply => {
    const token = url.searchParams.get('sync_token');
    if (token === null && url.searchParams.get('initial') !== 'true') return { status: 400, body: {} };
    // Kind, place in the log, limit, and how much of it was seen.
    const [kind, from, limit, seen] = (token ?? `all_${shelf.seq}_${numeric(url, 'limit', 100)}_0`).split('_');
    const items = kind === 'all' ? all() : delta(Number(from));
    const [start, end] = [Number(seen), Number(seen) + Number(limit)];
    const link = (text: string): string => `${url.origin}${BASE}/sync?sync_token=${text}`;
    const goesOn = end < items.length;
    const next = goesOn
      ? { nextPageUrl: link(`${kind}_${from}_${limit}_${end}`) }
      : { nextSyncUrl: link(`delta_${kind === 'all' ? from : shelf.seq}_${limit}_0`) };
    return { body: { sys: { type: 'Array' }, items: items.slice(start, end), ...next } };
  };
  return {
    profile: 'contentful',
    auth: { type: 'bearer', token: 'cda-token-of-the-blog' },
    refused: { type: 'bearer', token: 'cda-token-of-nobody' },
    resources: { entries: { page: { size: 50 } } },
    shelf,
    walks: 0,
    truth: () => ({
      entries: truthOf(shelf.rows(), idOf),
      assets: truthOf(assets.rows(), idOf),
      content_types: truthOf(types.rows(), idOf),
    }),
    answer: (url, asked) => {
      if (!sends(asked, 'authorization', 'Bearer cda-token-of-the-blog')) return UNAUTHORISED;
      if (!url.pathname.startsWith(`${BASE}/`)) return NOT_FOUND;
      const [what, id] = url.pathname.slice(BASE.length + 1).split('/');
      if (what === 'sync') return sync(url);
      const from = { entries: shelf, assets, content_types: types }[what ?? ''];
      if (from === undefined) return NOT_FOUND;
      if (id !== undefined) return found(from.one(numberIn(id)), (record) => record);
      const [skip, limit] = [numeric(url, 'skip', 0), numeric(url, 'limit', 100)];
      return { body: { total: from.rows().length, skip, limit, items: from.rows().slice(skip, skip + limit) } };
    },
  };
}

const idOf = ({ sys }: JsonObject): unknown => typeof sys === 'object' && sys !== null && 'id' in sys && sys['id'];
