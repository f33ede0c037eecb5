// Requests one page of a listing (`pageRequester`), and reads the records of its response (`readPage`).
//
// What a refusal means depends on the page: a 404 for the first page is an error of the profile, for a later one it says
// that the service no longer knows the position, or that the listing has ended. So each case has an error code of its own.
import { declaredEnd, type PageProfile } from '../../config/profile/page-style.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { EmptyForm } from '../../config/profile/record-fields.ts';
import type { AnswerRule } from '../../config/profile/request-fields.ts';
import type { MemoryReservation } from '../../http/body/answer-memory.ts';
import type { ApiAnswer, ApiClient, ApiRequest, RequestMeter } from '../../http/client.ts';
import { isEach, stepsOf } from '../../model/body-path.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { fieldAt, isObject, prepareRecord, type RecordRules, stepInto } from '../../rows/records/as-record.ts';
import { selectRecords } from '../../rows/records/select-records.ts';
import { pageKeys } from '../guards/key-set.ts';
import { requestAt, type RequestParts } from '../page-styles/listing-request.ts';
import { isSamePosition, type PagePosition, sentTexts } from '../page-styles/page-position.ts';
import { pageError, type PageFault } from '../page.ts';
import {
  countAt,
  countIn,
  describeBody,
  describeValue,
  type UndeclaredSignals,
  undeclaredSignals,
} from './listing-signals.ts';

/** How all pages of a scan are requested. */
export interface RequestOptions {
  client: ApiClient;
  lane: Lane;
  meter: RequestMeter;
  signal?: AbortSignal | undefined;
  /** The meaning of a refusal depends on the page style. */
  resource: { page: PageProfile; empty?: ResourceProfile['empty'] };
  /** How the service says that a range is too large; absent or null if it does not. */
  tooLarge?: AnswerRule | null | undefined;
}

export interface OnePageOptions {
  /** Memory reserved for the page, which the caller releases. */
  reservation?: MemoryReservation;
  /** For a prefetched page, which must not wait for memory. */
  whenFull?: 'fail' | undefined;
  /** Responses that count as a refusal of the page; default: those that the profile declares. */
  skips?: AnswerRule;
  /** Aborts this request only. */
  stop?: AbortSignal;
}

export type RequestPage = (position: PagePosition, options?: OnePageOptions) => Promise<ApiAnswer>;

/** Codes of an answer that, in the middle of a listing, means that the service no longer knows the position. */
const EXPIRED_CODES: ReadonlySet<string> = new Set(['not_found', 'bad_request']);

/** The refusal of a page past the end, as the profile declares it. */
export class PastEnd extends SyncError {}

/** True if the service no longer knows the requested position. */
export function isExpired(error: unknown): error is SyncError {
  return error instanceof SyncError && error.code === 'cursor_expired';
}

/** Codes of a response that refuses this one listing or window, while others of the same service may be readable. */
const UNIT_REFUSAL =
  /^(?:bad_(?:request|json|page)|not_(?:found|the_api)|guard_loop|pagination_invalid|empty_body|error_in_body|forbidden|origin_refused|listing_missing|outcome_rule|partial_answer|service_error|too_many_redirects|unexpected_status)$/;

/** True if the service refused one of several listings or windows, so that the others can still be read. */
export function isUnitRefusal(error: unknown): error is SyncError {
  return error instanceof SyncError && UNIT_REFUSAL.test(error.code);
}

/** Codes of refusals that may mean that the page does not exist. */
export const REFUSED_CODES: ReadonlySet<string> = new Set([...EXPIRED_CODES, 'cursor_expired', 'listing_missing']);

/**
 * Returns the function that requests pages of one listing by their position. It throws the errors of the client, except
 * that a refusal (404, 410, another 4xx, outcome `skip`) of a page after the first is `cursor_expired`: the scan has to
 * start again from the beginning. A range that the service refuses as too large is `window_too_large`.
 */
export function pageRequester(options: RequestOptions, parts: RequestParts, first: PagePosition): RequestPage {
  const { client, lane, meter, resource } = options;
  const { status, body } = declaredEnd(resource.page);
  const tooLarge = options.tooLarge ?? undefined;
  const pastLast = status.length === 0 ? tooLarge : { status, body };
  return async (position, { stop, skips: given, reservation, whenFull } = {}) => {
    const isFirst = isSamePosition(position, first);
    const signals = [options.signal, stop].filter((signal) => signal !== undefined);
    const signal = signals.length > 1 ? AbortSignal.any(signals) : signals[0];
    const skips = given ?? (isFirst ? tooLarge : pastLast);
    let isEmpty = false;
    const isGone: ApiRequest['isGone'] = (found) => {
      isEmpty = isEmptyListing(found, resource.empty, isFirst);
      return isEmpty;
    };
    let answer: ApiAnswer;
    try {
      const request = requestAt(parts, position);
      answer = await client.get({ ...request, lane, meter, signal, skips, isGone, reservation, whenFull });
    } catch (error) {
      const isExpired = !isFirst && error instanceof SyncError && EXPIRED_CODES.has(error.code);
      throw isExpired ? expiredError(position, resource.page, error) : error;
    }
    if (answer.outcome === 'ok') return answer;
    // The client skipped the response, because it lists nothing or because the profile declares it as a refusal.
    if (isEmpty) return { ...answer, outcome: 'ok' };
    if (answer.code === 'declared' && skips === tooLarge) throw pageError(TOO_LARGE, position);
    const expired = expiredError(position, resource.page);
    if (answer.code === 'declared') throw new PastEnd(expired.code, expired.message, expired);
    throw isFirst ? pageError(SKIPPED, position) : expired;
  };
}

/** True for a response without a JSON list that says, by the profile, that nothing is listed. */
export function isEmptyListing(
  { status, json }: { status: number; json: JsonValue | undefined },
  empty: readonly EmptyForm[] = [],
  isFirst = false,
): boolean {
  if (status === 204) return empty.includes(204);
  if (status === 404) return isFirst && empty.includes(404);
  return status < 300 && json === null && empty.includes(null);
}

const TOO_LARGE: PageFault = {
  code: 'window_too_large',
  message: 'The service refuses the range as too large, by windows.too_large in the profile',
  hint: 'A range is cut in two until it is one window: set windows.largest, or a finer windows.granularity.',
};

const SKIPPED: PageFault = {
  code: 'listing_missing',
  message: 'The first page of the listing has the outcome skip, by outcomes in the profile',
  hint:
    'skip says that a single record is gone and has no meaning for a listing: narrow that row down (status, header, ' +
    'body), or check the path of the resource.',
};

/** The code is the same in all page styles: if a record was deleted meanwhile, the last page may no longer exist. */
function expiredError(position: PagePosition, page: PageProfile, cause?: SyncError): SyncError {
  const isNumbered = page.style === 'page' || page.style === 'offset';
  const what = isNumbered ? 'refuses this page of the listing' : 'does not know this page of the listing';
  const message = `The service ${what}${cause === undefined ? '' : `: ${cause.message}`}`;
  return pageError(
    { code: 'cursor_expired', message, hint: isNumbered ? pastEndHint(page) : EXPIRED_HINT },
    position,
    cause,
  );
}

const EXPIRED_HINT =
  'Positions expire in some services. A run then begins again from the beginning by itself, once; if that ends here ' +
  'too, ask for larger pages (page.size in the profile), or compare page there with an answer of the service.';

/** A listing without a total ends at a page past its end, so services that refuse that page need one of these settings. */
function pastEndHint({ total = null, pages = null }: PageProfile): string {
  if (total === null && pages === null) {
    return (
      'Set page.total (records) or page.pages in the profile to where the answers say how many there are, such as ' +
      'meta.total or header:X-Total; if they do not, page.end.status and page.end.body to how pages past the end are refused.'
    );
  }
  const place = total === null ? `page.pages (${pages})` : `page.total (${total})`;
  return `The pages before it did not reach the end by ${place}: compare that with an answer of the service.`;
}

/** Where the records of a response are, and how it may say that it has none. */
interface RecordPlace {
  records: string;
  page: PageProfile;
  key_field?: ResourceProfile['key_field'];
  empty?: ResourceProfile['empty'];
}

/** The part of a resource's profile by which a response is read. */
export interface ReadableResource extends RecordPlace, RecordRules {
  id: ResourceProfile['id'];
}

/** The part of a response that may hold records. */
interface ListingResponse {
  bytes: Buffer;
  json: JsonValue;
  headers: ApiAnswer['headers'];
  status: number;
}

/** Returns the records of an answer, prepared by the rules of the profile; null if they are not where they should be. Pure. */
export function recordsOf(answer: ListingResponse, resource: RecordPlace & RecordRules): SourceRecord[] | null {
  return listedRecords(answer, resource)?.map((record) => prepareRecord(record, resource)) ?? null;
}

/**
 * Returns the records as they were sent; null if there is no list. Another form, such as `null`, counts as an empty list
 * only if the profile (`empty`) or a total of 0 confirms it. Pure.
 */
export function listedRecords(answer: ListingResponse, place: RecordPlace): SourceRecord[] | null {
  const records = selectRecords(answer.bytes, answer.json, place.records, place.key_field);
  if (records !== null) return records;
  const emptyForm = emptyFormIn(answer, place.records);
  if (emptyForm === undefined) return null;
  const listsNothing = place.empty?.includes(emptyForm) || isZeroTotal(answer, place.records, place.page);
  return listsNothing ? [] : null;
}

/** Returns what is in place of the list, if it is a form in which services say that nothing is listed; else undefined. */
function emptyFormIn({ json, status }: ListingResponse, path: string): EmptyForm | undefined {
  if (status === 204 || status === 404) return status;
  let found: JsonValue | undefined = json;
  for (const step of json === null ? [] : stepsOf(path)) {
    if (isEach(step)) break;
    found = stepInto(found, step);
  }
  if (found === undefined) return 'absent';
  if (found === null) return null;
  return isObject(found) && Object.keys(found).length === 0 ? 'object' : undefined;
}

/** True if all totals in the response are 0: the one that the profile names, and those in usual fields. */
function isZeroTotal(answer: ListingResponse, records: string, page: PageProfile): boolean {
  const declared = countIn(answer, page.total ?? null);
  const counts = undeclaredSignals(answer, records, page, new Set()).totals.map(({ count }) => count);
  const totals = declared === null ? counts : [declared, ...counts];
  return totals.length > 0 && totals.every((total) => total === 0);
}

export interface ReadPage {
  request: PagePosition;
  answer: ApiAnswer;
  records: SourceRecord[];
  /** A hash of each record's key. */
  keys: Buffer;
  total: number | null;
  pages: number | null;
  /** Totals and other signs in fields that the profile does not name. */
  signals: UndeclaredSignals;
}

/** Reads the page in the response to `request`, or returns why it cannot be read. Pure. */
export function readPage(answer: ApiAnswer, request: PagePosition, resource: ReadableResource): ReadPage | PageFault {
  const { records: path, page, id } = resource;
  const records = recordsOf(answer, resource);
  if (records === null) return noRecords(answer, path);
  const shortfall = findShortfall(answer, page.count, records.length);
  if (shortfall !== null) return shortfall;
  const counts = { total: countIn(answer, page.total ?? null), pages: countIn(answer, page.pages ?? null) };
  const signals = undeclaredSignals(answer, path, page, new Set(sentTexts(request).values()));
  return { request, answer, records, keys: pageKeys(records, id), signals, ...counts };
}

function noRecords(answer: ApiAnswer, path: string): PageFault {
  const where = path === '' ? 'as the body' : `at ${path}`;
  return {
    code: 'bad_page',
    message: `Expected an array of records ${where}, found ${describeValue(fieldAt(answer.json, path))}`,
    hint: `${placeHint(answer.json)}${emptyHint(answer, path)}`,
  };
}

/** Names the setting by which such a response lists nothing. */
export function emptyHint(answer: ListingResponse, path: string): string {
  const emptyForm = emptyFormIn(answer, path);
  return emptyForm === undefined ? '' : ` If this means that nothing is listed, set empty: [${emptyForm}].`;
}

function placeHint(json: JsonValue): string {
  if (Array.isArray(json)) return `The body is itself an array of ${json.length}: set records: '' in the profile.`;
  return `${describeBody(json)} Set records in the profile to where the array is.`;
}

const RANGE = /^\s*(?:([a-z][\w-]*)[ =]\s*)?(\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)\s*$/i;

/** Finds that a page has fewer records than its own count or its `Content-Range` says: it was cut off on its way. */
function findShortfall(answer: ApiAnswer, countPath: string | null, received: number): PageFault | null {
  const declared = Math.max(countAt(answer.json, countPath) ?? 0, rangeCount(answer.headers['content-range']));
  if (declared <= received) return null;
  return {
    code: 'bad_page',
    mayBeCutOff: true,
    message: `The page says that it holds ${declared} records, and carries ${received}`,
    hint: 'It was asked for again and stayed so: report it to the service, or set page.count: null in the profile.',
  };
}

/** Reads from `Content-Range: items 0-99/508` that the page has 100 records; 0 if it is absent or counts bytes. */
function rangeCount(header: string | string[] | undefined): number {
  const range = typeof header === 'string' ? RANGE.exec(header) : null;
  if (range === null || range[1]?.toLowerCase() === 'bytes') return 0;
  const all = range[4] === '*' ? Infinity : Number(range[4]);
  // The last page may name the requested range, past the end of the listing.
  return Math.min(Number(range[3]), all - 1) - Number(range[2]) + 1;
}
