import type { TemplateValues } from '../config/profile/basic-fields.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { Clock } from '../model/clock.ts';
import { countRecords } from '../rows/records/select-records.ts';
import { PageAges } from './guards/page-ages.ts';
import { type Numbering, proveNumbering } from './guards/verify-end.ts';
import { WalkGuard } from './guards/walk-guard.ts';
import { type WalkBefore, WalkLedger } from './guards/pagination-state.ts';
import {
  listingStart,
  type ListingTarget,
  type PlaceValues,
  positionOf,
  type RequestTemplates,
  urlAt,
} from './page-styles/listing-request.ts';
import { openPageStyle, type PageStyle } from './page-styles/page-styles.ts';
import type { Doubt, Page, PagePosition, WalkEnd } from './page.ts';
import { admitRecords, type PageAnswer, PageMemory, RunAhead } from './requests/prefetch-pages.ts';
import { askFor, type AskOptions } from './requests/ask.ts';
import type { ReadableResource } from './requests/read-page.ts';
import { WalkedPages } from './walked-pages.ts';

export interface WalkOptions extends AskOptions {
  resource: RequestTemplates &
    Pick<ResourceProfile, 'updated'> &
    Partial<Pick<ResourceProfile, 'times'>> &
    ReadableResource;
  listing: ListingTarget;
  /** Of the variables in the resource's templates; those without a value leave their entries out. */
  values?: TemplateValues;
  /** Values by request place besides the profile's, such as the incremental filter. */
  extraQuery?: PlaceValues;
  /** The place to go on from; null or absent: the beginning. */
  from?: PagePosition | null;
  /** Pages of this walk that were committed before the resume. */
  pagesBefore?: number;
  /** The content of those pages; absent if it is not known. */
  before?: WalkBefore;
  /** Records on the largest page that named a next one, in earlier walks; 0 if absent. */
  kept?: number;
  /** True if an end that nothing proves is accepted. */
  acceptsEnd?: boolean;
  /** True if several states of one record may be listed, each of which counts. */
  acceptsStates?: boolean;
  /** True if only changes are listed, whose number a total at an undeclared place need not be. */
  isFiltered?: boolean;
  /** Most requests under way at once, one where each page names the next one; 0: nothing is fetched ahead. */
  runAhead: number;
  /** Called for each listing; what it returns is called with each new page: true if nothing that follows is wanted. */
  isEnough?: () => (page: Pick<Page, 'records' | 'position' | 'total' | 'next'>) => boolean;
  /** Nothing is fetched ahead that begins behind so many records of the listing; absent: all of it may be. */
  most?: number;
  /** Tried at the end, where nothing else shows it; absent: it is not. */
  numbering?: Numbering;
  /** True if the next page is asked for while one is still being loaded, and the consumer releases each. */
  overlaps?: boolean;
  /** Milliseconds that a page out of a cache may be old; absent: any. */
  oldest?: number;
  /** When the walk ended that this one is to be compared with, in local epoch milliseconds; absent or null: there is none. */
  formerEndedAt?: number | null;
  clock: Pick<Clock, 'now' | 'sleep'>;
}

/**
 * One passage over a resource's pages, in the order of the listing. The last page has `next: null` and says what showed
 * the end and what speaks against it (`end`); a walk that ends without one threw. In styles where an answer names the
 * next page, that page is requested as soon as the page before it is understood, while the consumer has that one in hand:
 * a crash costs at most two pages. Numbered pages run further ahead, see `RunAhead`; if they moved meanwhile, a page may
 * come a second time, with what had slipped.
 *
 * Throws `SyncError` (recovery `stop`) if the service's pages cannot be trusted: `bad_page`, `page_too_short`,
 * `pagination_missing`, `pagination_invalid`, `bad_cursor`, `bad_next`, `foreign_next`, `bad_link_header`, `guard_*`;
 * `cursor_expired` if the walk has to start again; `ConfigError` `bad_position` for a damaged `from`; and what the
 * client throws.
 */
export async function* walk(options: WalkOptions): AsyncGenerator<Page, void, undefined> {
  const { start, isResumed, guard, memory, source, pages, ledger, numbered } = openWalk(options);
  let number = options.pagesBefore ?? 0;
  let position: PagePosition | null = start;
  const isEnough = options.isEnough?.() ?? never;
  try {
    if (isResumed)
      for (const page of await pages.provePlace(position))
        yield { ...page, number: (number += 1), release: ignore, discard: ignore };
    while (position !== null) {
      const walked = await pages.at(position);
      for (const page of walked.slice(0, -1))
        yield { ...page, number: (number += 1), release: ignore, discard: ignore };
      const read = walked.at(-1);
      if (read === undefined) throw new Error('a page that was read is missing');
      const page = isEnough(read) ? pages.cutShort(read) : read;
      guard.admit(page);
      const end = page.end && withDoubt(page.end, await proveNumbering(page, numbered));
      const { next, total } = page;
      const { release, discard } = memory.handOut();
      await source.foresee({
        next,
        received: pages.step,
        total: leastOf(likelyTotal(total, ledger.met), options.most),
      });
      // Of the last page the answer itself is read once more.
      yield { ...page, end, number: (number += 1), release, discard: page.end === null ? discard : release };
      if (options.overlaps !== true) release();
      source.consumed();
      position = next;
    }
  } finally {
    await source.close();
    memory.close();
  }
}

function withDoubt(end: WalkEnd, doubt: Doubt | null): WalkEnd {
  return doubt === null ? end : { ...end, doubts: [...end.doubts, doubt] };
}

const never = (): boolean => false;

/** Of a page that was read again only what is compared is kept for long. */
const ignore = (): void => undefined;

/** Nothing is asked for yet. */
function openWalk(options: WalkOptions) {
  const { resource, listing, values = {}, extraQuery = {}, from, signal, clock, acceptsEnd = false } = options;
  const style = openPageStyle(resource.page);
  const parts = { target: listing, templates: resource, values };
  const first = listingStart(parts, { ...extraQuery, ...style.first });
  const start = positionOf(urlAt(first, from ?? positionOf(first)));
  const isResumed = start !== positionOf(first);
  const memory = new PageMemory();
  const ask = askFor(options, parts, first);
  const ledger = new WalkLedger(
    style.ahead !== null || style.mayHideNumbers,
    options.before ?? { pages: [], isWhole: !isResumed, leastTotal: null },
    { hasStates: options.acceptsStates, isFiltered: options.isFiltered },
  );
  const asked: GetPage = async (position, { stop, isAhead }) => {
    const request = pages.requestOf(position);
    const hold = memory.open();
    const room = { hold, ...(isAhead ? { whenFull: 'fail' as const } : {}) };
    const answer = await ask(positionOf(request), { ...room, ...(stop === undefined ? {} : { stop }) });
    await admitRecords(hold, countRecords(answer.json, resource.records), { isAhead, clock, signal });
    return { ...answer, request, hold };
  };
  const source = openSource(options, { style, first }, { get: asked, handedOut: () => memory.handedOut });
  const { oldest = Infinity, formerEndedAt = null } = options;
  const pause = (ms: number): Promise<void> => clock.sleep(ms, signal);
  const ages = new PageAges({ startedAt: clock.now(), formerEndedAt, oldest, pause });
  // A walk that is taken up behind its first page was led there by a page that named the next one.
  const kept = options.kept ?? (isResumed ? resource.page.size : 0);
  const reading = { resource, style, first, source, memory, ask, ledger, ages, acceptsEnd, signal, kept };
  const pages: WalkedPages = new WalkedPages(reading);
  const guard = new WalkGuard(style.ahead !== null, start);
  const numbered = { numbering: options.numbering, resource, style, first, ask, ledger };
  return { start, isResumed, guard, memory, source, pages, ledger, numbered };
}

/** `isAhead`: it is not the page's turn yet. */
type GetPage = (position: PagePosition, asked: { stop?: AbortSignal; isAhead: boolean }) => Promise<PageAnswer>;

function openSource(
  options: WalkOptions,
  { style, first }: { style: PageStyle; first: URL },
  answers: { get: GetPage; handedOut: () => number },
): RunAhead {
  const { records, page } = options.resource;
  const foresight = knowsHowMany(page) ? style.ahead : null;
  // A page that overlaps with the one before brings one record fewer.
  const overlap = style.ahead === null || style.ahead.sooner(first, 1) === null ? 0 : 1;
  // A consumer that has two pages in hand at once asks for the second of them while it writes the first.
  const named = options.overlaps === true ? 0 : 1;
  return new RunAhead({
    ...answers,
    urlOf: (position) => urlAt(first, position),
    countOf: (answer) => countRecords(answer.json, records),
    foresight,
    size: page.size - overlap,
    most: foresight === null ? Math.min(options.runAhead, named) : options.runAhead,
  });
}

/** Where each page names the next one and no total is told, any page ahead may lie behind the end. */
function knowsHowMany(page: ResourceProfile['page']): boolean {
  return page.style !== 'page' || page.next_page === null || typeof page.total === 'string';
}

function leastOf(total: number | null, most: number | undefined): number | null {
  return most === undefined ? total : Math.min(total ?? most, most);
}

/** A total that has been passed already says nothing about what is still to come. */
function likelyTotal(total: number | null, seen: number | null): number | null {
  return total !== null && seen !== null && total < seen ? null : total;
}
