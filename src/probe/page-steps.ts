// Finds what leads from the first page of a listing to the second. Example: `limit=2` lists the first two records; of
// the candidates `page=2`, `offset=2` and `after=<id of the second>`, `page=2` lists the third and the fourth: `style:
// page`.
import type { JsonObject } from '../model/json.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { SMALL_PAGE } from './page-size.ts';
import { describeResponse, type ProbeResponse, type QueryParams } from './probe-client.ts';
import { isSamePage, type ProbedListing, type ReadPage, recordKeyText, requestPage } from './probed-listing.ts';
import { recordsIn } from './record-lists.ts';
import { nextSigns } from './response-signs.ts';
import {
  CURSOR_PARAMS,
  KEY_PARAMS,
  NUMBER_PARAMS,
  OFFSET,
  OFFSET_TEXTS,
  PAGE_PARAMS,
  USUAL_SIZES,
} from './vocabulary.ts';

/** A possible way to the second page. */
interface PageStep {
  /** The page section that a profile would have. */
  page: Readonly<Record<string, unknown>>;
  /** What requests the page with a cursor: with a number, an offset, a text of the page before, or the page's address. */
  at: (cursor: string) => { query?: QueryParams; headers?: QueryParams; address?: string };
  /** The cursor of the second page. */
  second: string;
}

/** The way that was seen to lead to the second page. */
export interface FoundStep extends PageStep {
  evidence: string;
  /** The responses of the first page, of few records, and of the second one. */
  small: ProbeResponse;
  next: ProbeResponse;
}

/** Instead of the name of a parameter, as a profile says that the offset is within a text. */
export const OFFSET_IN_TEXT = '{cursor}';
/** Parameters that are tried for one cursor. */
const MAX_CURSOR_PARAMS = 9;
/** Parameters of one kind that are tried one by one if unknown ones are not ignored. */
const MAX_SINGLE = 5;

/** The first of the possible steps that leads from a page of a few records to the records after it; null if none does. */
export async function findStep(listing: ProbedListing, sizeParam: string | null): Promise<FoundStep | null> {
  const { records: known, first, conventions, id } = listing;
  const size = sizeParam === null ? known.length : known.length > SMALL_PAGE ? SMALL_PAGE : 1;
  const sized = sizeParam === null ? {} : { [sizeParam]: String(size) };
  const { response: small, records } =
    sizeParam === null ? { response: first, records: known } : await requestPage(listing, sized);
  if (records === null || records.length === 0) return null;
  for (const steps of possibleSteps(listing, { response: small, records }, sizeParam)) {
    if (conventions.unknown === 'ignored' && steps.length > 2) {
      // What changes nothing together does not do so alone.
      const query = Object.assign({}, ...steps.map((step) => step.at(step.second).query));
      const together = await requestPage(listing, { ...sized, ...query });
      if (together.records !== null && isSamePage(together.records, records, id)) continue;
    }
    for (const step of steps) {
      const { query, headers, address } = step.at(step.second);
      const next =
        address === undefined
          ? await requestPage(listing, { ...sized, ...query }, headers)
          : await requestAddress(listing, small.url, address);
      const page = await pageReached(listing, step, sized, [records, next?.records ?? []]);
      if (next === null || page === null) continue;
      const evidence = `${describeResponse(next.response)}, ${next.records?.length} further records`;
      return { ...step, page, evidence, small, next: next.response };
    }
  }
  return null;
}

const inParam = (name: string) => (value: string) => ({ query: { [name]: value } });
const atAddress = (address: string) => ({ address });

/** In the order in which they are tried: what the response names, then numbers, then the key of the last record. */
function* possibleSteps(
  listing: ProbedListing,
  { response, records }: ReadPage & { records: readonly JsonObject[] },
  sizeParam: string | null,
): Generator<readonly PageStep[]> {
  const { conventions, id, recordsPath } = listing;
  const { urls, cursors, link, hasMore, saysMore } = nextSigns(response, recordsPath);
  const more = hasMore === null ? {} : { has_more: hasMore };
  const knownFirst = (names: readonly string[], isDoubtful: boolean): string[] =>
    names
      .toSorted((a, b) => Number(conventions.parameters.has(b)) - Number(conventions.parameters.has(a)))
      .slice(0, isDoubtful && conventions.unknown !== 'ignored' ? MAX_SINGLE : undefined);
  for (const { path, value } of urls)
    yield [{ page: { style: 'next-url', next_url: path }, at: atAddress, second: value }];
  for (const { path, value } of cursors) {
    // A number is the next page's, or an offset: these styles can tell the end of a listing by more than its absence.
    if (/^\d+$/.test(value) && !/cursor|token|after|key|id|marker/i.test(path)) continue;
    yield cursorParams(path).map((name) => {
      const page = { style: 'cursor', cursor_param: name, next_cursor: path, ...more };
      return { page, at: inParam(name), second: value };
    });
  }
  if (link !== null) yield [{ page: { style: 'link' }, at: atAddress, second: link }];
  yield knownFirst(PAGE_PARAMS[sizeParam ?? ''] ?? NUMBER_PARAMS, sizeParam === null).map((name) => {
    if (!OFFSET.test(name)) return { page: { style: 'page', page_param: name }, at: inParam(name), second: '2' };
    return { page: { style: 'offset', offset_param: name }, at: inParam(name), second: String(records.length) };
  });
  const last = id === '' ? undefined : fieldAt(records.at(-1) ?? {}, id);
  // A key is tried only where there may be more: the service says so, or takes the size of a page.
  if (last !== undefined && (saysMore || sizeParam !== null)) {
    const lastKey = `${recordsPath.includes('[*]') ? recordsPath.replace('[*]', '[-1]') : `${recordsPath}[-1]`}.${id}`;
    const byKey = isSorted(listing) ? { style: 'keyset', cursor_field: id } : { style: 'cursor', next_cursor: lastKey };
    yield knownFirst(KEY_PARAMS, !saysMore).map((name) => {
      const second = typeof last === 'string' ? last : JSON.stringify(last);
      return { page: { ...byKey, cursor_param: name, ...more }, at: inParam(name), second };
    });
  }
  if (sizeParam === null && mayBeCut(listing)) yield* offsetTexts(String(records.length));
}

/** True if the service says that there are more records than it has listed, or has listed as many as a usual page has. */
function mayBeCut({ first, total, records }: ProbedListing): boolean {
  const takesRange = /range/i.test(Object.keys(first.headers).join(' '));
  return total !== records.length && (takesRange || total !== null || USUAL_SIZES.has(records.length));
}

/** Offsets within a text, such as `Range: items=50-`; each on its own, because several take the same parameter. */
function* offsetTexts(second: string): Generator<readonly PageStep[]> {
  for (const texts of OFFSET_TEXTS) {
    const page = { style: 'offset', offset_param: OFFSET_IN_TEXT };
    const at = (offset: string) => JSON.parse(JSON.stringify(texts).replace('{cursor}', offset));
    yield [{ page, at, second }];
  }
}

/** True if the ids of the listing rise, as pages after a key expect. */
function isSorted({ records, id }: ProbedListing): boolean {
  const ids = records.map((record) => fieldAt(record, id) ?? '');
  return ids.every((value, at) => at === 0 || value > (ids[at - 1] ?? ''));
}

/** Names that may take a cursor, those like the field that holds it first: `next_page_token` is sent as `page_token`. */
function cursorParams(path: string): string[] {
  const field = path.replace(/^header:(?:x-)?/, '').replace(/^.*\./, '');
  const bare = field.replace(/^next_?/i, '').replace(/^end_?/i, '');
  const own = bare === '' ? [] : [bare.charAt(0).toLowerCase() + bare.slice(1)];
  const isAlike = (name: string): number => Number(lettersOf(field).includes(lettersOf(name)));
  const usual = CURSOR_PARAMS.map((name) => name.replace('{field}', field)).toSorted((a, b) => isAlike(b) - isAlike(a));
  return [...new Set([...own, ...usual])].slice(0, MAX_CURSOR_PARAMS);
}

function lettersOf(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z]/g, '');
}

/** Requests the page at an address that the service names; null if it is not below the address of the API. */
async function requestAddress(listing: ProbedListing, from: URL, address: string): Promise<ReadPage | null> {
  const { client, path, recordsPath, unwrap } = listing;
  const url = URL.parse(address, from.href);
  // Paths are requested below the base URL, with which the first page's address begins.
  const base = from.pathname.slice(0, from.pathname.length - path.length);
  if (url === null || url.origin !== from.origin || !url.pathname.startsWith(base)) return null;
  const query = Object.fromEntries([...url.searchParams].filter(([, value]) => value !== ''));
  const response = await client.get({ path: url.pathname.slice(base.length), query });
  return { response, records: recordsIn(response, recordsPath, unwrap) };
}

/** The page section if the records follow those of the first page, as far as the listing is known; else null. */
async function pageReached(
  listing: ProbedListing,
  { page, at }: PageStep,
  sized: QueryParams,
  [first, next]: readonly [first: readonly JsonObject[], next: readonly JsonObject[]],
): Promise<PageStep['page'] | null> {
  const { id, records: known } = listing;
  const isNumbered = page['style'] === 'page' || page['style'] === 'offset';
  const keys = new Set(first.map((record) => recordKeyText(record, id)));
  const isRepeated = isNumbered
    ? isSamePage(first, next, id)
    : next.some((record) => keys.has(recordKeyText(record, id)));
  if (next.length === 0 || isRepeated) return null;
  const key = recordKeyText(next[0] ?? {}, id);
  const position = known.findIndex((record) => recordKeyText(record, id) === key);
  const fromZero = { ...page, first: 0 };
  if (position === first.length) return page;
  if (page['style'] === 'page' && position === 2 * first.length) return fromZero;
  if (position !== -1 || (!isNumbered && known.length > first.length)) return null;
  if (page['offset_param'] === OFFSET_IN_TEXT) {
    const { query, headers } = at('0');
    const { records } = await requestPage(listing, query ?? {}, headers);
    return isSamePage(first, records?.slice(0, first.length) ?? [], id) ? page : null;
  }
  if (page['style'] !== 'page') return page;
  // After the known records it may be the third page as well: the page with the number 1 decides.
  const one = await requestPage(listing, { ...sized, ...at('1').query });
  return isSamePage(first, one.records ?? [], id) ? page : fromZero;
}
