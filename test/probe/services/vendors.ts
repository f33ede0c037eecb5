// Services in the manner of Parse, CouchDB, Elasticsearch, Stripe, Slack, Google, Redmine, and of a small company.
import { basic, bearer, cut, header, type Item, type Product, read, refuse, refuseOthers, since } from './service.ts';

const seconds = (time: string): number => Math.floor(Date.parse(time) / 1000);

const parse: Product = {
  name: 'Parse Server: limit/skip, where as JSON, two headers',
  sizes: { Review: 341, Store: 5 },
  fields: ['objectId', 'title', 'updatedAt'],
  base: '/parse',
  credential: {
    user: 'shopApp42',
    secret: 'r3stK3y-9f8e7d6c5b',
    headers: { 'x-parse-application-id': 'shopApp42', 'x-parse-rest-api-key': 'r3stK3y-9f8e7d6c5b' },
  },
  denied: { status: 403 },
  options: ['--path', '/classes/Review', '/classes/Store'],
  place: /^\/parse\/classes\/(?<name>\w+)(?:\/(?<id>\w+))?$/,
  list: ({ query }, items) => {
    refuseOthers(query, /^(?:where|order|limit|skip|keys|excludeKeys|include|count)$/);
    const moment = read(query.get('where'), /^\{"updatedAt":\{"\$gte":(?:\{"__type":"Date","iso":)?"([^"]+)"\}*$/);
    const all = since(items, 'updatedAt', moment);
    return { body: { results: cut(all, query, ['limit', 100, 1_000], ['skip']).shown } };
  },
};

/** All rows at once unless a limit is given; documents only on request. */
const couchDb: Product = {
  name: 'CouchDB: _all_dbs, _all_docs, limit/skip, basic',
  sizes: { recipes: 263, cooks: 5 },
  fields: ['_id', 'title', 'changed_at'],
  key: (at) => `doc-${String(at).padStart(5, '0')}`,
  credential: basic('admin', 'relax'),
  index: () => ({ couchdb: 'Welcome', version: '3.3.3', vendor: { name: 'The Apache Software Foundation' } }),
  others: ({ path }, names) => (path === '/_all_dbs' ? { body: names } : undefined),
  place: /^\/(?<name>[a-z]+)\/(?:_all_docs|(?<id>[^/]+))$/,
  list: ({ query }, items) => {
    const start = read(query.get('startkey') ?? query.get('start_key'), /^"(.+)"$/) ?? '';
    const before = items.filter((item) => String(item['_id']) < start).length;
    const { at, shown } = cut(items.slice(before), query, ['limit', 1e9], ['skip']);
    const rows = shown.map((doc) => {
      const row = { id: doc['_id'], key: doc['_id'], value: { rev: `1-${doc['_id']}` } };
      return query.get('include_docs') === 'true' ? Object.assign(row, { doc }) : row;
    });
    return { body: { total_rows: items.length, offset: before + at, rows } };
  },
};

const hit = (item: Item, index: string): object => ({ _index: index, _id: item['slug'], _source: item });

/** At most 10,000 hits in all; the key of the hit is in the document too. */
const elasticsearch: Product = {
  name: 'Elasticsearch: from/size, hits.hits._source, q, ApiKey',
  sizes: { articles: 375, authors: 6 },
  fields: ['slug', 'title', 'updated_at'],
  key: (at) => `entry-${at}`,
  credential: { secret: 'VnVhQ2ZHY0JDZGJrUW0t', headers: { authorization: 'ApiKey VnVhQ2ZHY0JDZGJrUW0t' } },
  options: ['--path', '/articles/_search', '/authors/_search'],
  index: () => ({ name: 'node-1', version: { number: '8.14.1' }, tagline: 'You Know, for Search' }),
  place: /^\/(?<name>\w+)\/(?:_search|_doc\/(?<id>[^/]+))$/,
  one: hit,
  list: ({ query }, items, name) => {
    refuseOthers(query, /^(?:from|size|q|sort|_source|track_total_hits|df|default_operator)$/);
    const time = read(query.get('q'), /^updated_at:(?:>=|\[)"?([\d-]+T[\d.]+(?:\\?:[\d.]+)*Z)"?(?: TO \*\])?$/);
    const all = since(items, 'updated_at', time?.replaceAll('\\', '') ?? null);
    const { size, at, shown } = cut(all, query, ['size', 10], ['from']);
    if (at + size > 10_000) refuse();
    const hits = { total: { value: all.length, relation: 'eq' }, hits: shown.map((item) => hit(item, name)) };
    return { body: { took: 2, timed_out: false, hits } };
  },
};

/** From the id of the last record on, and the ids have no order. */
const stripe: Product = {
  name: 'Stripe: limit/starting_after, has_more, unknown parameters refused, bearer',
  sizes: { products: 251, coupons: 4 },
  fields: ['id', 'name', 'updated'],
  key: (at) => `prod_${(at * 15_485_863).toString(36)}`,
  stamp: seconds,
  base: '/v1',
  credential: bearer('sk_test_51HqLyjWDarjtT1zd'),
  options: ['--path', '/products', '/coupons'],
  list: ({ query }, items, name) => {
    refuseOthers(query, /^(?:limit|starting_after|ending_before|active|created(?:\[\w+\])?|expand\[\])$/);
    const after = query.get('starting_after');
    const rest = items.slice(items.findIndex((item) => item['id'] === after) + 1);
    const { size, shown, next } = cut(rest, query, ['limit', 10], ['']);
    if (size < 1 || size > 100 || (after !== null && rest.length === items.length)) refuse();
    return { body: { object: 'list', url: `/v1/${name}`, has_more: next !== null, data: shown } };
  },
};

/** A cursor that only the service can read, empty on the last page; a refusal has the status 200. */
const slack: Product = {
  name: 'Slack: cursor from response_metadata.next_cursor, limit, bearer',
  sizes: { 'users.list': 283, 'usergroups.list': 4 },
  fields: ['id', 'name', 'updated'],
  stamp: seconds,
  base: '/api',
  credential: bearer('xoxb-17653672481-19874698323'),
  denied: { status: 200, body: { ok: false, error: 'not_authed' } },
  options: ['--path', '/users.list', '/usergroups.list'],
  list: ({ query }, items, name) => {
    const at = /^user:(\d+)$/.exec(atob(query.get('cursor') || btoa('user:0')))?.[1];
    if (at === undefined) return { body: { ok: false, error: 'invalid_cursor' } };
    const { shown, next } = cut(items.slice(Number(at)), query, ['limit', 100, 200], ['']);
    const next_cursor = next === null ? '' : btoa(`user:${Number(at) + next}`);
    const field = name === 'users.list' ? 'members' : 'usergroups';
    return { body: { ok: true, [field]: shown, response_metadata: { next_cursor } } };
  },
};

const google: Product = {
  name: 'Google: pageSize/pageToken, nextPageToken, key in the query, /swagger.json',
  sizes: { volumes: 298, shelves: 6 },
  fields: ['id', 'title', 'updateTime'],
  base: '/v1',
  credential: { secret: 'AIzaSyD4x7QmVb2TkLw9', headers: {} },
  options: ['--auth', 'query:key'],
  docs: ['/swagger.json', { swagger: '2.0', basePath: '/v1' }, 'pageSize pageToken'],
  others: ({ query }) => (query.get('key') === 'AIzaSyD4x7QmVb2TkLw9' ? undefined : { status: 403 }),
  list: ({ query }, items, name) => {
    refuseOthers(query, /^(?:pageSize|pageToken|key|fields|prettyPrint|alt)$/);
    const at = Number(read(query.get('pageToken'), /^T(\d+)z$/));
    const { shown, next } = cut(items.slice(at), query, ['pageSize', 50, 100], ['']);
    return { body: { [name]: shown, ...(next !== null && { nextPageToken: `T${at + next}z` }) } };
  },
};

const redmine: Product = {
  name: 'Redmine: .json, offset/limit, updated_on=>=, X-Redmine-API-Key',
  sizes: { issues: 336, projects: 7 },
  fields: ['id', 'subject', 'updated_on'],
  stamp: (time) => time.replace(/\.\d+/, ''),
  credential: header('x-redmine-api-key', '5a1b7c9d3e2f4a6b8c0d'),
  denied: { headers: { 'www-authenticate': 'Basic realm="Redmine API"' } },
  options: ['--path', '/issues.json', '/projects.json'],
  place: /^\/(?<name>\w+?)(?:\/(?<id>\d+))?\.json$/,
  one: (item, name) => ({ [name.slice(0, -1)]: item }),
  list: ({ query }, items, name) => {
    const moment = name === 'issues' ? /^>=(.+)$/.exec(query.get('updated_on') ?? '')?.[1] : null;
    const all = since(items, 'updated_on', moment ?? null);
    const { size, at, shown } = cut(all, query, ['limit', 25, 100], ['offset']);
    return { body: { [name]: shown, total_count: all.length, offset: at, limit: size } };
  },
};

/** A parameter makes a listing a single record; an error has the status 200. */
const php: Product = {
  name: 'own PHP: start/limit, ?id=, text times, an error with status 200',
  sizes: { customers: 244, orders: 512 },
  fields: ['id', 'name', 'last_change'],
  stamp: (time) => time.replace('T', ' ').replace(/\.\d+Z/, ''),
  base: '/api',
  options: ['--path', '/customers.php', '/orders.php'],
  place: /^\/api\/(?<name>\w+)\.php$/,
  list: ({ query }, items) => {
    const data = items.find((item) => String(item['id']) === query.get('id'));
    if (query.has('id')) return { body: data === undefined ? { success: false } : { success: true, data } };
    const { shown } = cut(items, query, ['limit', 20, 100], ['start']);
    return { body: { success: true, total: items.length, data: shown } };
  },
};

const smallLists: Product = {
  name: 'own service: small lists without pages',
  sizes: { locations: 12, departments: 4, employees: 41 },
  fields: ['id', 'name', 'updated_at'],
  options: ['--path', '/locations', '/departments', '/employees'],
  list: (_, items) => ({ body: { data: items } }),
};

const twilio: Product = {
  name: 'Twilio: PageSize/PageToken, next_page_uri, basic',
  sizes: { Messages: 235, Accounts: 5 },
  fields: ['Sid', 'Body', 'DateUpdated'],
  base: '/2010-04-01',
  credential: basic('AC59f1', '3b7e9d'),
  options: ['--path', '/Messages', '/Accounts'],
  list: ({ query }, items, name) => {
    const at = Number(read(query.get('PageToken'), /^PA(\d+)$/));
    const { size, shown, next } = cut(items.slice(at), query, ['PageSize', 50, 100], ['']);
    const onward = `/2010-04-01/${name}?PageSize=${size}&PageToken=PA${at + (next ?? 0)}`;
    return { body: { [name]: shown, page_size: size, next_page_uri: next === null ? null : onward } };
  },
};

/** Nothing leads beyond 100 records, and nothing says that there are more: no copy of it may end well. */
const newestOnly: Product = {
  name: 'trap: the newest 100 only, limit',
  sizes: { events: 230, groups: 4 },
  fields: ['id', 'name', 'updated_at'],
  list: ({ query }, items) => ({ body: cut(items, query, ['limit', 50, 100], ['']).shown }),
};

const DATABASES = [parse, couchDb, elasticsearch];
const OTHERS = [stripe, slack, google, redmine, php, smallLists, twilio, newestOnly];
export const VENDORS = [...DATABASES, ...OTHERS];
