import type { ApiAnswer } from '../../http/client.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import { selectRecords } from '../../shape/records/select-records.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { accountOf, bodyAccount, countIn } from './body-account.ts';
import { shortfallOf } from '../page-styles/declared-count.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import { pageKeys } from '../guards/page-keys.ts';

/** What reading an answer needs to know of the resource. */
export type ReadableResource = Pick<ResourceProfile, 'records' | 'page' | 'id'>;

/** What an answer carries. */
export interface ReadPage {
  /** The request that was answered. */
  url: URL;
  answer: ApiAnswer;
  records: SourceRecord[];
  /** Fingerprints of the records' keys. */
  keys: Buffer;
  total: number | null;
  pages: number | null;
}

/** The page that an answer to `url` carries, or why it is none. Pure. */
export function readPage(
  answer: ApiAnswer,
  url: URL,
  { records: path, page, id }: ReadableResource,
): ReadPage | GuardFault {
  const records = selectRecords(answer.bytes, answer.json, path);
  if (records === null) return noRecords(answer, path);
  const shortfall = shortfallOf(answer, page.count, records.length);
  if (shortfall !== null) return shortfall;
  const counts = { total: countIn(answer, page.total), pages: countIn(answer, page.pages) };
  return { url, answer, records, keys: pageKeys(records, id), ...counts };
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
