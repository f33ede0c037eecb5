import type { Reply } from '../pagination/listing-server.ts';
import type { JsonObject } from '../services/service-stage.ts';
import {
  found,
  foundIn,
  NOT_FOUND,
  numberIn,
  numeric,
  sends,
  Shelf,
  timeOf,
  truthOf,
  UNAUTHORISED,
  type DocumentedService,
} from './documented-service.ts';

const BASE = '/admin/api/2025-01';
const BLOG = 241253187;

/** What lies behind an id and changed since a moment; and the link to the next page, which says all in `page_info`. */
function listed(url: URL, key: string, rows: readonly JsonObject[]): Reply {
  const since = Date.parse(url.searchParams.get('updated_at_min') ?? '1970-01-01T00:00:00Z');
  const all = rows
    .filter(({ id }) => Number(id) > numeric(url, 'since_id', 0))
    .filter((row) => timeOf(row, 'updated_at' in row ? 'updated_at' : 'created_at') >= since);
  const size = numeric(url, 'limit', 50);
  const next = `<${url.origin}${url.pathname}?limit=${size}&page_info=opaque>; rel="next"`;
  return { headers: all.length > size ? { link: next } : {}, body: { [key]: all.slice(0, size) } };
}

/** Deletes of pages, as the shop's events tell them. */
function events(shelf: Shelf, url: URL): JsonObject[] {
  const since = Date.parse(url.searchParams.get('created_at_min') ?? '1970-01-01T00:00:00Z');
  const gone = shelf.log.filter(({ record, time }) => record === null && Date.parse(time) >= since);
  if (url.searchParams.get('filter') !== 'Page' || url.searchParams.get('verb') !== 'destroy') return [];
  return gone.map(({ n, seq, time }) => ({
    id: seq,
    subject_id: 5000 + n,
    created_at: time,
    subject_type: 'Page',
    verb: 'destroy',
  }));
}

/** Shopify's REST Admin API, as far as blogs, articles, pages and the events of their deletes go. */
export function shopifyArticles(): DocumentedService {
  const shelf = new Shelf(130, (n, rev, time) => ({
    id: 5000 + n,
    title: `Title ${n}.${rev}`,
    shop_id: 1,
    handle: `page-${n}`,
    created_at: '2026-01-01T03:00:00-05:00',
    updated_at: time,
  }));
  const times = { created_at: '2026-01-01T03:00:00-05:00', updated_at: '2026-01-02T03:00:00-05:00' };
  const blogs = [{ id: BLOG, handle: 'news', title: 'News', ...times }];
  const articles = [1, 2, 3].map((n) => Object.assign({ id: 700 + n, blog_id: BLOG, title: `Article ${n}` }, times));
  const answers: [RegExp, (url: URL, id: string) => Reply][] = [
    [/^\/blogs\.json$/, (url) => listed(url, 'blogs', blogs)],
    [/^\/blogs\/(\d+)\.json$/, (_, id) => foundIn(blogs, Number(id), (blog) => ({ blog }))],
    [/^\/blogs\/\d+\/articles\.json$/, (url) => listed(url, 'articles', articles)],
    [/^\/blogs\/\d+\/articles\/(\d+)\.json$/, (_, id) => foundIn(articles, Number(id), (article) => ({ article }))],
    [/^\/pages\.json$/, (url) => listed(url, 'pages', shelf.rows())],
    [/^\/pages\/(\d+)\.json$/, (_, id) => found(shelf.one(numberIn(id) - 5000), (page) => ({ page }))],
    [/^\/events\.json$/, (url) => listed(url, 'events', events(shelf, url))],
  ];
  return {
    profile: 'shopify-articles',
    auth: { type: 'api_key', key: 'shpat_of_the_shop' },
    refused: { type: 'api_key', key: 'shpat_of_nobody' },
    resources: { pages: { page: { size: 50 } } },
    shelf,
    walks: 0,
    truth: () => ({
      blogs: truthOf(blogs, ({ id }) => id),
      articles: truthOf(articles, ({ id }) => [BLOG, id]),
      pages: truthOf(shelf.rows(), ({ id }) => id),
    }),
    answer: (url, asked) => {
      if (!sends(asked, 'x-shopify-access-token', 'shpat_of_the_shop')) return UNAUTHORISED;
      const path = url.pathname.startsWith(BASE) ? url.pathname.slice(BASE.length) : '';
      const known = answers
        .map(([form, answer]) => ({ matched: form.exec(path), answer }))
        .find(({ matched }) => matched);
      return known?.answer(url, known.matched?.[1] ?? '') ?? NOT_FOUND;
    },
  };
}
