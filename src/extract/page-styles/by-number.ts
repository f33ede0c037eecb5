import { ConfigError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import type { EndProof } from '../guards/walk-end.ts';
import type { PagePosition } from '../page.ts';
import { accountOf, valueIn } from '../requests/body-account.ts';
import {
  absentStep,
  sizeParam,
  type Foresight,
  type PageFacts,
  type PageProfiles,
  type PageStep,
  type PageStyle,
} from './page-style.ts';
import { placedText, withPlaces } from './page-variables.ts';
import { positionOf } from './position.ts';

/** Pages by number: each is the number before plus one, or the one that the page before named. */
export function pageStyle(profile: PageProfiles['page']): PageStyle {
  const { page_param: param, first } = profile;
  const numberOf = (url: URL) => numberIn(url, profile.page_param);
  const ahead: Foresight = {
    after: (url) => atNumber(url, profile.page_param, numberOf(url) + 1),
    beforeFirst: (url) => (first > 0 ? atNumber(url, param, first - 1) : null),
    before: (url, count) => (numberOf(url) - profile.first) * count,
    sooner: () => null,
    paged: (url, index) => atNumber(url, param, first + index),
    holding: (url, record, size) => atSize(profile, url, { param, value: first + Math.floor(record / size), size }),
  };
  const next = (facts: PageFacts): PageStep | GuardFault => {
    const { pages, received } = facts;
    if (received > 0 && pages !== null && numberOf(facts.url) - profile.first + 1 === pages) return { end: 'pages' };
    const named = namedNumber(profile, facts, numberOf(facts.url));
    if (typeof named === 'object' && named !== null) return named;
    const continuation = continuationOf(profile, facts.seen, facts);
    // An empty page before the told total may be one whose records are all hidden: the guard says how many are enough.
    if (typeof continuation === 'object') return continuation;
    return { next: named === null ? ahead.after(facts.url, received) : atNumber(facts.url, profile.page_param, named) };
  };
  return {
    first: { [profile.page_param]: profile.first, ...sizeParam(profile) },
    next,
    mayHideNumbers: false,
    ahead,
  };
}

/** Values that say that no page follows. */
const NO_NUMBER: ReadonlySet<JsonValue> = new Set<JsonValue>([null, false, '', 0]);

/**
 * The number of the next page by the word of the answer, or the end if it says that there is none; null if the profile
 * names no place for it, or the page is empty: past the end a service may count on for ever.
 */
function namedNumber(
  { next_page: path }: PageProfiles['page'],
  facts: PageFacts,
  current: number,
): number | null | PageStep | GuardFault {
  if (path === null) return null;
  const found = valueIn(facts, path);
  if (found !== undefined && NO_NUMBER.has(found)) return { end: 'signal' };
  if (facts.received === 0) return null;
  if (found === undefined) return absentStep({ absent_is_end: true }, facts, { place: path, field: 'page.next_page' });
  const number = typeof found === 'string' && /^\d{1,15}$/.test(found) ? Number(found) : found;
  if (typeof number === 'number' && Number.isSafeInteger(number) && number > current) return number;
  return {
    code: 'pagination_invalid',
    message: `At ${path} there is ${accountOf(found)}, expected the number of a page behind ${current}, null or false`,
    hint: 'Set page.next_page in the profile to where the number of the next page is, or to null.',
  };
}

/** Pages by offset: each begins where the records received so far end, however few a page held. */
export function offsetStyle(profile: PageProfiles['offset']): PageStyle {
  const at = (url: URL) => numberIn(url, profile.offset_param);
  const ahead: Foresight = {
    after: (url, count) => atNumber(url, profile.offset_param, at(url) + count),
    beforeFirst: () => null,
    before: at,
    paged: () => null,
    sooner: (url, count) => withPlaces(url, { [profile.offset_param]: Math.max(0, at(url) - count) }),
    holding: (url, record, size) =>
      atSize(profile, url, { param: profile.offset_param, value: record - (record % size), size }),
  };
  const next = (facts: PageFacts): PageStep | GuardFault => {
    const seen = at(facts.url) + facts.received;
    const continuation = continuationOf(profile, seen, facts);
    if (continuation === 'gap') return gapFault(seen, facts.total);
    return typeof continuation === 'object' ? continuation : { next: ahead.after(facts.url, facts.received) };
  };
  return { first: { [profile.offset_param]: 0, ...sizeParam(profile) }, next, mayHideNumbers: false, ahead };
}

/**
 * Whether a numbered listing goes on. A page that holds records goes on whatever the total says, unless it is short
 * and the count of records is exactly the total: a total that was passed already is wrong, and services cut page sizes
 * silently. Without a total only an empty page is the end, or a short one if that is declared and pages were seen to be as
 * large as they were asked for. A `gap` is an empty page before the total is reached.
 */
function continuationOf(
  { size, end }: PageProfiles['page' | 'offset'],
  seen: number | null,
  { received, isEmpty, total, kept }: PageFacts,
): 'more' | 'gap' | { end: EndProof } {
  const isKnown = total !== null && seen !== null;
  if (isEmpty) return isKnown && seen < total ? 'gap' : { end: 'empty' };
  if (isKnown && received < size && seen === total) return { end: 'total' };
  return end?.short_page === true && total === null && received < size && kept >= size ? { end: 'short' } : 'more';
}

function gapFault(seen: number, total: number | null): GuardFault {
  return {
    code: 'guard_empty_pages',
    message: `The page at offset ${seen} is empty, but the service reports a total of ${total}`,
    hint: 'Run again. If it stays and the total counts more than is listed, set page.total: null in the profile.',
  };
}

/** A page by another size; null if the service has no parameter for it. */
function atSize(
  { size_param }: PageProfiles['page' | 'offset'],
  url: URL,
  { param, value, size }: { param: string; value: number; size: number },
): URL | null {
  return size_param === null ? null : withPlaces(url, { [param]: value, [size_param]: size });
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
