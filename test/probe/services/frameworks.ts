// Services in the manner of Django, Laravel, Rails, API Platform, JSON:API and WordPress.
import { type Asked, bearer, cut, type Item, type Product, queryWith, refuse, refuseOthers, since } from './service.ts';

const TOKEN = '9944b09199c62bcf9418ad846dd0e4bbdfc6ee4b';

/** 40 a page, which no request can change; a page after the last one is a 404, and every path has a slash at its end. */
const django: Product = {
  name: 'Django REST framework: page, root list, Token',
  sizes: { articles: 301, sections: 7 },
  fields: ['id', 'title', 'updated_at'],
  credential: { secret: TOKEN, headers: { authorization: `Token ${TOKEN}` } },
  base: '/api',
  index: (names, root) => Object.fromEntries(names.map((name) => [name, `${root}/${name}/`])),
  others: ({ path, query }) => {
    if (path.endsWith('/')) return undefined;
    return { status: 301, headers: { location: `${path}/${query.size > 0 ? `?${query.toString()}` : ''}` }, body: '' };
  },
  place: /^\/api\/(?<name>\w+)\/(?:(?<id>[^/]+)\/)?$/,
  list: ({ query, root }, items, name) => {
    const all = since(items, 'updated_at', query.get('updated_at__gte'));
    const { at, shown, pages, next } = cut(all, query, ['', 40], ['page', 1]);
    if (at < 1 || at > pages) refuse(404);
    const to = (page: number): string => `${root}/${name}/?${queryWith(query, { page })}`;
    const links = { next: next === null ? null : to(at + 1), previous: at > 1 ? to(at - 1) : null };
    return { body: { count: all.length, ...links, results: shown } };
  },
};

const laravel: Product = {
  name: 'Laravel: data/links/meta, page/per_page, bearer',
  sizes: { products: 344, categories: 8 },
  fields: ['id', 'name', 'updated_at'],
  base: '/api/v1',
  credential: bearer(`14|${TOKEN}`),
  one: (item) => ({ data: item }),
  list: ({ query, root }, items, name) => {
    const all = since(items, 'updated_at', query.get('updated_since'));
    const { size, at, shown, pages, next } = cut(all, query, ['per_page', 15, 100], ['page', 1]);
    const to = (page: number): string => `${root}/${name}?page=${page}`;
    const around = { prev: at > 1 ? to(at - 1) : null, next: next === null ? null : to(at + 1) };
    const meta = { current_page: at, last_page: pages, path: `${root}/${name}`, per_page: size, total: all.length };
    return { body: { data: shown, links: { first: to(1), last: to(pages), ...around }, meta } };
  },
};

/** Bare arrays with links in a header. */
const gitHub: Product = {
  name: 'GitHub: page/per_page, Link, since, bearer',
  sizes: { issues: 487, labels: 9, milestones: 3 },
  fields: ['number', 'title', 'updated_at'],
  stamp: (time) => time.replace(/\.\d+/, ''),
  base: '/repos/acme/shop',
  credential: bearer(`ghp_${TOKEN}`),
  options: ['--path', '/issues', '/labels', '/milestones'],
  list: ({ query, root }, items, name) => {
    const all = since(items, 'updated_at', name === 'issues' ? query.get('since') : null);
    const { at, shown, pages, next } = cut(all, query, ['per_page', 30, 100], ['page', 1]);
    const to = (page: number, rel: string): string => `<${root}/${name}?${queryWith(query, { page })}>; rel="${rel}"`;
    const around = [to(1, 'first'), ...(next === null ? [] : [to(at + 1, 'next'), to(pages, 'last')])];
    return { ...(pages > 1 && { headers: { link: around.join(', ') } }), body: shown };
  },
};

const JSON_API = { 'content-type': 'application/vnd.api+json' };

/** A record as JSON:API has it: its fields below `attributes`. */
function resourceObject({ id = '', ...attributes }: Item, type: string, root: string): object {
  return { type, id: String(id), attributes, links: { self: `${root}/${type}/${id}` } };
}

const jsonApiPages: Product = {
  name: 'JSON:API: page[number]/page[size], filter[updated_since], unknown parameters refused',
  options: ['--path', '/books', '/publishers'],
  sizes: { books: 256, publishers: 5 },
  fields: ['id', 'title', 'updated_at'],
  base: '/v1',
  one: (item, name, root) => ({ data: resourceObject(item, name, root) }),
  list: ({ query, root }, items, name) => {
    refuseOthers(query, /^(?:page\[(?:number|size)\]|filter\[(?:id|updated_since)\]|sort|include|fields\[\w+\])$/);
    const all = since(items, 'updated_at', query.get('filter[updated_since]'));
    const { at, shown, pages, next } = cut(all, query, ['page[size]', 20, 50], ['page[number]', 1]);
    const to = (page: number): string => `${root}/${name}?${queryWith(query, { 'page[number]': page })}`;
    const links = { first: to(1), ...(next !== null && { next: to(at + 1) }), last: to(pages) };
    const data = shown.map((item) => resourceObject(item, name, root));
    return { headers: JSON_API, body: { data, meta: { 'record-count': all.length, 'page-count': pages }, links } };
  },
};

/** A root of links, and no number of all records. */
const drupal: Product = {
  name: 'JSON:API of Drupal: page[offset]/page[limit], root, links.next',
  sizes: { article: 243, term: 6 },
  fields: ['id', 'title', 'changed'],
  key: (at) => `b7d1${String(at).padStart(4, '0')}-90c2-4f5e-8a31-0d9c4e7f6b25`,
  base: '/jsonapi',
  index: (names, root) => {
    const links = names.map((name) => [`node--${name}`, { href: `${root}/${name}` }]);
    return { data: [], links: { ...Object.fromEntries(links), self: { href: root } } };
  },
  one: (item, name, root) => ({ data: resourceObject(item, name, root) }),
  list: ({ query, root }, items, name) => {
    refuseOthers(query, /[^a-z]|^(?:page|filter|sort|include|fields)$/);
    const path = [...query].find(([key, value]) => key.endsWith('[condition][path]') && value === 'changed')?.[0] ?? '';
    const isAfter = query.get(path.replace('[path]', '[operator]'))?.startsWith('>') === true;
    const all = since(items, 'changed', isAfter ? query.get(path.replace('[path]', '[value]')) : null);
    const { shown, next } = cut(all, query, ['page[limit]', 50, 50], ['page[offset]']);
    const to = { href: `${root}/${name}?${queryWith(query, { 'page[offset]': next ?? 0 })}` };
    const links = { self: { href: `${root}/${name}` }, ...(next !== null && { next: to }) };
    return { headers: JSON_API, body: { data: shown.map((item) => resourceObject(item, name, root)), links } };
  },
};

const hydraItem = (item: Item, name: string): Item => ({ '@id': `/api/${name}/${item['id']}`, '@type': name, ...item });

const hydra: Product = {
  name: 'API Platform: Hydra, page/itemsPerPage, updatedAt[after]',
  sizes: { books: 271, genres: 4 },
  fields: ['id', 'title', 'updatedAt'],
  base: '/api',
  index: (names) => {
    const entry = { '@context': '/api/contexts/Entrypoint', '@id': '/api', '@type': 'Entrypoint' };
    return { ...entry, ...Object.fromEntries(names.map((name) => [name, `/api/${name}`])) };
  },
  one: hydraItem,
  list: ({ query }, items, name) => {
    const all = since(items, 'updatedAt', query.get('updatedAt[after]'));
    const { at, shown, pages, next } = cut(all, query, ['itemsPerPage', 30, 120], ['page', 1]);
    const to = (page: number): string => `/api/${name}?${queryWith(query, { page })}`;
    const onward = next !== null && { 'hydra:next': to(at + 1) };
    const view = { '@id': to(at), 'hydra:first': to(1), 'hydra:last': to(pages), ...onward };
    const member = shown.map((item) => hydraItem(item, name));
    return { body: { 'hydra:totalItems': all.length, 'hydra:member': member, 'hydra:view': view } };
  },
};

const isEditor = ({ authorization }: Asked['headers']): boolean =>
  authorization === `Basic ${btoa('editor:abcd EFGH')}`;

const postOf = (item: Item, name: string): Item =>
  name !== 'posts' ? item : { ...item, status: Number(item['id']) % 5 > 0 ? 'publish' : 'draft' };

/** A wrong credential is as good as none, and drafts, a fifth of the posts, are listed only for a right one. */
const wordPress: Product = {
  name: 'WordPress: /wp-json/wp/v2 index, page/per_page, status=any, X-WP-Total, modified_after, basic',
  sizes: { users: 13, posts: 239, comments: 1 },
  fields: ['id', 'slug', 'modified_gmt'],
  stamp: (time) => time.replace(/\.\d+Z/, ''),
  base: '/wp-json/wp/v2',
  credential: { user: 'editor', secret: 'abcd EFGH', headers: {} },
  options: ['--profile', 'probe'],
  index: (names, root) => {
    const routes = ['', ...names.map((name) => `/${name}`)].flatMap((route) => [
      [`/wp/v2${route}`, { methods: ['GET'], _links: { self: [{ href: root + route }] } }],
      [`/wp/v2${route}/(?P<id>[\\d]+)`, { methods: ['GET'] }],
    ]);
    return { namespace: 'wp/v2', routes: Object.fromEntries(routes) };
  },
  others: ({ path, headers }) => {
    if (!path.endsWith('/users/me')) return undefined;
    return isEditor(headers) ? { body: { id: 1, slug: 'editor' } } : { status: 401 };
  },
  one: postOf,
  list: ({ query, headers, root }, items, name) => {
    const status = query.get('status') ?? 'publish';
    if (!/^(?:publish|any)$/.test(status) || (status === 'any' && !isEditor(headers))) refuse();
    const sent = items
      .map((item) => postOf(item, name))
      .filter((post) => status === 'any' || post['status'] !== 'draft');
    const all = since(sent, 'modified_gmt', query.get('modified_after')?.replace('Z', '') ?? null);
    const { size, at, shown, pages, next } = cut(all, query, ['per_page', 10], ['page', 1]);
    if (size < 1 || size > 100 || at < 1 || at > pages) refuse();
    const link = next !== null && { link: `<${root}/${name}?${queryWith(query, { page: at + 1 })}>; rel="next"` };
    return { headers: { 'x-wp-total': String(all.length), 'x-wp-totalpages': String(pages), ...link }, body: shown };
  },
};

export const FRAMEWORKS = [django, laravel, gitHub, jsonApiPages, drupal, hydra, wordPress];
