import type { ApiAnswer } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import { fieldAt } from '../shape/field-at.ts';
import type { ResourceProfile } from '../source/profile.ts';
import { oneByOne } from './answer-source.ts';
import type { AnswerSource } from './answer-source.ts';
import { askFor } from './ask.ts';
import type { AskOptions } from './ask.ts';
import { walkError } from './guard-fault.ts';
import type { GuardFault } from './guard-fault.ts';
import { WalkGuard } from './guards.ts';
import { listingUrl } from './listing-url.ts';
import type { ListingTarget } from './listing-url.ts';
import type { Page, PagePosition } from './page.ts';
import type { PageStyle } from './page-style.ts';
import { openPageStyle } from './page-styles.ts';
import { positionOf, urlAt } from './position.ts';
import { readPage } from './read-page.ts';
import { RunAhead } from './run-ahead.ts';

export interface WalkOptions extends AskOptions {
  resource: Pick<ResourceProfile, 'path' | 'query' | 'records' | 'page'>;
  listing: ListingTarget;
  /** Query parameters besides the profile's, e.g. the incremental filter. */
  extraQuery?: Readonly<Record<string, string>>;
  /** Where to go on; null or absent: from the beginning. */
  from?: PagePosition | null;
  /** Pages of this walk that were committed before the resume. */
  pagesBefore?: number;
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
  ask: (position: PagePosition, stop?: AbortSignal) => Promise<ApiAnswer>;
}

type ReadablePage = Omit<Page, 'number'>;

/** A page that came shorter than it says it is may have been cut on its way: this often it is asked for. */
const SHORT_PAGE_ATTEMPTS = 3;

/**
 * One passage over a resource's pages, in the order of the listing. The last page has `next: null`; a walk that ends
 * without one threw. In styles where an answer names the next page, that page is requested when the consumer asks for
 * it, never sooner: a crash costs at most one page. Numbered pages run ahead, see `RunAhead`.
 *
 * Throws `SyncError` (recovery `stop`) where the service's pages cannot be trusted: `bad_page`, `page_too_short`,
 * `pagination_missing`, `pagination_invalid`, `bad_cursor`, `bad_next`, `foreign_next`, `bad_link_header`, `guard_*`;
 * `cursor_expired` where the walk has to start again; `ConfigError` `bad_position` for a damaged `from`; and what the
 * client throws.
 */
export async function* walk(options: WalkOptions): AsyncGenerator<Page, void, undefined> {
  const route = planRoute(options);
  const guard = new WalkGuard(route.style.ahead !== null, route.start);
  const source = openSource(options, route);
  let seen = route.start === positionOf(route.first) ? 0 : null;
  let number = options.pagesBefore ?? 0;
  let position: PagePosition | null = route.start;
  try {
    while (position !== null) {
      const page = await pageAt(position, seen, source, route, options);
      guard.admit(page);
      number += 1;
      seen = seen === null ? null : seen + page.records.length;
      await source.foresee({ next: page.next, received: page.records.length, total: likelyTotal(page.total, seen) });
      const handedOut = options.clock.monotonic();
      yield { number, ...page };
      source.consumed(options.clock.monotonic() - handedOut);
      position = page.next;
    }
  } finally {
    await source.close();
  }
}

function planRoute(options: WalkOptions): Route {
  const { resource, listing, extraQuery, from } = options;
  const style = openPageStyle(resource.page);
  const first = listingUrl(listing, resource, extraQuery ?? {}, style.first);
  const start = from ?? positionOf(first);
  return { style, first, start: positionOf(urlAt(first, start)), ask: askFor(options, first) };
}

function openSource(options: WalkOptions, { style, first, ask }: Route): AnswerSource {
  if (style.ahead === null) return oneByOne(ask);
  const { records, page } = options.resource;
  return new RunAhead({
    get: ask,
    urlOf: (position) => urlAt(first, position),
    countOf: (answer) => arrayLength(fieldAt(answer.json, records)),
    foresight: style.ahead,
    size: page.size,
    most: options.runAhead,
    least: options.leastAhead,
    clock: options.clock,
  });
}

async function pageAt(
  position: PagePosition,
  seenBefore: number | null,
  source: AnswerSource,
  { style, first, ask }: Route,
  { resource, signal }: WalkOptions,
): Promise<ReadablePage> {
  const context = { resource, style, baseUrl: first, url: urlAt(first, position), seenBefore };
  signal?.throwIfAborted();
  let read: ReadablePage | GuardFault = readPage(await source.take(position), context);
  for (let attempt = 1; isFault(read); attempt++) {
    if (read.code !== 'page_too_short' || attempt >= SHORT_PAGE_ATTEMPTS) throw walkError(read, position);
    read = readPage(await ask(position), context);
  }
  return read;
}

function isFault(read: ReadablePage | GuardFault): read is GuardFault {
  return 'code' in read;
}

/** A total that has been passed already says nothing about what is still to come. */
function likelyTotal(total: number | null, seen: number | null): number | null {
  return total !== null && seen !== null && total < seen ? null : total;
}

function arrayLength(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}
