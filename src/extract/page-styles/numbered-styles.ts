import { ConfigError } from '../../model/errors.ts';
import type { PageProfile } from '../../source/page-style.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import type { PagePosition } from '../page.ts';
import { sizeParam, type Foresight, type PageFacts, type PageStep, type PageStyle } from './page-style.ts';
import { positionOf, withParams } from './position.ts';
import type { EndProof } from '../guards/walk-end.ts';

type NumberedPage = Extract<PageProfile, { style: 'page' }>;
type OffsetPage = Extract<PageProfile, { style: 'offset' }>;

/** Pages by number: each is the number before plus one. */
export function pageStyle(profile: NumberedPage): PageStyle {
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
    first: { [profile.page_param]: String(profile.first), ...sizeParam(profile) },
    next,
    mayHideNumbers: false,
    ahead,
  };
}

/** Pages by offset: each begins where the records received so far end, however few a page held. */
export function offsetStyle(profile: OffsetPage): PageStyle {
  const at = (url: URL) => numberIn(url, profile.offset_param);
  const ahead: Foresight = {
    after: (url, count) => atNumber(url, profile.offset_param, at(url) + count),
    before: at,
    sooner: (url, count) => withParams(url, { [profile.offset_param]: String(Math.max(0, at(url) - count)) }),
  };
  const next = (facts: PageFacts): PageStep | GuardFault => {
    const seen = at(facts.url) + facts.received;
    const continuation = continuationOf(profile.size, seen, facts);
    if (continuation === 'gap') return gapFault(seen, facts.total);
    return typeof continuation === 'object' ? continuation : { next: ahead.after(facts.url, facts.received) };
  };
  return { first: { [profile.offset_param]: '0', ...sizeParam(profile) }, next, mayHideNumbers: false, ahead };
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
  return positionOf(withParams(url, { [param]: String(value) }));
}

/** Only a position from outside can be wrong here: throws `ConfigError` (`bad_position`). */
function numberIn(url: URL, param: string): number {
  const text = url.searchParams.get(param) ?? '';
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new ConfigError('bad_position', `The page position ${positionOf(url)} has no whole number at ${param}`, {
    hint: 'The page style in the profile changed since the checkpoint: start this resource again from the beginning.',
  });
}
