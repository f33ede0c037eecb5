// Services in the manner of Django, Laravel, Rails, API Platform and JSON:API.
import { type Asked, type Item, type Product, Refusal, queryWith, refuseOthers, since, whole } from './service.ts';

const TOKEN = '9944b09199c62bcf9418ad846dd0e4bbdfc6ee4b';

const bySlash = /^\/api\/(?<name>\w+)\/(?:(?<id>[^/]+)\/)?$/;

/** Sends a request without the slash at the end to the path with it, as Django does. */
function withSlash({ path, query, root }: Asked) {
  if (path.endsWith('/') || !path.startsWith('/api/')) return undefined;
  const location = `${new URL(root).origin}${path}/${query.size > 0 ? `?${query.toString()}` : ''}`;
  return { status: 301, headers: { location }, body: '' };
}

/** The list of all listings, as the router of Django REST framework sends it. */
const routerRoot = ({ path, root }: Asked, names: readonly string[]) =>
  path === '/api/' ? { body: Object.fromEntries(names.map((name) => [name, `${root}/${name}/`])) } : undefined;

/** 40 a page, which no request can change; a page after the last one is a 404. */
const djangoPages: Product = {
  name: 'Django REST framework: page, root list, Token',
  sizes: { articles: 301, sections: 7 },
  fields: ['id', 'title', 'updated_at'],
  base: '/api',
  credential: { secret: TOKEN },
  admits: ({ headers }) => headers.authorization === `Token ${TOKEN}`,
  denied: { headers: { 'www-authenticate': 'Token' }, body: { detail: 'Invalid token.' } },
  others: (asked, names) => withSlash(asked) ?? routerRoot(asked, names),
  place: bySlash,
  list: ({ query, root }, items, name) => {
    const all = since(items, 'updated_at', query.get('updated_at__gte'));
    const page = whole(query, 'page', 1);
    if (page < 1 || (page > 1 && (page - 1) * 40 >= all.length)) throw new Refusal(404, { detail: 'Invalid page.' });
    const to = (at: number): string => `${root}/${name}/?${queryWith(query, { page: at })}`;
    const [next, previous] = [page * 40 < all.length ? to(page + 1) : null, page > 1 ? to(page - 1) : null];
    return { body: { count: all.length, next, previous, results: all.slice((page - 1) * 40, page * 40) } };
  },
};

/** 50 a page and at most 100; a page section is not made for the small listing. */
const djangoOffsets: Product = {
  name: 'Django REST framework: limit/offset, basic',
  sizes: { products: 277, tags: 8 },
  fields: ['uuid', 'name', 'modified'],
  key: (at) => `6f1c${String(at).padStart(4, '0')}-52e1-4c0b-9d1c-8a7e3b2f4d10`,
  base: '/api',
  credential: { secret: 'correct horse', user: 'reader' },
  admits: ({ headers }) => headers.authorization === `Basic ${btoa('reader:correct horse')}`,
  denied: { headers: { 'www-authenticate': 'Basic realm="api"' }, body: { detail: 'Invalid username/password.' } },
  others: (asked, names) => withSlash(asked) ?? routerRoot(asked, names),
  place: bySlash,
  list: ({ query, root }, items, name) => {
    if (name === 'tags') return { body: items };
    const [limit, offset] = [whole(query, 'limit', 50, 100), whole(query, 'offset', 0)];
    const to = (at: number): string => `${root}/${name}/?limit=${limit}&offset=${at}`;
    const next = offset + limit < items.length ? to(offset + limit) : null;
    const previous = offset > 0 ? to(Math.max(0, offset - limit)) : null;
    return { body: { count: items.length, next, previous, results: items.slice(offset, offset + limit) } };
  },
};

/** 15 a page and at most 100. */
const laravel: Product = {
  name: 'Laravel: data/links/meta, page/per_page, bearer',
  sizes: { products: 344, categories: 8 },
  fields: ['id', 'name', 'updated_at'],
  stamp: (time) => time.replace('Z', '000Z'),
  base: '/api/v1',
  credential: { secret: `14|${TOKEN}` },
  admits: ({ headers }) => headers.authorization === `Bearer 14|${TOKEN}`,
  one: (item) => ({ data: item }),
  list: ({ query, root }, items, name) => {
    const all = since(items, 'updated_at', query.get('updated_since'));
    const [per_page, current_page] = [whole(query, 'per_page', 15, 100), whole(query, 'page', 1)];
    const last_page = Math.max(1, Math.ceil(all.length / per_page));
    const to = (page: number): string => `${root}/${name}?page=${page}`;
    const next = current_page < last_page ? to(current_page + 1) : null;
    const links = { first: to(1), last: to(last_page), prev: current_page > 1 ? to(current_page - 1) : null, next };
    const data = all.slice((current_page - 1) * per_page, current_page * per_page);
    const meta = { current_page, last_page, path: `${root}/${name}`, per_page, total: all.length };
    return { body: { data, links, meta } };
  },
};

/** Bare arrays with links in a header; 30 a page and at most 100. */
const gitHub: Product = {
  name: 'GitHub: page/per_page, Link, since, bearer',
  sizes: { issues: 487, labels: 9, milestones: 3 },
  fields: ['number', 'title', 'updated_at'],
  stamp: (time) => time.replace(/\.\d+/, ''),
  base: '/repos/acme/shop',
  credential: { secret: `ghp_${TOKEN}` },
  options: ['--path', '/issues', '/labels', '/milestones'],
  admits: ({ headers }) =>
    /^(?:Bearer|token) /.test(headers.authorization ?? '') && headers.authorization?.endsWith(`ghp_${TOKEN}`) === true,
  list: ({ query, root }, items, name) => {
    const all = since(items, 'updated_at', name === 'issues' ? query.get('since') : null);
    const [size, page] = [whole(query, 'per_page', 30, 100), whole(query, 'page', 1)];
    const last = Math.ceil(all.length / size);
    const to = (at: number, rel: string): string => `<${root}/${name}?${queryWith(query, { page: at })}>; rel="${rel}"`;
    const onward = page < last ? [to(page + 1, 'next'), to(last, 'last')] : [];
    const back = page > 1 ? [to(page - 1, 'prev'), to(1, 'first')] : [];
    const headers = onward.length + back.length > 0 ? { link: [...back, ...onward].join(', ') } : null;
    return { ...(headers && { headers }), body: all.slice((page - 1) * size, page * size) };
  },
};

const JSON_API = { 'content-type': 'application/vnd.api+json' };

/** A record as JSON:API has it: its fields below `attributes`. */
function resourceObject({ id, ...attributes }: Item, type: string, root: string): object {
  return { type, id: String(id), attributes, links: { self: `${root}/${type}/${String(id)}` } };
}

/** Like JSON:API on Rails: parameters that it does not know are refused; 20 a page and at most 50. */
const jsonApiPages: Product = {
  name: 'JSON:API: page[number]/page[size], filter[updated_since], unknown parameters refused',
  options: ['--path', '/books', '/publishers'],
  sizes: { books: 256, publishers: 5 },
  fields: ['id', 'title', 'updated_at'],
  base: '/v1',
  missing: { headers: JSON_API, body: { errors: [{ status: '404', title: 'Record not found' }] } },
  one: (item, name, { root }) => ({ data: resourceObject(item, name, root) }),
  list: (asked, items, name) => {
    const known = /^(?:page\[(?:number|size)\]|filter\[(?:id|updated_since)\]|sort|include|fields\[\w+\])$/;
    refuseOthers(asked, known, { errors: [{ status: '400', title: 'Param not allowed', code: '105' }] });
    const { query, root } = asked;
    const all = since(items, 'updated_at', query.get('filter[updated_since]'));
    const [size, number] = [whole(query, 'page[size]', 20, 50), whole(query, 'page[number]', 1)];
    const last = Math.max(1, Math.ceil(all.length / size));
    const to = (page: number): string => `${root}/${name}?${queryWith(query, { 'page[number]': page })}`;
    const links = { first: to(1), ...(number < last ? { next: to(number + 1) } : {}), last: to(last) };
    const data = all.slice((number - 1) * size, number * size).map((item) => resourceObject(item, name, root));
    return { headers: JSON_API, body: { data, meta: { 'record-count': all.length, 'page-count': last }, links } };
  },
};

/** Like Drupal: a root of links, at most 50 a page, and no number of all. */
const jsonApiOffsets: Product = {
  name: 'JSON:API of Drupal: page[offset]/page[limit], root, links.next',
  sizes: { article: 243, term: 6 },
  fields: ['id', 'title', 'changed'],
  key: (at) => `b7d1${String(at).padStart(4, '0')}-90c2-4f5e-8a31-0d9c4e7f6b25`,
  stamp: (time) => time.replace(/\.\d+Z/, '+00:00'),
  base: '/jsonapi',
  others: ({ path, root }, names) => {
    const links = names.map((name) => [`node--${name}`, { href: `${root}/${name}` }]);
    if (path !== '/jsonapi' && path !== '/jsonapi/') return undefined;
    return { headers: JSON_API, body: { data: [], links: { ...Object.fromEntries(links), self: { href: root } } } };
  },
  missing: { headers: JSON_API, body: { errors: [{ title: 'Not Found', status: '404' }] } },
  one: (item, name, { root }) => ({ data: resourceObject(item, name, root) }),
  list: (asked, items, name) => {
    refuseOthers(asked, /[^a-z]|^(?:page|filter|sort|include|fields)$/, { errors: [{ title: 'Bad Request' }] });
    const { query, root } = asked;
    const path = /^filter\[(\w+)\]\[condition\]\[path\]$/;
    const key = [...query.keys()].find((each) => path.test(each) && query.get(each) === 'changed');
    const condition = `filter[${path.exec(key ?? '')?.[1]}][condition]`;
    const isAfter = query.get(`${condition}[operator]`)?.startsWith('>') === true;
    const all = since(items, 'changed', isAfter ? query.get(`${condition}[value]`) : null);
    const [limit, offset] = [whole(query, 'page[limit]', 50, 50), whole(query, 'page[offset]', 0)];
    const more = { 'page[offset]': offset + limit, 'page[limit]': limit };
    const to = { href: `${root}/${name}?${queryWith(query, more)}` };
    const links = { self: { href: `${root}/${name}` }, ...(offset + limit < all.length ? { next: to } : {}) };
    const data = all.slice(offset, offset + limit).map((item) => resourceObject(item, name, root));
    return { headers: JSON_API, body: { jsonapi: { version: '1.0' }, data, links } };
  },
};

const hydraItem = (item: Item, name: string): Item => ({ '@id': `/api/${name}/${item['id']}`, '@type': name, ...item });

/** 30 a page; `itemsPerPage` up to 120. */
const hydra: Product = {
  name: 'API Platform: Hydra, page/itemsPerPage, updatedAt[after]',
  sizes: { books: 271, genres: 4 },
  fields: ['id', 'title', 'updatedAt'],
  stamp: (time) => time.replace(/\.\d+Z/, '+00:00'),
  base: '/api',
  others: ({ path }, names) => {
    const entry = { '@context': '/api/contexts/Entrypoint', '@id': '/api', '@type': 'Entrypoint' };
    if (path !== '/api' && path !== '/api/') return undefined;
    return { body: { ...entry, ...Object.fromEntries(names.map((name) => [name, `/api/${name}`])) } };
  },
  one: (item, name) => hydraItem(item, name),
  list: ({ query }, items, name) => {
    const all = since(items, 'updatedAt', query.get('updatedAt[after]'));
    const [size, page] = [whole(query, 'itemsPerPage', 30, 120), whole(query, 'page', 1)];
    const last = Math.max(1, Math.ceil(all.length / size));
    const to = (at: number): string => `/api/${name}?${queryWith(query, { page: at })}`;
    const view = {
      '@id': to(page),
      'hydra:first': to(1),
      'hydra:last': to(last),
      ...(page < last ? { 'hydra:next': to(page + 1) } : {}),
    };
    const member = all.slice((page - 1) * size, page * size).map((item) => hydraItem(item, name));
    return {
      body: { '@id': `/api/${name}`, 'hydra:totalItems': all.length, 'hydra:member': member, 'hydra:view': view },
    };
  },
};

export const FRAMEWORKS = [djangoPages, djangoOffsets, laravel, gitHub, jsonApiPages, jsonApiOffsets, hydra];
