// The page styles of profiles (cursor, page, offset, link, ...): how a response leads to the request for the next page, and
// what shows that there is none. Example: with style `page`, the page after `?page=3` is `?page=4`; with style `cursor`, the
// response has a token at `meta.next`, and the next request is `?cursor=<token>`.
//
// A request place is where a request has a value, as a profile writes it: a query parameter such as `page`, a header, or a
// field of the body.
import type { PageProfile } from '../../config/profile/page-style.ts';
import { shortenText } from '../../http/body/read-body.ts';
import { ConfigError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { parseInstant } from '../../rows/columns/cells.ts';
import { isExact } from '../../rows/json/parse-json.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { type EndProof, missingFault, type PageFault } from '../page.ts';
import { describeBody, describeValue, parseLinkHeader, valueIn } from '../requests/listing-signals.ts';
import type { ReadPage } from '../requests/read-page.ts';
import { linkedPosition } from './listing-request.ts';
import {
  cannotHold,
  formatPlaceValue,
  type PagePosition,
  type PlaceValue,
  type PlaceValues,
  positionText,
  sentTexts,
  withPlaces,
} from './page-position.ts';

type PageProfiles = { [P in PageProfile as P['style']]: P };

/** A page that was read, with the facts about the scan by which a page style finds the next page. */
export interface AnsweredPage extends ReadPage {
  isFirst: boolean;
  baseUrl: URL;
  /** True if it has no record, or only the last one of the page before, which was requested again. */
  isEmpty: boolean;
  /** Records on all pages of the scan, this one included; null if it was resumed without counts. */
  seen: number | null;
  /** The size of the largest page, in this scan or an earlier one, that named a next page; 0 if none did. */
  fullPageSize: number;
}

/** The listing continues at `next`, or it ends (`end` says what shows it), or the response shows neither. */
export type NextStep = { next: PagePosition } | { end: EndProof } | { end: null; fault: PageFault };

export interface PageStyle {
  /** The values of the first request, by request place. */
  first: PlaceValues;
  /** Returns the step after this page, or what is wrong with the response. */
  next(facts: AnsweredPage): NextStep | PageFault;
  /** True if its links or cursors may contain page numbers: then records that are created or deleted shift the pages. */
  mayHideNumbers: boolean;
  /** Null if only a response names the next page. */
  positions: PagePositions | null;
}

/** Computes the positions of numbered pages, so that a page can be requested before the one before it has arrived. */
export interface PagePositions {
  /** The position after `position`, if the page there holds `count` records. */
  after(position: PagePosition, count: number): PagePosition;
  /** The page before the first one, which must not exist; null if there can be none. */
  beforeFirst(first: PagePosition): PagePosition | null;
  /** The number of records before `position`, if every page holds `count`. */
  recordsBefore(position: PagePosition, count: number): number;
  /** The page that begins `count` records earlier; null if a page cannot begin at any record. */
  earlier(position: PagePosition, count: number): PagePosition | null;
  /** The page that holds the record of this index if pages hold `size`; null if no parameter sets the size. */
  containing(position: PagePosition, record: number, size: number): PagePosition | null;
}

const STYLES: { [S in keyof PageProfiles]: (profile: PageProfiles[S]) => PageStyle } = {
  cursor: (profile) => createFollowedStyle(profile, (facts) => nextByCursor(profile, facts), firstCursor(profile)),
  page: pageStyle,
  offset: offsetStyle,
  link: (profile) => createFollowedStyle(profile, nextByLink),
  'next-url': (profile) => createFollowedStyle(profile, (facts) => nextByUrl(profile, facts)),
  keyset: (profile) => ({
    ...createFollowedStyle(profile, (facts) => nextByRecord(profile, facts), firstCursor(profile)),
    mayHideNumbers: false,
  }),
  // By the profile, one response has the whole list. `verifyEnd` checks whether the response says otherwise.
  single: () => ({ first: {}, next: () => ({ end: 'whole' }), mayHideNumbers: false, positions: null }),
};

/** Returns the page style of a profile. Every scan calls it first. */
export function openPageStyle<S extends keyof PageProfiles>(profile: PageProfiles[S] & { style: S }): PageStyle {
  return STYLES[profile.style](profile);
}

/** True if the position of the next page is known before this one is read. */
export function isNumbered(profile: PageProfile): boolean {
  return openPageStyle(profile).positions !== null;
}

/** Creates a style in which each response names the next page; `first` are values of the first request besides the size. */
function createFollowedStyle(profile: PageProfile, next: PageStyle['next'], first: PlaceValues = {}): PageStyle {
  return { first: { ...first, ...sizeParam(profile) }, next, mayHideNumbers: true, positions: null };
}

/** Returns the value that requests the page size of the profile; none if the service has no such parameter. */
function sizeParam(profile: { size: number; size_param: string | null }): PlaceValues {
  return profile.size_param === null ? {} : { [profile.size_param]: profile.size };
}

/**
 * Returns the step after a page that names no next page at `place`, which is `field` in the profile. The listing has ended
 * if the page is shorter than one that named a next page, or if the profile says so and an earlier page named one.
 * Otherwise the profile may be wrong.
 */
function stepWithoutNext(
  profile: { absent_is_end: boolean },
  facts: AnsweredPage,
  { place, field }: { place: string; field: string },
): NextStep {
  if (facts.fullPageSize > 0 && facts.records.length < facts.fullPageSize) return { end: 'short' };
  if (facts.fullPageSize > 0 && profile.absent_is_end) return { end: 'signal' };
  const isFirst = facts.fullPageSize === 0;
  return {
    end: null,
    fault: missingFault(
      `A page of ${facts.records.length} records has no ${place}${isFirst ? ', and neither has any page before it' : ''}`,
      `${describeBody(facts.answer.json)} Set ${field} in the profile to where the service names the next page, or ` +
        'page.total or page.pages to where it names the number of records or pages.',
    ),
  };
}

interface CursorPlace {
  cursor_param: string | null;
  first_cursor: string | number | null;
}

function firstCursor(profile: CursorPlace): PlaceValues {
  return profile.first_cursor === null ? {} : { [cursorPlace(profile)]: profile.first_cursor };
}

/** Returns the request place of the cursor: a parameter, or `{cursor}` in the templates of the request. */
function cursorPlace({ cursor_param }: CursorPlace): string {
  return cursor_param ?? '{cursor}';
}

const YES: ReadonlySet<JsonValue> = new Set<JsonValue>([true, 'true', 1, '1']);
const NO: ReadonlySet<JsonValue> = new Set<JsonValue>([false, 'false', 0, '0']);

/**
 * Style `cursor`: the body has a token for the next page. Null, false, the empty string and the values of `end.cursor` are
 * the end, and so is `has_more: false`, if the profile names that field.
 */
function nextByCursor(profile: PageProfiles['cursor'], facts: AnsweredPage): NextStep | PageFault {
  const more = hasMore(profile, facts);
  if (more === false) return { end: 'signal' };
  if (typeof more === 'object' && more !== null) return more;
  const found = valueIn(facts.answer, profile.next_cursor);
  const token = isEndValue(found, profile.end?.cursor ?? []) ? '' : readToken(found);
  if (token === null) return invalidFault(profile.next_cursor, found, 'a text, a number or null');
  if (token !== '') return cursorStep(profile, facts.request, { token, from: profile.next_cursor });
  if (more === true) {
    return missingFault(
      `${profile.has_more} says that more follows, but ${profile.next_cursor} holds no cursor`,
      `${describeBody(facts.answer.json)} Set page.next_cursor in the profile to where the cursor is.`,
    );
  }
  return found === undefined
    ? stepWithoutNext(profile, facts, { place: profile.next_cursor, field: 'page.next_cursor' })
    : { end: 'signal' };
}

/** Returns whether more pages follow; null if the response does not say, or the fault of an invalid value. */
function hasMore(profile: { has_more: string | null }, facts: AnsweredPage): boolean | null | PageFault {
  if (profile.has_more === null) return null;
  const found = valueIn(facts.answer, profile.has_more) ?? null;
  if (found === null) return null;
  return YES.has(found) || (NO.has(found) ? false : invalidFault(profile.has_more, found, 'true or false'));
}

/** True for a value that stands for "no further page" instead of a token. */
function isEndValue(found: JsonValue | undefined, declared: readonly (string | number)[]): boolean {
  if (typeof found === 'string' || typeof found === 'number') return declared.map(String).includes(String(found));
  return found === false;
}

/** Returns the token, the empty string if there is none, or null for a value of another type. */
function readToken(found: JsonValue | undefined): PlaceValue | null {
  if (found === undefined || found === null) return '';
  return typeof found === 'string' || typeof found === 'number' || isExact(found) ? found : null;
}

function cursorStep(
  profile: CursorPlace,
  position: PagePosition,
  { token, from }: { token: PlaceValue; from: string },
): NextStep | PageFault {
  const place = cursorPlace(profile);
  if (!cannotHold(place, token)) return { next: withPlaces(position, { [place]: token }) };
  return {
    code: 'pagination_invalid',
    message: `The cursor at ${from} holds control characters, or others that cannot be sent there`,
    hint: 'This is a fault of the service: report it there. The cursor was not sent back.',
  };
}

function invalidFault(path: string, found: JsonValue | undefined, expected: string): PageFault {
  return {
    code: 'pagination_invalid',
    message: `At ${path} there is ${describeValue(found)}, expected ${expected}`,
    hint: 'Compare the page section of the profile with an answer of the service.',
  };
}

/** Style `keyset`: each page lists what follows the last record of the page before. An empty page is the end. */
function nextByRecord(profile: PageProfiles['keyset'], facts: AnsweredPage): NextStep | PageFault {
  const { cursor_field, end, size } = profile;
  const { fullPageSize, request: position, isFirst } = facts;
  const received = facts.records.length;
  const more = hasMore(profile, facts);
  if (typeof more === 'object' && more !== null) return more;
  if (received === 0) return more === true ? emptyFault(profile) : { end: 'empty' };
  const values = facts.records.map(({ value }) => readToken(fieldAt(value, cursor_field)));
  const found = values.filter((value): value is PlaceValue => value !== null && value !== '');
  const last = found.at(-1);
  if (last === undefined || found.length < values.length) return noFieldFault(profile, facts.records[0]?.value ?? null);
  const sent = isFirst ? undefined : sentTexts(position).get(cursorPlace(profile));
  const order = [...(sent === undefined ? [] : [sent]), ...found.map(formatPlaceValue)];
  if (!isStrictlySorted(order)) return unsortedFault(profile);
  if (more === false) return { end: 'signal' };
  if (end?.short_page === true && received < size && fullPageSize >= size) return { end: 'short' };
  return cursorStep(profile, position, { token: last, from: cursor_field });
}

type ValueOrder = (a: string, b: string) => number;

const byNumber: ValueOrder = (a, b) =>
  /^-?\d+$/.test(a) && /^-?\d+$/.test(b) ? sign(BigInt(a), BigInt(b)) : Number(a) - Number(b);
const byInstant: ValueOrder = (a, b) =>
  (parseInstant(a)?.epochMs ?? Number.NaN) - (parseInstant(b)?.epochMs ?? Number.NaN);
const byCodeUnits: ValueOrder = (a, b) => sign(a, b);
const byEnglish: ValueOrder = (a, b) => a.localeCompare(b, 'en');

/** The orders in which a service may have sorted the values. */
const COMPARISONS: readonly ValueOrder[] = [byNumber, byInstant, byCodeUnits, byEnglish];

/** True if the values rise, or fall, without two equal ones, in one of the possible orders. */
function isStrictlySorted(values: readonly string[]): boolean {
  if (new Set(values).size < values.length) return false;
  return COMPARISONS.some((compare) => {
    const steps = values.slice(1).map((value, at) => compare(value, values[at] ?? ''));
    return steps.every((step) => step > 0) || steps.every((step) => step < 0);
  });
}

function sign<T extends string | bigint>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function emptyFault({ has_more }: PageProfiles['keyset']): PageFault {
  return missingFault(
    `${has_more} says that more follows, but the page is empty, so no record shows where the next page begins`,
    'Run again; if it stays, set page.has_more: null in the profile, or report it to the service.',
  );
}

function noFieldFault({ cursor_field }: PageProfiles['keyset'], record: JsonValue): PageFault {
  return missingFault(
    `A record has no text or number at ${cursor_field}, which the request for the next page needs`,
    `${describeBody(record).replace('The body', 'A record')} Set page.cursor_field in the profile to the field by which the listing is sorted.`,
  );
}

function unsortedFault({ cursor_field }: PageProfiles['keyset']): PageFault {
  return {
    code: 'guard_loop',
    message: `The records are not strictly sorted by ${cursor_field}: two are equal, out of order, or not after the last record of the page before`,
    hint:
      'Pages that begin behind a record need a listing that is sorted by page.cursor_field: name the sort in query of the ' +
      'profile, check page.cursor_param, and take a field of which no two records share a value, such as the id.',
  };
}

/** Style `page`: the next number is the number plus one, or the one that the response names. */
function pageStyle(profile: PageProfiles['page']): PageStyle {
  const { page_param: param, first } = profile;
  const numberOf = (position: PagePosition) => numberIn(position, param);
  const at = (position: PagePosition, number: number) => withPlaces(position, { [param]: number });
  const positions: PagePositions = {
    after: (position) => at(position, numberOf(position) + 1),
    beforeFirst: (position) => (first > 0 ? at(position, first - 1) : null),
    recordsBefore: (position, count) => (numberOf(position) - first) * count,
    earlier: () => null,
    containing: (position, record, size) => withSize(profile, at(position, first + Math.floor(record / size)), size),
  };
  const next = (facts: AnsweredPage): NextStep | PageFault => {
    const { pages, records, request: position } = facts;
    if (records.length > 0 && pages !== null && numberOf(position) - first + 1 === pages) return { end: 'pages' };
    const named = namedNumber(profile, facts, numberOf(position));
    if (typeof named === 'object' && named !== null) return named;
    const continuation = judgeContinuation(profile, facts.seen, facts);
    // An empty page before the total may have only hidden records. The loop detector limits the number of such pages.
    if (typeof continuation === 'object') return continuation;
    return { next: named === null ? positions.after(position, records.length) : at(position, named) };
  };
  return { first: { [param]: first, ...sizeParam(profile) }, next, mayHideNumbers: false, positions };
}

/** Values that say that no page follows. */
const NO_NUMBER: ReadonlySet<JsonValue> = new Set<JsonValue>([null, false, '', 0]);

/**
 * Returns the number of the next page that the response names, or the end if it names none. Null if the profile says
 * nothing of such a number, or the page is empty: after the end, some services name further pages for ever.
 */
function namedNumber(
  { next_page: path }: PageProfiles['page'],
  facts: AnsweredPage,
  current: number,
): number | null | NextStep | PageFault {
  if (path === null) return null;
  const found = valueIn(facts.answer, path);
  if (found !== undefined && NO_NUMBER.has(found)) return { end: 'signal' };
  if (facts.records.length === 0) return null;
  if (found === undefined)
    return stepWithoutNext({ absent_is_end: true }, facts, { place: path, field: 'page.next_page' });
  const number = typeof found === 'string' && /^\d{1,15}$/.test(found) ? Number(found) : found;
  if (typeof number === 'number' && Number.isSafeInteger(number) && number > current) return number;
  return {
    code: 'pagination_invalid',
    message: `At ${path} there is ${describeValue(found)}, expected the number of a page behind ${current}, null or false`,
    hint: 'Set page.next_page in the profile to where the number of the next page is, or to null.',
  };
}

/** Style `offset`: the next page begins after the records received so far, also if a page was shorter than requested. */
function offsetStyle(profile: PageProfiles['offset']): PageStyle {
  const { offset_param: param } = profile;
  const offsetOf = (position: PagePosition) => numberIn(position, param);
  const at = (position: PagePosition, offset: number) => withPlaces(position, { [param]: offset });
  const positions: PagePositions = {
    after: (position, count) => at(position, offsetOf(position) + count),
    beforeFirst: () => null,
    recordsBefore: offsetOf,
    earlier: (position, count) => at(position, Math.max(0, offsetOf(position) - count)),
    containing: (position, record, size) => withSize(profile, at(position, record - (record % size)), size),
  };
  const next = (facts: AnsweredPage): NextStep | PageFault => {
    const seen = offsetOf(facts.request) + facts.records.length;
    const continuation = judgeContinuation(profile, seen, facts);
    if (continuation === 'gap') return gapFault(seen, facts.total);
    return typeof continuation === 'object'
      ? continuation
      : { next: positions.after(facts.request, facts.records.length) };
  };
  return { first: { [param]: 0, ...sizeParam(profile) }, next, mayHideNumbers: false, positions };
}

/**
 * Decides whether a numbered listing continues:
 * - An empty page is the end, or a `gap` if the total is not reached.
 * - A short page is the end if the total is reached exactly. A total that was exceeded is wrong.
 * - A short page without a total is the end if the profile says so and an earlier page was as large as requested: many
 *   services silently return smaller pages than requested.
 */
function judgeContinuation(
  { size, end }: PageProfiles['page' | 'offset'],
  seen: number | null,
  { records: { length: received }, isEmpty, total, fullPageSize }: AnsweredPage,
): 'more' | 'gap' | { end: EndProof } {
  const isKnown = total !== null && seen !== null;
  if (isEmpty) return isKnown && seen < total ? 'gap' : { end: 'empty' };
  if (isKnown && received < size && seen === total) return { end: 'total' };
  return end?.short_page === true && total === null && received < size && fullPageSize >= size
    ? { end: 'short' }
    : 'more';
}

function gapFault(seen: number, total: number | null): PageFault {
  return {
    code: 'guard_loop',
    message: `The page at offset ${seen} is empty, but the service reports a total of ${total}`,
    hint: 'Run again. If it stays and the total counts more than is listed, set page.total: null in the profile.',
  };
}

/** Returns the position with another page size; null if the service has no parameter for it. */
function withSize({ size_param }: PageProfiles['page' | 'offset'], position: PagePosition, size: number) {
  return size_param === null ? null : withPlaces(position, { [size_param]: size });
}

/** Reads the number of a position. Throws `ConfigError` (`warehouse_corrupt`) for a stored one of another page style. */
function numberIn(position: PagePosition, param: string): number {
  const text = sentTexts(position).get(param) ?? '';
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new ConfigError(
    'warehouse_corrupt',
    `The page position ${positionText(position)} has no whole number at ${param}`,
    {
      hint: 'The page style in the profile changed since the checkpoint: start this resource again from the beginning.',
    },
  );
}

/** Relations that show that a header is about pages: if it has no `next`, the listing ends. */
const PAGE_RELATIONS = ['prev', 'previous', 'first', 'last'];

/** Style `link`: a `Link` header names the next page with `rel="next"`; a header with other page links only is the end. */
function nextByLink(facts: AnsweredPage): NextStep | PageFault {
  const header = facts.answer.headers['link'];
  const links = parseLinkHeader(header);
  if (links === null) return badLink('cannot be read', header);
  const next = new Set(links.filter((link) => link.rels.includes('next')).map((link) => link.uri));
  if (next.size > 1) return badLink('names several next pages', header);
  const [uri] = next;
  if (uri !== undefined) return linkedStep(facts, uri);
  const isAboutPages = links.some(({ rels }) => PAGE_RELATIONS.some((relation) => rels.includes(relation)));
  return isAboutPages
    ? { end: 'signal' }
    : stepWithoutNext({ absent_is_end: false }, facts, { place: 'Link header', field: 'page.style' });
}

function linkedStep(facts: AnsweredPage, link: string): NextStep | PageFault {
  const linked = linkedPosition(facts.baseUrl, facts.answer.url, link, facts.answer.withheld);
  return 'code' in linked ? linked : { next: { ...facts.request, ...linked } };
}

function badLink(why: string, header: string | string[] | undefined): PageFault {
  return {
    code: 'pagination_invalid',
    message: `The Link header ${why}: ${shortenText(JSON.stringify(header ?? ''))}`,
    hint: 'The header does not follow RFC 8288: report it to the service, or use another page style in the profile.',
  };
}

/** Style `next-url`: the body has the URL of the next page; null, false and the empty string are the end. */
function nextByUrl(profile: PageProfiles['next-url'], facts: AnsweredPage): NextStep | PageFault {
  const found = valueIn(facts.answer, profile.next_url);
  if (found === null || found === false || found === '') return { end: 'signal' };
  if (typeof found === 'string') return linkedStep(facts, found);
  if (found === undefined) return stepWithoutNext(profile, facts, { place: profile.next_url, field: 'page.next_url' });
  return {
    code: 'pagination_invalid',
    message: `At ${profile.next_url} there is ${describeValue(found)}, expected a URL or null`,
    hint: 'Set page.next_url in the profile to where the URL of the next page is.',
  };
}
