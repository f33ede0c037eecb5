// Services in the manner of Spring, OData, Azure and Oracle.
import {
  type Asked,
  basic,
  bearer,
  cut,
  header,
  type Item,
  type Product,
  queryWith,
  read,
  refuseOthers,
  since,
} from './service.ts';

const selfLinked = (item: Item, name: string, root: string): object =>
  Object.assign({ _links: { self: { href: `${root}/${name}/${item['id']}` } } }, item);

const springDataRest: Product = {
  name: 'Spring Data REST: HAL index, page/size',
  sizes: { customers: 347, regions: 6 },
  fields: ['id', 'name', 'lastModifiedDate'],
  base: '/api',
  index: (names, root) => {
    const links = names.map((name) => [name, { href: `${root}/${name}{?page,size,sort}`, templated: true }]);
    return { _links: { ...Object.fromEntries(links), profile: { href: `${root}/profile` } } };
  },
  one: selfLinked,
  list: ({ query, root }, items, name) => {
    const { size, at, shown, pages, next } = cut(items, query, ['size', 20, 1_000], ['page', 0]);
    const to = (page: number): object => ({ href: `${root}/${name}?page=${page}&size=${size}` });
    const links = { self: to(at), ...(next !== null && { next: to(at + 1), last: to(pages - 1) }) };
    const page = { size, totalElements: items.length, totalPages: pages, number: at };
    return { body: { _embedded: { [name]: shown.map((item) => selfLinked(item, name, root)) }, _links: links, page } };
  },
};

/** The small listing is a bare array. */
const springPage: Product = {
  name: 'Spring Page: content[], /v3/api-docs, X-API-Key',
  sizes: { invoices: 412, currencies: 5 },
  fields: ['id', 'name', 'updatedAt'],
  base: '/billing',
  credential: header('x-api-key', 'f3a91c7e5b2d4806'),
  docs: ['/v3/api-docs', { openapi: '3.0.1' }, 'page size sort updatedAfter', '/billing'],
  list: ({ query }, items, name) => {
    if (name === 'currencies') return { body: items };
    const all = since(items, 'updatedAt', query.get('updatedAfter'));
    const { size, at, shown, pages, next } = cut(all, query, ['size', 25, 200], ['page', 0]);
    const counts = { totalElements: all.length, totalPages: pages, last: next === null, size, number: at };
    return { body: { content: shown, ...counts } };
  },
};

const property = (name: string, type: string): string => `<Property Name="${name}" Type="Edm.${type}"/>`;

function metadata({ path, root }: Asked, names: readonly string[], [key, title, changed]: Product['fields']) {
  if (path !== `${new URL(root).pathname}/$metadata`) return undefined;
  const fields = property(key, 'String') + property(title, 'String') + property(changed, 'DateTimeOffset');
  const id = `<Key><PropertyRef Name="${key}"/></Key>`;
  const types = names.map((name) => `<EntityType Name="T${name}">${id}${fields}</EntityType>`).join('');
  const sets = names.map((name) => `<EntitySet Name="${name}" EntityType="Shop.T${name}"/>`).join('');
  const schema = `<Schema Namespace="Shop">${types}<EntityContainer Name="All">${sets}</EntityContainer></Schema>`;
  const body = `<edmx:Edmx Version="4.0"><edmx:DataServices>${schema}</edmx:DataServices></edmx:Edmx>`;
  return { headers: { 'content-type': 'application/xml' }, body };
}

const serviceDocument = (names: readonly string[], root: string): object => ({
  '@odata.context': `${root}/$metadata`,
  value: names.map((name) => ({ name, kind: 'EntitySet', url: name })),
});

function odataPage({ query, root }: Asked, items: Item[], name: string, size: number) {
  const all = since(items, 'UpdatedAt', read(query.get('$filter'), /^UpdatedAt ge (\d{4}-\d\d-\d\dT[\d:.]+Z)$/));
  const chosen = cut(all, query, ['$top', 1e9], ['$skip']).shown;
  const { shown, next } = cut(chosen, new URLSearchParams({ at: query.get('$skiptoken') ?? '0' }), ['', size], ['at']);
  const count = query.get('$count') === 'true' && { '@odata.count': all.length };
  const link = next !== null && { '@odata.nextLink': `${root}/${name}?${queryWith(query, { $skiptoken: next })}` };
  return { body: { '@odata.context': `${root}/$metadata#${name}`, ...count, value: shown, ...link } };
}

const odata: Product = {
  name: 'OData v4: $skip/$top, 100 a page, $filter ge, /Orders(1)',
  sizes: { Orders: 265, Suppliers: 7 },
  fields: ['Id', 'Name', 'UpdatedAt'],
  base: '/odata/v4',
  index: serviceDocument,
  others: (asked, names) => metadata(asked, names, odata.fields),
  place: /^\/odata\/v4\/(?<name>\w+)(?:\((?<id>\d+)\))?$/,
  list: (asked, items, name) => {
    refuseOthers(asked.query, /^(?!\$)|^\$(?:skip|top|count|filter|orderby|select|expand|format|skiptoken)$/);
    return odataPage(asked, items, name, 100);
  },
};

/** Like Dataverse: keys are texts, the service alone decides on pages, and `$skip` is refused. */
const odataTokens: Product = {
  name: "OData v4: text keys, $skiptoken only, bearer, /Products('A-1')",
  sizes: { Products: 313, Warehouses: 4 },
  fields: ['Code', 'Name', 'UpdatedAt'],
  key: (at) => `A-${1000 + at}`,
  base: '/api/data/v9.2',
  credential: bearer('eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeW5jIn0.c2ln'),
  index: serviceDocument,
  others: (asked, names) => metadata(asked, names, odataTokens.fields),
  place: /^\/api\/data\/v9\.2\/(?<name>\w+)(?:\('(?<id>[^']+)'\))?$/,
  list: (asked, items, name) => {
    refuseOthers(asked.query, /^\$(?:top|count|filter|orderby|select|expand|skiptoken)$/);
    const preferred = /odata\.maxpagesize=(\d+)/.exec(String(asked.headers['prefer']))?.[1];
    return odataPage(asked, items, name, Math.min(Number(preferred ?? 80), 80));
  },
};

/** An access token is the password. */
const azureContinuation: Product = {
  name: 'Azure DevOps: $top, continuationToken from a header, basic',
  sizes: { projects: 238, teams: 5 },
  fields: ['id', 'name', 'lastUpdateTime'],
  base: '/acme/_apis',
  credential: basic('sync', 'tkw7a5yq2m3n6p4r'),
  options: ['--path', '/projects', '/teams'],
  list: ({ query }, items) => {
    const { shown, next } = cut(items, query, ['$top', 100, 100], ['continuationToken']);
    return {
      ...(next !== null && { headers: { 'x-ms-continuationtoken': String(next) } }),
      body: { count: shown.length, value: shown },
    };
  },
};

/** Nothing describes it; the pages are counted in a header. */
const capitalised: Product = {
  name: 'capitalised paths: pageNumber/pageSize, X-Pagination',
  sizes: { Orders: 230, Categories: 8 },
  fields: ['Id', 'Name', 'ModifiedOn'],
  base: '/api',
  list: ({ query }, items, name) => {
    if (name === 'Categories') return { body: items };
    const { size, at, shown, pages } = cut(items, query, ['pageSize', 10, 50], ['pageNumber', 1]);
    const counts = { TotalCount: items.length, PageSize: size, CurrentPage: at, TotalPages: pages };
    return { headers: { 'x-pagination': JSON.stringify(counts) }, body: shown };
  },
};

const oracle: Product = {
  name: 'Oracle: q=LastUpdateDate >= , items/hasMore/limit/offset, basic',
  sizes: { invoices: 417, suppliers: 6 },
  fields: ['InvoiceId', 'Description', 'LastUpdateDate'],
  stamp: (time) => time.replace('Z', '+00:00'),
  base: '/fscmRestApi/resources/latest',
  credential: basic('integration', 'Welcome1-fusion'),
  index: (names, root) => ({
    items: names.map((name) => ({ name, links: [{ rel: 'self', href: `${root}/${name}`, kind: 'collection' }] })),
  }),
  list: ({ query }, items) => {
    const moment = read(query.get('q'), /^LastUpdateDate\s*(?:>=|ge)\s*['"]?([^'"]+)['"]?$/);
    const all = since(items, 'LastUpdateDate', moment);
    const { size, at, shown, next } = cut(all, query, ['limit', 25, 500], ['offset']);
    return {
      body: { items: shown, count: shown.length, hasMore: next !== null, limit: size, offset: at },
    };
  },
};

export const ENTERPRISE = [springDataRest, springPage, odata, odataTokens, azureContinuation, capitalised, oracle];
