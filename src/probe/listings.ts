// Finds the listings of a service, each with its first page, and the form of the credential.
import type { JsonValue } from '../model/json.ts';
import { probeAuth } from './auth.ts';
import { type Credential, NO_CREDENTIAL } from './credential-forms.ts';
import { type Candidate, discover, documentedPaths, pathsIn, toCandidates, USUAL_NAME } from './discovery.ts';
import { idCandidates } from './item.ts';
import {
  describeResponse,
  displayPath,
  isUsable,
  type ProbeResponse,
  type QueryParams,
  RequestsSpent,
  requestUrl,
} from './probe-client.ts';
import type { ProbeContext, ProbedListing } from './probed-listing.ts';
import { type Findings, newFindings } from './profile.ts';
import { recordLists, recordsIn, unwrapRules } from './record-lists.ts';
import { STARTERS } from './vocabulary.ts';

const MAX_LISTINGS = 30;
const COLLECTIONS = /collection|dataset|layer|table|entit/;
/** Further requests for the search, of those that each listing has. */
const REQUESTS_PER_FOUND = 17;

export interface ListingSearch {
  /** Http or https; paths are requested below it. */
  baseUrl: URL;
  /** Null for a service that wants none. */
  credential: Credential | null;
  /** `bearer`, `basic`, `header:<name>` or `query:<name>`: the only form that is tried. */
  auth?: string | undefined;
  /** Listings below the base URL; found by experiment if there are none. */
  paths?: readonly string[] | undefined;
  openapi?: JsonValue | undefined;
  /** Path or URL of one at the service. */
  openapiPath?: string | undefined;
}

/**
 * Finds the form of the credential, and the listings, each with its first page. Calls `onListings` after the credential
 * was examined.
 */
export async function findListings(
  context: ProbeContext,
  search: ListingSearch,
  findings: Findings,
  onListings: () => void,
): Promise<ProbedListing[]> {
  const { client, conventions } = context;
  const { baseUrl, credential } = search;
  findings.proved(['version_prefix'], '', 'paths are asked below the address');
  const given = await givenCandidates(context, search);
  client.form = NO_CREDENTIAL;
  const place = { context, baseUrl, missing: new Map<string, ProbeResponse>() };
  const found = given.length > 0 ? null : await discover(place, credential !== null);
  const reference = given[0]?.path ?? found?.reference ?? '/';
  const documented = conventions.credentialText;
  const isAdmitted = await probeAuth({ client, credential, forced: search.auth, reference, documented, findings });
  // More requests with a refused credential find nothing, and may lock an account.
  if (!isAdmitted && client.isRefused()) return [];
  onListings();
  if (given.length > 0) return openListings(context, baseUrl, given);
  const isComplete = found !== null && found.candidates.length > 0;
  const { candidates } = isComplete ? found : await discover(place, false);
  const listings = await openListings(context, baseUrl, candidates);
  // A list of collections may link to the records of each: /collections/lakes/items.
  const nested = listings.flatMap(({ name, path, first }) => {
    const depth = path.split('/').length + 2;
    const links = COLLECTIONS.test(name) ? pathsIn(context, first, baseUrl) : [];
    return links.filter((link) => link.path.startsWith(`${path}/`) && link.path.split('/').length === depth);
  });
  if (listings.length > 0) return [...listings, ...(await openListings(context, baseUrl, nested))];
  // The links of an index may lead to other indexes.
  const indexes = await Promise.all(candidates.slice(0, 5).map(({ path }) => client.get({ path })));
  const linked = indexes.flatMap((response) => pathsIn(context, response, baseUrl));
  const below = await openListings(context, baseUrl, linked);
  if (below.length > 0) return below;
  return openListings(context, baseUrl, (await discover(place, false, false)).candidates);
}

/** The listings that the user names, or those of the document that the user names. */
async function givenCandidates(context: ProbeContext, search: ListingSearch): Promise<Candidate[]> {
  const { baseUrl, paths = [], openapi = null, openapiPath } = search;
  const documented = toCandidates(documentedPaths(context, openapi, baseUrl), 'the OpenAPI document');
  if (paths.length > 0)
    return toCandidates(
      paths.map((path) => givenPath(path, baseUrl)),
      'given',
    );
  if (openapiPath === undefined) return documented;
  return pathsIn(context, await context.client.get({ path: givenPath(openapiPath, baseUrl) }), baseUrl);
}

/** The path below the base URL as a user may write it: a whole address, or without the first slash. */
function givenPath(text: string, baseUrl: URL): string {
  const url = /^https?:/.test(text) ? URL.parse(text) : null;
  return url !== null ? displayPath(baseUrl, url) : text.startsWith('/') ? text : `/${text}`;
}

/** Requests the first page of each candidate, and keeps those that are listings. */
async function openListings(
  context: ProbeContext,
  baseUrl: URL,
  candidates: readonly Candidate[],
): Promise<ProbedListing[]> {
  const listings: ProbedListing[] = [];
  let opened = 0;
  try {
    for (const candidate of candidates) {
      if (listings.length >= MAX_LISTINGS) break;
      const listing = await openListing(context, baseUrl, candidate, new Set(listings.map(({ name }) => name)));
      if (listing !== null) listings.push(listing);
      if (listing !== null && listings.length > 1) context.client.allowMore(REQUESTS_PER_FOUND);
      opened += 1;
    }
  } catch (error) {
    if (!(error instanceof RequestsSpent)) throw error;
  }
  const skipped = candidates.slice(opened).filter(({ from }) => from !== USUAL_NAME);
  if (skipped.length > 0) {
    const paths = skipped.map(({ path }) => path).join(', ');
    context.notes.push(`not looked into, for want of requests: ${paths} (name them with --path)`);
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
  // A part such as `_all_docs` is an operation of the service rather than the name of a collection.
  const name = resourceName(
    parts.filter((part) => !part.startsWith('_')),
    taken,
  );
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
  return {
    ...context,
    ...known,
    isComplete: null,
    total: null,
    firstPage: {},
    id: '',
    updated: [],
    item: candidate.item,
  };
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
