// Services in the manner of LoopBack, Feathers, json-server, Strapi 3, Directus, Fastify, PostgREST, and OGC API Features.
import {
  bearer,
  cut,
  header,
  type Item,
  type Product,
  queryWith,
  read,
  refuse,
  refuseOthers,
  since,
} from './service.ts';

const TOKEN = 'Vb3kq9Xw2LmZ7TtR5sYc8NhG1dFp0JaE';

/** Answers by `filter`: one parameter with JSON in it, or one for each part of it. */
function loopBackPage(query: URLSearchParams, items: Item[], most: number) {
  let filter: { limit?: number; skip?: number; offset?: number; where?: { updatedAt?: { gte?: string } } } = {};
  try {
    filter = JSON.parse(query.get('filter') ?? '{}');
  } catch {
    refuse();
  }
  const { limit = query.get('filter[limit]') ?? most, skip = filter.offset ?? query.get('filter[skip]') ?? 0 } = filter;
  const moment = filter.where?.updatedAt?.gte ?? query.get('filter[where][updatedAt][gte]');
  const asked = new URLSearchParams({ limit: String(limit), skip: String(skip) });
  return { body: cut(since(items, 'updatedAt', moment), asked, ['limit', most, most], ['skip']).shown };
}

const loopBack3: Product = {
  name: 'LoopBack 3: filter={"limit","skip"}, bare token, /explorer/swagger.json',
  sizes: { Orders: 318, Stores: 6 },
  fields: ['id', 'name', 'updatedAt'],
  base: '/api',
  credential: header('authorization', TOKEN),
  docs: ['/explorer/swagger.json', { swagger: '2.0', basePath: '/api' }, 'filter'],
  list: ({ query }, items) => loopBackPage(query, items, 100),
};

const loopBack4: Product = {
  name: 'LoopBack 4: filter in one parameter, /openapi.json',
  sizes: { customers: 233, 'customer-groups': 5 },
  fields: ['id', 'name', 'updatedAt'],
  docs: ['/openapi.json', { openapi: '3.0.0', servers: [{ url: '/' }] }, 'filter'],
  list: ({ query }, items) => loopBackPage(query, items, 50),
};

/** Any other parameter is a filter by equality, and `$` something unknown is refused. */
const feathers: Product = {
  name: 'Feathers: $limit/$skip, updatedAt[$gte], unknown parameters filter, bearer',
  sizes: { messages: 254, rooms: 7 },
  fields: ['_id', 'text', 'updatedAt'],
  credential: bearer(TOKEN),
  options: ['--path', '/messages', '/rooms'],
  list: ({ query }, items) => {
    refuseOthers(query, /^(?!\$)|^\$(?:limit|skip|sort|select|or|and)$/);
    const plain = [...query].filter(([key]) => !/[$[]/.test(key));
    const matching = items.filter((item) => plain.every(([key, value]) => String(item[key]) === value));
    const all = since(matching, 'updatedAt', query.get('updatedAt[$gte]') ?? query.get('updatedAt[$gt]'));
    const { size, at, shown } = cut(all, query, ['$limit', 10, 50], ['$skip']);
    return { body: { total: all.length, limit: size, skip: at, data: shown } };
  },
};

/** Everything at once, unless a page is asked for. */
const jsonServer: Product = {
  name: 'json-server 0.17: _page/_limit, X-Total-Count, updatedAt_gte',
  options: ['--path', '/posts', '/comments', '/profiles'],
  sizes: { posts: 240, comments: 310, profiles: 3 },
  fields: ['id', 'title', 'updatedAt'],
  list: ({ query, root }, items, name) => {
    const all = items.filter((item) => String(item['updatedAt']) >= (query.get('updatedAt_gte') ?? ''));
    if (!query.has('_page') && !query.has('_limit')) return { body: all };
    const { at, shown, next } = cut(all, query, ['_limit', 10], ['_page', 1]);
    const to = { link: `<${root}/${name}?${queryWith(query, { _page: at + 1 })}>; rel="next"` };
    return { headers: { 'x-total-count': String(all.length), ...(next !== null && to) }, body: shown };
  },
};

/** A filter by a field that does not exist is refused. */
const strapi3: Product = {
  name: 'Strapi 3: _start/_limit, updated_at_gte, unknown parameters refused, bearer',
  sizes: { articles: 352, categories: 8, authors: 12 },
  fields: ['id', 'title', 'updated_at'],
  credential: bearer(TOKEN),
  list: ({ query }, items) => {
    refuseOthers(query, /^(?:_(?:start|limit|sort|q|where)|(?:id|title|price|updated_at)(?:_\w+)?)$/);
    const all = since(items, 'updated_at', query.get('updated_at_gte'));
    return { body: cut(all, query, ['_limit', 100, 100], ['_start']).shown };
  },
};

/** The time of change is null until the first one. */
function fromDirectus({ date_updated: time = '', ...item }: Item): Item {
  const isChanged = Number(item['price']) % 3 === 0 || String(item['title']).endsWith('revised');
  const created = isChanged ? '2024-12-01T08:30:00.000Z' : time;
  return { ...item, date_created: created, date_updated: isChanged ? time : null };
}

/** The root is a page for people. What does not exist is forbidden, fields in a filter too; no total is told. */
const directus: Product = {
  name: 'Directus: page/limit, date_updated null, filter[_or], /server/specs/oas, bearer',
  sizes: { articles: 258, tags: 6 },
  fields: ['id', 'title', 'date_updated'],
  key: (at) => `012f${1_000 + at}-aaaa-4bbb-8ccc-0123456789ab`,
  credential: { secret: TOKEN, headers: {} },
  docs: ['/server/specs/oas', { openapi: '3.0.1', servers: [{ url: '/' }] }, 'limit page offset filter', '/items'],
  place: /^\/items\/(?<name>\w+)(?:\/(?<id>[^/]+))?$/,
  gone: 403,
  others: ({ path, headers: { authorization } }) => {
    if (path === '/') return { status: 302, headers: { location: './admin' }, body: '' };
    if (path.startsWith('/admin')) return { body: '<!doctype html><base href="/admin/" /><title>Loading</title>' };
    if (authorization !== `Bearer ${TOKEN}`) refuse(authorization === undefined ? 403 : 401);
    return path === '/users/me' ? { body: { data: { id: 'u1' } } } : undefined;
  },
  one: (item) => ({ data: fromDirectus(item) }),
  list: ({ query }, items) => {
    const pattern = /^filter(?:\[_or\]\[\d\])?\[(date_created|date_updated)\]\[_gte\]$/;
    const conditions = [...query].filter(([key]) => key.startsWith('filter'));
    if (conditions.some(([key]) => !pattern.test(key))) refuse(403);
    const isMet = (item: Item, [key, time]: [string, string]): boolean =>
      Date.parse(String(item[pattern.exec(key)?.[1] ?? ''])) >= Date.parse(time);
    const sent = items.map((item) => fromDirectus(item));
    const all = sent.filter((item) => conditions.length === 0 || conditions.some((each) => isMet(item, each)));
    return { body: { data: cut(all, query, ['limit', 100], query.has('offset') ? ['offset'] : ['page', 1]).shown } };
  },
};

const fastify: Product = {
  name: 'Fastify: skip/take, /docs/json, x-api-token',
  sizes: { shipments: 391, carriers: 6 },
  fields: ['id', 'reference', 'updatedAt'],
  base: '/v2',
  credential: header('x-api-token', TOKEN),
  options: ['--auth', 'header:x-api-token'],
  docs: ['/docs/json', { openapi: '3.0.3' }, 'skip take updatedSince', '/v2'],
  list: ({ query }, items) => {
    const all = since(items, 'updatedAt', query.get('updatedSince'));
    const { shown } = cut(all, query, ['take', 20, 100], ['skip']);
    return { body: { items: shown, total: all.length } };
  },
};

const feature = ({ id = '', ...properties }: Item): object => ({ type: 'Feature', id, properties });

/** A listing of listings, which is none itself. */
const ogcFeatures: Product = {
  name: 'OGC API Features: /collections, features[], links with rel',
  sizes: { lakes: 236, towns: 5 },
  fields: ['id', 'name', 'updated'],
  index: (_, root) => ({ title: 'Waters', links: [{ rel: 'data', href: `${root}/collections` }] }),
  others: ({ path, root }, names) => {
    const links = (id: string): object[] => [{ rel: 'items', href: `${root}/collections/${id}/items` }];
    return path === '/collections'
      ? { body: { collections: names.map((id) => ({ id, links: links(id) })) } }
      : undefined;
  },
  place: /^\/collections\/(?<name>\w+)\/items(?:\/(?<id>\d+))?$/,
  one: feature,
  list: ({ query, root }, items, name) => {
    const { shown, next } = cut(items, query, ['limit', 10, 1_000], ['offset']);
    const to = { rel: 'next', href: `${root}/collections/${name}/items?${queryWith(query, { offset: next ?? 0 })}` };
    return { body: { features: shown.map(feature), numberMatched: items.length, links: next === null ? [] : [to] } };
  },
};

/** At most 100 rows a request; other parameters are columns, and those that do not exist are refused. */
const postgrest: Product = {
  name: 'PostgREST: Range and Content-Range, limit/offset, updated_at=gte., ?id=eq.',
  sizes: { films: 428, directors: 7 },
  fields: ['id', 'title', 'updated_at'],
  docs: ['/', { swagger: '2.0', basePath: '/' }, 'limit offset order'],
  place: /^\/(?<name>\w+)$/,
  list: ({ query, headers: { range = '', prefer } }, items) => {
    refuseOthers(query, /^(?:limit|offset|order|select|id|title|price|updated_at)$/);
    const id = read(query.get('id'), /^eq\.(.+)$/);
    const moment = read(query.get('updated_at'), /^gte?\.(.+)$/);
    const all = since(items, 'updated_at', moment).filter((item) => id === null || String(item['id']) === id);
    const [, from = '0', to = '999999999'] = /^(?:items=)?(\d+)-(\d+)?$/.exec(range) ?? [];
    const { at, shown } = cut(all.slice(Number(from), Number(to) + 1), query, ['limit', 100, 100], ['offset']);
    const start = Number(from) + at;
    const total = String(prefer).includes('count=exact') ? all.length : '*';
    return { headers: { 'content-range': `${start}-${start + shown.length - 1}/${total}` }, body: shown };
  },
};

export const NODE = [loopBack3, loopBack4, feathers, jsonServer, strapi3, directus, fastify, ogcFeatures, postgrest];
