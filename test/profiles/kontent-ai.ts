import type { Asked, Reply } from '../pagination/listing-server.ts';
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

const BASE = '/975bf280';
const PAGE = 100;

const itemOf = (n: number, rev: number): JsonObject => ({
  system: {
    id: `335d17ac-${n}`,
    codename: named('item_', n),
    language: 'en-US',
    type: 'article',
    // Of the text, not of its publication.
    last_modified: '2025-12-01T08:00:00Z',
  },
  elements: { title: { type: 'text', name: 'Title', value: `Title ${n}.${rev}` } },
});

const others = (codename: string, more: JsonObject): JsonObject[] => [
  { system: { id: `${codename}-1`, codename }, ...more },
];

const place = ({ headers }: Asked): number => numberIn(String(headers['x-continuation'] ?? '0'));

function feed(shelf: Shelf, asked: Asked): Reply {
  const [from, rows] = [place(asked), shelf.rows()];
  const more = from + PAGE < rows.length ? { 'X-Continuation': named('feed', from + PAGE) } : {};
  return { headers: more, body: { items: rows.slice(from, from + PAGE), modular_content: {} } };
}

function sync(shelf: Shelf, asked: Asked): Reply {
  if (asked.headers['x-continuation'] === undefined)
    return { status: 400, body: { message: 'X-Continuation is required' } };
  const items = shelf.since(place(asked)).map(({ record, n, time }) => ({
    change_type: record === null ? 'deleted' : 'changed',
    timestamp: time,
    data: { system: { id: `335d17ac-${n}`, codename: named('item_', n), language: 'en-US' } },
  }));
  return { headers: { 'X-Continuation': named('sync', shelf.seq) }, body: { items } };
}

/** Kontent.ai's Delivery API and its Sync API: both go on by a header. */
export function kontentAi(): DocumentedService {
  const shelf = new Shelf(230, itemOf);
  const lists: Record<string, JsonObject[]> = {
    types: others('article', { elements: { title: { type: 'text', name: 'Title' } } }),
    taxonomies: others('topics', { terms: [{ name: 'News', codename: 'news', terms: [] }] }),
    languages: others('en-US', {}),
  };
  return {
    profile: 'kontent-ai',
    auth: { type: 'bearer', token: 'delivery-api-key' },
    refused: { type: 'bearer', token: 'delivery-api-nobody' },
    shelf,
    walks: 0,
    truth: () => ({
      items: truthOf(shelf.rows(), codenameOf),
      types: truthOf(lists['types'] ?? [], codenameOf),
      taxonomies: truthOf(lists['taxonomies'] ?? [], codenameOf),
      languages: truthOf(lists['languages'] ?? [], codenameOf),
    }),
    answer: (url, asked) => {
      if (!sends(asked, 'authorization', 'Bearer delivery-api-key')) return UNAUTHORISED;
      const [what = '', id] = url.pathname.slice(BASE.length + 1).split('/');
      if (what === 'items-feed') return feed(shelf, asked);
      if (what === 'sync' && id === 'init') {
        return asked.method === 'POST'
          ? { headers: { 'X-Continuation': named('sync', shelf.seq) }, body: { items: [] } }
          : NOT_FOUND;
      }
      if (what === 'sync') return sync(shelf, asked);
      if (what === 'items') return found(shelf.one(numberIn(id)), (item) => ({ item, modular_content: {} }));
      const rows = lists[what] ?? [];
      if (id !== undefined)
        return found(
          rows.find((row) => codenameOf(row) === id),
          (row) => row,
        );
      const listed = rows.slice(numeric(url, 'skip', 0));
      return {
        body: {
          [what]: listed,
          pagination: { skip: numeric(url, 'skip', 0), limit: 1000, count: listed.length, next_page: '' },
        },
      };
    },
  };
}

const codenameOf = ({ system }: JsonObject): unknown =>
  typeof system === 'object' && system !== null && 'codename' in system && system['codename'];
