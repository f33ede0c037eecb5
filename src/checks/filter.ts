// Tests whether the profile's filter (`incremental`) lists every record that changed since a time, and few others.
// Example: `updated_since=2026-01-05` must list what changed on the 6th, and one of a year from now nothing; a service
// that takes the time for text, or does not know the parameter, lists too little or everything.
import { keyIn } from '../rows/records/record-key.ts';
import { filterName, type IncrementalProfile, NAMED_FORMATS } from '../config/profile/incremental.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { JsonValue } from '../model/json.ts';
import type { Page } from '../pagination/page.ts';
import { type ScanOptions, scanPages } from '../pagination/scan-pages.ts';
import { updatedTime, updatedZone } from '../rows/columns/updated-time.ts';
import {
  type CheckFinding,
  fail,
  type ListedPage,
  type ListedRecord,
  listingScan,
  ok,
  type RequestContext,
  requestFirstPage,
  toListed,
  warn,
} from './listing-scan.ts';
import {
  type ExtraQuery,
  filterQuery,
  filterSince,
  filterText,
  withPartition,
} from '../pagination/requests/filter-query.ts';
import { toEpochMs, formatTime } from '../pagination/requests/filter-query.ts';

/** Nothing was changed after the first of these times, and nothing before the second. */
export const FAR_AHEAD_MS = 366 * 86_400_000;
const FAR_BACK_MS = 86_400_000;
/** A filter by days, or one in another zone, lists records that changed this long before the requested time. */
export const MAX_EARLIER_MS = 48 * 3_600_000;
const DAY_MS = 86_400_000;

/** Requests the first page of the listing since a time (epoch milliseconds). */
export type RequestSince = (at: number) => Promise<ListedPage | 'refused'>;

interface FilterTrial {
  unfiltered: ListedPage;
  /** The service's clock in epoch milliseconds. */
  now: number;
  lookback: number;
  /** Formats a time as it is requested. */
  shown: (at: number) => string;
}

/**
 * What a trial shows of a filter. `works`: it lists what changed since a time, and little else. `ignored`: it lists what
 * it must, and much more: nothing is missed by it, and nothing is saved. `fails`: it leaves out what it must list.
 */
interface FilterVerdict {
  is: 'works' | 'ignored' | 'fails';
  detail: string;
  hint: string;
  /** How many records it listed since the chosen time, and whether it listed all since 1970. */
  listed: number;
  listsAll: boolean;
}

const NO_FILTER = 'set `incremental: null` in the profile: then every sync is a full scan and writes only what changed';
const OTHER_FORM = `set incremental.param, incremental.template and incremental.format in the profile as the service reads them; else ${NO_FILTER}`;

/**
 * Requests the listing since a year from now (lists nothing), since 1970 (lists everything) and since a time between its
 * records, and judges the filter by the responses.
 */
export async function tryFilter(
  request: RequestSince,
  { unfiltered, now, lookback, shown }: FilterTrial,
): Promise<FilterVerdict> {
  const middleAt = chooseTime(unfiltered.records, lookback);
  const [at, aheadAt] = [middleAt ?? FAR_BACK_MS, now + FAR_AHEAD_MS];
  const [ahead, back] = [await request(aheadAt), await request(FAR_BACK_MS)];
  const middle = middleAt === null ? back : await request(at);
  const judged = (is: FilterVerdict['is'], detail: string, hint = OTHER_FORM): FilterVerdict => {
    const listsAll = back !== 'refused' && back.records.length >= unfiltered.records.length;
    return { is, detail, hint, listed: middle === 'refused' ? 0 : middle.records.length, listsAll };
  };
  if (middle === 'refused') return judged('fails', `the service refuses ${shown(at)}`);
  if (back !== 'refused' && back.records.length + middle.records.length === 0)
    return judged('fails', `${shown(FAR_BACK_MS)} lists nothing: the filter matches no record`);
  const missing = middleAt === null ? null : findMissing(unfiltered, at, middle);
  if (missing !== null)
    return judged('fails', `${shown(at)} does not list ${missing}: the service reads the moment otherwise`);
  const [all, found] = countAll(unfiltered, ahead, back);
  if (found < all) {
    const detail = `${shown(FAR_BACK_MS)} lists ${found} of ${all} records: the other ${all - found} can never be found by the filter`;
    const hint = `they may have no time of change: name another field as \`updated\`; else ${NO_FILTER}`;
    return judged('fails', detail, hint);
  }
  const tooMuch = `every sync reads so much: ${OTHER_FORM}`;
  const tooEarly = changedBefore(ahead, aheadAt).length;
  // Without a time between the records, none of them is before it.
  const before = middleAt ?? -Infinity;
  const listed = new Set(changedBefore(middle, before).map(({ key }) => key));
  if (tooEarly > 0 && changedBefore(unfiltered, before).every(({ key }) => listed.has(key)))
    return judged('ignored', `${shown(aheadAt)} still lists ${tooEarly} records: the service ignores it`, tooMuch);
  const [early] = changedBefore(middle, before - MAX_EARLIER_MS);
  if (early !== undefined) {
    const detail = `${shown(at)} also lists what last changed at ${toIsoTime(early.at)}: the service reads the moment otherwise`;
    return judged('ignored', detail, tooMuch);
  }
  const none = ahead === 'refused' ? 'a moment to come is refused' : 'none in a year';
  const first = back === 'refused' ? '1970 is refused' : 'all since 1970';
  const count = `${middle.records.length}${isLastPage(middle, unfiltered) ? '' : ' and more'}`;
  const some = middleAt === null ? '' : `, ${count} since ${toIsoTime(middleAt)}`;
  return judged('works', `leaves out what did not change: ${none}, ${first}${some}`);
}

/**
 * A time with listed records before and after it: like a sync, somewhat before a record's time. Records of one day
 * are preferred, because a service that compares texts of two forms errs within a day only. Null if all have one time.
 */
function chooseTime(records: readonly ListedRecord[], lookback: number): number | null {
  const times = [...new Set(records.map(({ at }) => at))].filter((at) => at > -Infinity).toSorted((a, b) => a - b);
  const gaps = times.slice(1).map((at, index) => ({ before: times[index] ?? at, at }));
  const middle = gaps[Math.ceil((times.length - 1) / 2) - 1] ?? gaps.at(-1);
  const chosen = middle && isOneDay(middle) ? middle : (gaps.findLast(isOneDay) ?? middle);
  return chosen === undefined ? null : chosen.at - Math.min(lookback, Math.floor((chosen.at - chosen.before) / 2));
}

function isOneDay({ before, at }: { before: number; at: number }): boolean {
  return Math.floor(before / DAY_MS) === Math.floor(at / DAY_MS);
}

/** Describes a record that changed after the time and is not listed; null if there is none. */
function findMissing(unfiltered: ListedPage, at: number, page: ListedPage): string | null {
  const keys = new Set(page.records.map(({ key }) => key));
  const wanted = unfiltered.records.filter((record) => record.at > at);
  const first = isLastPage(page, unfiltered) ? wanted.find(({ key }) => !keys.has(key)) : undefined;
  if (first !== undefined) return `${first.key}, which changed at ${first.text}`;
  return page.records.length === 0 && wanted.length > 0 ? 'anything' : null;
}

/** How many records must be listed since 1970, and how many are: by the totals, if these count what is listed. */
function countAll(unfiltered: ListedPage, ahead: Awaited<ReturnType<RequestSince>>, back: typeof ahead) {
  if (back === 'refused') return [0, 0] as const;
  const { records, total } = unfiltered;
  const isStated = total !== null && (ahead === 'refused' || (ahead.total ?? 0) < total);
  // Records without a time of change are reported on their own.
  const untimed = records.filter(({ at }) => at === -Infinity).length;
  const [all, found] = isStated && back.total !== null ? [total, back.total] : [records.length, back.records.length];
  return all - found <= untimed ? ([0, 0] as const) : ([all, found] as const);
}

/** The records that changed before the time, the oldest first. */
function changedBefore(page: ListedPage | 'refused', at: number): ListedRecord[] {
  const records = page === 'refused' ? [] : page.records.filter((record) => record.at < at && record.at > -Infinity);
  return records.toSorted((a, b) => a.at - b.at);
}

/** A page that is shorter than the one without a filter is the last one, whatever else it says. */
function isLastPage(page: ListedPage, unfiltered: ListedPage): boolean {
  return page.isComplete || page.records.length < unfiltered.records.length;
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
  let unfiltered = toListed(page, profile);
  if (unfiltered.records.length === 0) {
    return warn(check, `${name} cannot be tried on an empty listing`);
  }
  const now = page.serverDate ?? clock.now();
  const judge = async (tried: IncrementalProfile): Promise<FilterVerdict> => {
    const like = unfiltered.records.find(({ at }) => at > -Infinity)?.text ?? '';
    const query = (at: number): ExtraQuery => filterSince(tried, formatTime(at, tried, like, updatedZone(profile)));
    const shown = (at: number): string => filterText(tried, query(at));
    const trial = { unfiltered, now, lookback: tried.lookback, shown };
    return tryFilter((at) => requestFirstPage(context, query(at)), trial);
  };
  let verdict = await judge(incremental);
  if (verdict.is === 'fails') {
    // A record that changed meanwhile looks like a filter that fails.
    const again = await requestFirstPage(context, {});
    if (again !== 'refused') unfiltered = again;
    verdict = await judge(incremental);
  }
  if (verdict.is === 'works') return ok(check, `${name} ${verdict.detail}`);
  const finding = verdict.is === 'ignored' || profile.accept.includes('filter') ? warn : fail;
  if (chooseTime(unfiltered.records, incremental.lookback) !== null) {
    for (const format of OTHER_FORMATS.filter((each) => each !== incremental.format)) {
      if ((await judge({ ...incremental, format })).is !== 'works') continue;
      const hint = `set incremental.format to "${format}" in the profile: with that it lists what it should`;
      return finding(check, verdict.detail, hint);
    }
  }
  return finding(check, verdict.detail, verdict.hint);
}

/** A time as `sinceValue` writes it, and the keys of records that changed then or later. */
export interface FilterQuestion {
  since: string;
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
  const query = withPartition(profile, keys[0] ?? '', filterQuery(profile, since));
  const found = scanPages({ ...listingScan(context, 'incremental', query), acceptsEnd: true, isEnough });
  for await (const page of found) if (page.next === null) break;
  return isCut ? null : [...missing];
}

/** True if the profile says that the listing can be read newest first. */
export function isNewestFirst({ incremental }: ResourceProfile): boolean {
  return incremental?.mode === 'newest_first';
}

/** Checks page by page that a listing descends by time of change. */
export class DescendingOrder {
  readonly #profile: ResourceProfile;
  readonly #since: number;
  /** Records that new ones have pushed to the next page are listed again, which does not break the order. */
  readonly #seen = new Set<string>();
  #last = { key: '', at: Infinity };
  /** How the order was broken, as a sentence without its final period; null if it holds. */
  broken: string | null = null;

  /** `since`: the requested time as `sinceValue` writes it; null if all is wanted. */
  constructor(profile: ResourceProfile, since: string | null) {
    this.#profile = profile;
    this.#since = since === null ? -Infinity : toEpochMs(since, updatedZone(profile));
  }

  /** Starts another listing, and returns `add`. */
  begin(): (page: { records: Page['records'] }) => boolean {
    this.#seen.clear();
    this.#last = { key: '', at: Infinity };
    return (page) => this.add(page);
  }

  /** Adds a page. Returns true if no further one is needed: all of it changed before the requested time, or breaks the order. */
  add({ records }: { records: Page['records'] }): boolean {
    const times = records.map(({ value }) => this.#follow(value));
    // A full scan follows, unless the profile accepts the filter: then this scan has to read every page.
    if (this.broken !== null) return this.#since > -Infinity && !this.#profile.accept.includes('filter');
    return times.length > 0 && times.every((at) => at < this.#since);
  }

  #follow(value: JsonValue): number {
    const key = keyIn(value, this.#profile) ?? 'without an id';
    const at = updatedTime(value, this.#profile)?.at;
    if (at === undefined) {
      this.broken ??= `the record ${key} has no time of change`;
      return Infinity;
    }
    if (this.#seen.has(key)) return at;
    this.#seen.add(key);
    const { key: lastKey, at: lastAt } = this.#last;
    if (at > lastAt)
      this.broken ??= `the record ${key} (${toIsoTime(at)}) comes behind ${lastKey} (${toIsoTime(lastAt)})`;
    this.#last = { key, at };
    return at;
  }
}

function toIsoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** Pages whose order is compared. */
const PAGES = 2;

/** Whether the listing descends by time of change, from its first two pages and `unfiltered`, the first one without that order. */
export async function orderFinding(context: RequestContext, unfiltered: Page): Promise<CheckFinding> {
  const check = 'filter';
  const { profile } = context;
  const order = new DescendingOrder(profile, null);
  const times: number[] = [];
  let pages = 0;
  for await (const page of scanPages(listingScan(context, 'incremental', filterQuery(profile, null)))) {
    order.add(page);
    times.push(...timesIn(page, profile));
    if ((pages += 1) === PAGES) break;
  }
  const newest = Math.max(...times);
  const isPassedBy = timesIn(unfiltered, profile).some((at) => at > newest);
  const why = order.broken ?? (isPassedBy ? `its first record, of ${toIsoTime(newest)}, is not the newest` : null);
  if (why !== null) {
    const finding = profile.accept.includes('filter') ? warn : fail;
    const hint =
      'set incremental.query in the profile to what sorts the listing by `updated`, newest first; else set `incremental: null`';
    return finding(check, `the listing is not newest first: ${why}`, hint);
  }
  if (new Set(times).size < 2) return warn(check, 'too few records have a time of change to show their order');
  return ok(check, `${times.length} records on ${pages} pages descend by time of change`);
}

function timesIn({ records }: Page, profile: ResourceProfile): number[] {
  return records.flatMap(({ value }) => updatedTime(value, profile)?.at ?? []);
}
