import type { ApiAnswer } from '../../http/client.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import { asRecord, type RecordSight } from '../../shape/records/as-record.ts';
import { selectRecords } from '../../shape/records/select-records.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { accountOf, bodyAccount, countAt, countIn } from './body-account.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import { pageKeys } from '../guards/page-keys.ts';
import { sentTexts } from '../page-styles/page-variables.ts';
import { undeclaredSignals, type UndeclaredSignals } from './undeclared-signals.ts';

/** The part of a resource's profile by which an answer is read. */
export type ReadableResource = Pick<ResourceProfile, 'records' | 'page' | 'id'> & Partial<RecordFields> & RecordSight;

/** The fields that say how records are seen; each may be absent. */
type RecordFields = Pick<ResourceProfile, 'key_field' | 'unwrap' | 'filter' | 'parts'>;

/** The records of an answer as the resource sees them; null if it has none where they should be. Pure. */
export function recordsOf(
  { bytes, json }: Pick<ApiAnswer, 'bytes' | 'json'>,
  resource: Pick<ReadableResource, 'records'> & Partial<RecordFields> & RecordSight,
): SourceRecord[] | null {
  const records = selectRecords(bytes, json, resource.records, resource.key_field);
  return records?.map((record) => asRecord(record, resource)) ?? null;
}

/** The content of one page's answer. */
export interface ReadPage {
  /** The request that was answered. */
  url: URL;
  answer: ApiAnswer;
  records: SourceRecord[];
  /** Fingerprints of the records' keys. */
  keys: Buffer;
  total: number | null;
  pages: number | null;
  /** What it says of the whole listing at places that the profile does not name. */
  signals: UndeclaredSignals;
  /** False if records of it may have further parts on the next page. */
  completesParts: boolean;
}

/** The page that an answer to `url` carries, or why it is none. Pure. */
export function readPage(answer: ApiAnswer, url: URL, resource: ReadableResource): ReadPage | GuardFault {
  const { records: path, page, id } = resource;
  const records = recordsOf(answer, resource);
  if (records === null) return noRecords(answer, path);
  const shortfall = shortfallOf(answer, page.count, records.length);
  if (shortfall !== null) return shortfall;
  const counts = { total: countIn(answer, page.total ?? null), pages: countIn(answer, page.pages ?? null) };
  const completesParts = isComplete(answer.json, resource.parts?.complete ?? null);
  const signals = undeclaredSignals(answer, path, page, new Set(sentTexts(url).values()));
  return { url, answer, records, keys: pageKeys(records, id), completesParts, signals, ...counts };
}

/** The sign is there and does not say the opposite; it may be the empty text. */
export function isComplete(json: JsonValue, path: string | null): boolean {
  const sign = path === null ? true : fieldAt(json, path);
  return sign !== undefined && sign !== null && sign !== false;
}

function noRecords(answer: ApiAnswer, path: string): GuardFault {
  const where = path === '' ? 'as the body' : `at ${path}`;
  return {
    code: 'bad_page',
    message: `Expected an array of records ${where}, found ${accountOf(fieldAt(answer.json, path))}`,
    hint: placeHint(answer.json),
  };
}

function placeHint(json: JsonValue): string {
  if (Array.isArray(json)) return `The body is itself an array of ${json.length}: set records: '' in the profile.`;
  return `${bodyAccount(json)} Set records in the profile to where the array is.`;
}

const RANGE = /^\s*(?:([a-z][\w-]*)[ =]\s*)?(\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)\s*$/i;

/** A page that carries fewer records than it says itself (its own count, or `Content-Range`) was cut on its way. */
function shortfallOf(answer: ApiAnswer, countPath: string | null, received: number): GuardFault | null {
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
  // The last page may name the range that was asked for, past the end of what there is.
  return Math.min(Number(range[3]), all - 1) - Number(range[2]) + 1;
}
