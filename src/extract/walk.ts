import type { ApiAnswer } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import { fieldAt } from '../shape/field-at.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { oneByOne, type AnswerSource, type PageAnswer } from './answer-source.ts';
import { askFor, type AskOptions } from './ask.ts';
import { WalkGuard } from './guards.ts';
import { listingUrl, type ListingTarget } from './listing-url.ts';
import type { Page, PagePosition } from './page.ts';
import { PageReader } from './page-reader.ts';
import type { PageStyle } from './page-style.ts';
import { openPageStyle } from './page-styles.ts';
import { positionOf, urlAt } from './position.ts';
import { RunAhead } from './run-ahead.ts';
import { WalkLedger, type WalkBefore } from './walk-ledger.ts';
import { WalkedPages } from './walked-pages.ts';

export interface WalkOptions extends AskOptions {
  resource: Pick<ResourceProfile, 'path' | 'query' | 'records' | 'page' | 'id' | 'updated'>;
  listing: ListingTarget;
  /** Query parameters besides the profile's, e.g. the incremental filter. */
  extraQuery?: Readonly<Record<string, string>>;
  /** Where to go on; null or absent: from the beginning. */
  from?: PagePosition | null;
  /** Pages of this walk that were committed before the resume. */
  pagesBefore?: number;
  /** What those pages were; absent where it is not known. */
  before?: WalkBefore;
  /** Records on the largest page that named a next one, in earlier walks; 0 where absent. */
  kept?: number;
  /** True where an end that nothing proves is accepted. */
  acceptsEnd?: boolean;
  /** Most requests under way at once where the page style allows it; 0: nothing is fetched ahead. */
  runAhead: number;
  /** As many are under way in any case, within `runAhead`; 1 where absent. */
  leastAhead?: number;
  clock: Pick<Clock, 'monotonic'>;
}

/** What a walk is made of, besides its options. */
interface Route {
  style: PageStyle;
  first: URL;
  start: PagePosition;
  isResumed: boolean;
  ask: (position: PagePosition, stop?: AbortSignal) => Promise<ApiAnswer>;
}

/**
 * One passage over a resource's pages, in the order of the listing. The last page has `next: null` and says what showed
 * the end and what speaks against it (`end`); a walk that ends without one threw. In styles where an answer names the
 * next page, that page is requested when the consumer asks for it, never sooner: a crash costs at most one page. Numbered
 * pages run ahead, see `RunAhead`; where they moved meanwhile, a page may come a second time, with what had slipped.
 *
 * Throws `SyncError` (recovery `stop`) where the service's pages cannot be trusted: `bad_page`, `page_too_short`,
 * `pagination_missing`, `pagination_invalid`, `bad_cursor`, `bad_next`, `foreign_next`, `bad_link_header`, `guard_*`;
 * `cursor_expired` where the walk has to start again; `ConfigError` `bad_position` for a damaged `from`; and what the
 * client throws.
 */
export async function* walk(options: WalkOptions): AsyncGenerator<Page, void, undefined> {
  const route = planRoute(options);
  const guard = new WalkGuard(route.style.ahead !== null, route.start);
  const { source, pages, ledger } = openWalk(options, route);
  let number = options.pagesBefore ?? 0;
  let position: PagePosition | null = route.start;
  try {
    if (route.isResumed) for (const page of await pages.provePlace(position)) yield { ...page, number: (number += 1) };
    while (position !== null) {
      const walked = await pages.at(position);
      for (const page of walked.slice(0, -1)) yield { ...page, number: (number += 1) };
      const page = walked.at(-1);
      if (page === undefined) throw new Error('a page that was read is missing');
      guard.admit(page);
      const { next, total } = page;
      await source.foresee({ next, received: pages.step, total: likelyTotal(total, ledger.met) });
      const handedOut = options.clock.monotonic();
      yield { ...page, number: (number += 1) };
      source.consumed(options.clock.monotonic() - handedOut);
      position = next;
    }
  } finally {
    await source.close();
  }
}

function planRoute(options: WalkOptions): Route {
  const { resource, listing, extraQuery, from } = options;
  const style = openPageStyle(resource.page);
  const first = listingUrl(listing, resource, extraQuery ?? {}, style.first);
  const start = positionOf(urlAt(first, from ?? positionOf(first)));
  return { style, first, start, isResumed: start !== positionOf(first), ask: askFor(options, first) };
}

function openWalk(options: WalkOptions, route: Route) {
  const { style, first, isResumed, ask } = route;
  const { resource, signal, acceptsEnd = false } = options;
  const unknown: WalkBefore = { pages: [], records: isResumed ? null : 0, leastTotal: null };
  const ledger = new WalkLedger(style.ahead !== null || style.mayHideNumbers, options.before ?? unknown);
  const source = openSource(options, route, async (position, stop) => {
    const request = reader.requestOf(position);
    return { ...(await ask(positionOf(request), stop)), request };
  });
  // A walk that is taken up behind its first page was led there by a page that named the next one.
  const kept = options.kept ?? (isResumed ? resource.page.size : 0);
  const asked = { resource, style, first, source, ask, ledger, acceptsEnd, signal };
  const reader: PageReader = new PageReader({ ...asked, kept });
  const pages = new WalkedPages({ reader, ledger, updated: resource.updated, page: resource.page });
  return { source, pages, ledger };
}

function openSource(
  options: WalkOptions,
  { style, first }: Route,
  get: (position: PagePosition, stop?: AbortSignal) => Promise<PageAnswer>,
): AnswerSource {
  if (style.ahead === null) return oneByOne(get);
  const { records, page } = options.resource;
  // A page that overlaps with the one before brings one record fewer.
  const overlap = style.ahead.sooner(first, 1) === null ? 0 : 1;
  return new RunAhead({
    get,
    urlOf: (position) => urlAt(first, position),
    countOf: (answer) => arrayLength(fieldAt(answer.json, records)),
    foresight: style.ahead,
    size: page.size - overlap,
    most: options.runAhead,
    least: options.leastAhead,
    clock: options.clock,
  });
}

/** A total that has been passed already says nothing about what is still to come. */
function likelyTotal(total: number | null, seen: number | null): number | null {
  return total !== null && seen !== null && total < seen ? null : total;
}

function arrayLength(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}
