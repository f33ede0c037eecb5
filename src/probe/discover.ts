import { isTimeZone } from '../model/time-zone.ts';
import type { JsonValue } from '../model/json.ts';
import { isObject } from '../shape/records/field-at.ts';
import { isUsable, said, type Answer, type QueryParams } from './ask/answer.ts';
import { RequestsSpent } from './ask/asker.ts';
import { NO_CREDENTIAL, type Credential } from './ask/credential-form.ts';
import { probeAuth } from './experiments/auth.ts';
import {
  areRecords,
  candidatesOf,
  describedParameters,
  documentedListings,
  givenPath,
  linkedPaths,
  OPENAPI_PATHS,
  resourceName,
  splitPath,
  USUAL_PATHS,
  type Candidate,
} from './experiments/listings.ts';
import { recordArrays, type RecordArray } from './experiments/record-places.ts';
import { recordsIn } from './experiments/records.ts';
import { wrapperRules } from './experiments/wrappers.ts';
import { newFindings, type Findings } from './finding.ts';
import type { Stage, Subject } from './stage.ts';

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
  if (options.openapi !== undefined) learnParameters(stage, documentedListings(options.openapi, baseUrl).parameters);
  const reference = given[0] ?? (await referencePath(stage, options));
  await probeAuth({ asker: stage.asker, credential, forced: options.auth, reference, findings });
  options.about('listings');
  const candidates = given.length > 0 ? candidatesOf(given, 'given') : await namedListings(stage, options);
  if (candidates.length > 0) return openListings(stage, options, candidates);
  return openListings(stage, options, candidatesOf(USUAL_PATHS.slice(0, MOST_WORDS), A_WORD));
}

function learnParameters({ conventions }: Stage, names: readonly string[]): void {
  for (const name of names) conventions.parameters.add(name);
}

/** A path by which the forms of the credential can be told apart: a listing, or what is refused without one. */
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
  if (openapi !== undefined) {
    const { paths } = documentedListings(openapi, baseUrl);
    return candidatesOf(paths, 'the OpenAPI document');
  }
  const open = await stage.asker.ask({ path: '/', form: NO_CREDENTIAL });
  const index = open.status === 401 || open.status === 403 ? await stage.asker.ask({ path: '/' }) : open;
  if (!isUsable(index)) return [];
  learnFromIndex(stage, index);
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

/** Listings of a document at the service; none if there is none. */
async function documentedAt(stage: Stage, baseUrl: URL, path: string): Promise<Candidate[]> {
  const answer = await stage.asker.ask({ path });
  const { paths, parameters } = documentedListings(isUsable(answer) ? (answer.json ?? null) : null, baseUrl);
  learnParameters(stage, parameters);
  return candidatesOf(paths, said(answer));
}

function learnFromIndex(stage: Stage, { json }: Answer): void {
  learnParameters(stage, describedParameters(json ?? null));
  if (!isObject(json)) return;
  const zone = Object.entries(json).find(([key]) => /^time_?zone(?:_?(?:string|name))?$/i.test(key))?.[1];
  if (typeof zone === 'string' && zone !== '' && isTimeZone(zone)) stage.conventions.zone = zone;
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
  // Words that were only guessed are nobody's loss.
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
  const { path: asked, query } = splitPath(baseUrl, candidate.path);
  const name = resourceName(asked, taken);
  const { first, starter } = await firstPage(stage, asked, query, candidate);
  const path = stage.asker.pathOf(first);
  if (!isUsable(first)) return null;
  const array = await chosenArray(stage, first, asked);
  const sent = array === undefined ? null : recordsIn(first, array.path);
  if (array === undefined || sent === null) return null;
  if (candidate.from !== 'given' && !areRecords(sent, name)) return null;
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
  return { ...known, isWhole: null, total: null, firstPage: {}, id: '', updated: [] };
}

/** Cursors that some services want for a first page. */
const STARTERS: readonly QueryParams[] = [{ cursorMark: '*' }, { cursor: '*' }];

/** The first page; that of a given path is asked for with a first cursor where it is refused without one. */
async function firstPage(stage: Stage, path: string, query: QueryParams, { from }: Candidate) {
  const plain = await stage.asker.ask({ path, query });
  const isTried = from === 'given' && (plain.status === 400 || plain.status === 422);
  for (const starter of isTried ? STARTERS : []) {
    const first = await stage.asker.ask({ path, query: { ...query, ...starter } });
    if (isUsable(first)) return { first, starter };
  }
  return { first: plain, starter: {} };
}

/** The list of records in an answer; a person may choose where two are as likely. */
async function chosenArray(stage: Stage, first: Answer, path: string): Promise<RecordArray | undefined> {
  const last = path.split('/').findLast((part) => part !== '') ?? '';
  const [likeliest, ...others] = recordArrays(first.json ?? null, last).filter(
    (each) => recordsIn(first, each.path) !== null,
  );
  if (likeliest === undefined || likeliest.isNamed) return likeliest;
  const readings = [likeliest, ...others.filter((each) => !each.isNamed && !each.isAside && each.count > 0)].slice(
    0,
    5,
  );
  if (readings.length === 1) return likeliest;
  const shown = readings.map((each) => `${each.path} with ${each.count}`);
  return readings[await stage.choose(`Which list of ${path} holds its records?`, shown)];
}
