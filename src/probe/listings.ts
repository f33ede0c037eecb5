// Finds the listings of a service: by its documents, its index, or usual paths.
import type { JsonObject, JsonValue } from '../model/json.ts';
import { isObject } from '../rows/records/as-record.ts';
import { probeAuth } from './auth.ts';
import { type Credential, NO_CREDENTIAL } from './credential-forms.ts';
import { idCandidates } from './item.ts';
import {
  describeResponse,
  displayPath,
  isUsable,
  type QueryParams,
  RequestsSpent,
  requestUrl,
} from './probe-client.ts';
import type { ProbeContext, ProbedListing } from './probed-listing.ts';
import { type Findings, newFindings } from './profile.ts';
import { recordLists, recordsIn, unwrapRules } from './record-lists.ts';

/** Paths that services often have, the commonest first. */
const USUAL_PATHS = `
  /posts /articles /pages /content /entries /items /tags /authors /categories /media /images /files /assets /users
  /products /comments /analytics /events /documents /stories /collections /news`
  .trim()
  .split(/\s+/);

/** Where services keep the description of their API. */
const OPENAPI_PATHS = ['/openapi.json', '/swagger.json', '/server/specs/oas'];

/** What a service has besides content. */
const NO_CONTENT =
  /^(?:search|settings?|types|statuses|taxonomies|themes|plugins|templates?|template-parts|sidebars?|widgets?|widget-types|block.*|menus?|menu-.*|navigation|global-styles|font-.*|health.*|status|version|ping|info|login|logout|auth|token|batch|o?embed|me|graphql|docs|schema|specs?|openapi.*|swagger.*|api-docs|config(?:uration)?|permissions|roles|sessions|revisions|activity|presets|webhooks|flows|operations|panels|dashboards|server|utils|fields|relations|collections|policies|access|translations|shares|versions|extensions|notifications|folders|application-passwords|pattern-directory|autosaves)$/i;

/** Cursors that some services want for a first page. */
const STARTERS: readonly QueryParams[] = [{ cursorMark: '*' }, { cursor: '*' }];

/** Usual paths that are tried if nothing names a listing; paths of a document or index; listings that are examined. */
const MAX_USUAL_PATHS = 20;
const MAX_NAMED_PATHS = 12;
const MAX_LISTINGS = 8;
const USUAL_NAME = 'a usual name';

interface ListingSearch {
  baseUrl: URL;
  credential: Credential | null;
  auth?: string | undefined;
  paths?: readonly string[] | undefined;
  openapi?: JsonValue | undefined;
  openapiPath?: string | undefined;
  findings: Findings;
  /** Called after the credential was examined. */
  onListings: () => void;
}

/** The path of a possible listing, and where it comes from, for the evidence. */
interface Candidate {
  path: string;
  from: string;
}

/** Finds the form of the credential, and the listings, each with its first page. */
export async function findListings(context: ProbeContext, search: ListingSearch): Promise<ProbedListing[]> {
  const { baseUrl, credential, findings } = search;
  findings.proved(['version_prefix'], '', 'paths are asked below the address');
  const given = (search.paths ?? []).map((path) => givenPath(path, baseUrl));
  documentedPaths(context, search.openapi ?? null, baseUrl);
  const reference = given[0] ?? (await referencePath(context, search));
  const { client } = context;
  const isAdmitted = await probeAuth({ client, credential, forced: search.auth, reference, findings });
  // More requests with a refused credential find nothing, and may lock an account.
  if (!isAdmitted && client.isRefused()) return [];
  search.onListings();
  if (given.length > 0) return openListings(context, baseUrl, toCandidates(given, 'given'));
  const named = await namedListings(context, search);
  const usual = toCandidates(USUAL_PATHS.slice(0, MAX_USUAL_PATHS), USUAL_NAME);
  return openListings(context, baseUrl, named.length > 0 ? named : usual);
}

function toCandidates(paths: readonly string[], from: string): Candidate[] {
  return [...new Set(paths)].map((path) => ({ path, from }));
}

/** The path below the base URL as a user may write it: a whole address, or without the first slash. */
function givenPath(text: string, baseUrl: URL): string {
  const url = /^https?:/.test(text) ? URL.parse(text) : null;
  return url !== null ? displayPath(baseUrl, url) : text.startsWith('/') ? text : `/${text}`;
}

/** A path by which the forms of the credential can be compared: a listing, or a path that is refused without one. */
async function referencePath(context: ProbeContext, search: ListingSearch): Promise<string> {
  const named = await indexedListings(context, search);
  for (const path of [...named.map((candidate) => candidate.path), ...USUAL_PATHS].slice(0, 6)) {
    const response = await context.client.get({ path, form: NO_CREDENTIAL });
    if (response.status === 401 || response.status === 403) return path;
    if (isUsable(response) && recordLists(response.json ?? null, '').length > 0) return path;
  }
  return named[0]?.path ?? '/';
}

/** Listings that a document at the service or the index names. */
async function namedListings(context: ProbeContext, search: ListingSearch): Promise<Candidate[]> {
  const { baseUrl, openapiPath } = search;
  const indexed = openapiPath === undefined ? await indexedListings(context, search) : [];
  if (indexed.length > 0) return indexed;
  for (const path of openapiPath === undefined ? OPENAPI_PATHS : [givenPath(openapiPath, baseUrl)]) {
    const response = await context.client.get({ path });
    const paths = documentedPaths(context, isUsable(response) ? (response.json ?? null) : null, baseUrl);
    if (paths.length > 0) return toCandidates(paths, describeResponse(response));
  }
  return [];
}

/** Listings that the given document, or the index, names; the index is requested again if it was refused. */
async function indexedListings(context: ProbeContext, { baseUrl, openapi }: ListingSearch): Promise<Candidate[]> {
  if (openapi !== undefined) return toCandidates(documentedPaths(context, openapi, baseUrl), 'the OpenAPI document');
  const open = await context.client.get({ path: '/', form: NO_CREDENTIAL });
  const index = open.status === 401 || open.status === 403 ? await context.client.get({ path: '/' }) : open;
  return isUsable(index) ? toCandidates(linkedPaths(index.json ?? null, baseUrl), 'the index') : [];
}

/** Requests the first page of each candidate, and keeps those that are listings. */
async function openListings(
  context: ProbeContext,
  baseUrl: URL,
  candidates: readonly Candidate[],
): Promise<ProbedListing[]> {
  const { client, notes } = context;
  const listings: ProbedListing[] = [];
  const atStart = client.remaining;
  let opened = 0;
  try {
    for (const candidate of candidates) {
      // Each listing must still be examined: some two dozen requests for the first, a few for each other.
      const needed = Math.min(24 + listings.length * 6, atStart - 1);
      const isEnough = listings.length >= MAX_LISTINGS || client.remaining < needed;
      if (candidate.from !== 'given' && isEnough) break;
      const listing = await openListing(context, baseUrl, candidate, new Set(listings.map(({ name }) => name)));
      if (listing !== null) listings.push(listing);
      opened += 1;
    }
  } catch (error) {
    if (!(error instanceof RequestsSpent)) throw error;
  }
  const skipped = candidates.slice(opened).filter(({ from }) => from !== USUAL_NAME);
  if (skipped.length > 0) {
    const paths = skipped.map(({ path }) => path).join(', ');
    notes.push(`not looked into, for want of requests: ${paths} (name them with --path)`);
  }
  // The listing that shows most comes first: the others are tried in the same way.
  return listings.toSorted((a, b) => Math.min(b.records.length, 3) - Math.min(a.records.length, 3));
}

async function openListing(
  context: ProbeContext,
  baseUrl: URL,
  candidate: Candidate,
  taken: ReadonlySet<string>,
): Promise<ProbedListing | null> {
  const [requested = ''] = candidate.path.split('?');
  const query = Object.fromEntries(requestUrl(baseUrl, { path: candidate.path }).searchParams);
  const parts = requested.split('/').filter((part) => part !== '');
  const name = resourceName(parts, taken);
  const { first, starter } = await firstPage(context, requested, query, candidate);
  const lists = isUsable(first) ? recordLists(first.json ?? null, parts.at(-1) ?? '') : [];
  const list = lists.find((each) => recordsIn(first, each.path) !== null);
  const sent = list === undefined ? null : recordsIn(first, list.path);
  if (list === undefined || sent === null) return null;
  // Objects without an id are parts of one response rather than records of a collection.
  if (candidate.from !== 'given' && sent.length > 0 && idCandidates(sent, name).length === 0) return null;
  const findings = newFindings(['resources', name]);
  const path = context.client.finalPath(first);
  findings.proved(['path'], path, `${describeResponse(first)}, from ${candidate.from}`);
  if (Object.keys(query).length > 0) findings.proved(['query'], query, 'as it was given');
  const shown = list.path === '' ? 'the body is a list' : `at ${list.path} is a list`;
  const add = sent.length > 0 ? findings.proved : findings.guessed;
  add(['records'], list.path, `${shown} of ${sent.length} objects`);
  const unwrap = unwrapRules(sent);
  if (unwrap.length > 0) findings.proved(['unwrap'], unwrap, 'objects of the records that hold one plain value');
  const records = recordsIn(first, list.path, unwrap) ?? [];
  const known = { path, query, first, recordsPath: list.path, records, findings, name, unwrap, starter };
  return { ...context, ...known, isWhole: null, total: null, firstPage: {}, id: '', updated: [] };
}

/** The first page; if a given path is refused without a cursor, it is requested with a first cursor. */
async function firstPage({ client }: ProbeContext, path: string, query: QueryParams, { from }: Candidate) {
  const plain = await client.get({ path, query });
  const isTried = from === 'given' && (plain.status === 400 || plain.status === 422);
  for (const starter of isTried ? STARTERS : []) {
    const first = await client.get({ path, query: { ...query, ...starter } });
    if (isUsable(first)) return { first, starter };
  }
  return { first: plain, starter: {} };
}

/** The name of a resource: the last parts of its path, as many as make it unlike those that are taken. */
function resourceName(parts: readonly string[], taken: ReadonlySet<string>): string {
  const names = parts.map((_, at) => {
    const words = parts
      .slice(-at - 1)
      .join('_')
      .toLowerCase();
    return (
      words
        .replaceAll(/[^a-z0-9]+/g, '_')
        .replace(/^[^a-z]+|_+$/g, '')
        .slice(0, 40) || 'records'
    );
  });
  return names.find((name) => !taken.has(name)) ?? `${(names.at(-1) ?? 'records').slice(0, 36)}_${taken.size + 1}`;
}

/** The listings of an OpenAPI or Swagger document, below the base URL; keeps the names of their query parameters. */
function documentedPaths({ conventions }: ProbeContext, document: JsonValue, baseUrl: URL): string[] {
  if (!isObject(document) || !isObject(document['paths'])) return [];
  const base = baseUrl.pathname.replace(/\/+$/, '');
  const operations = Object.entries(document['paths']).filter(([, item]) => isObject(item) && isObject(item['get']));
  const all = operations.filter(([path]) => !path.includes('{') && isContent(path));
  const withItems = all.filter(([path]) =>
    operations.some(([other]) => other.startsWith(`${path.replace(/\/$/, '')}/{`)),
  );
  const chosen = withItems.length > 0 ? withItems : all;
  for (const [, item] of chosen) for (const name of queryParameters(item)) conventions.parameters.add(name);
  const root = apiRoot(document);
  return usualFirst(chosen.map(([path]) => pathBelow(root + path, base) ?? path));
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

/** Paths below the base URL that an index or any other document of the service names. */
function linkedPaths(json: JsonValue, baseUrl: URL): string[] {
  const found = new Set<string>();
  const base = baseUrl.pathname.replace(/\/+$/, '');
  const add = (text: string): void => {
    if (text.length > 200 || /[{}()<>:*\s]/.test(text.replace(/^https?:/, ''))) return;
    const url = URL.parse(text, baseUrl.href);
    if (url === null || url.origin !== baseUrl.origin || url.search !== '') return;
    const path = pathBelow(url.pathname, base);
    if (path !== null && isContent(path)) found.add(path.replace(/\/$/, ''));
  };
  const visit = (value: JsonValue, level: number): void => {
    if (typeof value === 'string' && /^(?:https?:\/\/|\/)/.test(value)) add(value);
    if (level > 5) return;
    if (Array.isArray(value)) for (const each of value.slice(0, 50)) visit(each, level + 1);
    else if (isObject(value)) {
      for (const [key, below] of Object.entries(value)) {
        if (key.startsWith('/')) add(routePath(key, base));
        visit(below, level + 1);
      }
    }
  };
  visit(json, 0);
  return usualFirst([...found]);
}

/** A route is named from the root of the API, which the base URL may lead into: `/wp/v2/posts` below `/wp-json/wp/v2`. */
function routePath(route: string, base: string): string {
  const parts = base.split('/').filter((part) => part !== '');
  const ends = parts.map((_, at) => `/${parts.slice(at).join('/')}`);
  const end = ends.find((each) => route.startsWith(`${each}/`)) ?? '';
  return base + route.slice(end.length);
}

function pathBelow(pathname: string, base: string): string | null {
  return pathname.startsWith(`${base}/`) && pathname.length > base.length + 1 ? pathname.slice(base.length) : null;
}

function isContent(path: string): boolean {
  const parts = path.split('/').filter((part) => part !== '');
  const last = parts.at(-1) ?? '';
  return parts.length <= 4 && !NO_CONTENT.test(last) && !/\.\w{2,5}$|^\d+$|^[0-9a-f-]{16,}$/i.test(last);
}

/** The paths to try, those with usual names first. */
function usualFirst(paths: readonly string[]): string[] {
  return paths.toSorted((a, b) => rankPath(a) - rankPath(b)).slice(0, MAX_NAMED_PATHS);
}

function rankPath(path: string): number {
  const at = USUAL_PATHS.indexOf(`/${path.split('/').at(-1)?.toLowerCase()}`);
  return (at === -1 ? USUAL_PATHS.length : at) + path.split('/').length;
}
