import { hash } from 'node:crypto';
import { lastKnown, pushedOn, sameKeys } from './guards/page-keys.ts';
import type { MetPage } from './guards/met-page.ts';
import type { Doubt } from './guards/walk-end.ts';
import type { Page, PagePosition } from './page.ts';
import { listingStart } from './page-styles/listing-request.ts';
import { openPageStyle } from './page-styles/page-styles.ts';
import { positionOf, urlAt } from './page-styles/position.ts';
import { walk, type WalkOptions } from './walk.ts';

/** Pages of a numbered listing by their indexes, that of the first page is 0. */
export interface PageIndexes {
  positionAt(index: number): PagePosition;
  indexOf(position: PagePosition): number;
}

/** A part of a numbered listing. */
export interface PageRange {
  first: number;
  /** The page that is read last, which is the first one of the next range; null for the last range. */
  border: number | null;
}

/** Null if the pages of this listing cannot be named by their indexes. */
export function pageIndexes({
  resource,
  listing,
  values = {},
  extraQuery = {},
}: Pick<WalkOptions, 'resource' | 'listing' | 'values' | 'extraQuery'>): PageIndexes | null {
  const { ahead, first } = openPageStyle(resource.page);
  const start = listingStart({ target: listing, templates: resource, values }, { ...extraQuery, ...first });
  if (ahead === null || ahead.paged(start, 0) === null) return null;
  const { size } = resource.page;
  return {
    positionAt: (index) => ahead.paged(start, index) ?? positionOf(start),
    indexOf: (position) => Math.round(ahead.before(urlAt(start, position), size) / size),
  };
}

/** The pages of one range, as `walk` gives them. The last one has an `end`; throws what `walk` throws. */
export function walkRange(
  options: WalkOptions,
  indexes: PageIndexes,
  { first, border }: PageRange,
): AsyncGenerator<Page, void, undefined> {
  const { size } = options.resource.page;
  return walk({
    ...options,
    from: options.from ?? indexes.positionAt(first),
    // What lies before is counted by others.
    before: { pages: options.before?.pages ?? [], records: null, leastTotal: null },
    ...(border === null ? {} : { most: (border + 1) * size }),
    isEnough: () => (page) => {
      const index = indexes.indexOf(page.position);
      if (border !== null) return index >= border;
      // A short page whose last record is the last one by the total, as a whole walk would end on.
      const count = page.records.length;
      return count > 0 && count < size && page.total === index * size + count;
    },
  });
}

/** A page as a range has read it. */
export interface BorderPage extends Pick<MetPage, 'keys'> {
  total: number | null;
}

/** What a range has shown, as far as its neighbours and the whole are concerned. */
export interface WalkedRange {
  /** Its first page, as it was read first; null if it read none. */
  first: BorderPage | null;
  /** The pages that it read last, the border page behind the others. */
  last: readonly BorderPage[];
  /** True if it has read as far as its border, or to the end for the last range. */
  isThrough: boolean;
  doubts: readonly Doubt[];
  leastTotal: number | null;
}

/** How two neighbouring ranges fit together. */
type Joint = 'fits' | 'moved' | 'gap';

/**
 * How a range fits to the next one. Both have read the page between them: if it shows the same records to both, nothing
 * has moved over it. If it was pushed on or back by as many records as the total says have come or gone, nothing has
 * slipped past either. Otherwise records `moved`; and if not one record of the next range's first page was read by the
 * range before it, nobody knows what lies in the `gap`. Pure.
 */
export function jointOf(before: WalkedRange, after: WalkedRange): Joint {
  const border = before.last.at(-1);
  const { first } = after;
  if (border === undefined || first === null) return 'gap';
  if (sameKeys(border.keys, first.keys)) return 'fits';
  const read = Buffer.concat(before.last.map(({ keys }) => keys));
  if (lastKnown(first.keys, read) === -1) return 'gap';
  if (border.total === null || first.total === null) return 'moved';
  return shiftOf(border.keys, first.keys) === border.total - first.total ? 'fits' : 'moved';
}

const KEY_BYTES = 8;

/** By how many records `now` lies before `then`; null if that does not tell all of the difference. */
function shiftOf(now: Uint8Array, then: Uint8Array): number | null {
  const size = Math.max(now.length, then.length) / KEY_BYTES;
  const back = pushedOn(now, then);
  if (back > 0) return size - back;
  const on = pushedOn(then, now);
  return on > 0 ? on - size : null;
}

const moved: Doubt = {
  code: 'entered',
  message: 'records moved over the borders of the ranges in which the listing was walked',
  hint: 'run it again when less is changed; worker.range_pages: null walks it in one',
};

const lost: Doubt = {
  code: 'slipped',
  message: 'ranges of the listing that were walked at once do not fit together, so records may have slipped past',
  hint: 'it is walked in one then; worker.range_pages: null does so at once',
};

/** What is wrong with the whole of ranges. */
export interface JoinedRanges {
  /** Indexes of the ranges that have to be walked again. */
  again: readonly number[];
  doubts: readonly Doubt[];
}

/**
 * Joins ranges that were all walked. `met`: records that they met, each counted once. Fewer than the service tells are
 * no proof: what moved from one range to another one may be on neither. Pure.
 */
export function joinRanges(ranges: readonly WalkedRange[], met: number): JoinedRanges {
  const joints = ranges.slice(1).map((after, index) => jointOf(ranges[index] ?? after, after));
  const isLost = (range: WalkedRange): boolean => range.doubts.some(({ code }) => code === 'slipped');
  // Where the listing ends before its total says so, another walk of the same ranges finds no more.
  const mayAgain = ranges.every(({ isThrough }) => isThrough);
  const drifted = ranges.flatMap((range, index) => {
    const beside = [joints[index - 1], joints[index]];
    return isLost(range) || beside.includes('gap') ? [index] : [];
  });
  const totals = ranges.flatMap(({ leastTotal }) => leastTotal ?? []);
  const isShort = totals.length === 0 || met < Math.min(...totals);
  const own = ranges.flatMap(({ doubts }) => doubts).filter(({ code }) => code !== 'fewer');
  const doubts = new Map(own.map((doubt) => [doubt.code, doubt]));
  if (joints.includes('moved') && !doubts.has('entered')) doubts.set('entered', moved);
  if (drifted.length > 0 || isShort || !mayAgain) doubts.set('slipped', lost);
  return { again: mayAgain ? drifted : [], doubts: [...doubts.values()] };
}

/** One text for what they met. */
export function printsOf(ranges: readonly WalkedRange[]): string {
  return hash('sha1', Buffer.concat(ranges.flatMap(({ last }) => last.map(({ keys }) => keys))), 'hex');
}
