import type { PageProfile } from '../../config/profile/page-style.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { EmptySpelling } from '../../config/profile/record-fields.ts';
import type { ApiAnswer } from '../../http/client.ts';
import { isEach, stepsOf } from '../../model/body-path.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { asRecord, fieldAt, isObject, type RecordSight, stepInto } from '../../rows/records/as-record.ts';
import { selectRecords } from '../../rows/records/select-records.ts';
import { pageKeys } from '../guards/key-set.ts';
import type { PageFault } from '../page.ts';
import { type PagePosition, sentTexts } from '../page-styles/page-position.ts';
import {
  accountOf,
  bodyAccount,
  countAt,
  countIn,
  type UndeclaredSignals,
  undeclaredSignals,
} from './listing-signals.ts';

/** Where the records of a response are, and how it may say that it has none. */
interface RecordPlace {
  records: string;
  page: PageProfile;
  key_field?: ResourceProfile['key_field'];
  empty?: ResourceProfile['empty'];
}

/** The part of a resource's profile by which a response is read. */
export interface ReadableResource extends RecordPlace, RecordSight {
  id: ResourceProfile['id'];
}

/** The part of a response that may hold records. */
interface ListingResponse {
  bytes: Buffer;
  json: JsonValue;
  headers: ApiAnswer['headers'];
  status: number;
}

/** The records of an answer as the resource sees them; null if it has none where they should be. Pure. */
export function recordsOf(answer: ListingResponse, resource: RecordPlace & RecordSight): SourceRecord[] | null {
  return listedRecords(answer, resource)?.map((record) => asRecord(record, resource)) ?? null;
}

/** The records as they came: none if the response says so in a way that the profile or a total of 0 confirms. Pure. */
export function listedRecords(answer: ListingResponse, place: RecordPlace): SourceRecord[] | null {
  const records = selectRecords(answer.bytes, answer.json, place.records, place.key_field);
  if (records !== null) return records;
  const spelling = spellingIn(answer, place.records);
  if (spelling === undefined) return null;
  const isNothing = place.empty?.includes(spelling) || isZeroTotal(answer, place.records, place.page);
  return isNothing ? [] : null;
}

/** How a response without a list may say that nothing is listed; undefined if something else is there. */
function spellingIn({ json, status }: ListingResponse, path: string): EmptySpelling | undefined {
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

/** True if the response states a total of 0, where the profile names it or at its usual places, and no other total. */
function isZeroTotal(answer: ListingResponse, records: string, page: PageProfile): boolean {
  const declared = countIn(answer, page.total ?? null);
  const counts = undeclaredSignals(answer, records, page, new Set()).totals.map(({ count }) => count);
  const totals = declared === null ? counts : [declared, ...counts];
  return totals.length > 0 && totals.every((total) => total === 0);
}

/** The content of one page's answer. */
export interface ReadPage {
  /** The request that was answered. */
  request: PagePosition;
  answer: ApiAnswer;
  records: SourceRecord[];
  /** Fingerprints of the records' keys. */
  keys: Buffer;
  total: number | null;
  pages: number | null;
  /** What it says of the whole listing at places that the profile does not name. */
  signals: UndeclaredSignals;
}

/** Reads the page in a response to `request`, or returns why it cannot be read. Pure. */
export function readPage(answer: ApiAnswer, request: PagePosition, resource: ReadableResource): ReadPage | PageFault {
  const { records: path, page, id } = resource;
  const records = recordsOf(answer, resource);
  if (records === null) return noRecords(answer, path);
  const shortfall = shortfallOf(answer, page.count, records.length);
  if (shortfall !== null) return shortfall;
  const counts = { total: countIn(answer, page.total ?? null), pages: countIn(answer, page.pages ?? null) };
  const signals = undeclaredSignals(answer, path, page, new Set(sentTexts(request).values()));
  return { request, answer, records, keys: pageKeys(records, id), signals, ...counts };
}

function noRecords(answer: ApiAnswer, path: string): PageFault {
  const where = path === '' ? 'as the body' : `at ${path}`;
  return {
    code: 'bad_page',
    message: `Expected an array of records ${where}, found ${accountOf(fieldAt(answer.json, path))}`,
    hint: `${placeHint(answer.json)}${emptyHint(answer, path)}`,
  };
}

/** Names the setting by which such a response lists nothing. */
export function emptyHint(answer: ListingResponse, path: string): string {
  const spelling = spellingIn(answer, path);
  return spelling === undefined ? '' : ` If this means that nothing is listed, set empty: [${spelling}].`;
}

function placeHint(json: JsonValue): string {
  if (Array.isArray(json)) return `The body is itself an array of ${json.length}: set records: '' in the profile.`;
  return `${bodyAccount(json)} Set records in the profile to where the array is.`;
}

const RANGE = /^\s*(?:([a-z][\w-]*)[ =]\s*)?(\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)\s*$/i;

/** A page that carries fewer records than it says itself (its own count, or `Content-Range`) was cut on its way. */
function shortfallOf(answer: ApiAnswer, countPath: string | null, received: number): PageFault | null {
  const declared = Math.max(countAt(answer.json, countPath) ?? 0, rangeCount(answer.headers['content-range']));
  if (declared <= received) return null;
  return {
    code: 'page_too_short',
    message: `The page says that it holds ${declared} records, and carries ${received}`,
    hint: 'It was asked for again and stayed so: report it to the service, or set page.count: null in the profile.',
  };
}

/** Records that `Content-Range: items 0-99/508` declares; 0 if it is absent, counts bytes or cannot be read. */
function rangeCount(header: string | string[] | undefined): number {
  const range = typeof header === 'string' ? RANGE.exec(header) : null;
  if (range === null || range[1]?.toLowerCase() === 'bytes') return 0;
  const all = range[4] === '*' ? Infinity : Number(range[4]);
  // The last page may name the requested range, past the end of the listing.
  return Math.min(Number(range[3]), all - 1) - Number(range[2]) + 1;
}
