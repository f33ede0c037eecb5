// Services in the manner of Stripe, Slack, Google, Redmine, Oracle, WordPress, and of a small company's own.
import { openApi, type Product, Refusal, refuseOthers, since, whole } from './service.ts';

const seconds = (time: string): number => Math.floor(Date.parse(time) / 1000);

/** 10 at once and at most 100, from the id of the last one; unknown parameters are refused. */
const stripe: Product = {
  name: 'Stripe: limit/starting_after, has_more, unknown parameters refused, bearer',
  sizes: { products: 251, coupons: 4 },
  fields: ['id', 'name', 'updated'],
  key: (at) => `prod_${(at * 15_485_863).toString(36)}`,
  stamp: seconds,
  base: '/v1',
  credential: { secret: 'sk_test_51HqLyjWDarjtT1zd' },
  admits: ({ headers }) => headers.authorization === 'Bearer sk_test_51HqLyjWDarjtT1zd',
  options: ['--path', '/products', '/coupons'],
  list: (asked, items, name) => {
    const error = { error: { code: 'parameter_unknown', type: 'invalid_request_error' } };
    refuseOthers(asked, /^(?:limit|starting_after|ending_before|active|created(?:\[\w+\])?|expand\[\])$/, error);
    const limit = whole(asked.query, 'limit', 10);
    if (limit < 1 || limit > 100) throw new Refusal(400, error);
    const after = asked.query.get('starting_after');
    const at = items.findIndex((item) => item['id'] === after);
    if (after !== null && at === -1) throw new Refusal(400, error);
    const data = items.slice(at + 1, at + 1 + limit);
    return { body: { object: 'list', url: `/v1/${name}`, has_more: at + 1 + limit < items.length, data } };
  },
};

/** A cursor that only the service can read, empty on the last page. */
const slack: Product = {
  name: 'Slack: cursor from response_metadata.next_cursor, limit, bearer',
  sizes: { 'users.list': 283, 'usergroups.list': 4 },
  fields: ['id', 'name', 'updated'],
  key: (at) => `U0${(at + 46_656).toString(36).toUpperCase()}`,
  stamp: seconds,
  base: '/api',
  credential: { secret: 'xoxb-17653672481-19874698323' },
  options: ['--path', '/users.list', '/usergroups.list'],
  admits: ({ headers }) => headers.authorization === 'Bearer xoxb-17653672481-19874698323',
  denied: { status: 200, body: { ok: false, error: 'not_authed' } },
  list: ({ query }, items, name) => {
    const [limit, cursor] = [whole(query, 'limit', 100, 200), query.get('cursor') ?? ''];
    const from = cursor === '' ? 0 : Number(/^user:(\d+)$/.exec(atob(cursor))?.[1] ?? Number.NaN);
    if (Number.isNaN(from)) return { body: { ok: false, error: 'invalid_cursor' } };
    const next = from + limit < items.length ? btoa(`user:${from + limit}`) : '';
    const members = items.slice(from, from + limit);
    return {
      body: {
        ok: true,
        [name === 'users.list' ? 'members' : 'usergroups']: members,
        response_metadata: { next_cursor: next },
      },
    };
  },
};

/** A key in the address is all that it takes; described by Swagger 2. */
const google: Product = {
  name: 'Google: pageSize/pageToken, nextPageToken, key in the query, /swagger.json',
  sizes: { volumes: 298, shelves: 6 },
  fields: ['id', 'title', 'updateTime'],
  key: (at) => `vol${(at * 7_368_787).toString(36)}`,
  base: '/v1',
  credential: { secret: 'AIzaSyD4x7QmVb2TkLw9' },
  options: ['--auth', 'query:key'],
  admits: ({ path, query }) => path === '/swagger.json' || query.get('key') === 'AIzaSyD4x7QmVb2TkLw9',
  denied: { status: 403, body: { error: { code: 403, status: 'PERMISSION_DENIED' } } },
  others: ({ path }, names) => {
    const listings = names.map((name) => `/${name}`);
    const body = openApi({ swagger: '2.0', basePath: '/v1' }, listings, 'pageSize pageToken');
    return path === '/swagger.json' ? { body } : undefined;
  },
  list: (asked, items, name) => {
    const refused = {
      error: { code: 400, message: 'Invalid JSON payload received. Unknown name', status: 'INVALID_ARGUMENT' },
    };
    refuseOthers(asked, /^(?:pageSize|pageToken|key|fields|prettyPrint|alt)$/, refused);
    const [size, token] = [whole(asked.query, 'pageSize', 50, 100), asked.query.get('pageToken')];
    const from = token === null ? 0 : Number(/^T(\d+)z$/.exec(token)?.[1] ?? Number.NaN);
    if (Number.isNaN(from)) throw new Refusal(400, refused);
    const next = from + size < items.length ? { nextPageToken: `T${from + size}z` } : {};
    return { body: { [name]: items.slice(from, from + size), ...next } };
  },
};

/** 25 at once and at most 100; a key in a header of its own. */
const redmine: Product = {
  name: 'Redmine: .json, offset/limit, updated_on=>=, X-Redmine-API-Key',
  sizes: { issues: 336, projects: 7 },
  fields: ['id', 'subject', 'updated_on'],
  stamp: (time) => time.replace(/\.\d+/, ''),
  credential: { secret: '5a1b7c9d3e2f4a6b8c0d' },
  options: ['--path', '/issues.json', '/projects.json'],
  admits: ({ headers }) => headers['x-redmine-api-key'] === '5a1b7c9d3e2f4a6b8c0d',
  denied: { headers: { 'www-authenticate': 'Basic realm="Redmine API"' }, body: '' },
  place: /^\/(?<name>\w+?)(?:\/(?<id>\d+))?\.json$/,
  missing: { body: '' },
  one: (item, name) => ({ [name.slice(0, -1)]: item }),
  list: ({ query }, items, name) => {
    const moment = /^>=(.+)$/.exec(query.get('updated_on') ?? '')?.[1];
    const all = name === 'issues' ? since(items, 'updated_on', moment) : items;
    const [limit, offset] = [whole(query, 'limit', 25, 100), whole(query, 'offset', 0)];
    return { body: { [name]: all.slice(offset, offset + limit), total_count: all.length, offset, limit } };
  },
};

/** 25 at once and at most 500; the filter is an expression. */
const oracle: Product = {
  name: 'Oracle: q=LastUpdateDate >= , items/hasMore/limit/offset, basic',
  sizes: { invoices: 417, suppliers: 6 },
  fields: ['InvoiceId', 'Description', 'LastUpdateDate'],
  stamp: (time) => time.replace('Z', '+00:00'),
  base: '/fscmRestApi/resources/latest',
  credential: { secret: 'Welcome1-fusion', user: 'integration' },
  admits: ({ headers }) => headers.authorization === `Basic ${btoa('integration:Welcome1-fusion')}`,
  denied: { headers: { 'www-authenticate': 'Basic realm="fusion"' }, body: '' },
  others: ({ path, root }, names) => {
    const items = names.map((name) => ({
      name,
      links: [{ rel: 'self', href: `${root}/${name}`, kind: 'collection' }],
    }));
    return path === new URL(root).pathname ? { body: { items } } : undefined;
  },
  missing: { body: 'Not Found' },
  list: ({ query, root }, items, name) => {
    const q = query.get('q');
    const moment = /^LastUpdateDate\s*(?:>=|ge)\s*['"]?([^'"]+)['"]?$/.exec(q ?? '')?.[1];
    if (q !== null && moment === undefined) throw new Refusal(400, { title: 'Bad Request', status: '400' });
    const all = since(items, 'LastUpdateDate', moment);
    const [limit, offset] = [whole(query, 'limit', 25, 500), whole(query, 'offset', 0)];
    const page = all.slice(offset, offset + limit);
    const total = query.get('totalResults') === 'true' ? { totalResults: all.length } : {};
    const links = [{ rel: 'self', href: `${root}/${name}`, name, kind: 'collection' }];
    return {
      body: { items: page, ...total, count: page.length, hasMore: offset + limit < all.length, limit, offset, links },
    };
  },
};

/** A plugin's own routes below the index of WordPress; not WordPress' own content. */
const wordPressPlugin: Product = {
  name: 'WordPress plugin: /wp-json index, page/per_page, X-WP-Total, modified_after',
  sizes: { recipes: 239, cuisines: 5 },
  fields: ['id', 'title', 'modified_gmt'],
  stamp: (time) => time.replace(/\.\d+Z/, ''),
  base: '/wp-json/kitchen/v1',
  others: ({ path, root }, names) => {
    const link = (route: string): object => ({ self: [{ href: `${new URL(root).origin}/wp-json${route}` }] });
    const routes = ['', ...names.map((name) => `/${name}`), ...names.map((name) => `/${name}/(?P<id>[\\d]+)`)];
    const shown = routes.map((route) => {
      const at = `/kitchen/v1${route}`;
      return [at, { namespace: 'kitchen/v1', methods: ['GET'], ...(at.includes('(') ? {} : { _links: link(at) }) }];
    });
    const body = { namespace: 'kitchen/v1', routes: Object.fromEntries(shown) };
    return path === '/wp-json/kitchen/v1' || path === '/wp-json/kitchen/v1/' ? { body } : undefined;
  },
  list: ({ query }, items) => {
    const after = query.get('modified_after');
    const all = since(items, 'modified_gmt', after?.replace('Z', ''));
    const [size, page] = [whole(query, 'per_page', 10), whole(query, 'page', 1)];
    const pages = Math.ceil(all.length / size);
    const bad = { code: size > 100 ? 'rest_invalid_param' : 'rest_post_invalid_page_number', data: { status: 400 } };
    if (size < 1 || size > 100 || page < 1 || (page > pages && pages > 0)) throw new Refusal(400, bad);
    const headers = { 'x-wp-total': String(all.length), 'x-wp-totalpages': String(pages) };
    return { headers, body: all.slice((page - 1) * size, page * size) };
  },
};

/** One file per listing, which a parameter makes a single record. */
const php: Product = {
  name: 'own PHP: start/limit, ?id=, text times, an error with status 200',
  sizes: { customers: 244, orders: 512 },
  fields: ['id', 'name', 'last_change'],
  stamp: (time) => time.replace('T', ' ').replace(/\.\d+Z/, ''),
  base: '/api',
  options: ['--path', '/customers.php', '/orders.php'],
  place: /^\/api\/(?<name>\w+)\.php$/,
  missing: { body: '<h1>Not Found</h1>' },
  list: ({ query }, items) => {
    const found = items.find((item) => String(item['id']) === query.get('id'));
    if (query.has('id'))
      return { body: found === undefined ? { success: false, error: 'unknown id' } : { success: true, data: found } };
    const [start, limit] = [whole(query, 'start', 0), whole(query, 'limit', 20, 100)];
    return { body: { success: true, total: items.length, data: items.slice(start, start + limit) } };
  },
};

/** Nothing has pages, because nothing is long. */
const smallLists: Product = {
  name: 'own service: small lists without pages',
  sizes: { locations: 12, departments: 4, employees: 41 },
  fields: ['id', 'name', 'updated_at'],
  base: '/api',
  options: ['--path', '/locations', '/departments', '/employees'],
  list: (_, items) => ({ body: { data: items } }),
};

export const VENDORS = [stripe, slack, google, redmine, oracle, wordPressPlugin, php, smallLists];
