import type { PageProfile } from '../../source/page-style.ts';
import { type PageStyle, absentStep, sizeParam, type PageFacts, type PageStep, type Foresight } from './page-style.ts';
import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import { accountOf, bodyAccount } from '../requests/body-account.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import { isUnfit, placedText, withPlaces, type PlaceValue } from './page-variables.ts';
import { positionOf, linkedPosition } from './position.ts';
import { ConfigError } from '../../model/errors.ts';
import type { PagePosition } from '../page.ts';
import type { EndProof } from '../guards/walk-end.ts';
import { snippet } from '../../http/body/safe-text.ts';
import { parseLinkHeader } from './link-header.ts';

type Profiles = { [P in PageProfile as P['style']]: P };

const STYLES: { [S in keyof Profiles]: (profile: Profiles[S]) => PageStyle } = {
  cursor: (profile) => followed(profile, (facts) => nextByCursor(profile, facts)),
  page: pageStyle,
  offset: offsetStyle,
  link: (profile) => followed(profile, nextByLink),
  'next-url': (profile) => followed(profile, (facts) => nextByUrl(profile, facts)),
};

/** A style in which each answer names the page after it. */
function followed(profile: PageProfile, next: PageStyle['next']): PageStyle {
  return { first: sizeParam(profile), next, mayHideNumbers: true, ahead: null };
}

/** The functions of a profile's page style. */
export function openPageStyle<S extends keyof Profiles>(profile: Profiles[S] & { style: S }): PageStyle {
  return STYLES[profile.style](profile);
}

/** True if the place of the next page is known before this one is read. */
export function isNumbered(profile: PageProfile): boolean {
  return openPageStyle(profile).ahead !== null;
}

const FLAGS: ReadonlyMap<JsonValue | undefined, boolean | null> = new Map<JsonValue | undefined, boolean | null>([
  [true, true],
  ['true', true],
  [1, true],
  ['1', true],
  [false, false],
  ['false', false],
  [0, false],
  ['0', false],
  [null, null],
  [undefined, null],
]);

/**
 * The body carries a token for the next page. Null and the empty string are the end; so is an absent token on a page
 * that is shorter than others which had one. `has_more`, if the profile names it, decides; missing or null, the token
 * alone decides.
 */
function nextByCursor(profile: Profiles['cursor'], facts: PageFacts): PageStep | GuardFault {
  const more = hasMore(profile, facts.json);
  if (more === false) return { end: 'signal' };
  if (typeof more === 'object' && more !== null) return more;
  const found = fieldAt(facts.json, profile.next_cursor);
  const token = tokenOf(found);
  if (token === null) return invalid(profile.next_cursor, found, 'a text, a number or null');
  if (token !== '') return positionAt(profile, facts.url, token);
  if (more === true) {
    return missing(facts, `${profile.has_more} says that more follows, but ${profile.next_cursor} holds no cursor`);
  }
  return found === undefined
    ? absentStep(profile, facts, { place: profile.next_cursor, field: 'page.next_cursor' })
    : { end: 'signal' };
}

/** True, false, null if the answer does not say, or the fault of a value that is none of these. */
function hasMore(profile: Profiles['cursor'], json: JsonValue): boolean | null | GuardFault {
  if (profile.has_more === null) return null;
  const found = fieldAt(json, profile.has_more);
  const flag = FLAGS.get(found);
  return flag === undefined ? invalid(profile.has_more, found, 'true or false') : flag;
}

/** The empty string if there is no token; null for a value that can be none. */
function tokenOf(found: JsonValue | undefined): PlaceValue | null {
  if (found === undefined || found === null) return '';
  return typeof found === 'string' || typeof found === 'number' || isExact(found) ? found : null;
}

function positionAt(profile: Profiles['cursor'], url: URL, token: PlaceValue): PageStep | GuardFault {
  const { cursor_param } = profile;
  if (!isUnfit(cursor_param, token)) return { next: positionOf(withPlaces(url, { [cursor_param]: token })) };
  return {
    code: 'bad_cursor',
    message: `The cursor at ${profile.next_cursor} holds control characters, or others that cannot be sent there`,
    hint: 'This is a fault of the service: report it there. The cursor was not sent back.',
  };
}

function missing(facts: PageFacts, message: string): GuardFault {
  return {
    code: 'pagination_missing',
    message,
    hint: `${bodyAccount(facts.json)} Set page.next_cursor in the profile to where the cursor is.`,
  };
}

function invalid(path: string, found: JsonValue | undefined, expected: string): GuardFault {
  return {
    code: 'pagination_invalid',
    message: `At ${path} there is ${accountOf(found)}, expected ${expected}`,
    hint: 'Compare the page section of the profile with an answer of the service.',
  };
}

/** Pages by number: each is the number before plus one. */
function pageStyle(profile: Profiles['page']): PageStyle {
  const numberOf = (url: URL) => numberIn(url, profile.page_param);
  const ahead: Foresight = {
    after: (url) => atNumber(url, profile.page_param, numberOf(url) + 1),
    before: (url, count) => (numberOf(url) - profile.first) * count,
    sooner: () => null,
  };
  const next = (facts: PageFacts): PageStep => {
    const { pages, received } = facts;
    if (received > 0 && pages !== null && numberOf(facts.url) - profile.first + 1 === pages) return { end: 'pages' };
    const continuation = continuationOf(profile.size, facts.seen, facts);
    // An empty page before the told total may be one whose records are all hidden: the guard says how many are enough.
    return typeof continuation === 'object' ? continuation : { next: ahead.after(facts.url, received) };
  };
  return {
    first: { [profile.page_param]: profile.first, ...sizeParam(profile) },
    next,
    mayHideNumbers: false,
    ahead,
  };
}

/** Pages by offset: each begins where the records received so far end, however few a page held. */
function offsetStyle(profile: Profiles['offset']): PageStyle {
  const at = (url: URL) => numberIn(url, profile.offset_param);
  const ahead: Foresight = {
    after: (url, count) => atNumber(url, profile.offset_param, at(url) + count),
    before: at,
    sooner: (url, count) => withPlaces(url, { [profile.offset_param]: Math.max(0, at(url) - count) }),
  };
  const next = (facts: PageFacts): PageStep | GuardFault => {
    const seen = at(facts.url) + facts.received;
    const continuation = continuationOf(profile.size, seen, facts);
    if (continuation === 'gap') return gapFault(seen, facts.total);
    return typeof continuation === 'object' ? continuation : { next: ahead.after(facts.url, facts.received) };
  };
  return { first: { [profile.offset_param]: 0, ...sizeParam(profile) }, next, mayHideNumbers: false, ahead };
}

/**
 * Whether a numbered listing goes on. A page that holds records goes on whatever the total says, unless it is short
 * and the count of records is exactly the total: a total that was passed already is wrong, and services cut page sizes
 * silently. Without a total only an empty page is the end. A `gap` is an empty page before the total is reached.
 */
function continuationOf(
  size: number,
  seen: number | null,
  { received, fresh, total }: PageFacts,
): 'more' | 'gap' | { end: EndProof } {
  const isKnown = total !== null && seen !== null;
  if (fresh === 0) return isKnown && seen < total ? 'gap' : { end: 'empty' };
  return isKnown && received < size && seen === total ? { end: 'total' } : 'more';
}

function gapFault(seen: number, total: number | null): GuardFault {
  return {
    code: 'guard_empty_pages',
    message: `The listing ends after ${seen} records, but tells a total of ${total}`,
    hint: 'Run again; if it stays, and the total counts more than is listed, set page.total: null in the profile.',
  };
}

function atNumber(url: URL, param: string, value: number): PagePosition {
  return positionOf(withPlaces(url, { [param]: value }));
}

/** Only a position from outside can be wrong here: throws `ConfigError` (`bad_position`). */
function numberIn(url: URL, param: string): number {
  const text = placedText(url, param) ?? '';
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new ConfigError('bad_position', `The page position ${positionOf(url)} has no whole number at ${param}`, {
    hint: 'The page style in the profile changed since the checkpoint: start this resource again from the beginning.',
  });
}

/** Relations of a header that is about pages: without `next` among them, it tells the end. */
const PAGE_RELATIONS = ['prev', 'previous', 'first', 'last'];

/** A `Link` header names the next page with `rel="next"`; one about pages that names none is the end. */
function nextByLink(facts: PageFacts): PageStep | GuardFault {
  const header = facts.headers['link'];
  const links = parseLinkHeader(header);
  if (links === null) return badLink('cannot be read', header);
  const next = new Set(links.filter((link) => link.rels.includes('next')).map((link) => link.uri));
  if (next.size > 1) return badLink('names several next pages', header);
  const [uri] = next;
  if (uri !== undefined) return linkedStep(facts, uri);
  const tellsPages = links.some(({ rels }) => PAGE_RELATIONS.some((relation) => rels.includes(relation)));
  return tellsPages
    ? { end: 'signal' }
    : absentStep({ absent_is_end: false }, facts, { place: 'Link header', field: 'page.style' });
}

function linkedStep({ baseUrl, answeredUrl, url, withheld }: PageFacts, link: string): PageStep | GuardFault {
  const position = linkedPosition(baseUrl, answeredUrl, link, withheld);
  return typeof position === 'string' ? { next: position + url.hash } : position;
}

function badLink(why: string, header: string | string[] | undefined): GuardFault {
  return {
    code: 'bad_link_header',
    message: `The Link header ${why}: ${snippet(JSON.stringify(header ?? ''))}`,
    hint: 'The header does not follow RFC 8288: report it to the service, or use another page style in the profile.',
  };
}

/** The body names the next page by its URL; null and the empty string are the end. */
function nextByUrl(profile: Profiles['next-url'], facts: PageFacts): PageStep | GuardFault {
  const found = fieldAt(facts.json, profile.next_url);
  if (found === null || found === '') return { end: 'signal' };
  if (typeof found === 'string') return linkedStep(facts, found);
  if (found === undefined) return absentStep(profile, facts, { place: profile.next_url, field: 'page.next_url' });
  return {
    code: 'pagination_invalid',
    message: `At ${profile.next_url} there is ${accountOf(found)}, expected a URL or null`,
    hint: 'Set page.next_url in the profile to where the URL of the next page is.',
  };
}
