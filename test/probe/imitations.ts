import { createServer, type IncomingHttpHeaders } from 'node:http';
import { onTestFinished } from 'vitest';
import { portOf } from '../faults/port-of.ts';
import { SECRET, USER, type FakeRecord } from './fake-service.ts';

/** A service that answers as a real one was seen to, in the parts that matter to a copy. */
export interface Imitation {
  url: string;
  requests: string[];
  /** What the copy of a resource must hold. */
  records: (resource: string) => FakeRecord[];
  /** Changes a record of the main resource, and adds one. */
  edit: () => void;
}

interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
}

interface Asked {
  url: URL;
  headers: IncomingHttpHeaders;
  /** Below the base, without slashes at its ends. */
  path: string[];
  query: URLSearchParams;
}

async function start(base: string, respond: (asked: Asked) => Reply): Promise<{ url: string; requests: string[] }> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', `http://${request.headers.host}`);
    requests.push(decodeURIComponent(url.pathname + url.search));
    const path = url.pathname
      .slice(base.length)
      .split('/')
      .filter((part) => part !== '');
    const {
      status = 200,
      headers = {},
      body,
    } = respond({ url, headers: request.headers, path, query: url.searchParams });
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body ?? null));
  });
  const port = await portOf(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${port}${base}`, requests };
}

const MINUTE = 60_000;
const START = Date.parse('2026-06-20T14:01:46Z');
const thisSecond = (): number => Math.floor(Date.now() / 1_000) * 1_000;

interface Post {
  n: number;
  at: number;
  changed: number | null;
  title: string;
  status: string;
}

const posts = (count: number): Post[] =>
  Array.from({ length: count }, (_, at) => {
    const time = START + at * 97 * MINUTE;
    return {
      n: at + 1,
      at: time,
      changed: at % 7 === 0 ? time + 90 * 1_440 * MINUTE : null,
      title: `Title ${at}`,
      status: at % 5 === 0 ? 'draft' : 'published',
    };
  });

const edited = (all: Post[]) => (): void => {
  const [, second] = all;
  if (second !== undefined) Object.assign(second, { title: 'changed', changed: thisSecond() });
  all.push({ n: 1_000, at: thisSecond(), changed: null, title: 'new', status: 'published' });
};

const basic = `Basic ${Buffer.from(`${USER}:${SECRET}`).toString('base64')}`;
const zurich = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Europe/Zurich', dateStyle: 'short', timeStyle: 'medium' });
const utc = (at: number): string => new Date(at).toISOString().slice(0, 19);
const local = (at: number): string => zurich.format(at).replace(' ', 'T');

/** Bare lists with counts in headers; a wrong credential is answered as none; local times beside those in UTC. */
export async function wordPress(): Promise<Imitation> {
  const all = posts(130);
  const of = (post: Post): FakeRecord => ({
    id: post.n,
    date: local(post.at),
    date_gmt: utc(post.at),
    modified: local(post.changed ?? post.at),
    modified_gmt: utc(post.changed ?? post.at),
    slug: `post-${post.n}`,
    status: post.status === 'draft' ? 'draft' : 'publish',
    title: { rendered: post.title },
    _links: { self: [{ href: `https://example.com/${post.n}` }] },
  });
  const tags = Array.from({ length: 12 }, (_, at): FakeRecord => ({
    id: 50 + at,
    count: at,
    name: `tag ${at}`,
    slug: `tag-${at}`,
    meta: [],
  }));
  const service = await start('/wp-json/wp/v2', ({ url, headers, path: [name, id], query }) => {
    const isKnown = headers.authorization === basic;
    if (name === undefined) {
      const routes = [
        '/wp/v2',
        '/wp/v2/posts',
        '/wp/v2/posts/(?P<id>[\\d]+)',
        '/wp/v2/tags',
        '/wp/v2/users/me',
        '/wp/v2/types',
        '/wp/v2/settings',
      ];
      const args = { page: {}, per_page: {}, modified_after: {}, search: {} };
      return {
        body: {
          namespace: 'wp/v2',
          routes: Object.fromEntries(routes.map((route) => [route, { methods: ['GET'], endpoints: [{ args }] }])),
        },
      };
    }
    if (name === 'users')
      return isKnown
        ? { body: { id: 1, name: USER } }
        : {
            status: 401,
            body: { code: 'rest_not_logged_in', message: 'You are not currently logged in.', data: { status: 401 } },
          };
    if (name !== 'posts' && name !== 'tags')
      return { status: 404, body: { code: 'rest_no_route', message: 'No route', data: { status: 404 } } };
    const status = query.get('status') ?? 'publish';
    if (name === 'posts' && status !== 'publish' && !(isKnown && status === 'any'))
      return {
        status: 400,
        body: { code: 'rest_invalid_param', message: 'Invalid parameter(s): status', data: { status: 400 } },
      };
    const rows = name === 'tags' ? tags : all.filter((post) => status === 'any' || post.status !== 'draft').map(of);
    if (id !== undefined) {
      const found = (name === 'tags' ? tags : all.map(of)).find((row) => String(row['id']) === id);
      return found === undefined
        ? { status: 404, body: { code: 'rest_post_invalid_id', message: 'Invalid post ID.', data: { status: 404 } } }
        : { body: found };
    }
    const after = query.get('modified_after');
    const listed =
      after === null || name === 'tags'
        ? rows
        : rows.filter((row) => Date.parse(`${String(row['modified_gmt'])}Z`) > Date.parse(after));
    const [size, page] = [Number(query.get('per_page') ?? 10), Number(query.get('page') ?? 1)];
    const pages = Math.ceil(listed.length / size);
    if (size > 100)
      return {
        status: 400,
        body: { code: 'rest_invalid_param', message: 'Invalid parameter(s): per_page', data: { status: 400 } },
      };
    if (page > Math.max(pages, 1))
      return {
        status: 400,
        body: {
          code: 'rest_post_invalid_page_number',
          message: 'The page number requested is larger',
          data: { status: 400 },
        },
      };
    const next = new URL(url);
    next.searchParams.set('page', String(page + 1));
    const link = page < pages ? { link: `<${next.href}>; rel="next"` } : {};
    return {
      headers: { 'x-wp-total': String(listed.length), 'x-wp-totalpages': String(pages), ...link },
      body: listed.slice((page - 1) * size, page * size),
    };
  });
  return { ...service, records: (resource) => (resource === 'tags' ? tags : all.map(of)), edit: edited(all) };
}

/** A key in the query, an address with a slash, a filter that compares texts, and a next page that goes on for ever. */
export async function ghost(): Promise<Imitation> {
  const all = posts(130).filter(({ status }) => status !== 'draft');
  const of = (post: Post): FakeRecord => ({
    id: `61a${String(post.n).padStart(21, '0')}`,
    uuid: `uuid-${post.n}`,
    title: post.title,
    slug: `post-${post.n}`,
    created_at: stamp(post.at),
    updated_at: stamp(post.changed ?? post.at),
    published_at: stamp(post.at),
  });
  const stamp = (at: number): string => `${utc(at)}.000+00:00`;
  const tags = Array.from({ length: 12 }, (_, at): FakeRecord => ({
    id: `71b${String(at).padStart(21, '0')}`,
    name: `tag ${at}`,
    slug: `tag-${at}`,
  }));
  const service = await start('/ghost/api/content', ({ url, path: [name, id], query }) => {
    if (name !== 'posts' && name !== 'tags')
      return { status: 404, body: { errors: [{ message: 'Resource not found', type: 'NotFoundError' }] } };
    if (!url.pathname.endsWith('/')) return { status: 301, headers: { location: `${url.pathname}/${url.search}` } };
    if (!query.has('key'))
      return { status: 403, body: { errors: [{ message: 'Authorization failed', type: 'NoPermissionError' }] } };
    if (query.get('key') !== SECRET)
      return { status: 401, body: { errors: [{ message: 'Unknown Content API Key', type: 'UnauthorizedError' }] } };
    const rows = name === 'tags' ? tags : all.map(of);
    if (id !== undefined) {
      const found = rows.find((row) => row['id'] === id);
      return found === undefined
        ? { status: 404, body: { errors: [{ message: 'Resource not found error', type: 'NotFoundError' }] } }
        : { body: { [name]: [found] } };
    }
    const text = query.get('filter');
    const [, field = '', since = ''] = /^(\w+):>='([^']*)'$/.exec(text ?? '') ?? [];
    if (text !== null && field === '')
      return { status: 400, body: { errors: [{ message: 'Error parsing filter', type: 'BadRequestError' }] } };
    const listed =
      text === null || name === 'tags'
        ? rows
        : all.filter((post) => utc(post.changed ?? post.at).replace('T', ' ') >= since).map(of);
    const [limit, page] = [Math.min(Number(query.get('limit') ?? 15), 100), Number(query.get('page') ?? 1)];
    const pages = Math.ceil(listed.length / limit);
    const pagination = {
      page,
      limit,
      pages,
      total: listed.length,
      next: page === pages || pages === 0 ? null : page + 1,
      prev: page > 1 ? page - 1 : null,
    };
    return { body: { [name]: listed.slice((page - 1) * limit, page * limit), meta: { pagination } } };
  });
  return { ...service, records: (resource) => (resource === 'tags' ? tags : all.map(of)), edit: edited(all) };
}

/** Unknown parameters are refused, numbers of rows change with each publish, and files come all at once. */
export async function strapi(): Promise<Imitation> {
  const all = posts(130).filter(({ status }) => status !== 'draft');
  const of = (post: Post): FakeRecord => ({
    id: post.n * 2 + (post.changed === null ? 0 : 1),
    documentId: `rrop5c9w16utbklhxran${1_000 + post.n}`,
    title: post.title,
    views: '15386',
    createdAt: new Date(post.at).toISOString(),
    updatedAt: new Date(post.changed ?? post.at).toISOString(),
    locale: null,
  });
  const tags = Array.from({ length: 12 }, (_, at): FakeRecord => ({
    id: at + 1,
    documentId: `abcd5c9w16utbklhxran${at + 100}`,
    name: `tag ${at}`,
    createdAt: new Date(START).toISOString(),
    updatedAt: new Date(START + at * MINUTE).toISOString(),
  }));
  const refused = (status: number, name: string): Reply => ({
    status,
    body: { data: null, error: { status, name, message: name, details: {} } },
  });
  const service = await start('/api', ({ headers, path: [name, id], query }) => {
    if (name !== 'articles' && name !== 'tags') return refused(404, 'NotFoundError');
    if (headers.authorization === undefined) return refused(403, 'ForbiddenError');
    if (headers.authorization !== `Bearer ${SECRET}`) return refused(401, 'UnauthorizedError');
    const known =
      /^(?:pagination\[(?:page|pageSize|start|limit|withCount)\]|filters\[.*|sort|fields\[\d+\]|populate|status|locale)$/;
    if ([...query.keys()].some((key) => !known.test(key)) || !['published', null].includes(query.get('status')))
      return refused(400, 'ValidationError');
    const rows = name === 'tags' ? tags : all.map(of);
    if (id !== undefined) {
      const found = rows.find((row) => row['documentId'] === id);
      return found === undefined ? refused(404, 'NotFoundError') : { body: { data: found, meta: {} } };
    }
    const filter = [...query].find(([key]) => key.startsWith('filters['));
    if (filter !== undefined && filter[0] !== 'filters[updatedAt][$gte]') return refused(400, 'ValidationError');
    const listed =
      filter === undefined ? rows : rows.filter((row) => Date.parse(String(row['updatedAt'])) >= Date.parse(filter[1]));
    const [size, page] = [
      Math.min(Number(query.get('pagination[pageSize]') ?? 25), 100),
      Number(query.get('pagination[page]') ?? 1),
    ];
    const pagination = { page, pageSize: size, pageCount: Math.ceil(listed.length / size), total: listed.length };
    return { body: { data: listed.slice((page - 1) * size, page * size), meta: { pagination } } };
  });
  return { ...service, records: (resource) => (resource === 'tags' ? tags : all.map(of)), edit: edited(all) };
}

/** The time of change is null until the first one, all that is unknown is forbidden, and no total is told. */
export async function directus(): Promise<Imitation> {
  const all = posts(130);
  const of = (post: Post): FakeRecord => ({
    id: `012f${String(1_000 + post.n)}-aaaa-4bbb-8ccc-0123456789ab`,
    title: post.title,
    status: post.status,
    date_created: new Date(post.at).toISOString(),
    date_updated: post.changed === null ? null : new Date(post.changed).toISOString(),
  });
  const tags = Array.from({ length: 12 }, (_, at): FakeRecord => ({ id: at + 1, name: `tag ${at}` }));
  const forbidden: Reply = {
    status: 403,
    body: { errors: [{ message: "You don't have permission to access this.", extensions: { code: 'FORBIDDEN' } }] },
  };
  const service = await start('', ({ headers, path: [root, name, id], query }) => {
    const given = headers.authorization ?? query.get('access_token');
    if (given !== null && given !== SECRET && given !== `Bearer ${SECRET}`)
      return {
        status: 401,
        body: { errors: [{ message: 'Invalid user credentials.', extensions: { code: 'INVALID_CREDENTIALS' } }] },
      };
    if (root === 'server' && id === 'oas') {
      const paths =
        given === null
          ? {}
          : {
              '/items/articles': { get: {} },
              '/items/articles/{id}': { get: {} },
              '/items/tags': { get: {} },
              '/items/tags/{id}': { get: {} },
              '/users': { get: {} },
              '/activity': { get: {} },
              '/activity/{id}': { get: {} },
            };
      return { body: { openapi: '3.0.1', servers: [{ url: '/' }], paths } };
    }
    if (root !== 'items' || (name !== 'articles' && name !== 'tags') || given === null) return forbidden;
    const rows = name === 'tags' ? tags : all.map(of);
    if (id !== undefined) {
      const found = rows.find((row) => String(row['id']) === id);
      return found === undefined ? forbidden : { body: { data: found } };
    }
    const conditions = [...query].filter(([key]) => key.startsWith('filter['));
    const tests = conditions.map(([key, value]) => ({
      field: /\[(\w+)\]\[_gte\]$/.exec(key)?.[1] ?? '',
      isEither: key.startsWith('filter[_or]'),
      value,
    }));
    if (tests.some(({ field }) => !Object.hasOwn(rows[0] ?? {}, field))) return forbidden;
    const meets = (row: FakeRecord, { field, value }: { field: string; value: string }): boolean =>
      row[field] !== null && Date.parse(String(row[field])) >= Date.parse(value);
    const either = tests.filter(({ isEither }) => isEither);
    const listed = rows.filter(
      (row) =>
        tests.every((test) => test.isEither || meets(row, test)) &&
        (either.length === 0 || either.some((test) => meets(row, test))),
    );
    const [limit, page] = [Number(query.get('limit') ?? 100), Number(query.get('page') ?? 1)];
    const from = Number(query.get('offset') ?? (page - 1) * limit);
    return { body: { data: listed.slice(from, from + limit) } };
  });
  return { ...service, records: (resource) => (resource === 'tags' ? tags : all.map(of)), edit: edited(all) };
}
