import type { JsonObject, JsonValue } from '../../model/json.ts';
import { isObject } from '../../shape/records/field-at.ts';
import { shownPath, urlFor } from '../ask/answer.ts';
import { idCandidates } from './ids.ts';

/** Paths that services often have, the commonest first. */
export const USUAL_PATHS = [
  '/posts',
  '/articles',
  '/pages',
  '/content',
  '/entries',
  '/items',
  '/tags',
  '/authors',
  '/categories',
  '/media',
  '/images',
  '/files',
  '/assets',
  '/users',
  '/products',
  '/comments',
  '/analytics',
  '/events',
  '/documents',
  '/stories',
  '/collections',
  '/news',
];

/** Where services keep the description of their API. */
export const OPENAPI_PATHS = ['/openapi.json', '/swagger.json', '/server/specs/oas'];

/** What a service has besides content. */
const ASIDE =
  /^(?:search|settings?|types|statuses|taxonomies|themes|plugins|templates?|template-parts|sidebars?|widgets?|widget-types|block.*|menus?|menu-.*|navigation|global-styles|font-.*|health.*|status|version|ping|info|login|logout|auth|token|batch|o?embed|me|graphql|docs|schema|specs?|openapi.*|swagger.*|api-docs|config(?:uration)?|permissions|roles|sessions|revisions|activity|presets|webhooks|flows|operations|panels|dashboards|server|utils|fields|relations|collections|policies|access|translations|shares|versions|extensions|notifications|folders|application-passwords|pattern-directory|autosaves)$/i;

/** A listing that may be there. */
export interface Candidate {
  path: string;
  /** Where the path comes from, for the evidence. */
  from: string;
}

const MOST_CANDIDATES = 12;

/** Paths below the base URL that an index or any other document of the service names, those with usual names first. */
export function linkedPaths(json: JsonValue, baseUrl: URL): string[] {
  const found = new Set<string>();
  const base = baseUrl.pathname.replace(/\/+$/, '');
  const add = (text: string): void => {
    if (text.length > 200 || /[{}()<>:*\s]/.test(text.replace(/^https?:/, ''))) return;
    const url = URL.parse(text, baseUrl.href);
    if (url === null || url.origin !== baseUrl.origin || url.search !== '') return;
    const path = belowBase(url.pathname, base);
    if (path !== null && isContent(path)) found.add(path.replace(/\/$/, ''));
  };
  const visit = (value: JsonValue, level: number): void => {
    if (typeof value === 'string' && /^(?:https?:\/\/|\/)/.test(value)) add(value);
    if (level > 5) return;
    if (Array.isArray(value)) for (const each of value.slice(0, 50)) visit(each, level + 1);
    else if (isObject(value)) {
      for (const [key, below] of Object.entries(value)) {
        if (key.startsWith('/')) add(namespaced(key, base));
        visit(below, level + 1);
      }
    }
  };
  visit(json, 0);
  return usualFirst([...found]).slice(0, MOST_CANDIDATES);
}

/** A route is named from the root of the API, which the base URL may lead into: `/wp/v2/posts` below `/wp-json/wp/v2`. */
function namespaced(route: string, base: string): string {
  const parts = base.split('/').filter((part) => part !== '');
  for (let at = 0; at < parts.length; at += 1) {
    const end = `/${parts.slice(at).join('/')}`;
    if (route.startsWith(`${end}/`)) return base + route.slice(end.length);
  }
  return base + route;
}

function belowBase(pathname: string, base: string): string | null {
  return pathname.startsWith(`${base}/`) && pathname.length > base.length + 1 ? pathname.slice(base.length) : null;
}

function isContent(path: string): boolean {
  const parts = path.split('/').filter((part) => part !== '');
  const last = parts.at(-1) ?? '';
  return parts.length <= 4 && !ASIDE.test(last) && !/\.\w{2,5}$|^\d+$/.test(last) && !/^[0-9a-f-]{16,}$/i.test(last);
}

function usualFirst(paths: readonly string[]): string[] {
  return paths.toSorted((a, b) => rankOf(a) - rankOf(b));
}

function rankOf(path: string): number {
  const at = USUAL_PATHS.indexOf(`/${path.split('/').at(-1)?.toLowerCase()}`);
  return (at === -1 ? USUAL_PATHS.length : at) + path.split('/').length;
}

/** Listings of an OpenAPI or Swagger document, below the base URL, and the names of their query parameters. */
export function documentedListings(document: JsonValue, baseUrl: URL): { paths: string[]; parameters: string[] } {
  if (!isObject(document) || !isObject(document['paths'])) return { paths: [], parameters: [] };
  const base = baseUrl.pathname.replace(/\/+$/, '');
  const operations = Object.entries(document['paths']).filter(([, item]) => isObject(item) && isObject(item['get']));
  const names = new Set(operations.map(([path]) => path));
  const listings = operations.filter(([path]) => !path.includes('{') && isContent(path) && hasItems(path, names));
  const rest = operations.filter(([path]) => !path.includes('{') && isContent(path) && !hasItems(path, names));
  const chosen = listings.length > 0 ? listings : rest;
  const root = rootOf(document);
  return {
    paths: usualFirst(chosen.map(([path]) => belowBase(root + path, base) ?? path)).slice(0, MOST_CANDIDATES),
    parameters: chosen.flatMap(([, item]) => parameterNames(item)),
  };
}

function hasItems(path: string, names: ReadonlySet<string>): boolean {
  return [...names].some((name) => name.startsWith(`${path.replace(/\/$/, '')}/{`));
}

function rootOf(document: JsonObject): string {
  const { servers, basePath } = document;
  if (typeof basePath === 'string') return basePath.replace(/\/$/, '');
  const first = Array.isArray(servers) ? servers[0] : undefined;
  const address = isObject(first) && typeof first['url'] === 'string' ? first['url'] : '/';
  return (URL.parse(address, 'http://localhost')?.pathname ?? '/').replace(/\/$/, '');
}

function parameterNames(item: JsonValue): string[] {
  if (!isObject(item)) return [];
  const lists = [item['parameters'], isObject(item['get']) ? item['get']['parameters'] : undefined];
  return lists.flatMap((list) =>
    (Array.isArray(list) ? list : []).flatMap((each) =>
      isObject(each) && each['in'] === 'query' && typeof each['name'] === 'string' ? [each['name']] : [],
    ),
  );
}

/** Names of query parameters that an index describes, as far as it says `args`. */
export function describedParameters(json: JsonValue): string[] {
  const found = new Set<string>();
  const visit = (value: JsonValue, level: number): void => {
    if (level > 6) return;
    if (Array.isArray(value)) for (const each of value.slice(0, 50)) visit(each, level + 1);
    else if (isObject(value)) {
      for (const [key, below] of Object.entries(value)) {
        if (key === 'args' && isObject(below)) for (const name of Object.keys(below)) found.add(name);
        else visit(below, level + 1);
      }
    }
  };
  visit(json, 0);
  return [...found];
}

/** True for objects that look like records of a collection rather than parts of one answer. */
export function areRecords(records: readonly JsonObject[], name: string): boolean {
  return records.length === 0 || idCandidates(records, name).length > 0;
}

/** The name of a resource for its path, unlike those that are taken. */
export function resourceName(path: string, taken: ReadonlySet<string>): string {
  const [plain = ''] = path.split('?');
  const parts = plain.split('/').filter((part) => part !== '');
  for (let count = 1; count <= parts.length; count += 1) {
    const name = nameOf(parts.slice(-count));
    if (!taken.has(name)) return name;
  }
  return `${nameOf(parts).slice(0, 36)}_${taken.size + 1}`;
}

function nameOf(parts: readonly string[]): string {
  const plain = parts
    .join('_')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_');
  return (
    plain
      .replace(/^[^a-z]+/, '')
      .replace(/_$/, '')
      .slice(0, 40) || 'records'
  );
}

/** Candidates from paths, each once. */
export function candidatesOf(paths: readonly string[], from: string): Candidate[] {
  return [...new Set(paths)].map((path) => ({ path, from }));
}

/** The path below the base URL as a person may write it: whole, or without the slash in front. */
export function givenPath(text: string, baseUrl: URL): string {
  if (/^https?:/.test(text)) {
    const url = URL.parse(text);
    return url === null ? text : shownPath(baseUrl, url);
  }
  return text.startsWith('/') ? text : `/${text}`;
}

/** Path and query apart. */
export function splitPath(baseUrl: URL, path: string): { path: string; query: Record<string, string> } {
  const url = urlFor(baseUrl, { path });
  return { path: path.split('?')[0] ?? path, query: Object.fromEntries(url.searchParams) };
}
