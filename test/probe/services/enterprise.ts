// Services in the manner of Spring, OData, Azure and .NET.
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

const API_KEY = 'f3a91c7e5b2d4806';
const TOKEN = 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeW5jIn0.c2ln';

/** 20 a page and at most 1,000; the ids are exposed, and unknown parameters are ignored. */
const springDataRest: Product = {
  name: 'Spring Data REST: HAL index, page/size',
  sizes: { customers: 347, regions: 6 },
  fields: ['id', 'name', 'lastModifiedDate'],
  base: '/api',
  others: ({ path, root }, names) => {
    if (path !== '/api' && path !== '/api/') return undefined;
    const links = names.map((name) => [name, { href: `${root}/${name}{?page,size,sort}`, templated: true }]);
    return { body: { _links: { ...Object.fromEntries(links), profile: { href: `${root}/profile` } } } };
  },
  one: (item, name, { root }) => ({ ...item, _links: { self: { href: `${root}/${name}/${item['id']}` } } }),
  list: (asked, items, name) => {
    const [size, number] = [whole(asked.query, 'size', 20, 1_000), whole(asked.query, 'page', 0)];
    const totalPages = Math.ceil(items.length / size);
    const to = (page: number): object => ({ href: `${asked.root}/${name}?page=${page}&size=${size}` });
    const onward = number + 1 < totalPages ? { next: to(number + 1), last: to(totalPages - 1) } : {};
    const shown = items.slice(number * size, (number + 1) * size);
    const embedded = { [name]: shown.map((item) => springDataRest.one?.(item, name, asked)) };
    const page = { size, totalElements: items.length, totalPages, number };
    return { body: { _embedded: embedded, _links: { self: to(number), ...onward }, page } };
  },
};

/** 25 a page and at most 200; the small listing is a bare array. */
const springPage: Product = {
  name: 'Spring Page: content[], /v3/api-docs, X-API-Key',
  sizes: { invoices: 412, currencies: 5 },
  fields: ['id', 'name', 'updatedAt'],
  credential: { secret: API_KEY },
  place: /^\/billing\/(?<name>\w+)(?:\/(?<id>\d+))?$/,
  admits: ({ path, headers }) => path === '/v3/api-docs' || headers['x-api-key'] === API_KEY,
  others: ({ path }) => {
    const listings = ['/billing/invoices', '/billing/currencies'];
    const body = openApi({ openapi: '3.0.1' }, listings, 'page size sort updatedAfter');
    return path === '/v3/api-docs' ? { body } : undefined;
  },
  list: ({ query }, items, name) => {
    if (name === 'currencies') return { body: items };
    const [size, number] = [whole(query, 'size', 25, 200), whole(query, 'page', 0)];
    const all = since(items, 'updatedAt', query.get('updatedAfter'));
    const content = all.slice(number * size, (number + 1) * size);
    const totalPages = Math.ceil(all.length / size);
    const pageable = { pageNumber: number, pageSize: size, offset: number * size, paged: true };
    const last = number + 1 >= totalPages;
    return { body: { content, pageable, totalElements: all.length, totalPages, last, size, number } };
  },
};

const property = (name: string, type: string): string => `<Property Name="${name}" Type="Edm.${type}"/>`;

/** Service document and metadata of OData. */
function odataIndex({ path, root }: Asked, names: readonly string[], [key, title, changed]: Product['fields']) {
  const rest = path.slice(new URL(root).pathname.length);
  const value = names.map((name) => ({ name, kind: 'EntitySet', url: name }));
  if (rest === '' || rest === '/') return { body: { '@odata.context': `${root}/$metadata`, value } };
  if (rest !== '/$metadata') return undefined;
  const fields = property(key, 'String') + property(title, 'String') + property(changed, 'DateTimeOffset');
  const types = names.map(
    (name) => `<EntityType Name="T${name}"><Key><PropertyRef Name="${key}"/></Key>${fields}</EntityType>`,
  );
  const sets = names.map((name) => `<EntitySet Name="${name}" EntityType="Shop.T${name}"/>`);
  const schema = `<Schema Namespace="Shop" xmlns="http://docs.oasis-open.org/odata/ns/edm">${types.join('')}<EntityContainer Name="All">${sets.join('')}</EntityContainer></Schema>`;
  const body = `<?xml version="1.0"?><edmx:Edmx Version="4.0" xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx"><edmx:DataServices>${schema}</edmx:DataServices></edmx:Edmx>`;
  return { headers: { 'content-type': 'application/xml' }, body };
}

const odataError = (message: string): object => ({ error: { code: '0x80060888', message } });

function odataPage({ query, root }: Asked, items: Item[], name: string, size: number) {
  const filter = query.get('$filter');
  const moment = /^UpdatedAt ge (\d{4}-\d\d-\d\dT[\d:.]+Z)$/.exec(filter ?? '')?.[1];
  if (filter !== null && moment === undefined) throw new Refusal(400, odataError(`Syntax error in '${filter}'`));
  const all = since(items, 'UpdatedAt', moment);
  const [at, top] = [whole(query, '$skiptoken', 0), whole(query, '$top', 1e9)];
  const chosen = all.slice(whole(query, '$skip', 0)).slice(0, top);
  const next = `${root}/${name}?${queryWith(query, { $skiptoken: at + size })}`;
  const count = query.get('$count') === 'true' ? { '@odata.count': all.length } : {};
  const link = at + size < chosen.length ? { '@odata.nextLink': next } : {};
  const context = `${root}/$metadata#${name}`;
  return { body: { '@odata.context': context, ...count, value: chosen.slice(at, at + size), ...link } };
}

/** Refuses options that it does not know, and sends 100 a page with a link to the next. */
const odata: Product = {
  name: 'OData v4: $skip/$top, $filter ge, /Orders(1)',
  sizes: { Orders: 265, Suppliers: 7 },
  fields: ['Id', 'Name', 'UpdatedAt'],
  base: '/odata/v4',
  others: (asked, names) => odataIndex(asked, names, odata.fields),
  place: /^\/odata\/v4\/(?<name>\w+)(?:\((?<id>\d+)\))?$/,
  list: (asked, items, name) => {
    const known = /^(?!\$)|^\$(?:skip|top|count|filter|orderby|select|expand|format|skiptoken)$/;
    refuseOthers(asked, known, odataError('The query parameter is not supported.'));
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
  credential: { secret: TOKEN },
  admits: ({ headers }) => headers.authorization === `Bearer ${TOKEN}`,
  others: (asked, names) => odataIndex(asked, names, odataTokens.fields),
  place: /^\/api\/data\/v9\.2\/(?<name>\w+)(?:\('(?<id>[^']+)'\))?$/,
  list: (asked, items, name) => {
    const known = /^\$(?:top|count|filter|orderby|select|expand|skiptoken)$/;
    refuseOthers(asked, known, odataError('Invalid query parameter'));
    const preferred = /odata\.maxpagesize=(\d+)/.exec(String(asked.headers['prefer']))?.[1];
    return odataPage(asked, items, name, Math.min(Number(preferred ?? 80), 80));
  },
};

/** Like Azure DevOps: an access token as password, and a continuation token in a header of the answer. */
const azureContinuation: Product = {
  name: 'Azure DevOps: $top, continuationToken from a header, basic',
  sizes: { projects: 238, teams: 5 },
  fields: ['id', 'name', 'lastUpdateTime'],
  base: '/acme/_apis',
  credential: { secret: 'tkw7a5yq2m3n6p4r', user: 'sync' },
  options: ['--path', '/projects', '/teams'],
  admits: ({ headers }) => headers.authorization === `Basic ${btoa('sync:tkw7a5yq2m3n6p4r')}`,
  list: ({ query }, items) => {
    const [top, from] = [whole(query, '$top', 100, 100), whole(query, 'continuationToken', 0)];
    const value = items.slice(from, from + top);
    const headers = from + top < items.length ? { 'x-ms-continuationtoken': String(from + top) } : null;
    return { ...(headers && { headers }), body: { count: value.length, value } };
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
    const [size, page] = [whole(query, 'pageSize', 10, 50), whole(query, 'pageNumber', 1)];
    const pages = {
      TotalCount: items.length,
      PageSize: size,
      CurrentPage: page,
      TotalPages: Math.ceil(items.length / size),
    };
    return { headers: { 'x-pagination': JSON.stringify(pages) }, body: items.slice((page - 1) * size, page * size) };
  },
};

export const ENTERPRISE = [springDataRest, springPage, odata, odataTokens, azureContinuation, capitalised];
