// Finds the paths that may be listings of a service: by an index that links to them, by a description (OpenAPI, OData),
// or by usual names. Example: `/` names `{"posts": "/api/posts"}`. Whether a path is a listing is decided by requesting
// it.
import type { JsonObject, JsonValue } from '../model/json.ts';
import { parseLinkHeader } from '../pagination/requests/listing-signals.ts';
import { fieldAt, isObject } from '../rows/records/as-record.ts';
import { describeResponse, displayPath, isUsable, type ProbeResponse } from './probe-client.ts';
import type { ProbeContext } from './probed-listing.ts';
import { recordLists } from './record-lists.ts';
import { DESCRIBED_BY, FAMILIES, NO_CONTENT, OPENAPI_PATHS, ROOTS, USUAL_NAMES } from './vocabulary.ts';

/** The path of a possible listing, and where it comes from, for the evidence. */
export interface Candidate {
  path: string;
  from: string;
  /** The path of one record, with `{id}`, if the family of the service tells it. */
  item?: string | undefined;
}

/** `from` of a path that nothing but its name speaks for. */
export const USUAL_NAME = 'a usual name';
const MAX_LINKED = 40;

interface Search {
  context: ProbeContext;
  open: (path: string, isAtRoot?: boolean) => Promise<ProbeResponse>;
  /** True if the search among usual names ends at the first that wants a credential: the rest is found with it. */
  stopsAtRefusal: boolean;
}

/**
 * The possible listings of a service, from the surest source that names any, and a path at which the forms of a credential
 * can be compared: one that is refused without it, or the first listing. Without `isIndexed` the links of an index do not
 * count. `missing` keeps what was not found: without a credential it is missing as with it.
 */
export async function discover(
  context: ProbeContext,
  missing: Map<string, ProbeResponse>,
  { stopsAtRefusal = false, isIndexed = true } = {},
): Promise<{ candidates: readonly Candidate[]; reference: string | null }> {
  const { client } = context;
  let refused: string | null = null;
  const open: Search['open'] = async (path, isAtRoot = false) => {
    const place = `${isAtRoot ? client.baseUrl.origin : ''}${path}`;
    const response = missing.get(place) ?? (await client.get({ path, isAtRoot }));
    if (response.status === 404) missing.set(place, response);
    // The root and a description may be refused to everyone: any other path shows more.
    const isListing = !isAtRoot && !path.endsWith('/') && !OPENAPI_PATHS.includes(path);
    if (isListing && isRefused(response)) refused = path;
    else if (response.status === 401) refused ??= path;
    return response;
  };
  for (const find of isIndexed
    ? [findByIndex, findByDescription, findByUsualName]
    : [findByDescription, findByUsualName]) {
    const candidates = await find({ context, open, stopsAtRefusal });
    if (candidates.length > 0) return { candidates, reference: refused ?? candidates[0]?.path ?? null };
  }
  return { candidates: [], reference: refused };
}

function isRefused({ status }: ProbeResponse): boolean {
  return status === 401 || status === 403;
}

/** By the response at the address, or at a usual place below it, if that links to listings. */
async function findByIndex({ context, open }: Search): Promise<Candidate[]> {
  const { baseUrl } = context.client;
  for (const root of rootsBelow(baseUrl)) {
    const response = await open(`${root}/`);
    if (response.status === 401) return [];
    const links = parseLinkHeader(response.headers['link']) ?? [];
    const described = links.filter(({ rels }) => rels.some((rel) => DESCRIBED_BY.test(rel)));
    for (const path of described.flatMap(({ uri }) => pathBelow(uri, response.url, baseUrl) ?? [])) {
      const found = pathsIn(context, await open(path));
      if (found.length > 0) return found;
    }
    const text = isUsable(response) ? response.bytes.toString('utf8', 0, 5_000) : '';
    const family = Object.keys(FAMILIES).find((name) => new RegExp(FAMILIES[name]?.[0] ?? '$^', 'i').test(text));
    const found = family === undefined ? pathsIn(context, response) : await membersOf(family, root, open);
    if (found.length > 0) return found;
  }
  return [];
}

async function membersOf(family: string, root: string, open: Search['open']): Promise<Candidate[]> {
  const [, index = '', path = '', item = '', field = ''] = FAMILIES[family] ?? [];
  const response = await open(root + index);
  const list = isUsable(response) ? response.json : null;
  return (Array.isArray(list) ? list : []).flatMap((entry): Candidate[] => {
    const name = fieldAt(entry, field);
    if (typeof name !== 'string' || /^[_.]/.test(name)) return [];
    const fill = (text: string): string => root + text.replace('{name}', name);
    return [{ path: fill(path), item: fill(item), from: `the collections of ${family}` }];
  });
}

async function findByDescription({ context, open }: Search): Promise<Candidate[]> {
  for (const isAtRoot of context.client.baseUrl.pathname === '/' ? [false] : [false, true]) {
    for (const path of OPENAPI_PATHS) {
      const response = await open(path, isAtRoot);
      if (response.status === 401) break;
      const found = pathsIn(context, response);
      if (found.length > 0) return found;
    }
  }
  const { text } = await open('/$metadata');
  const names = Array.from(text.matchAll(/<EntitySet\s[^>]*\bName="(\w+)"/g), ([, name]) => `/${name}`);
  return toCandidates(names, 'GET /$metadata');
}

/** An address with a path is that of the API; else the API may begin at a usual place below it. */
function rootsBelow({ pathname }: URL): readonly string[] {
  return pathname === '/' ? ROOTS : [''];
}

/** The usual names at the address, below it, or capitalised; if one of them is a listing, the others are tried there too. */
async function findByUsualName({ context: { client }, open, stopsAtRefusal }: Search): Promise<Candidate[]> {
  const places = [
    { place: (name: string) => `/${name}`, count: 30 },
    { place: (name: string) => `/${name.charAt(0).toUpperCase()}${name.slice(1)}`, count: 8 },
    ...rootsBelow(client.baseUrl).flatMap((root) =>
      root === '' ? [] : [{ place: (name: string) => `${root}/${name}`, count: 4 }],
    ),
  ];
  for (const { place, count } of places) {
    for (const name of USUAL_NAMES.slice(0, count)) {
      const response = await open(place(name));
      if (isRefused(response) && (stopsAtRefusal || client.isRefused())) return [];
      if (!isUsable(response) || recordLists(response.json ?? null, name).length === 0) continue;
      const others = USUAL_NAMES.filter((each) => each !== name);
      return toCandidates([name, ...others].map(place), USUAL_NAME);
    }
  }
  return [];
}

/** The listings that a response names: an OpenAPI document, or any index of links or names. */
export function pathsIn(context: ProbeContext, response: ProbeResponse): Candidate[] {
  const { json = null, text, status, url } = response;
  if (status >= 300) return [];
  const from = describeResponse(response);
  const documented = documentedPaths(context, json);
  if (documented.length > 0) return toCandidates(documented, from);
  const inText = Array.from(text.matchAll(/href="([^"]+)"|GET (\/\S+)/g), ([, link, route]) => link ?? route ?? '');
  const paths: string[] = [];
  for (const address of json === null ? inText : addressesIn(json)) {
    // A template such as /posts{?page,size} tells the parameters as well.
    const [plain = '', parameters = ''] = address.split('{?');
    const path = plain.includes('{') ? null : pathBelow(plain, url, context.client.baseUrl);
    if (path === null || !isContent(path)) continue;
    for (const name of parameters.match(/[\w[\].$]+/g) ?? []) context.conventions.parameters.add(name);
    paths.push(path);
  }
  const usualFirst = paths.toSorted((a, b) => rankPath(a) - rankPath(b)).slice(0, MAX_LINKED);
  return toCandidates(usualFirst, json === null ? `the links of ${from}` : `the index, ${from}`);
}

export function toCandidates(paths: readonly string[], from: string): Candidate[] {
  return [...new Set(paths)].map((path) => ({ path, from }));
}

/** Texts of an index that are addresses: links, routes as keys, and names of collections. */
function* addressesIn(value: JsonValue, key = '', level = 0): Generator<string> {
  if (typeof value === 'string') {
    const [, address = ''] = /^(?:GET )?((?:https?:\/\/|\.?\/)\S*)$/.exec(value) ?? [];
    if (address !== '') yield address;
    else if (/^(?:url|href|path)$/.test(key) && /^[A-Za-z][\w/-]*(?:\{\?.*)?$/.test(value)) yield value;
  } else if (level > 5) return;
  else if (Array.isArray(value)) {
    const isNames = /resource|collection|endpoint|entit|table|model|type|listing|^$/i.test(key);
    for (const each of value.slice(0, 60)) {
      if (typeof each === 'string' && isNames && /^[A-Za-z][\w-]*$/.test(each)) yield each;
      else yield* addressesIn(each, key, level + 1);
    }
  } else if (isObject(value)) {
    for (const [name, below] of Object.entries(value)) {
      if (name.startsWith('/') && !/[(<]/.test(name)) yield `.${name}`;
      yield* addressesIn(below, name, level + 1);
    }
  }
}

/** The path below the base URL of an address in the response of `from`; null if it is elsewhere. */
function pathBelow(address: string, from: URL, baseUrl: URL): string | null {
  const folder = from.pathname.replace(/\/$/, '');
  // Routes as keys are named from the root of the API, to which the index may belong: `/wp/v2/posts` at `/wp-json/wp/v2`.
  const ends = folder.split('/').map((_, at, parts) => `/${parts.slice(at).join('/')}`);
  const shared = ends.find((end) => address.startsWith(`.${end}/`)) ?? '';
  const absolute = address.startsWith('./') ? folder + address.slice(1 + shared.length) : address;
  const url = URL.parse(absolute, `${from.origin}${folder}/`);
  const base = `${baseUrl.pathname.replace(/\/+$/, '')}/`;
  // Behind a proxy a service does not know its own scheme.
  if (url === null || url.host !== baseUrl.host || url.search !== '') return null;
  return url.pathname.startsWith(base) && url.pathname !== base ? displayPath(baseUrl, url) : null;
}

/** The listings of an OpenAPI or Swagger document; keeps the names of its query parameters, and what it says of credentials. */
export function documentedPaths({ client, conventions }: ProbeContext, document: JsonValue): string[] {
  if (!isObject(document) || !isObject(document['paths'])) return [];
  const schemes = fieldAt(document, 'components.securitySchemes') ?? document['securityDefinitions'] ?? {};
  conventions.credentialText += JSON.stringify(schemes);
  const operations = Object.entries(document['paths']).filter(([, item]) => isObject(item) && isObject(item['get']));
  const listings = operations.filter(([path]) => !path.includes('{') && isContent(path));
  for (const name of listings.flatMap(([, item]) => [...queryParameters(item)])) conventions.parameters.add(name);
  const hasItem = (path: string): number =>
    Number(operations.some(([other]) => other.startsWith(`${path.replace(/\/$/, '')}/{`)));
  const paths = listings.map(([path]) => path).toSorted((a, b) => hasItem(b) - hasItem(a));
  const root = apiRoot(document);
  const base = client.baseUrl.pathname.replace(/\/+$/, '');
  return paths.map((path) => (`${root}${path}`.startsWith(`${base}/`) ? `${root}${path}`.slice(base.length) : path));
}

/** The path before all others: `/api/v2` of `servers: [{ url: https://cms.example.com/api/v2 }]`. */
function apiRoot(document: JsonObject): string {
  const server = document['basePath'] ?? fieldAt(document, 'servers[0].url');
  const { pathname = '/' } = URL.parse(typeof server === 'string' ? server : '/', 'http://localhost') ?? {};
  return pathname.replace(/\/$/, '');
}

/** The names of parameters that an operation takes in the query. */
function* queryParameters(value: JsonValue): Generator<string> {
  if (isObject(value) && value['in'] === 'query' && typeof value['name'] === 'string') yield value['name'];
  for (const below of typeof value === 'object' && value !== null ? Object.values(value) : [])
    yield* queryParameters(below);
}

function isContent(path: string): boolean {
  const parts = path.split('/').filter((part) => part !== '');
  const last = parts.at(-1) ?? '';
  return parts.length <= 5 && last !== '' && !NO_CONTENT.test(last) && !/\.\w{2,5}$|^\d+$|^[0-9a-f-]{16,}$/i.test(last);
}

/** Low for usual names, and for paths with few parts. */
function rankPath(path: string): number {
  const at = USUAL_NAMES.indexOf(path.replace(/\/$/, '').split('/').at(-1)?.toLowerCase() ?? '');
  return (at === -1 ? USUAL_NAMES.length : at) + path.split('/').length;
}
