import type { ApiAnswer } from '../http/client.ts';
import { fieldAt } from '../shape/field-at.ts';
import { selectRecords } from '../shape/select-records.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { accountOf, countIn, keysOf } from './body-account.ts';
import { shortfallOf } from './declared-count.ts';
import type { GuardFault } from './guard-fault.ts';
import type { Page } from './page.ts';
import type { PageStyle } from './page-style.ts';
import { positionOf } from './position.ts';

/** What reading an answer needs to know of the walk. */
interface ReadContext {
  resource: Pick<ResourceProfile, 'records' | 'page'>;
  style: PageStyle;
  baseUrl: URL;
  /** The request that was answered. */
  url: URL;
  /** Records on the pages before this one; null where nobody counted. */
  seenBefore: number | null;
}

/** The page that an answer carries (its number is the walk's affair), or why it is none. Pure. */
export function readPage(answer: ApiAnswer, context: ReadContext): Omit<Page, 'number'> | GuardFault {
  const { resource, style, baseUrl, url, seenBefore } = context;
  const records = selectRecords(answer.bytes, answer.json, resource.records);
  if (records === null) return noRecords(answer, resource.records);
  const received = records.length;
  const shortfall = shortfallOf(answer, resource.page.count, received);
  if (shortfall !== null) return shortfall;
  const total = countIn(answer, resource.page.total);
  const seen = seenBefore === null ? null : seenBefore + received;
  const { headers, json, requestedAt, serverDate } = answer;
  const next = style.next({ url, answeredUrl: answer.url, baseUrl, headers, json, received, seen, total });
  if (next !== null && typeof next === 'object') return next;
  return { position: positionOf(url), next, records, requestedAt, serverDate, total };
}

function noRecords(answer: ApiAnswer, path: string): GuardFault {
  const where = path === '' ? 'as the body' : `at ${path}`;
  return {
    code: 'bad_page',
    message: `Expected an array of records ${where}, found ${accountOf(fieldAt(answer.json, path))}`,
    hint: `The body has ${keysOf(answer.json)}. Set records in the profile to where the array is.`,
  };
}
