// Finds the paths that may be listings of a service: by a description (OpenAPI, OData), by an index that links to them, or
// by usual names. Whether they are listings is decided by requesting them.
import type { JsonObject, JsonValue } from '../model/json.ts';
import { parseLinkHeader } from '../pagination/requests/listing-signals.ts';
import { fieldAt, isObject } from '../rows/records/as-record.ts';
import { describeResponse, displayPath, isUsable, type ProbeResponse } from './probe-client.ts';
import type { ProbeContext } from './probed-listing.ts';
import { recordLists } from './record-lists.ts';
import { DESCRIBED_BY, FAMILIES, type Family, NO_CONTENT, OPENAPI_PATHS, ROOTS, USUAL_NAMES } from './vocabulary.ts';

/** The path of a possible listing, and where it comes from, for the evidence. */
export interface Candidate {
  path: string;
  from: string;
  /** The path of one record, with `{id}`, if the family of the service tells it. */
  item?: string | undefined;
}

interface Discovered {
  candidates: readonly Candidate[];
  /** A path that is refused without a credential, or the first listing: the forms of a credential are compared there. */
  reference: string | null;
}

const MAX_LINKED = 40;

/**
 * The possible listings of a service, from the surest source that names any. `stopsAtRefusal`: among usual names it ends at
 * the first that wants a credential, because the rest is found with it. `isIndexed`: the links of an index count.
 */
export async function discover(
  { context, baseUrl, missing }: Pick<Search, 'context' | 'baseUrl'> & { missing: Map<string, ProbeResponse> },
  stopsAtRefusal: boolean,
  isIndexed = true,
): Promise<Discovered> {
  const { client } = context;
  let refused: string | null = null;
  const open: Open = async (path, isAtRoot = false) => {
    const place = `${isAtRoot ? baseUrl.origin : ''}${path}`;
    const response = missing.get(place) ?? (await client.get({ path, isAtRoot }));
    // What is missing without a credential is so with it.
    if (response.status === 404) missing.set(place, response);
    // The root and a description may be refused to everyone: any other path shows more.
    const isListing = !isAtRoot && !path.endsWith('/') && !OPENAPI_PATHS.includes(path);
    if (response.status === 401 || (response.status === 403 && isListing))
      refused = isListing ? path : (refused ?? path);
    return response;
  };
  for (const find of [...(isIndexed ? [findByIndex] : []), findByDescription, findByUsualName]) {
    const candidates = await find({ context, baseUrl, open, stopsAtRefusal });
    if (candidates.length > 0) return { candidates, reference: refused ?? candidates[0]?.path ?? null };
  }
  return { candidates: [], reference: refused };
}

interface Search {
  context: ProbeContext;
  baseUrl: URL;
  open: Open;
  stopsAtRefusal: boolean;
}

type Open = (path: string, isAtRoot?: boolean) => Promise<ProbeResponse>;

/** By the response at the address, or at a usual place below it, if that links to listings. */
async function findByIndex({ context, baseUrl, open }: Search): Promise<Candidate[]> {
  for (const root of rootsBelow(baseUrl)) {
    const response = await open(`${root}/`);
    if (response.status === 401) return [];
    const described = describedPaths(response, baseUrl);
    for (const path of described) {
      const found = pathsIn(context, await open(path), baseUrl);
      if (found.length > 0) return found;
    }
    const family = FAMILIES.find(
      ({ mark }) => isUsable(response) && mark.test(response.bytes.toString('utf8', 0, 5_000)),
    );
    const found = family === undefined ? pathsIn(context, response, baseUrl) : await membersOf(family, root, open);
    if (found.length > 0) return found;
  }
  return [];
}

async function membersOf({ name, index, field, path, item }: Family, root: string, open: Open): Promise<Candidate[]> {
  const response = await open(root + index);
  const list = isUsable(response) ? response.json : null;
  const names = (Array.isArray(list) ? list : []).map((entry) => (field === '' ? entry : fieldAt(entry, field)));
  return names.flatMap((each): Candidate[] => {
    if (typeof each !== 'string' || /^[_.]/.test(each)) return [];
    const [ofListing = '', ofItem] = [path, item].map((text) => root + text.replace('{name}', each));
    return [{ path: ofListing, item: ofItem, from: `the collections of ${name}` }];
  });
}

/** Paths of descriptions that a `Link` header names. */
function describedPaths({ headers, url }: ProbeResponse, baseUrl: URL): string[] {
  const links = (parseLinkHeader(headers['link']) ?? []).filter(({ rels }) =>
    rels.some((rel) => DESCRIBED_BY.test(rel)),
  );
  return links.flatMap(({ uri }) => pathBelow(uri, url, baseUrl) ?? []);
}

async function findByDescription({ context, baseUrl, open }: Search): Promise<Candidate[]> {
  for (const isAtRoot of baseUrl.pathname === '/' ? [false] : [false, true]) {
    for (const path of OPENAPI_PATHS) {
      const response = await open(path, isAtRoot);
      if (response.status === 401) break;
      const found = pathsIn(context, response, baseUrl);
      if (found.length > 0) return found;
    }
  }
  const metadata = await open('/$metadata');
  return Array.from(metadata.text.matchAll(/<EntitySet\s[^>]*\bName="(\w+)"/g), ([, name]) => ({
    path: `/${name}`,
    from: 'GET /$metadata',
  }));
}

/** An address with a path is that of the API; else the API may begin at a usual place below it. */
function rootsBelow({ pathname }: URL): readonly string[] {
  return pathname === '/' ? ROOTS : [''];
}

/** The usual names at the address, below it, or capitalised; if one of them is a listing, the others are tried there too. */
async function findByUsualName({ context: { client }, baseUrl, open, stopsAtRefusal }: Search): Promise<Candidate[]> {
  const roots = rootsBelow(baseUrl);
  const places = [
    { place: (name: string) => `/${name}`, count: 30 },
    { place: (name: string) => `/${name.charAt(0).toUpperCase()}${name.slice(1)}`, count: 8 },
    ...roots.slice(1).map((root) => ({ place: (name: string) => `${root}/${name}`, count: 4 })),
  ];
  for (const { place, count } of places) {
    for (const name of USUAL_NAMES.slice(0, count)) {
      const response = await open(place(name));
      const isRefused = response.status === 401 || response.status === 403;
      if (isRefused && (stopsAtRefusal || client.isRefused())) return [];
      if (!isUsable(response) || recordLists(response.json ?? null, name).length === 0) continue;
      return toCandidates(USUAL_NAMES.map(place), USUAL_NAME).toSorted(
        (a, b) => Number(b.path === place(name)) - Number(a.path === place(name)),
      );
    }
  }
  return [];
}

export const USUAL_NAME = 'a usual name';

/** The listings that a response names: an OpenAPI document, the entity sets of OData, or any index of links or names. */
export function pathsIn(context: ProbeContext, response: ProbeResponse, baseUrl: URL): Candidate[] {
  const { json = null, text, status, url } = response;
  if (status >= 300) return [];
  const from = describeResponse(response);
  const documented = documentedPaths(context, json, baseUrl);
  if (documented.length > 0) return toCandidates(documented, from);
  const addresses =
    json === null ? Array.from(text.matchAll(/href="([^"]+)"|GET (\/\S+)/g), ([, a, b]) => a ?? b ?? '') : [];
  for (const address of json === null ? addresses : addressesIn(json)) {
    // A template such as /posts{?page,size} tells the parameters as well.
    const [plain = '', parameters = ''] = address.split('{?');
    const path = plain.includes('{') ? null : pathBelow(plain, url, baseUrl);
    if (path === null || !isContent(path)) continue;
    for (const name of parameters.match(/[\w[\].$]+/g) ?? []) context.conventions.parameters.add(name);
    documented.push(path);
  }
  return toCandidates(usualFirst(documented), json === null ? `the links of ${from}` : `the index, ${from}`);
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
  const url = URL.parse(
    address.startsWith('./') ? folder + address.slice(1 + shared.length) : address,
    `${from.origin}${folder}/`,
  );
  const base = baseUrl.pathname.replace(/\/+$/, '');
  // Behind a proxy a service does not know its own scheme.
  if (url === null || url.host !== baseUrl.host || url.search !== '') return null;
  const isBelow = url.pathname.startsWith(`${base}/`) && url.pathname.length > base.length + 1;
  return isBelow ? displayPath(baseUrl, url) : null;
}

/** The listings of an OpenAPI or Swagger document, below the base URL; keeps the names of their query parameters. */
export function documentedPaths({ conventions }: ProbeContext, document: JsonValue, baseUrl: URL): string[] {
  if (!isObject(document) || !isObject(document['paths'])) return [];
  const { components, securityDefinitions = {} } = document;
  const schemes = isObject(components) ? (components['securitySchemes'] ?? {}) : securityDefinitions;
  conventions.credentialText += JSON.stringify(schemes);
  const operations = Object.entries(document['paths']).filter(([, item]) => isObject(item) && isObject(item['get']));
  const listings = operations.filter(([path]) => !path.includes('{') && isContent(path));
  for (const [, item] of listings) for (const name of queryParameters(item)) conventions.parameters.add(name);
  const hasItem = (path: string): number =>
    Number(operations.some(([other]) => other.startsWith(`${path.replace(/\/$/, '')}/{`)));
  const paths = listings.map(([path]) => path).toSorted((a, b) => hasItem(b) - hasItem(a));
  const root = apiRoot(document);
  const base = baseUrl.pathname.replace(/\/+$/, '');
  return paths.map((path) => (`${root}${path}`.startsWith(`${base}/`) ? `${root}${path}`.slice(base.length) : path));
}

function apiRoot({ servers, basePath }: JsonObject): string {
  if (typeof basePath === 'string') return basePath.replace(/\/$/, '');
  const first = Array.isArray(servers) ? servers[0] : undefined;
  const address = isObject(first) && typeof first['url'] === 'string' ? first['url'] : '/';
  return (URL.parse(address, 'http://localhost')?.pathname ?? '/').replace(/\/$/, '');
}

function queryParameters(item: JsonValue): string[] {
  if (!isObject(item)) return [];
  const lists = [item['parameters'], isObject(item['get']) ? item['get']['parameters'] : undefined];
  const named = lists.flatMap((list) => (Array.isArray(list) ? list : []).filter(isObject));
  const inQuery = named.filter((parameter) => parameter['in'] === 'query').map(({ name }) => name);
  return inQuery.filter((name) => typeof name === 'string');
}

function isContent(path: string): boolean {
  const parts = path.split('/').filter((part) => part !== '');
  const last = parts.at(-1) ?? '';
  return parts.length <= 5 && last !== '' && !NO_CONTENT.test(last) && !/\.\w{2,5}$|^\d+$|^[0-9a-f-]{16,}$/i.test(last);
}

/** The paths to try, those with usual names first. */
function usualFirst(paths: readonly string[]): string[] {
  return paths.toSorted((a, b) => rankPath(a) - rankPath(b)).slice(0, MAX_LINKED);
}

function rankPath(path: string): number {
  const at = USUAL_NAMES.indexOf(path.replace(/\/$/, '').split('/').at(-1)?.toLowerCase() ?? '');
  return (at === -1 ? USUAL_NAMES.length : at) + path.split('/').length;
}
