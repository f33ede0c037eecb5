// Services in the manner of LoopBack, Feathers, json-server, Strapi 3, Fastify, NestJS and PostgREST.
import {
  type Asked,
  type Item,
  openApi,
  type Product,
  queryWith,
  Refusal,
  refuseOthers,
  since,
  whole,
} from './service.ts';

const TOKEN = 'Vb3kq9Xw2LmZ7TtR5sYc8NhG1dFp0JaE';

interface LoopBackFilter {
  limit?: number;
  skip?: number;
  offset?: number;
  where?: { updatedAt?: { gte?: string; gt?: string } };
}

/** What `filter` asks for, as JSON or as `filter[limit]`; LoopBack refuses JSON that it cannot read. */
function loopBackFilter(query: URLSearchParams): LoopBackFilter {
  const nested = [...query].filter(([key]) => /^filter\[(?:limit|skip|offset)\]$/.test(key));
  const given = Object.fromEntries(nested.map(([key, value]) => [key.slice(7, -1), Number(value)]));
  const moment = query.get('filter[where][updatedAt][gte]');
  try {
    const filter: LoopBackFilter = JSON.parse(query.get('filter') ?? '{}');
    return { ...given, ...(moment === null ? {} : { where: { updatedAt: { gte: moment } } }), ...filter };
  } catch {
    throw new Refusal(400, { error: { statusCode: 400, name: 'Error', message: 'The filter is not valid JSON' } });
  }
}

function loopBackPage({ query }: Asked, items: Item[], usual: number) {
  const { limit = usual, skip, offset = 0, where } = loopBackFilter(query);
  const all = since(items, 'updatedAt', where?.updatedAt?.gte ?? where?.updatedAt?.gt);
  return { body: all.slice(skip ?? offset, (skip ?? offset) + Math.min(limit, usual)) };
}

/** Its models have capitals in the path; at most 100 of them at once; the token comes bare in the header. */
const loopBack3: Product = {
  name: 'LoopBack 3: filter={"limit","skip"}, bare token, /explorer/swagger.json',
  sizes: { Orders: 318, Stores: 6 },
  fields: ['id', 'name', 'updatedAt'],
  base: '/api',
  credential: { secret: TOKEN },
  admits: ({ path, headers }) => path.startsWith('/explorer/') || headers.authorization === TOKEN,
  others: ({ path }, names) => {
    const listings = names.map((name) => `/${name}`);
    const body = openApi({ swagger: '2.0', basePath: '/api' }, listings, 'filter');
    return path === '/explorer/swagger.json' ? { body } : undefined;
  },
  list: (asked, items) => loopBackPage(asked, items, 100),
};

/** 50 at once and no more. */
const loopBack4: Product = {
  name: 'LoopBack 4: filter in one parameter, /openapi.json',
  sizes: { customers: 233, 'customer-groups': 5 },
  fields: ['id', 'name', 'updatedAt'],
  key: (at) => `64f0c3b2a19d8e${String(at).padStart(10, '0')}`,
  others: ({ path }, names) => {
    const listings = names.map((name) => `/${name}`);
    const body = openApi({ openapi: '3.0.0', servers: [{ url: '/' }] }, listings, 'filter');
    return path === '/openapi.json' ? { body } : undefined;
  },
  list: (asked, items) => loopBackPage(asked, items, 50),
};

/** 10 a page and at most 50; any other parameter is a filter by equality, and `$` something unknown is refused. */
const feathers: Product = {
  name: 'Feathers: $limit/$skip, updatedAt[$gte], unknown parameters filter',
  sizes: { messages: 254, rooms: 7 },
  fields: ['_id', 'text', 'updatedAt'],
  key: (at) => `k9Qz${String(at).padStart(12, '0')}`,
  credential: { secret: TOKEN },
  options: ['--path', '/messages', '/rooms'],
  admits: ({ headers }) => headers.authorization?.replace(/^Bearer /, '') === TOKEN,
  list: (asked, items) => {
    refuseOthers(asked, /^(?!\$)|^\$(?:limit|skip|sort|select|or|and)$/, { name: 'BadRequest', code: 400 });
    const { query } = asked;
    const plain = [...query].filter(([key]) => !/[$[]/.test(key));
    const matching = items.filter((item) => plain.every(([key, value]) => String(item[key]) === value));
    const all = since(matching, 'updatedAt', query.get('updatedAt[$gte]') ?? query.get('updatedAt[$gt]'));
    const [limit, skip] = [whole(query, '$limit', 10, 50), whole(query, '$skip', 0)];
    return { body: { total: all.length, limit, skip, data: all.slice(skip, skip + limit) } };
  },
};

/** Everything at once, unless a page is asked for. */
const jsonServer: Product = {
  name: 'json-server 0.17: _page/_limit, X-Total-Count, updatedAt_gte',
  options: ['--path', '/posts', '/comments', '/profiles'],
  sizes: { posts: 240, comments: 310, profiles: 3 },
  fields: ['id', 'title', 'updatedAt'],
  others: ({ path, root }, names) =>
    path === '/' ? { body: names.map((name) => `<a href="${root}/${name}">/${name}</a>`).join('') } : undefined,
  list: ({ query, root }, items, name) => {
    const all = items.filter((item) => String(item['updatedAt']) >= (query.get('updatedAt_gte') ?? ''));
    const [page, limit] = [whole(query, '_page', 0), whole(query, '_limit', 10)];
    if (!query.has('_page') && !query.has('_limit')) return { body: all };
    const count = { 'x-total-count': String(all.length), 'access-control-expose-headers': 'X-Total-Count, Link' };
    if (page === 0) return { headers: count, body: all.slice(0, limit) };
    const next = `<${root}/${name}?${queryWith(query, { _page: page + 1 })}>; rel="next"`;
    const headers = page * limit < all.length ? { ...count, link: next } : count;
    return { headers, body: all.slice((page - 1) * limit, page * limit) };
  },
};

/** A bare array without a page, an object with one. */
const jsonServer1: Product = {
  name: 'json-server 1: _page/_per_page, first/next/last/data',
  options: ['--path', '/products', '/brands'],
  sizes: { products: 232, brands: 4 },
  fields: ['id', 'name', 'updatedAt'],
  key: (at) => `a${(at * 7919).toString(36)}`,
  missing: { body: 'Not Found' },
  list: ({ query }, items) => {
    const from = query.get('updatedAt_gte') ?? query.get('updatedAt:gte') ?? '';
    const all = items.filter((item) => String(item['updatedAt']) >= from);
    if (!query.has('_page')) return { body: all };
    const [page, size] = [whole(query, '_page', 1), whole(query, '_per_page', 10)];
    const pages = Math.max(1, Math.ceil(all.length / size));
    const around = { first: 1, prev: page > 1 ? page - 1 : null, next: page < pages ? page + 1 : null, last: pages };
    return { body: { ...around, pages, items: all.length, data: all.slice((page - 1) * size, page * size) } };
  },
};

/** 100 at once; a filter by a field that does not exist is refused. */
const strapi3: Product = {
  name: 'Strapi 3: _start/_limit, updated_at_gte, unknown parameters refused, bearer',
  sizes: { articles: 352, categories: 8, authors: 12 },
  fields: ['id', 'title', 'updated_at'],
  credential: { secret: TOKEN },
  admits: ({ headers }) => headers.authorization === `Bearer ${TOKEN}`,
  list: (asked, items) => {
    const message = "Your filters contain a field that doesn't appear on your model definition";
    const known = /^(?:_(?:start|limit|sort|q|where|publicationState)|(?:id|title|price|updated_at)(?:_\w+)?)$/;
    refuseOthers(asked, known, { statusCode: 400, error: 'Bad Request', message });
    const [start, limit] = [whole(asked.query, '_start', 0), whole(asked.query, '_limit', 100, 100)];
    return { body: since(items, 'updated_at', asked.query.get('updated_at_gte')).slice(start, start + limit) };
  },
};

/** 20 at once and at most 100, described where the Fastify plugin does. */
const fastify: Product = {
  name: 'Fastify: skip/take, /docs/json, x-api-token',
  sizes: { shipments: 391, carriers: 6 },
  fields: ['id', 'reference', 'updatedAt'],
  key: (at) => `cl${(at * 104_729 + 46_656).toString(36)}x${at}`,
  base: '/v2',
  credential: { secret: TOKEN },
  options: ['--auth', 'header:x-api-token'],
  admits: ({ path, headers }) => path === '/docs/json' || headers['x-api-token'] === TOKEN,
  others: ({ path }, names) => {
    const listings = names.map((name) => `/v2/${name}`);
    return path === '/docs/json'
      ? { body: openApi({ openapi: '3.0.3' }, listings, 'skip take updatedSince') }
      : undefined;
  },
  list: ({ query }, items) => {
    const all = since(items, 'updatedAt', query.get('updatedSince'));
    const [skip, take] = [whole(query, 'skip', 0), whole(query, 'take', 20)];
    if (take > 100) throw new Refusal(400, { statusCode: 400, message: 'querystring/take must be <= 100' });
    return { body: { items: all.slice(skip, skip + take), total: all.length } };
  },
};

/** Refuses what its classes do not name, and numbers out of bounds. */
const nest: Product = {
  name: 'NestJS: page/limit, forbidNonWhitelisted, meta.itemCount',
  options: ['--path', '/users', '/teams'],
  sizes: { users: 247, teams: 5 },
  fields: ['id', 'name', 'updatedAt'],
  base: '/api',
  list: (asked, items) => {
    const refused = { statusCode: 400, message: ['property should not exist'], error: 'Bad Request' };
    refuseOthers(asked, /^(?:page|limit|order|updatedFrom)$/, refused);
    const [page, limit] = [whole(asked.query, 'page', 1), whole(asked.query, 'limit', 10)];
    if (page < 1 || limit < 1 || limit > 50) throw new Refusal(400, refused);
    const all = since(items, 'updatedAt', asked.query.get('updatedFrom'));
    const meta = { page, limit, itemCount: all.length, pageCount: Math.ceil(all.length / limit) };
    return { body: { data: all.slice((page - 1) * limit, page * limit), meta } };
  },
};

/** The database has at most 100 rows a request; other parameters are columns, and those that do not exist are refused. */
const postgrest: Product = {
  name: 'PostgREST: Range and Content-Range, limit/offset, updated_at=gte., ?id=eq.',
  sizes: { films: 428, directors: 7 },
  fields: ['id', 'title', 'updated_at'],
  stamp: (time) => time.replace('Z', '+00:00'),
  others: ({ path }, names) => {
    const listings = names.map((name) => `/${name}`);
    return path === '/'
      ? { body: openApi({ swagger: '2.0', basePath: '/' }, listings, 'limit offset order') }
      : undefined;
  },
  list: (asked, items) => {
    const {
      query,
      headers: { range },
    } = asked;
    refuseOthers(asked, /^(?:limit|offset|order|select|id|title|price|updated_at)$/, { code: '42703' });
    const moment = /^gte?\.(.+)$/.exec(query.get('updated_at') ?? '')?.[1];
    if (query.has('updated_at') && moment === undefined) throw new Refusal(400, { code: 'PGRST100' });
    const id = /^eq\.(.+)$/.exec(query.get('id') ?? '')?.[1];
    if (query.has('id') && id === undefined) throw new Refusal(400, { code: 'PGRST100' });
    const all = since(items, 'updated_at', moment).filter((item) => id === undefined || String(item['id']) === id);
    const [, from = '0', to] = /^(?:items=)?(\d+)-(\d*)$/.exec(range ?? '') ?? [];
    const start = Number(from) + whole(query, 'offset', 0);
    const wanted = to === undefined || to === '' ? 1e9 : Number(to) - Number(from) + 1;
    const body = all.slice(start, start + Math.min(wanted, whole(query, 'limit', 100, 100)));
    const isCounted = /count=exact/.test(String(asked.headers['prefer']));
    const shown = body.length === 0 ? '*' : `${start}-${start + body.length - 1}`;
    return { headers: { 'content-range': `${shown}/${isCounted ? all.length : '*'}` }, body };
  },
};

export const NODE = [loopBack3, loopBack4, feathers, jsonServer, jsonServer1, strapi3, fastify, nest, postgrest];
