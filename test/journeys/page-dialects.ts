import type { Asked, Reply } from '../extract/listing-server.ts';

export interface Listed {
  id: number;
  title: string;
}

/** How a service cuts its listing into pages, and the fields of a resource that say so. */
export interface Dialect {
  fields: Record<string, unknown>;
  answer: (records: readonly Listed[], url: URL, asked: Asked) => Reply;
}

const SIZE = 5;

/** The records from a place on. */
function cut(records: readonly Listed[], from: number, size = SIZE): { data: readonly Listed[]; next: number | null } {
  return { data: records.slice(from, from + size), next: from + size < records.length ? from + size : null };
}

/** Pages by their number; past the end `past` answers. */
function byPage(past: (records: readonly Listed[], page: number, size: number) => Reply): Dialect['answer'] {
  return (records, url) => {
    const size = Number(url.searchParams.get('limit'));
    const page = Number(url.searchParams.get('page'));
    const { data } = cut(records, (page - 1) * size, size);
    return data.length === 0 && page > 1 ? past(records, page, size) : { body: { data } };
  };
}

interface Search {
  query?: unknown;
  page?: { size?: number; after?: string; from?: number };
}

const readBody = ({ body }: Asked): Search => JSON.parse(body === '' ? '{}' : body);

const lastPage = (records: readonly Listed[], _page: number, size: number): Reply => ({
  body: { data: records.slice(Math.floor((records.length - 1) / size) * size) },
});

export const DIALECTS: Readonly<Record<string, Dialect>> = {
  'POST, its cursor in the body': {
    fields: {
      method: 'POST',
      body: { query: { all: true } },
      page: { style: 'cursor', cursor_param: 'body:page.after', size_param: 'body:page.size', size: SIZE },
    },
    answer: (records, url, asked) => {
      const { query, page } = readBody(asked);
      if (asked.method !== 'POST' || query === undefined || url.search !== '') return { status: 405, body: {} };
      const { data, next } = cut(records, Number((page?.after ?? 'at-0').slice(3)), page?.size);
      return { body: { data, next_cursor: next === null ? null : `at-${next}` } };
    },
  },
  'POST by offsets, which are numbers': {
    fields: {
      method: 'POST',
      page: {
        style: 'offset',
        offset_param: 'body:page.from',
        size_param: 'body:page.size',
        size: SIZE,
        total: 'total',
      },
    },
    answer: (records, _url, asked) => {
      const { from, size } = readBody(asked).page ?? {};
      if (typeof from !== 'number' || typeof size !== 'number') return { status: 422, body: {} };
      return { body: { ...cut(records, from, size), total: records.length } };
    },
  },
  'a Link header': {
    fields: { page: { style: 'link', size: SIZE } },
    answer: (records, url) => {
      const { data, next } = cut(records, Number(url.searchParams.get('from') ?? 0));
      const target = `</report?from=${next ?? 0}&limit=${SIZE}>`;
      return { body: { data }, headers: { link: `${target}; rel="${next === null ? 'first' : 'next'}"` } };
    },
  },
  'the last id of a page': {
    fields: { page: { style: 'keyset', size: SIZE } },
    answer: (records, url) => {
      const since = Number(url.searchParams.get('since_id') ?? 0);
      return { body: { data: records.filter(({ id }) => id > since).slice(0, SIZE) } };
    },
  },
  'the last id, falling, and a word of more': {
    fields: { page: { style: 'keyset', cursor_param: 'before', has_more: 'more', size: SIZE, first_cursor: 999_999 } },
    answer: (records, url) => {
      const before = Number(url.searchParams.get('before'));
      const rest = records.filter(({ id }) => id < before).toReversed();
      return { body: { data: rest.slice(0, SIZE), more: rest.length > SIZE } };
    },
  },
  '400 past the end, in words': {
    fields: {
      page: { style: 'page', size: SIZE, end: { status: [400], body: { path: 'code', contains: 'invalid_page' } } },
    },
    answer: byPage(() => ({ status: 400, body: { code: 'rest_post_invalid_page_number' } })),
  },
  '404 past the end': {
    fields: { page: { style: 'page', size: SIZE, end: { status: [404] } } },
    answer: byPage(() => ({ status: 404, body: '' })),
  },
  'the last page again': {
    fields: { page: { style: 'page', size: SIZE, end: { repeated_page: true } } },
    answer: byPage(lastPage),
  },
  'a short page': {
    fields: { page: { style: 'page', size: SIZE, end: { short_page: true } } },
    answer: byPage(() => ({ body: { data: [] } })),
  },
  'an unchanged cursor': {
    fields: {
      records: 'response.docs',
      page: {
        style: 'cursor',
        cursor_param: 'cursorMark',
        first_cursor: '*',
        next_cursor: 'nextCursorMark',
        size: SIZE,
        end: { unchanged_cursor: true },
      },
    },
    answer: (records, url) => {
      const mark = url.searchParams.get('cursorMark') ?? '';
      const { data } = cut(records, Number(mark === '*' ? 0 : mark.slice(2)));
      const last = data.at(-1);
      const at = last === undefined ? mark : `+/${records.indexOf(last) + 1}`;
      return { body: { response: { docs: data }, nextCursorMark: at } };
    },
  },
  'all in one answer': {
    fields: { records: '', page: { style: 'single' } },
    answer: (records) => ({ body: records }),
  },
  'the number of the next page': {
    fields: { page: { style: 'page', size: SIZE, next_page: 'meta.next' } },
    answer: (records, url) => {
      const page = Number(url.searchParams.get('page'));
      const { data, next } = cut(records, (page - 1) * SIZE);
      // Past the end it counts on.
      return { body: { data, meta: { next: next === null && data.length > 0 ? null : page + 1 } } };
    },
  },
  'a number of pages in a header': {
    fields: {
      page: { style: 'page', size: SIZE, total: 'header:X-WP-Total', pages: 'header:X-WP-TotalPages' },
    },
    answer: (records, url) => {
      const pages = Math.ceil(records.length / SIZE);
      const { data } = cut(records, (Number(url.searchParams.get('page')) - 1) * SIZE);
      const headers = { 'x-wp-total': `${records.length}`, 'x-wp-totalpages': `${pages}` };
      return data.length === 0 ? { status: 400, body: {} } : { headers, body: { data } };
    },
  },
  'the number of the next page in a header': {
    fields: { records: '', page: { style: 'page', size: SIZE, next_page: 'header:X-Next-Page' } },
    answer: (records, url) => {
      const page = Number(url.searchParams.get('page'));
      const { data, next } = cut(records, (page - 1) * SIZE);
      return { headers: { 'x-next-page': next === null ? '' : `${page + 1}` }, body: data };
    },
  },
  'a query of GraphQL': {
    fields: {
      method: 'POST',
      body: {
        query: 'query($first: Int, $after: String) { posts(first: $first, after: $after) { nodes { id title } } }',
      },
      records: 'data.posts.nodes',
      page: {
        style: 'cursor',
        cursor_param: 'body:variables.after',
        size_param: 'body:variables.first',
        size: SIZE,
        next_cursor: 'data.posts.pageInfo.endCursor',
        has_more: 'data.posts.pageInfo.hasNextPage',
      },
    },
    answer: (records, _url, { body }) => {
      const { variables }: { variables: { first: number; after?: string } } = JSON.parse(body);
      const from = Number(variables.after?.slice(2) ?? 0);
      const { data, next } = cut(records, from, variables.first);
      const pageInfo = { hasNextPage: next !== null, endCursor: `c:${from + data.length}` };
      return { body: { data: { posts: { nodes: data, pageInfo } } } };
    },
  },
  'a cursor in a header': {
    fields: { page: { style: 'cursor', cursor_param: 'header:X-After', next_cursor: 'header:X-Next', size: SIZE } },
    answer: (records, _url, { headers }) => {
      const { data, next } = cut(records, Number(headers['x-after'] ?? 0));
      return { headers: { 'x-next': next === null ? '' : `${next}` }, body: { data } };
    },
  },
  'a cursor in the path': {
    fields: {
      path: '/report/from/{cursor}',
      page: { style: 'cursor', cursor_param: null, first_cursor: 'a/0', size: SIZE },
    },
    answer: (records, { pathname }) => {
      const { data, next } = cut(records, Number(decodeURIComponent(pathname.split('/').at(-1) ?? '').slice(2)));
      return { body: { data, next_cursor: next === null ? null : `a/${next}` } };
    },
  },
};
