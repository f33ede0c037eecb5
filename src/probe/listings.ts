import type { JsonObject, JsonValue } from '../model/json.ts';
import { isObject } from '../rows/records/as-record.ts';
import { isUsable, type QueryParams, RequestsSpent, said, shownPath, urlFor } from './asker.ts';
import { probeAuth } from './auth.ts';
import { idCandidates, recordArrays, recordsIn, wrapperRules } from './body.ts';
import { type Credential, NO_CREDENTIAL } from './credential-forms.ts';
import { type Findings, newFindings, type Stage, type Subject } from './profile.ts';

interface DiscoverOptions {
  baseUrl: URL;
  credential: Credential | null;
  auth?: string | undefined;
  paths?: readonly string[] | undefined;
  openapi?: JsonValue | undefined;
  openapiPath?: string | undefined;
  findings: Findings;
  /** Called with what is being found out. */
  about: (what: string) => void;
}

/** Words that are tried where nothing names a listing; more resources than this are named with --path. */
const MOST_WORDS = 20;
const MOST_LISTINGS = 8;
const A_WORD = 'a usual name';

/** Finds the form of the credential, and the listings, each with its first page. */
export async function findListings(stage: Stage, options: DiscoverOptions): Promise<Subject[]> {
  const { baseUrl, credential, findings } = options;
  findings.proved(['version_prefix'], '', 'paths are asked below the address');
  const given = (options.paths ?? []).map((path) => givenPath(path, baseUrl));
  learnDocument(stage, options.openapi ?? null, baseUrl);
  const reference = given[0] ?? (await referencePath(stage, options));
  const isLetIn = await probeAuth({ asker: stage.asker, credential, forced: options.auth, reference, findings });
  // More requests with a refused credential find nothing, and may lock an account.
  if (!isLetIn && stage.asker.isRefused()) return [];
  options.about('listings');
  const candidates = given.length > 0 ? candidatesOf(given, 'given') : await namedListings(stage, options);
  if (candidates.length > 0) return openListings(stage, options, candidates);
  return openListings(stage, options, candidatesOf(USUAL_PATHS.slice(0, MOST_WORDS), A_WORD));
}

/** A path by which the forms of the credential can be compared: a listing, or a path that is refused without one. */
async function referencePath(stage: Stage, options: DiscoverOptions): Promise<string> {
  const named = await indexedListings(stage, options);
  for (const path of [...named.map((candidate) => candidate.path), ...USUAL_PATHS].slice(0, 6)) {
    const answer = await stage.asker.ask({ path, form: NO_CREDENTIAL });
    if (answer.status === 401 || answer.status === 403) return path;
    if (isUsable(answer) && recordArrays(answer.json ?? null, '').length > 0) return path;
  }
  return named[0]?.path ?? '/';
}

/** Listings that the document at hand, or the index, names; the index once more where it was refused. */
async function indexedListings(stage: Stage, { baseUrl, openapi }: DiscoverOptions): Promise<Candidate[]> {
  if (openapi !== undefined) return candidatesOf(learnDocument(stage, openapi, baseUrl), 'the OpenAPI document');
  const open = await stage.asker.ask({ path: '/', form: NO_CREDENTIAL });
  const index = open.status === 401 || open.status === 403 ? await stage.asker.ask({ path: '/' }) : open;
  if (!isUsable(index)) return [];
  return candidatesOf(linkedPaths(index.json ?? null, baseUrl), 'the index');
}

/** Listings that a document or an index names. */
async function namedListings(stage: Stage, options: DiscoverOptions): Promise<Candidate[]> {
  const { baseUrl, openapiPath } = options;
  if (openapiPath !== undefined) return documentedAt(stage, baseUrl, givenPath(openapiPath, baseUrl));
  const indexed = await indexedListings(stage, options);
  if (indexed.length > 0) return indexed;
  for (const path of OPENAPI_PATHS) {
    const found = await documentedAt(stage, baseUrl, path);
    if (found.length > 0) return found;
  }
  return [];
}

/** Listings of a document at the service; empty without a document. */
async function documentedAt(stage: Stage, baseUrl: URL, path: string): Promise<Candidate[]> {
  const answer = await stage.asker.ask({ path });
  const paths = learnDocument(stage, isUsable(answer) ? (answer.json ?? null) : null, baseUrl);
  return candidatesOf(paths, said(answer));
}

/** Asks for the first page of each candidate, and keeps those that are listings. */
async function openListings(
  stage: Stage,
  { baseUrl, paths }: DiscoverOptions,
  candidates: readonly Candidate[],
): Promise<Subject[]> {
  const { asker } = stage;
  const subjects: Subject[] = [];
  const isGiven = (paths ?? []).length > 0;
  const most = asker.left;
  const open = [...candidates];
  for (const candidate of candidates) {
    // What was found must still be looked into: some two dozen requests for the first, a few for each other.
    const needed = 24 + subjects.length * 6;
    if (!isGiven && (subjects.length >= MOST_LISTINGS || asker.left < Math.min(needed, most - 1))) break;
    try {
      const subject = await openListing(stage, baseUrl, candidate, new Set(subjects.map(({ name }) => name)));
      if (subject !== null) subjects.push(subject);
      open.shift();
    } catch (error) {
      if (!(error instanceof RequestsSpent)) throw error;
      break;
    }
  }
  // Paths that were only guessed are not reported.
  const left = open.filter(({ from }) => from !== A_WORD).map(({ path }) => path);
  if (left.length > 0)
    stage.notes.push(`not looked into, for want of requests: ${left.join(', ')} (name them with --path)`);
  // What shows most is looked into first: the others are tried in the same way.
  return subjects.toSorted((a, b) => Math.min(b.records.length, 3) - Math.min(a.records.length, 3));
}

async function openListing(
  stage: Stage,
  baseUrl: URL,
  candidate: Candidate,
  taken: ReadonlySet<string>,
): Promise<Subject | null> {
  const asked = candidate.path.split('?')[0] ?? candidate.path;
  const query = Object.fromEntries(urlFor(baseUrl, { path: candidate.path }).searchParams);
  const name = resourceName(asked, taken);
  const { first, starter } = await firstPage(stage, asked, query, candidate);
  const path = stage.asker.pathOf(first);
  if (!isUsable(first)) return null;
  const last = asked.split('/').findLast((part) => part !== '') ?? '';
  const array = recordArrays(first.json ?? null, last).find((each) => recordsIn(first, each.path) !== null);
  const sent = array === undefined ? null : recordsIn(first, array.path);
  if (array === undefined || sent === null) return null;
  // Objects without an id are parts of one answer rather than records of a collection.
  if (candidate.from !== 'given' && sent.length > 0 && idCandidates(sent, name).length === 0) return null;
  const findings = newFindings(['resources', name]);
  findings.proved(['path'], path, `${said(first)}, from ${candidate.from}`);
  if (Object.keys(query).length > 0) findings.proved(['query'], query, 'as it was given');
  const place = array.path === '' ? 'the body is a list' : `at ${array.path} is a list`;
  const add = sent.length > 0 ? findings.proved : findings.guessed;
  add(['records'], array.path, `${place} of ${sent.length} objects`);
  const unwrap = wrapperRules(sent);
  if (unwrap.length > 0) findings.proved(['unwrap'], unwrap, 'objects of the records that hold one plain value');
  const records = recordsIn(first, array.path, unwrap) ?? [];
  const known = { path, query, first, at: array.path, records, findings, name, unwrap, starter };
  return { ...stage, ...known, isWhole: null, total: null, firstPage: {}, id: '', updated: [] };
}

/** Cursors that some services want for a first page. */
const STARTERS: readonly QueryParams[] = [{ cursorMark: '*' }, { cursor: '*' }];

/** The first page; if a given path is refused without a cursor, it is requested with a first cursor. */
async function firstPage(stage: Stage, path: string, query: QueryParams, { from }: Candidate) {
  const plain = await stage.asker.ask({ path, query });
  const isTried = from === 'given' && (plain.status === 400 || plain.status === 422);
  for (const starter of isTried ? STARTERS : []) {
    const first = await stage.asker.ask({ path, query: { ...query, ...starter } });
    if (isUsable(first)) return { first, starter };
  }
  return { first: plain, starter: {} };
}

/** Paths that services often have, the commonest first. */
const USUAL_PATHS = `
  /posts /articles /pages /content /entries /items /tags /authors /categories /media /images /files /assets /users
  /products /comments /analytics /events /documents /stories /collections /news`
  .trim()
  .split(/\s+/);

/** Where services keep the description of their API. */
const OPENAPI_PATHS = ['/openapi.json', '/swagger.json', '/server/specs/oas'];

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
function linkedPaths(json: JsonValue, baseUrl: URL): string[] {
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
  return paths.toSorted((a, b) => rankPath(a) - rankPath(b));
}

function rankPath(path: string): number {
  const at = USUAL_PATHS.indexOf(`/${path.split('/').at(-1)?.toLowerCase()}`);
  return (at === -1 ? USUAL_PATHS.length : at) + path.split('/').length;
}

/** The listings of an OpenAPI or Swagger document, below the base URL; keeps the names of their query parameters. */
function learnDocument({ conventions }: Stage, document: JsonValue, baseUrl: URL): string[] {
  if (!isObject(document) || !isObject(document['paths'])) return [];
  const base = baseUrl.pathname.replace(/\/+$/, '');
  const operations = Object.entries(document['paths']).filter(([, item]) => isObject(item) && isObject(item['get']));
  const hasItems = (path: string): boolean =>
    operations.some(([name]) => name.startsWith(`${path.replace(/\/$/, '')}/{`));
  const all = operations.filter(([path]) => !path.includes('{') && isContent(path));
  const listings = all.filter(([path]) => hasItems(path));
  const chosen = listings.length > 0 ? listings : all;
  for (const [, item] of chosen) for (const name of parameterNames(item)) conventions.parameters.add(name);
  const root = rootOf(document);
  return usualFirst(chosen.map(([path]) => belowBase(root + path, base) ?? path)).slice(0, MOST_CANDIDATES);
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

/** The name of a resource for its path, unlike those that are taken. */
function resourceName(path: string, taken: ReadonlySet<string>): string {
  const [plain = ''] = path.split('?');
  const parts = plain.split('/').filter((part) => part !== '');
  for (let count = 1; count <= parts.length; count += 1) {
    const name = nameOf(parts.slice(-count));
    if (!taken.has(name)) return name;
  }
  return `${nameOf(parts).slice(0, 36)}_${taken.size + 1}`;
}

function nameOf(parts: readonly string[]): string {
  const words =
    parts
      .join('_')
      .toLowerCase()
      .match(/[a-z0-9]+/g) ?? [];
  const name = words.join('_').replace(/^[^a-z]+/, '');
  return name.slice(0, 40) || 'records';
}

/** Candidates from paths, each once. */
function candidatesOf(paths: readonly string[], from: string): Candidate[] {
  return [...new Set(paths)].map((path) => ({ path, from }));
}

/** The path below the base URL as an operator may write it: whole, or without the slash in front. */
function givenPath(text: string, baseUrl: URL): string {
  if (/^https?:/.test(text)) {
    const url = URL.parse(text);
    return url === null ? text : shownPath(baseUrl, url);
  }
  return text.startsWith('/') ? text : `/${text}`;
}
