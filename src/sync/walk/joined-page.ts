import { lastKnown } from '../../extract/guards/page-keys.ts';
import type { Page } from '../../extract/page.ts';
import type { Bundling } from './bundles.ts';

/** Pages that follow each other, as one to load and commit. */
export interface JoinedPage extends Page {
  /** The pages of the service that are in it. */
  parts: readonly Page[];
}

/** As a page of the usual size: more gain nothing, and wait for longer. */
const MOST_RECORDS = 500;
/** Bytes of their records. */
const MOST_BYTES = 1_048_576;
/** Of the requests that may be under way: pages are written, prepared and gathered at once, and a kill costs all of them. */
const MOST_PART = 1 / 2;

/** Each page alone. */
export const EACH_PAGE: Bundling<Page> = { hasRoom: () => false, joins: () => false };

/**
 * Pages that are committed together, where so many requests may be under way. Never the first one of a walk, nor its last
 * one, which decide more than the others, and none with a record of those before it: on one page it would be a copy, not a
 * later state.
 */
export function smallPages(runAhead: number): Bundling<Page> {
  const most = Math.floor(runAhead * MOST_PART);
  const isWithin = (pages: readonly Page[]): boolean => pages.length <= most && areSmall(pages);
  return {
    hasRoom: (bundle) => isWithin([...bundle, ...bundle.slice(-1)]),
    joins: (bundle, next) =>
      isWithin([...bundle, next]) && bundle.every(({ keys }) => lastKnown(next.keys, keys) === -1),
  };
}

function areSmall(pages: readonly Page[]): boolean {
  const isPlain = pages.every(({ number, end, again }) => number > 1 && end === null && again === 0);
  if (!isPlain || sum(pages, ({ records }) => records.length) > MOST_RECORDS) return false;
  return sum(pages, ({ records }) => sum(records, ({ bytes }) => bytes.length)) <= MOST_BYTES;
}

/** The pages as one: as old as the first of them that was asked for, and with the place behind the last. */
export function joinedPage(parts: readonly Page[]): JoinedPage {
  const [first] = parts;
  const last = parts.at(-1);
  if (first === undefined || last === undefined) throw new Error('nothing to join');
  if (first === last) return { ...first, parts };
  return {
    ...last,
    position: first.position,
    records: parts.flatMap(({ records }) => records),
    requestedAt: Math.min(...parts.map(({ requestedAt }) => requestedAt)),
    serverDate: first.serverDate,
    total: leastOf(parts.map(({ total }) => total)),
    keys: Buffer.concat(parts.map(({ keys }) => keys)),
    isNew: parts.every(({ isNew }) => isNew === true),
    release: () => parts.forEach(({ release }) => release()),
    discard: () => parts.forEach(({ discard }) => discard()),
    parts,
  };
}

function leastOf(totals: readonly (number | null)[]): number | null {
  const told = totals.filter((total) => total !== null);
  return told.length === 0 ? null : Math.min(...told);
}

function sum<T>(all: readonly T[], of: (one: T) => number): number {
  return all.reduce((most, one) => most + of(one), 0);
}
