// Finds the listings of a service, each with its first page, and the form of the credential. Example: `/` names
// `/posts` and `/login`; `/posts` returns a list of objects that have an id, so it is a listing, and `/login` is none.
import type { JsonValue } from '../model/json.ts';
import { probeAuth } from './auth.ts';
import { type Candidate, discover, documentedPaths, pathsIn, toCandidates, USUAL_NAME } from './discovery.ts';
import { idCandidates } from './item.ts';
import {
  describeResponse,
  displayPath,
  isUsable,
  type ProbeClientOptions,
  type ProbeResponse,
  RequestsSpent,
  requestUrl,
} from './probe-client.ts';
import type { ProbeContext, ProbedListing } from './probed-listing.ts';
import { type Findings, newFindings } from './profile.ts';
import { recordLists, recordsIn, unwrapRules } from './record-lists.ts';

const MAX_LISTINGS = 30;
/** Names of listings whose records may be names of other listings. */
const COLLECTIONS = /collection|dataset|layer|table|entit/;
/** Further requests for the search, of those that each listing has. */
const REQUESTS_PER_FOUND = 17;

export interface ListingSearch extends ProbeClientOptions {
  /** Listings below the base URL; found by experiment if there are none. */
  paths?: readonly string[] | undefined;
  openapi?: JsonValue | undefined;
  /** Path or URL of one at the service. */
  openapiPath?: string | undefined;
}

/** Finds the form of the credential, and then the listings, each with its first page. */
export async function findListings(
  context: ProbeContext,
  search: ListingSearch,
  findings: Findings,
): Promise<ProbedListing[]> {
  const { client } = context;
  findings.proved(['version_prefix'], '', 'paths are asked below the address');
  const given = await givenCandidates(context, search);
  const missing = new Map<string, ProbeResponse>();
  const found =
    given.length > 0 ? null : await discover(context, missing, { stopsAtRefusal: search.credential !== null });
  const reference = given[0]?.path ?? found?.reference ?? '/';
  const isAdmitted = await probeAuth(context, search, reference, findings);
  // More requests with a refused credential find nothing, and may lock an account.
  if (!isAdmitted && client.isRefused()) return [];
  client.about = 'listings';
  if (found === null) return openListings(context, given);
  const { candidates } = found.candidates.length > 0 ? found : await discover(context, missing);
  const listings = await openListings(context, candidates);
  // A list of collections may link to the records of each: /collections/lakes/items.
  const nested = listings.flatMap(({ name, path, first }) => {
    const depth = path.split('/').length + 2;
    const links = COLLECTIONS.test(name) ? pathsIn(context, first) : [];
    return links.filter((link) => link.path.startsWith(`${path}/`) && link.path.split('/').length === depth);
  });
  if (listings.length > 0) return [...listings, ...(await openListings(context, nested))];
  // The links of an index may lead to other indexes.
  const indexes = await Promise.all(candidates.slice(0, 5).map(({ path }) => client.get({ path })));
  const below = await openListings(
    context,
    indexes.flatMap((response) => pathsIn(context, response)),
  );
  if (below.length > 0) return below;
  return openListings(context, (await discover(context, missing, { isIndexed: false })).candidates);
}

/** The listings that the user names, or those of the document that the user names. */
async function givenCandidates(context: ProbeContext, search: ListingSearch): Promise<Candidate[]> {
  const { client } = context;
  const { paths = [], openapi = null, openapiPath } = search;
  const documented = documentedPaths(context, openapi);
  // As a user may write it: a whole address, or without the first slash.
  const toPath = (text: string): string => {
    const url = /^https?:/.test(text) ? URL.parse(text) : null;
    return url !== null ? displayPath(client.baseUrl, url) : text.startsWith('/') ? text : `/${text}`;
  };
  if (paths.length > 0) return toCandidates(paths.map(toPath), 'given');
  if (openapiPath === undefined) return toCandidates(documented, 'the OpenAPI document');
  return pathsIn(context, await client.get({ path: toPath(openapiPath) }));
}

/** Requests the first page of each candidate, and keeps those that are listings. */
async function openListings(context: ProbeContext, candidates: readonly Candidate[]): Promise<ProbedListing[]> {
  const listings: ProbedListing[] = [];
  let opened = 0;
  try {
    for (const candidate of candidates) {
      if (listings.length >= MAX_LISTINGS) break;
      const listing = await openListing(context, candidate, new Set(listings.map(({ name }) => name)));
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

/** Null if what the candidate returns is no list of records. */
async function openListing(
  context: ProbeContext,
  { path: candidate, from, item }: Candidate,
  taken: ReadonlySet<string>,
): Promise<ProbedListing | null> {
  const { client } = context;
  const [requested = ''] = candidate.split('?');
  const query = Object.fromEntries(requestUrl(client.baseUrl, { path: candidate }).searchParams);
  const parts = requested.split('/').filter((part) => part !== '');
  // A part such as `_all_docs` is an operation of the service rather than the name of a collection.
  const names = parts.filter((part) => !part.startsWith('_'));
  const name = resourceName(names, taken);
  const first = await client.get({ path: requested, query });
  const lists = isUsable(first) ? recordLists(first.json ?? null, parts.at(-1) ?? '') : [];
  const list = lists.find((each) => recordsIn(first, each.path) !== null);
  const sent = recordsIn(first, list?.path ?? '');
  if (list === undefined || sent === null) return null;
  // Objects without an id are parts of one response rather than records of a collection.
  if (from !== 'given' && sent.length > 0 && idCandidates(sent, name).length === 0) return null;
  const findings = newFindings(['resources', name]);
  const path = client.finalPath(first);
  findings.proved(['path'], path, `${describeResponse(first)}, from ${from}`);
  if (Object.keys(query).length > 0) findings.proved(['query'], query, 'as it was given');
  const shown = list.path === '' ? 'the body is a list' : `at ${list.path} is a list`;
  const add = sent.length > 0 ? findings.proved : findings.guessed;
  add(['records'], list.path, `${shown} of ${sent.length} objects`);
  const unwrap = unwrapRules(sent);
  if (unwrap.length > 0) findings.proved(['unwrap'], unwrap, 'objects of the records that hold one plain value');
  const records = recordsIn(first, list.path, unwrap) ?? [];
  const known = { name, path, query, first, recordsPath: list.path, unwrap, records, item, findings };
  return { ...context, ...known, isComplete: null, total: null, firstPage: {}, id: '', updated: [] };
}

/** The name of a resource: the last parts of its path, as many as make it unlike those that are taken. */
function resourceName(parts: readonly string[], taken: ReadonlySet<string>): string {
  const names = parts.map((_, at) => {
    const words = parts
      .slice(-at - 1)
      .join('_')
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '_');
    return words.replace(/^[^a-z]+|_+$/g, '').slice(0, 40) || 'records';
  });
  return names.find((name) => !taken.has(name)) ?? `${(names.at(-1) ?? 'records').slice(0, 36)}_${taken.size + 1}`;
}
