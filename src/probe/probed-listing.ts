// What the experiments know of a listing, and what they have learned from the listings before. Example: `/posts` has
// pages by `limit` and `page`, so these are the first that is tried with `/authors`.
import type { Clock } from '../model/clock.ts';
import type { JsonObject } from '../model/json.ts';
import { fieldAt, type UnwrapRule } from '../rows/records/as-record.ts';
import { isRefusal, type ProbeClient, type ProbeResponse, type QueryParams } from './probe-client.ts';
import type { Finding, Findings } from './profile.ts';
import { recordsIn } from './record-lists.ts';

/** What one resource showed: experiments with the next one try it first. */
export interface Conventions {
  /**
   * What the service does with a parameter that it does not know; `filters`: takes it for a filter by equality, so that
   * nothing is listed. Null while that is not known.
   */
  unknown: 'ignored' | 'refused' | 'filters' | null;
  /** Names of query parameters that a document, an index, a link or a refusal of the service names. */
  parameters: Set<string>;
  /** What a document says about credentials. */
  credentialText: string;
  /** The page section of a profile without what depends on the resource, the number of records per page, and the ends. */
  page: { fields: Readonly<Record<string, unknown>>; size: number; ends: readonly Finding[] } | null;
  /** True if an earlier listing has no parameter for the size of a page. */
  isUnsized: boolean;
  /** Records of the largest listing that has no pages; 0 while there is none. */
  largestUnpaged: number;
  /** Parameters, as `filter.ts` writes them. */
  filter: { form: QueryParams; format: string } | 'none' | null;
  /** The fields with the time of change. */
  updated: readonly string[];
  /** The path of one record after that of the listing, the field by which it is found, and its path in the response. */
  item: { suffix: string; id: string; record: string } | null;
  /** The status for a record that does not exist. */
  gone: number | null;
}

export function newConventions(): Conventions {
  const unlearned = { unknown: null, page: null, filter: null, item: null, gone: null, updated: [] };
  return { ...unlearned, parameters: new Set(), credentialText: '', isUnsized: false, largestUnpaged: 0 };
}

export interface ProbeContext {
  client: ProbeClient;
  clock: Clock;
  conventions: Conventions;
  /** What the user should know besides the profile, as sentences. */
  notes: string[];
}

/** A listing of the service, and what the experiments have found out about it so far. */
export interface ProbedListing extends ProbeContext {
  name: string;
  /** Below the base URL. */
  path: string;
  /** Further parameters of each request. */
  query: QueryParams;
  /** The first page as it comes without a parameter. */
  first: ProbeResponse;
  recordsPath: string;
  /** Objects in the records that wrap a plain value. */
  unwrap: readonly UnwrapRule[];
  /** The longest run of records from the beginning of the listing that was seen. */
  records: JsonObject[];
  /** True if `records` are all that the listing has; null while that is not known. */
  isComplete: boolean | null;
  total: number | null;
  /** Parameters of the first page, so that it holds as many records as the profile requests. */
  firstPage: QueryParams;
  /** The field that identifies a record; empty while there is none. */
  id: string;
  /** The field with the time of the last change, and those that replace it if it is null. */
  updated: string[];
  /** The path of one record that the family of the service has. */
  item: string | undefined;
  findings: Findings;
}

/** A page of the listing; `records` is null if it was refused or cannot be read. */
export interface ReadPage {
  response: ProbeResponse;
  records: JsonObject[] | null;
}

/** Requests the listing with further parameters. */
export async function requestPage(
  listing: ProbedListing,
  more: QueryParams,
  headers: QueryParams = {},
): Promise<ReadPage> {
  const { client, path, query, recordsPath, unwrap } = listing;
  const response = await client.get({ path, query: { ...query, ...more }, headers });
  return { response, records: recordsIn(response, recordsPath, unwrap) };
}

/** Requests a parameter that no service has, once for all resources, to learn what the service does with it. */
export async function learnUnknown(listing: ProbedListing): Promise<Conventions['unknown']> {
  const { conventions } = listing;
  if (conventions.unknown !== null) return conventions.unknown;
  const { response, records } = await requestPage(listing, { content_sync_control: '1' });
  const isHidden = records?.length === 0 && listing.records.length > 0;
  conventions.unknown = isRefusal(response) ? 'refused' : isHidden ? 'filters' : 'ignored';
  // A refusal may say which parameters there are.
  const named = isRefusal(response) ? response.text.match(/[\w$]+(?:\[[\w$]+\])*/g) : null;
  for (const name of named ?? []) conventions.parameters.add(name);
  return conventions.unknown;
}

/** Identifies a record on the pages of one listing. */
export function recordKeyText(record: JsonObject, id: string): string {
  const value = id === '' ? undefined : fieldAt(record, id);
  return JSON.stringify(value ?? record);
}

/** True if both hold the same records in the same order. */
export function isSamePage(a: readonly JsonObject[], b: readonly JsonObject[], id: string): boolean {
  return a.length === b.length && a.every((record, at) => recordKeyText(record, id) === recordKeyText(b[at] ?? {}, id));
}
