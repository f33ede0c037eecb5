import { filterName, type IncrementalProfile, NAMED_FORMATS } from '../config/profile/incremental.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { JsonValue } from '../model/json.ts';
import type { Page } from '../pagination/page.ts';
import { type ScanOptions, scanPages } from '../pagination/scan-pages.ts';
import { updatedTime, updatedZone } from '../rows/columns/updated-time.ts';
import { recordKey } from '../rows/records/record-key.ts';
import { askedFor, type CheckFinding, type ExtraQuery, filterQuery, filterSince, filterText, keyIn, type ListedPage, type ListedRecord, listingScan, type RequestContext, requestFirstPage, toListed } from './listing-scan.ts';
import { momentOf, writtenMoment } from './since.ts';

/** Nothing was changed after the first of these times, and nothing before the second. */
export const FAR_AHEAD_MS = 366 * 86_400_000;
const FAR_BACK_MS = 86_400_000;
/** A filter by days, or one in another zone, lists records that changed this long before the requested time. */
export const MAX_EARLIER_MS = 48 * 3_600_000;
const DAY_MS = 86_400_000;

/** A listing since a time (epoch milliseconds), or that the service refuses the request. */
interface SinceAnswer {
  at: number;
  page: ListedPage | 'refused';
}

/** What a filter lists, and what the listing shows without it. */
interface FilterObservations {
  plain: ListedPage;
  /** Since a future time: nothing is expected. */
  ahead: SinceAnswer;
  /** Since a time before all others: everything is expected. */
  back: SinceAnswer;
  /** Since a time between listed records; null if all of them have one time. */
  middle: SinceAnswer | null;
}

/** Requests the listing since a time. */
export type RequestSince = (at: number) => Promise<ListedPage | 'refused'>;

/** Requests nothing, everything and some of a listing. `now` is the service's clock in epoch milliseconds. */
export async function observeFilter(
  request: RequestSince,
  { plain, now, lookback }: { plain: ListedPage; now: number; lookback: number },
): Promise<FilterObservations> {
  const since = async (at: number): Promise<SinceAnswer> => ({ at, page: await request(at) });
  const middleAt = chooseMoment(plain.records, lookback);
  const ahead = await since(now + FAR_AHEAD_MS);
  const back = await since(FAR_BACK_MS);
  return { plain, ahead, back, middle: middleAt === null ? null : await since(middleAt) };
}

/**
 * A time with listed records before and after it: like a sync, somewhat before a record's time. Records of one day
 * are preferred, because a service that compares texts of two forms errs within a day only. Null if all have one time.
 */
function chooseMoment(records: readonly ListedRecord[], lookback: number): number | null {
  const times = [...new Set(records.map(({ at }) => at))].filter((at) => at > -Infinity).toSorted((a, b) => a - b);
  const gaps = times.slice(1).map((at, index) => ({ before: times[index] ?? at, at }));
  const middle = gaps[Math.ceil((times.length - 1) / 2) - 1] ?? gaps.at(-1);
  const later = gaps.toSorted((a, b) => b.at - a.at);
  const chosen = middle && isOneDay(middle) ? middle : (later.find(isOneDay) ?? middle);
  if (chosen === undefined) return null;
  return chosen.at - Math.min(lookback, Math.floor((chosen.at - chosen.before) / 2));
}

function isOneDay({ before, at }: { before: number; at: number }): boolean {
  return Math.floor(before / DAY_MS) === Math.floor(at / DAY_MS);
}

/**
 * What observations show of a filter. `works`: it lists what changed since a time, and little else. `ignored`: it
 * lists what it must, and much more: nothing is missed by it, and nothing is saved. `fails`: it leaves out what it must
 * list.
 */
interface FilterVerdict {
  is: 'works' | 'ignored' | 'fails';
  detail: string;
  hint?: string;
}

const NO_FILTER = 'set `incremental: null` in the profile: then every sync is a full scan and writes only what changed';
const OTHER_FORM = `set incremental.param, incremental.template and incremental.format in the profile as the service reads them; else ${NO_FILTER}`;

/** Judges a filter; `shown` writes a time as it was requested. Pure. */
export function judgeFilter(observed: FilterObservations, shown: (at: number) => string): FilterVerdict {
  const { plain, back, middle } = observed;
  const decisive = middle ?? back;
  if (decisive.page === 'refused')
    return { is: 'fails', detail: `the service refuses ${shown(decisive.at)}`, hint: OTHER_FORM };
  if (back.page !== 'refused' && back.page.records.length === 0 && decisive.page.records.length === 0) {
    return {
      is: 'fails',
      detail: `${shown(back.at)} lists nothing: the filter matches no record`,
      hint: OTHER_FORM,
    };
  }
  const missing = middle === null ? null : missingAfter(plain, { at: middle.at, page: decisive.page });
  if (missing !== null) {
    const detail = `${shown(decisive.at)} does not list ${missing}: the service reads the moment otherwise`;
    return { is: 'fails', detail, hint: OTHER_FORM };
  }
  const lacking = back.page === 'refused' ? null : lackingFault(observed, { at: back.at, page: back.page }, shown);
  if (lacking !== null) return lacking;
  return listedTooMuch(observed, shown) ?? { is: 'works', detail: worksText(observed) };
}

/** A record that changed after the time and is not listed. */
function missingAfter(plain: ListedPage, { at, page }: { at: number; page: ListedPage }): string | null {
  const keys = new Set(page.records.map(({ key }) => key));
  const wanted = plain.records.filter((record) => record.at > at);
  const first = isWhole(page, plain) ? wanted.find(({ key }) => !keys.has(key)) : undefined;
  if (first !== undefined) return `${first.key}, which changed at ${first.text}`;
  return page.records.length === 0 && wanted.length > 0 ? 'anything' : null;
}

/** Since a time before all others, all must be listed. */
function lackingFault(
  { plain, ahead }: FilterObservations,
  back: { at: number; page: ListedPage },
  shown: (at: number) => string,
): FilterVerdict | null {
  // A total that counts what is not listed as well says nothing here.
  const aheadTotal = ahead.page === 'refused' ? null : ahead.page.total;
  const isTold = plain.total !== null && back.page.total !== null && (aheadTotal ?? 0) < plain.total;
  const [all, found] = isTold
    ? [plain.total ?? 0, back.page.total ?? 0]
    : [plain.records.length, back.page.records.length];
  // Records without a time of change are reported on their own.
  const untimed = plain.records.filter(({ at }) => at === -Infinity).length;
  if (all - found <= untimed) return null;
  return {
    is: 'fails',
    detail: `${shown(back.at)} lists ${found} of ${all} records: the other ${all - found} can never be found by the filter`,
    hint: `they may have no time of change: name another field as \`updated\`; else ${NO_FILTER}`,
  };
}

/** Records from before the time are listed: nothing is missed, but every sync reads them. */
function listedTooMuch(
  { plain, ahead, middle }: FilterObservations,
  shown: (at: number) => string,
): FilterVerdict | null {
  const hint = `every sync reads so much: ${OTHER_FORM}`;
  const tooEarly = earlierThan(ahead, 0).length;
  const before = plain.records.filter(({ at }) => middle !== null && at < middle.at);
  const listed = new Set(middle === null ? [] : earlierThan(middle, 0).map(({ key }) => key));
  if (tooEarly > 0 && before.every(({ key, at }) => listed.has(key) || at === -Infinity)) {
    const detail = `${shown(ahead.at)} still lists ${tooEarly} records: the service ignores it`;
    return { is: 'ignored', detail, hint };
  }
  const [early] = middle === null ? [] : earlierThan(middle, MAX_EARLIER_MS);
  if (middle === null || early === undefined) return null;
  const detail = `${shown(middle.at)} also lists what last changed at ${new Date(early.at).toISOString()}: the service reads the moment otherwise`;
  return { is: 'ignored', detail, hint };
}

function earlierThan({ at, page }: SinceAnswer, tolerance: number): ListedRecord[] {
  const records = page === 'refused' ? [] : page.records.filter((record) => record.at < at - tolerance);
  return records.filter((record) => record.at > -Infinity).toSorted((a, b) => a.at - b.at);
}

/** A page that is shorter than the one without a filter is the last one, whatever else it says. */
function isWhole(page: ListedPage, plain: ListedPage): boolean {
  return page.isWhole || page.records.length < plain.records.length;
}

function worksText({ plain, ahead, back, middle }: FilterObservations): string {
  const countOf = (page: ListedPage | 'refused'): string => {
    if (page === 'refused') return 'refused';
    return isWhole(page, plain) ? String(page.records.length) : `${page.records.length} and more`;
  };
  const some = middle === null ? '' : `, ${countOf(middle.page)} since ${new Date(middle.at).toISOString()}`;
  const none = ahead.page === 'refused' ? 'a moment to come is refused' : 'none in a year';
  return `leaves out what did not change: ${none}, ${back.page === 'refused' ? '1970 is refused' : 'all since 1970'}${some}`;
}

/** Formats of a time that are tried if the profile's own does not work. */
const OTHER_FORMATS = [
  ...NAMED_FORMATS,
  'yyyy-MM-dd HH:mm:ss',
  "yyyy-MM-dd'T'HH:mm:ss",
  'yyyy-MM-dd',
  'yyyyMMddHHmmss',
] as const;

/** Whether the filter of the profile lists what changed since a time. `page` is the first page without it. */
export async function filterFinding(
  context: RequestContext,
  page: Page,
  incremental: IncrementalProfile,
): Promise<CheckFinding> {
  const check = 'filter';
  const { profile, clock } = context;
  const name = filterName(incremental);
  let plain = toListed(page, profile);
  if (plain.records.length === 0) {
    return { check, status: 'warn', detail: `${name} cannot be tried on an empty listing` };
  }
  const now = page.serverDate ?? clock.now();
  const judge = async (asked: IncrementalProfile): Promise<FilterVerdict> => {
    const query = querySince(context, asked, plain);
    const request: RequestSince = (at) => requestFirstPage(context, query(at));
    const observed = await observeFilter(request, { plain, now, lookback: asked.lookback });
    return judgeFilter(observed, (at) => filterText(asked, query(at)));
  };
  let verdict = await judge(incremental);
  if (verdict.is === 'fails') {
    // A record that changed meanwhile looks like a filter that fails.
    const again = await requestFirstPage(context, {});
    if (again !== 'refused') plain = again;
    verdict = await judge(incremental);
  }
  if (verdict.is === 'works') return { check, status: 'ok', detail: `${name} ${verdict.detail}` };
  const isAccepted = verdict.is === 'ignored' || profile.accept.includes('filter');
  const found = { check, status: isAccepted ? ('warn' as const) : ('fail' as const), detail: verdict.detail };
  if (chooseMoment(plain.records, incremental.lookback) !== null) {
    for (const format of OTHER_FORMATS.filter((each) => each !== incremental.format)) {
      if ((await judge({ ...incremental, format })).is !== 'works') continue;
      const hint = `set incremental.format to "${format}" in the profile: with that it lists what it should`;
      return { ...found, hint };
    }
  }
  return { ...found, hint: verdict.hint };
}

/** The request for what changed since a time, as a sync makes it. */
function querySince(
  { profile }: RequestContext,
  incremental: IncrementalProfile,
  plain: ListedPage,
): (at: number) => ExtraQuery {
  const like = plain.records.find(({ at }) => at > -Infinity)?.text ?? '';
  const zone = updatedZone(profile);
  const write = (at: number): string => writtenMoment(at, incremental, like, zone);
  return (at) => filterSince(incremental, write(at));
}

/** A request that a filter must answer with certain records. */
export interface FilterQuestion {
  /** The time, as `sinceValue` writes it. */
  since: string;
  /** Keys of records that changed then or later. */
  keys: readonly string[];
}

/**
 * Requests what changed since the time, at most `maxPages` pages, and returns the keys that are not listed; null if more
 * pages follow. Throws what a scan throws.
 */
export async function unlistedKeys(
  context: RequestContext,
  { since, keys }: FilterQuestion,
  maxPages = Infinity,
): Promise<string[] | null> {
  const { profile } = context;
  const missing = new Set(keys);
  let pages = 0;
  let isCut = false;
  const isEnough: ScanOptions['isEnough'] = () => (page) => {
    for (const { value } of page.records) missing.delete(keyIn(value, profile) ?? '');
    isCut = missing.size > 0 && page.next !== null && (pages += 1) >= maxPages;
    return isCut || missing.size === 0;
  };
  const query = askedFor(profile, keys[0] ?? '', filterQuery(profile, since));
  const found = scanPages({ ...listingScan(context, 'incremental', query), acceptsEnd: true, isEnough });
  for await (const page of found) if (page.next === null) break;
  return isCut ? null : [...missing];
}

/** Follows the order of a listing that is to descend by time of change. */
interface DescendingOrder {
  /**
   * Begins a listing. The returned function takes its pages, and returns true if a page changed wholly before the
   * requested time, or if the order does not hold.
   */
  begin: () => (page: { records: Page['records'] }) => boolean;
  /** How the order was broken, as a sentence without its final period; null if it holds. */
  broken: () => string | null;
}

/** Null if the profile does not say that the listing is newest first. */
export function orderOf(
  profile: ResourceProfile,
  { walk_since }: { walk_since: string | null },
): DescendingOrder | null {
  if (!isNewestFirst(profile)) return null;
  const since = walk_since === null ? -Infinity : momentOf(walk_since, updatedZone(profile));
  return descendingOrder(profile, since);
}

export function isNewestFirst({ incremental }: ResourceProfile): boolean {
  return incremental?.mode === 'newest_first';
}

/** `since` in epoch milliseconds; -Infinity if all is wanted. */
function descendingOrder(profile: ResourceProfile, since: number): DescendingOrder {
  /** What was pushed on by changes at the head comes again, and is newer than what it comes behind. */
  let met = new Set<string>();
  let last = { key: '', at: Infinity };
  let broken: string | null = null;
  const follow = (value: JsonValue): number => {
    const found = recordKey(value, profile.id);
    const at = updatedTime(value, profile)?.at;
    const key = 'key' in found ? found.key : 'without an id';
    if (at === undefined) {
      broken ??= `the record ${key} has no time of change`;
      return Infinity;
    }
    if (met.has(key)) return at;
    met.add(key);
    if (at > last.at) broken ??= `the record ${key} (${textOf(at)}) comes behind ${last.key} (${textOf(last.at)})`;
    last = { key, at };
    return at;
  };
  return {
    begin: () => {
      met = new Set();
      last = { key: '', at: Infinity };
      return ({ records }) => {
        const times = records.map(({ value }) => follow(value));
        // All is scanned instead; unless that is accepted, and this scan is all there is.
        if (broken !== null) return since > -Infinity && !profile.accept.includes('filter');
        return times.length > 0 && times.every((at) => at < since);
      };
    },
    broken: () => broken,
  };
}

function textOf(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** Pages whose order is compared. */
const PAGES = 2;

const HINT =
  'set incremental.query in the profile to what sorts the listing by `updated`, newest first; else set `incremental: null`';

/** Whether the listing descends by time of change, from its first two pages and `plain`, the first one without that order. */
export async function orderFinding(context: RequestContext, plain: Page): Promise<CheckFinding> {
  const check = 'filter';
  const { profile } = context;
  const order = descendingOrder(profile, -Infinity);
  const follow = order.begin();
  const times: number[] = [];
  let pages = 0;
  for await (const page of scanPages(listingScan(context, 'incremental', filterQuery(profile, null)))) {
    follow(page);
    times.push(...timesIn(page, profile));
    if ((pages += 1) === PAGES) break;
  }
  const newest = Math.max(...times);
  const isPassedBy = timesIn(plain, profile).some((at) => at > newest);
  const why = order.broken() ?? (isPassedBy ? `its first record, of ${textOf(newest)}, is not the newest` : null);
  if (why !== null) {
    const status = profile.accept.includes('filter') ? 'warn' : 'fail';
    return { check, status, detail: `the listing is not newest first: ${why}`, hint: HINT };
  }
  if (new Set(times).size < 2) {
    return { check, status: 'warn', detail: 'too few records have a time of change to show their order' };
  }
  return { check, status: 'ok', detail: `${times.length} records on ${pages} pages descend by time of change` };
}

function timesIn({ records }: Page, profile: ResourceProfile): number[] {
  return records.flatMap(({ value }) => updatedTime(value, profile)?.at ?? []);
}
