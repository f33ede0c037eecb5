import type { Reply } from '../pagination/listing-server.ts';
import type { JsonObject } from '../services/service-stage.ts';
import {
  foundIn,
  named,
  NOT_FOUND,
  numeric,
  sends,
  Shelf,
  truthOf,
  UNAUTHORISED,
  type DocumentedService,
} from './documented-service.ts';

const PAGE = 100;

const published = (n: number, rev: number, time: string): JsonObject => ({
  type: 'entry_published',
  event_at: time,
  content_type_uid: 'post',
  // Edited before it was published.
  data: {
    uid: named('blt', n),
    locale: 'en-us',
    _version: rev,
    title: `Title ${n}.${rev}`,
    updated_at: '2025-12-01T08:00:00.000Z',
  },
});

/** Contentstack's Content Delivery API with the stream of its Sync API, in pages of 100. */
export function contentstack(): DocumentedService {
  const shelf = new Shelf(230, published);
  const asset = { uid: 'blta', filename: 'a.png', updated_at: '2025-12-01T08:00:00.000Z' };
  const assets = [
    { type: 'asset_published', event_at: '2026-01-01T08:00:00.000Z', content_type_uid: 'sys_assets', data: asset },
  ];
  const types = [{ uid: 'post', title: 'Post', schema: [{ uid: 'title', data_type: 'text' }] }];
  const delta = (from: number): JsonObject[] =>
    shelf.since(from).map(({ record, n, time }) => {
      const data = { uid: named('blt', n), locale: 'en-us', content_type_uid: 'post' };
      return record ?? { type: 'entry_deleted', event_at: time, content_type_uid: 'post', data };
    });
  const sync = ({ searchParams }: URL): Reply => {
    const page = searchParams.get('pagination_token');
    const token = page ?? searchParams.get('sync_token') ?? (searchParams.has('init') ? `all_${shelf.seq}_0` : '');
    if (!/^(all|delta)_\d+_\d+$/.test(token)) return { status: 422, body: { error_message: 'no token' } };
    const [kind, from, seen] = token.split('_');
    const items = kind === 'all' ? [...shelf.rows(), ...assets] : delta(Number(from));
    const end = Number(seen) + PAGE;
    const goesOn = end < items.length;
    const last = `delta_${kind === 'all' ? from : shelf.seq}_0`;
    const next = goesOn ? { pagination_token: `${kind}_${from}_${end}` } : { sync_token: last };
    return {
      body: {
        items: items.slice(Number(seen), end),
        skip: Number(seen),
        limit: PAGE,
        total_count: items.length,
        ...next,
      },
    };
  };
  return {
    profile: 'contentstack',
    auth: { type: 'headers', headers: { api_key: 'stack-api-key', access_token: 'delivery-token' } },
    refused: { type: 'headers', headers: { api_key: 'stack-api-key', access_token: 'another-token' } },
    shelf,
    walks: 0,
    truth: () => ({
      entries: truthOf(shelf.rows(), ({ data }) => keyIn(data)),
      assets: truthOf(assets, () => 'blta'),
      content_types: truthOf(types, ({ uid }) => uid),
    }),
    answer: (url, asked) => {
      if (!sends(asked, 'api_key', 'stack-api-key') || !sends(asked, 'access_token', 'delivery-token'))
        return UNAUTHORISED;
      if (url.pathname === '/v3/stacks/sync')
        return url.searchParams.get('environment') === 'production' ? sync(url) : NOT_FOUND;
      if (url.pathname === '/v3/content_types') {
        return { body: { content_types: types.slice(numeric(url, 'skip', 0)), count: types.length } };
      }
      const uid = url.pathname.replace('/v3/content_types/', '');
      return foundIn(types, uid, (content_type) => ({ content_type }), 'uid');
    },
  };
}

const keyIn = (data: unknown): unknown => {
  return typeof data === 'object' && data !== null && 'uid' in data ? ['en-us', data.uid] : null;
};
