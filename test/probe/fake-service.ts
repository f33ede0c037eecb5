import { createServer, type IncomingMessage } from 'node:http';
import { onTestFinished } from 'vitest';
import { portOf } from '../faults/port-of.ts';

export type FakeRecord = Record<string, unknown>;

/** What a service does with a request; each part is named, so that a test reads as a sentence. */
export interface FakeShape {
  auth: keyof typeof AUTHS;
  pages: keyof typeof PAGES;
  /** Where the records stand: '' for a bare list, `*` for the name of the collection. */
  envelope: string;
  filter: keyof typeof FILTERS;
  item: 'bare' | 'data' | 'none' | 'list';
  times?: keyof typeof TIMES;
  /** The field with the time of change. */
  updated?: string;
  /** The time of change is null until the first change. */
  nullable?: boolean;
  /** A parameter that is not known is refused. */
  strict?: boolean;
  /** Status for a record that is not there. */
  missing?: number;
  /** A number that changes whenever the record does, beside the lasting id. */
  rowNumbers?: boolean;
  /** Most records on a page, whatever was asked for; a larger wish is refused where negative. */
  cap?: number;
  /** Records in `posts`. */
  count?: number;
}

export interface FakeService {
  url: string;
  collections: Map<string, FakeRecord[]>;
  /** Path and query of each request, in the order of arrival. */
  requests: string[];
  change(collection: string, at: number, fields: FakeRecord): void;
  add(collection: string, fields: FakeRecord): void;
  remove(collection: string, at: number): void;
}

export const SECRET = 'key-7f3a99b1c2d4';
export const USER = 'reader';

type Headers = IncomingMessage['headers'];

/** Whether a caller may read; `lenient` services answer a wrong credential as anonymous. */
const AUTHS = {
  none: () => true,
  bearer: ({ authorization }: Headers) => authorization === `Bearer ${SECRET}`,
  basic: ({ authorization }: Headers) =>
    authorization === `Basic ${Buffer.from(`${USER}:${SECRET}`).toString('base64')}`,
  header: (headers: Headers) => headers['x-api-key'] === SECRET,
  plain: ({ authorization }: Headers) => authorization === SECRET,
  query: (_: Headers, query: URLSearchParams) => query.get('key') === SECRET,
  lenient: ({ authorization }: Headers) =>
    authorization === `Basic ${Buffer.from(`${USER}:${SECRET}`).toString('base64')}`,
};

interface PageCall {
  rows: FakeRecord[];
  query: URLSearchParams;
  url: URL;
  cap: number;
}

interface Paged {
  rows: FakeRecord[];
  beside?: Record<string, unknown>;
  headers?: Record<string, string>;
  status?: number;
}

function sizeIn(query: URLSearchParams, name: string, usual: number, cap: number): number {
  const asked = Number(query.get(name) ?? usual);
  if (cap < 0) return asked > -cap ? NaN : asked;
  return Math.min(asked, cap);
}

function addressWith(url: URL, params: Record<string, string | number>): string {
  const next = new URL(url);
  for (const [name, value] of Object.entries(params)) next.searchParams.set(name, String(value));
  return next.href;
}

const slice = (rows: FakeRecord[], from: number, size: number): FakeRecord[] => rows.slice(from, from + size);

/** Ways of cutting a listing, with the parameters that each knows. */
const PAGES = {
  cursor: {
    params: ['limit', 'cursor'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const size = sizeIn(query, 'limit', 10, cap);
      const from = query.has('cursor')
        ? Number(
            Buffer.from(query.get('cursor') ?? '', 'base64url')
              .toString()
              .slice(2),
          )
        : 0;
      const more = from + size < rows.length;
      return {
        rows: slice(rows, from, size),
        beside: { next_cursor: more ? Buffer.from(`c:${from + size}`).toString('base64url') : null },
      };
    },
  },
  token: {
    params: ['pageSize', 'pageToken'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const size = sizeIn(query, 'pageSize', 10, cap);
      const from = Number((query.get('pageToken') ?? 't0').slice(1));
      const more = from + size < rows.length;
      return { rows: slice(rows, from, size), beside: more ? { nextPageToken: `t${from + size}` } : {} };
    },
  },
  hasMore: {
    params: ['limit', 'after'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const size = sizeIn(query, 'limit', 10, cap);
      const from = Number((query.get('after') ?? 'x0').slice(1));
      const more = from + size < rows.length;
      return {
        rows: slice(rows, from, size),
        beside: { paging: { after: `x${Math.min(from + size, rows.length)}`, has_more: more } },
      };
    },
  },
  page: {
    params: ['page', 'per_page'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const [size, page] = [sizeIn(query, 'per_page', 10, cap), Number(query.get('page') ?? 1)];
      return {
        rows: slice(rows, (page - 1) * size, size),
        beside: { meta: { total: rows.length, page, per_page: size } },
      };
    },
  },
  zeroPage: {
    params: ['page', 'size'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const [size, page] = [sizeIn(query, 'size', 10, cap), Number(query.get('page') ?? 0)];
      return {
        rows: slice(rows, page * size, size),
        beside: { totalElements: rows.length, totalPages: Math.ceil(rows.length / size) },
      };
    },
  },
  headers: {
    params: ['page', 'per_page'],
    cut: ({ rows, query, cap, url }: PageCall): Paged => {
      const [size, page] = [sizeIn(query, 'per_page', 10, cap), Number(query.get('page') ?? 1)];
      const pages = Math.ceil(rows.length / size);
      if (page > Math.max(1, pages)) return { rows: [], status: 400 };
      const next = page < pages ? [`<${addressWith(url, { page: page + 1 })}>; rel="next"`] : [];
      const prev = page > 1 ? [`<${addressWith(url, { page: page - 1 })}>; rel="prev"`] : [];
      const link = [...prev, ...next].join(', ');
      const headers = { 'x-wp-total': String(rows.length), 'x-wp-totalpages': String(pages) };
      return { rows: slice(rows, (page - 1) * size, size), headers: link === '' ? headers : { ...headers, link } };
    },
  },
  bracket: {
    params: ['pagination[page]', 'pagination[pageSize]'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const size = sizeIn(query, 'pagination[pageSize]', 10, cap);
      const page = Number(query.get('pagination[page]') ?? 1);
      const pagination = { page, pageSize: size, pageCount: Math.ceil(rows.length / size), total: rows.length };
      return { rows: slice(rows, (page - 1) * size, size), beside: { meta: { pagination } } };
    },
  },
  counted: {
    params: ['page', 'limit'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const [size, page] = [sizeIn(query, 'limit', 10, cap), Number(query.get('page') ?? 1)];
      const pages = Math.ceil(rows.length / size);
      const next = page === pages ? null : page + 1;
      const pagination = { page, limit: size, pages, total: rows.length, next, prev: page > 1 ? page - 1 : null };
      return { rows: slice(rows, (page - 1) * size, size), beside: { meta: { pagination } } };
    },
  },
  offset: {
    params: ['offset', 'limit'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const [size, from] = [sizeIn(query, 'limit', 10, cap), Number(query.get('offset') ?? 0)];
      return { rows: slice(rows, from, size), beside: { count: rows.length } };
    },
  },
  bareOffset: {
    params: ['skip', 'take'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const [size, from] = [sizeIn(query, 'take', 10, cap), Number(query.get('skip') ?? 0)];
      return { rows: slice(rows, from, size) };
    },
  },
  nextUrl: {
    params: ['limit', 'start'],
    cut: ({ rows, query, cap, url }: PageCall): Paged => {
      const [size, from] = [sizeIn(query, 'limit', 10, cap), Number(query.get('start') ?? 0)];
      const more = from + size < rows.length;
      return {
        rows: slice(rows, from, size),
        beside: { links: { next: more ? addressWith(url, { start: from + size }) : null } },
      };
    },
  },
  keyset: {
    params: ['limit', 'starting_after'],
    cut: ({ rows, query, cap }: PageCall): Paged => {
      const size = sizeIn(query, 'limit', 10, cap);
      const after = query.get('starting_after');
      const from = after === null ? 0 : rows.findIndex(({ id }) => String(id) === after) + 1;
      return { rows: slice(rows, from, size), beside: { has_more: from + size < rows.length } };
    },
  },
  single: { params: [], cut: ({ rows }: PageCall): Paged => ({ rows, beside: { total: rows.length } }) },
};

/** Whether a record is listed; `at` and `created` are epoch milliseconds, `at` null where it was never changed. */
type Filter = (query: URLSearchParams, at: number | null, created: number, updated: string) => boolean;

const since = (text: string | null, at: number | null): boolean =>
  text === null || (at !== null && at >= Date.parse(text));

const FILTERS: Record<string, { params: (updated: string) => string[]; lists: Filter }> = {
  none: { params: () => [], lists: () => true },
  since: { params: () => ['updated_since'], lists: (query, at) => since(query.get('updated_since'), at) },
  modifiedAfter: { params: () => ['modified_after'], lists: (query, at) => since(query.get('modified_after'), at) },
  epoch: {
    params: () => ['since'],
    lists: (query, at) =>
      !/^\d{9,11}$/.test(query.get('since') ?? '') || (at ?? 0) >= Number(query.get('since')) * 1_000,
  },
  dollar: {
    params: (updated) => [`filters[${updated}][$gte]`],
    lists: (query, at, _, updated) => since(query.get(`filters[${updated}][$gte]`), at),
  },
  either: {
    params: (updated) => [
      `filter[${updated}][_gte]`,
      `filter[_or][0][${updated}][_gte]`,
      'filter[_or][1][created_at][_gte]',
    ],
    lists: (query, at, created, updated) => {
      const [one, other] = [
        query.get(`filter[_or][0][${updated}][_gte]`),
        query.get('filter[_or][1][created_at][_gte]'),
      ];
      if (one !== null && other !== null) return since(one, at) || since(other, created);
      return since(query.get(`filter[${updated}][_gte]`), at);
    },
  },
  gte: {
    params: (updated) => [`${updated}_gte`],
    lists: (query, at, _, updated) => since(query.get(`${updated}_gte`), at),
  },
  /** Compares texts, as a database does that knows no times: `2026-11-20T..` is later than `2026-11-20 23:..`. */
  words: {
    params: () => ['filter'],
    lists: (query, at, _, updated) => {
      const [, field, text] = /^(\w+):>='(.*)'$/.exec(query.get('filter') ?? '') ?? [];
      if (text === undefined) return true;
      return field === updated && new Date(at ?? 0).toISOString().slice(0, 19).replace('T', ' ') >= text;
    },
  },
  sorted: { params: () => ['sort'], lists: () => true },
};

const TIMES = {
  iso: (at: number): unknown => new Date(at).toISOString(),
  seconds: (at: number): unknown => new Date(at).toISOString().replace(/\.\d+Z/, '+00:00'),
  local: (at: number): unknown => new Date(at).toISOString().slice(0, 19),
  epoch: (at: number): unknown => Math.floor(at / 1_000),
};

const MINUTE = 60_000;

interface Kept {
  record: FakeRecord;
  at: number | null;
  created: number;
}

/** Starts it: `posts` and, with fewer records, `authors`; gone when the test is over. */
export async function fakeService(shape: FakeShape): Promise<FakeService> {
  const { times = 'iso', updated = 'updated_at', nullable = false, count = 23 } = shape;
  const start = Math.floor(Date.now() / 1_000) * 1_000 - 5 * 24 * 60 * MINUTE;
  const stores = new Map<string, Kept[]>([
    ['posts', []],
    ['authors', []],
  ]);
  let number = 0;
  const written = (kept: Kept): FakeRecord => ({
    ...kept.record,
    created_at: TIMES[times](kept.created),
    [updated]: kept.at === null ? null : TIMES[times](kept.at),
  });
  const add = (collection: string, fields: FakeRecord, at: number): void => {
    number += 1;
    const id = shape.rowNumbers === true ? { id: number, documentId: `doc${number * 7}x${number}` } : { id: number };
    const record = { ...id, title: `${collection} ${number}`, body: `<p>${number}</p>`, ...fields };
    stores.get(collection)?.push({ record, at: nullable ? null : at, created: at });
  };
  for (let at = 0; at < count; at += 1) add('posts', { section: 'news' }, start + at * 37 * MINUTE);
  for (let at = 0; at < 7; at += 1) add('authors', { name: `author ${at}` }, start + at * 11 * MINUTE);
  if (nullable)
    for (const at of [3, 4, 9])
      stores.get('posts')?.forEach((kept, index) => index === at && (kept.at = start + 3_000 * MINUTE));

  const requests: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', `http://${request.headers.host}`);
    requests.push(decodeURIComponent(url.pathname + url.search));
    const { status = 200, headers = {}, body } = answer(shape, stores, written, request.headers, url);
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(body === undefined ? '' : JSON.stringify(body));
  });
  const port = await portOf(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${port}/api`,
    requests,
    get collections() {
      return new Map([...stores].map(([name, kept]) => [name, kept.map(written)]));
    },
    add: (collection, fields) => add(collection, fields, thisSecond()),
    change: (collection, at, fields) => {
      const kept = stores.get(collection)?.[at];
      if (kept === undefined) throw new Error('no such record');
      number += 1;
      const row = shape.rowNumbers === true ? { id: number } : {};
      Object.assign(kept, { record: { ...kept.record, ...fields, ...row }, at: thisSecond() });
    },
    remove: (collection, at) => void stores.get(collection)?.splice(at, 1),
  };
}

function thisSecond(): number {
  return Math.floor(Date.now() / 1_000) * 1_000;
}

interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

function answer(
  shape: FakeShape,
  stores: ReadonlyMap<string, Kept[]>,
  written: (kept: Kept) => FakeRecord,
  headers: Headers,
  url: URL,
): Reply {
  const mayRead = AUTHS[shape.auth](headers, url.searchParams);
  const [, , collection = '', id, ...rest] = url.pathname.split('/');
  if (shape.auth === 'lenient' && collection === 'users' && id === 'me') {
    return mayRead ? { body: { id: 1, name: USER } } : { status: 401, body: { code: 'not_logged_in' } };
  }
  if (!mayRead && shape.auth !== 'lenient') return { status: 401, body: { error: { message: 'who are you?' } } };
  const kept = stores.get(collection);
  if (kept === undefined || rest.length > 0) return { status: 404, body: { error: { message: 'no such route' } } };
  if (id !== undefined && id !== '') return oneOf(shape, kept, written, decodeURIComponent(id), collection);
  return listOf(shape, kept, written, url, collection);
}

function oneOf(
  shape: FakeShape,
  kept: readonly Kept[],
  written: (kept: Kept) => FakeRecord,
  id: string,
  collection: string,
): Reply {
  const key = shape.rowNumbers === true ? 'documentId' : 'id';
  const found = shape.item === 'none' ? undefined : kept.find(({ record }) => String(record[key]) === id);
  if (found === undefined)
    return { status: shape.item === 'none' ? 404 : (shape.missing ?? 404), body: { error: { message: 'not found' } } };
  const record = written(found);
  if (shape.item === 'data') return { body: { data: record } };
  return { body: shape.item === 'list' ? { [collection]: [record] } : record };
}

function listOf(
  shape: FakeShape,
  kept: readonly Kept[],
  written: (kept: Kept) => FakeRecord,
  url: URL,
  collection: string,
): Reply {
  const { updated = 'updated_at', cap = 100 } = shape;
  const [pages, filter] = [PAGES[shape.pages], FILTERS[shape.filter]];
  const known = new Set<string>([...pages.params, ...(filter?.params(updated) ?? []), 'key']);
  const strange = [...url.searchParams.keys()].find((name) => !known.has(name));
  if (shape.strict === true && strange !== undefined)
    return { status: 400, body: { error: { message: `Invalid parameter ${strange}` } } };
  const listed = kept.filter((each) => filter?.lists(url.searchParams, each.at, each.created, updated) ?? true);
  if (shape.filter === 'sorted' && url.searchParams.get('sort') === `-${updated}`)
    listed.sort((a, b) => (b.at ?? 0) - (a.at ?? 0));
  const paged = pages.cut({ rows: listed.map(written), query: url.searchParams, url, cap });
  const size = Number(url.searchParams.get(pages.params.find((name) => /size|limit|per|take/i.test(name)) ?? '') ?? 0);
  if (paged.status !== undefined || (cap < 0 && size > -cap))
    return { status: paged.status ?? 400, body: { code: 'invalid_page' } };
  return { headers: paged.headers ?? {}, body: enveloped(shape.envelope.replace('*', collection), paged) };
}

function enveloped(envelope: string, { rows, beside = {} }: Paged): unknown {
  if (envelope === '') return rows;
  const [first = '', second] = envelope.split('.');
  return { ...beside, [first]: second === undefined ? rows : { [second]: rows } };
}
