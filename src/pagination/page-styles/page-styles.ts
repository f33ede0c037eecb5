// The page styles of profiles (cursor, page, offset, link, ...): how a response leads to the request for the next
// page, and what shows that there is none.
import type { PageProfile } from '../../config/profile/page-style.ts';
import { shortenText } from '../../http/body/read-body.ts';
import { ConfigError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { parseInstant } from '../../rows/columns/cells.ts';
import { isExact } from '../../rows/json/parse-json.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { type EndProof, missingFault, type PageFault } from '../page.ts';
import { describeValue, describeBody, parseLinkHeader, valueIn } from '../requests/listing-signals.ts';
import type { ReadPage } from '../requests/read-page.ts';
import { linkedPosition } from './listing-request.ts';
import {
  cannotHold,
  type PagePosition,
  type PlaceValue,
  type PlaceValues,
  positionText,
  sentTexts,
  formatPlaceValue,
  withPlaces,
} from './page-position.ts';

type PageProfiles = { [P in PageProfile as P['style']]: P };

/** A page that was read, and what is known of the scan: from these a page style finds the next page. */
export interface AnsweredPage extends ReadPage {
  isFirst: boolean;
  baseUrl: URL;
  /** True if it holds no record, or only the last one of the page before, with which it was asked to begin. */
  isEmpty: boolean;
  /** Records on all pages of the scan, this one included; null if it was resumed without counts. */
  seen: number | null;
  /** Records on the largest page, in this scan or an earlier one, that named a next page; 0 if none did. */
  fullPageSize: number;
}

/** The listing continues at `next`; or it ends, with what shows it; or the response says neither. */
export type NextStep = { next: PagePosition } | { end: EndProof } | { end: null; fault: PageFault };

/** A way of cutting a listing into pages, bound to its parameters. Pure: from an answer to the next request. */
export interface PageStyle {
  /** Values of the first page, by request place. */
  first: PlaceValues;
  /** The step after this page, or the fault of the answer. */
  next(facts: AnsweredPage): NextStep | PageFault;
  /** True if the links or cursors that it follows may hold page numbers, which a moving listing shifts. */
  mayHideNumbers: boolean;
  /** Null if only a response names the next page. */
  positions: PagePositions | null;
}

/** Computes positions of numbered pages: these can be requested before the page before them has arrived. */
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

/** A style in which each answer leads to the page after it; `first`: what the first request has besides the size. */
function createFollowedStyle(profile: PageProfile, next: PageStyle['next'], first: PlaceValues = {}): PageStyle {
  return { first: { ...first, ...sizeParam(profile) }, next, mayHideNumbers: true, positions: null };
}

/** The request place that asks for the profile's page size; none if the service has no such parameter. */
function sizeParam(profile: { size: number; size_param: string | null }): PlaceValues {
  return profile.size_param === null ? {} : { [profile.size_param]: profile.size };
}

/**
 * The step after a page without `place`, in which the profile's `field` says that the next one is named. It is the end on a
 * page that is shorter than one that named a next page, or if the profile says so and an earlier page had it; else it may
 * as well be a profile that does not fit.
 */
function absentStep(
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

/** The fields of a style that requests pages by a cursor. */
interface CursorPlace {
  cursor_param: string | null;
  first_cursor: string | number | null;
}

/** The cursor of a first request; nothing if that goes without one. */
function firstCursor(profile: CursorPlace): PlaceValues {
  return profile.first_cursor === null ? {} : { [cursorPlace(profile)]: profile.first_cursor };
}

/** The request place of the cursor: if no parameter takes it, the templates that have `{cursor}`. */
function cursorPlace({ cursor_param }: CursorPlace): string {
  return cursor_param ?? '{cursor}';
}

const YES: ReadonlySet<JsonValue> = new Set<JsonValue>([true, 'true', 1, '1']);
const NO: ReadonlySet<JsonValue> = new Set<JsonValue>([false, 'false', 0, '0']);

/**
 * The body carries a token for the next page. Null, false, the empty string and the values of `end.cursor` are the end; so is an absent token on a page
 * that is shorter than others which had one. `has_more`, if the profile names it, decides; missing or null, the token
 * alone decides.
 */
function nextByCursor(profile: PageProfiles['cursor'], facts: AnsweredPage): NextStep | PageFault {
  const more = hasMore(profile, facts);
  if (more === false) return { end: 'signal' };
  if (typeof more === 'object' && more !== null) return more;
  const found = valueIn(facts.answer, profile.next_cursor);
  const token = isEndValue(found, profile.end?.cursor ?? []) ? '' : tokenOf(found);
  if (token === null) return invalidFault(profile.next_cursor, found, 'a text, a number or null');
  if (token !== '') return cursorStep(profile, facts.request, { token, from: profile.next_cursor });
  if (more === true) {
    return missingFault(
      `${profile.has_more} says that more follows, but ${profile.next_cursor} holds no cursor`,
      `${describeBody(facts.answer.json)} Set page.next_cursor in the profile to where the cursor is.`,
    );
  }
  return found === undefined
    ? absentStep(profile, facts, { place: profile.next_cursor, field: 'page.next_cursor' })
    : { end: 'signal' };
}

/** True, false, null if the response does not say, or the fault of any other value. */
function hasMore(profile: { has_more: string | null }, facts: AnsweredPage): boolean | null | PageFault {
  if (profile.has_more === null) return null;
  const found = valueIn(facts.answer, profile.has_more) ?? null;
  if (found === null) return null;
  return YES.has(found) || (NO.has(found) ? false : invalidFault(profile.has_more, found, 'true or false'));
}

/** True for a value in place of a token that says that no page follows. */
function isEndValue(found: JsonValue | undefined, declared: readonly (string | number)[]): boolean {
  if (typeof found === 'string' || typeof found === 'number') return declared.map(String).includes(String(found));
  return found === false;
}

/** The empty string if there is no token; null for a value that can be none. */
function tokenOf(found: JsonValue | undefined): PlaceValue | null {
  if (found === undefined || found === null) return '';
  return typeof found === 'string' || typeof found === 'number' || isExact(found) ? found : null;
}

/** The step to the page after a cursor that was found at `from`. */
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

/** The fault of a value that says nothing about the next page. */
function invalidFault(path: string, found: JsonValue | undefined, expected: string): PageFault {
  return {
    code: 'pagination_invalid',
    message: `At ${path} there is ${describeValue(found)}, expected ${expected}`,
    hint: 'Compare the page section of the profile with an answer of the service.',
  };
}

/** An empty page is the end, whatever it says of more. */
function nextByRecord(profile: PageProfiles['keyset'], facts: AnsweredPage): NextStep | PageFault {
  const { cursor_field, end, size } = profile;
  const { fullPageSize, request: position, isFirst } = facts;
  const received = facts.records.length;
  const more = hasMore(profile, facts);
  if (typeof more === 'object' && more !== null) return more;
  if (received === 0) return more === true ? emptyFault(profile) : { end: 'empty' };
  const values = facts.records.map(({ value }) => tokenOf(fieldAt(value, cursor_field)));
  const found = values.filter((value): value is PlaceValue => value !== null && value !== '');
  const last = found.at(-1);
  if (last === undefined || found.length < values.length) return noFieldFault(profile, facts.records[0]?.value ?? null);
  const sent = isFirst ? undefined : sentTexts(position).get(cursorPlace(profile));
  const order = [...(sent === undefined ? [] : [sent]), ...found.map(formatPlaceValue)];
  if (!isStrict(order)) return unsortedFault(profile);
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

/** True if the values rise, or fall, without any two alike, in one of the orders that they may be in. */
function isStrict(values: readonly string[]): boolean {
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

/** Pages by number: each is the number before plus one, or the one that the page before named. */
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
    const continuation = continuationOf(profile, facts.seen, facts);
    // An empty page before the total may have hidden records only: the loop detector limits how many.
    if (typeof continuation === 'object') return continuation;
    return { next: named === null ? positions.after(position, records.length) : at(position, named) };
  };
  return { first: { [param]: first, ...sizeParam(profile) }, next, mayHideNumbers: false, positions };
}

/** Values that say that no page follows. */
const NO_NUMBER: ReadonlySet<JsonValue> = new Set<JsonValue>([null, false, '', 0]);

/**
 * Returns the number of the next page that the response names, or the end if it names none; null if the profile names
 * no place for it, or the page is empty: past the end a service may count on for ever.
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
  if (found === undefined) return absentStep({ absent_is_end: true }, facts, { place: path, field: 'page.next_page' });
  const number = typeof found === 'string' && /^\d{1,15}$/.test(found) ? Number(found) : found;
  if (typeof number === 'number' && Number.isSafeInteger(number) && number > current) return number;
  return {
    code: 'pagination_invalid',
    message: `At ${path} there is ${describeValue(found)}, expected the number of a page behind ${current}, null or false`,
    hint: 'Set page.next_page in the profile to where the number of the next page is, or to null.',
  };
}

/** Pages by offset: each begins where the records received so far end, however few a page held. */
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
    const continuation = continuationOf(profile, seen, facts);
    if (continuation === 'gap') return gapFault(seen, facts.total);
    return typeof continuation === 'object'
      ? continuation
      : { next: positions.after(facts.request, facts.records.length) };
  };
  return { first: { [param]: 0, ...sizeParam(profile) }, next, mayHideNumbers: false, positions };
}

/**
 * Decides whether a numbered listing continues. A page with records continues whatever the total says, unless it is
 * short and the count of records is exactly the total: a total that was passed is wrong, and services cut page sizes
 * silently. Without a total only an empty page is the end, or a short one if that is declared and an earlier page was
 * as large as requested. A `gap` is an empty page before the total is reached.
 */
function continuationOf(
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

/** Null if the service has no parameter for the page size. */
function withSize({ size_param }: PageProfiles['page' | 'offset'], position: PagePosition, size: number) {
  return size_param === null ? null : withPlaces(position, { [size_param]: size });
}

/** Only a stored position can be wrong here: throws `ConfigError` (`warehouse_corrupt`). */
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

/** Relations of a header that is about pages: without `next` among them, the listing ends. */
const PAGE_RELATIONS = ['prev', 'previous', 'first', 'last'];

/** A `Link` header names the next page with `rel="next"`; one about pages that names none is the end. */
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
    : absentStep({ absent_is_end: false }, facts, { place: 'Link header', field: 'page.style' });
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

/** The body names the next page by its URL; null, false and the empty string are the end. */
function nextByUrl(profile: PageProfiles['next-url'], facts: AnsweredPage): NextStep | PageFault {
  const found = valueIn(facts.answer, profile.next_url);
  if (found === null || found === false || found === '') return { end: 'signal' };
  if (typeof found === 'string') return linkedStep(facts, found);
  if (found === undefined) return absentStep(profile, facts, { place: profile.next_url, field: 'page.next_url' });
  return {
    code: 'pagination_invalid',
    message: `At ${profile.next_url} there is ${describeValue(found)}, expected a URL or null`,
    hint: 'Set page.next_url in the profile to where the URL of the next page is.',
  };
}

const STYLES: { [S in keyof PageProfiles]: (profile: PageProfiles[S]) => PageStyle } = {
  // Each answer names a cursor.
  cursor: (profile) => createFollowedStyle(profile, (facts) => nextByCursor(profile, facts), firstCursor(profile)),
  page: pageStyle,
  offset: offsetStyle,
  link: (profile) => createFollowedStyle(profile, nextByLink),
  'next-url': (profile) => createFollowedStyle(profile, (facts) => nextByUrl(profile, facts)),
  // Each page lists what follows the last record of the page before.
  keyset: (profile) => ({
    ...createFollowedStyle(profile, (facts) => nextByRecord(profile, facts), firstCursor(profile)),
    mayHideNumbers: false,
  }),
  // That one answer is the whole list is the profile's word, unless the answer says otherwise.
  single: () => ({ first: {}, next: () => ({ end: 'whole' }), mayHideNumbers: false, positions: null }),
};

export function openPageStyle<S extends keyof PageProfiles>(profile: PageProfiles[S] & { style: S }): PageStyle {
  return STYLES[profile.style](profile);
}

/** True if the place of the next page is known before this one is read. */
export function isNumbered(profile: PageProfile): boolean {
  return openPageStyle(profile).positions !== null;
}
