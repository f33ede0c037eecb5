// Requests ranges of days of a report, and checks the days and totals of the responses.
//
// A service answers `GET /stats?from=2026-01-01&to=2026-01-31` with a row for each day and page. One request covers as
// many windows (days, weeks or months) as the service manages. If a range is more than it lists, or than it or this
// process can do at once, the caller splits it into halves. The next ranges are requested while one is written.
import { listingScan } from '../../checks/listing-scan.ts';
import type { ReportWindows } from '../../config/profile/incremental.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Page, ScanEnd } from '../../pagination/page.ts';
import { isUnitRefusal } from '../../pagination/requests/read-page.ts';
import { type ScanOptions, scanPages } from '../../pagination/scan-pages.ts';
import { isExact } from '../../rows/json/parse-json.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { recordKey } from '../../rows/records/record-key.ts';
import type { ResourceContext } from '../resource-context.ts';
import {
  addDays,
  type Day,
  DAY_MS,
  toDay,
  type DayReading,
  nextRange,
  rangeQuery,
  type ReportRange,
  type ReportWindow,
} from './report-windows.ts';

/** The pages of a range, joined because they are committed in one transaction. */
export interface JoinedPage extends Page {
  parts: readonly Page[];
}

interface RangeRequest {
  range: ReportRange;
  windows: ReportWindows;
  /** False if a request names one window. */
  hasEnd: boolean;
  lane: Lane;
  /** Records on the largest page that named a next one, of earlier ranges; null if that is not known. */
  fullPageSize: number | null;
  /** When the scan ended that this one repeats, in local epoch milliseconds; absent or null for the first one. */
  formerEndedAt?: number | null;
}

/** The service's full response for a range. */
export interface FullAnswer {
  page: JoinedPage;
  end: ScanEnd;
  /** The body of its last page, which may state totals. */
  body: JsonValue;
  /** True if it holds as many rows as the service lists for one query: more may exist. */
  isFull: boolean;
}

/**
 * Without a response the range has to be split, or is refused (`isUnitRefusal`). `error` is what the request failed with;
 * null if a range of several windows is too large.
 */
export type RangeAnswer = FullAnswer | { error: SyncError | null };

/** Errors after which the same range would fail again, and a smaller one may not. */
const TOO_MUCH: ReadonlySet<string> = new Set(['window_too_large', 'timeout', 'memory_full', 'body_too_large']);

/**
 * Requests a range page by page, to a verified end like any scan. A range of several windows is given up as soon as it has
 * to be split; of a single window, all that there is is returned. The caller releases the page. Throws errors that are
 * not about the range.
 */
async function readRange(context: ResourceContext, request: RangeRequest): Promise<RangeAnswer> {
  const pages: Page[] = [];
  const release = (): void => pages.forEach((page) => page.release());
  try {
    if (await collectPages(context, request, pages)) return joinPages(pages, request.windows);
    release();
    return { error: null };
  } catch (error) {
    release();
    if (error instanceof SyncError && (TOO_MUCH.has(error.code) || isUnitRefusal(error))) return { error };
    throw error;
  }
}

/** Source bytes of a range of several windows, which is in memory until its last page has arrived. */
const MAX_RANGE_BYTES = 16_777_216;

/** Adds the pages of a range to `pages`. Returns false if a range of several windows is too large. */
async function collectPages(
  context: ResourceContext,
  { range, windows, hasEnd, lane, fullPageSize, formerEndedAt = null }: RangeRequest,
  pages: Page[],
): Promise<boolean> {
  const { most: maxRows, too_large: tooLarge } = windows;
  const options: ScanOptions = {
    ...listingScan(context, lane, rangeQuery(windows, range, hasEnd)),
    tooLarge,
    formerEndedAt,
    runAhead: context.runAhead,
    // The pages stay in memory until the last of them has arrived.
    keepsPages: true,
    ...(fullPageSize === null ? {} : { fullPageSize: fullPageSize <= context.profile.page.size ? fullPageSize : 0 }),
  };
  let rows = 0;
  let bytes = 0;
  for await (const page of scanPages(options)) {
    pages.push(page);
    rows += page.records.length - page.repeatedRecords;
    for (const record of page.records) bytes += record.bytes.length;
    const isCapped = maxRows !== null && Math.max(rows, page.total ?? 0) >= maxRows;
    if (range.windows.length > 1 && (isCapped || bytes > MAX_RANGE_BYTES)) return false;
  }
  return true;
}

function joinPages(pages: readonly Page[], { most: maxRows }: ReportWindows): FullAnswer {
  const [first, last] = [pages[0], pages.at(-1)];
  if (first === undefined || last?.end == null) throw new Error('a range came to no end');
  const totals = pages.flatMap(({ total }) => total ?? []);
  const page: JoinedPage = {
    ...last,
    position: first.position,
    records: pages.flatMap(({ records }) => records),
    requestedAt: Math.min(...pages.map(({ requestedAt }) => requestedAt)),
    serverDate: first.serverDate,
    total: totals.length === 0 ? null : Math.min(...totals),
    keys: Buffer.concat(pages.map(({ keys }) => keys)),
    release: () => pages.forEach(({ release }) => release()),
    parts: pages,
  };
  const rows = pages.reduce((sum, { records, repeatedRecords }) => sum + records.length - repeatedRecords, 0);
  const isFull = maxRows !== null && Math.max(rows, ...totals) >= maxRows;
  return { page, end: last.end, body: last.answer?.json ?? null, isFull };
}

/** What the size and the requests of further ranges depend on; updated by each response. */
export interface RangeOptions extends Omit<RangeRequest, 'range'> {
  /** Max windows per range that the service, or this process, is known to manage. */
  maxWindows: number;
  /** The day after the last one that is requested. */
  until: Day;
}

/** A range to be replaced, and what its earlier responses have shown. */
export interface RangeTask {
  range: ReportRange;
  /** Complete responses so far, and the end of the last one, in local epoch milliseconds. */
  responses: number;
  former: { end: ScanEnd; endedAt: number } | null;
  /** True if a response would have deleted too many rows. */
  wasExcessive: boolean;
}

/** Errors that the other requests in flight may have caused: then the range is requested again alone. */
const ERRORS_BY_LOAD: ReadonlySet<string> = new Set(['timeout', 'memory_full']);

/**
 * The ranges to replace, the newest first. While one is written the next ones are requested, at most as many as requests
 * may be in flight. The first range is requested alone, and so is the one after a range that was put back, because the
 * response decides the size of the others. A kill loses only what is in flight.
 */
export class RangeQueue {
  readonly #context: ResourceContext;
  readonly #options: RangeOptions;
  #remaining: readonly ReportWindow[];
  #putBack: RangeTask[] = [];
  #inFlight: { range: ReportRange; answer: Promise<RangeAnswer>; stop: AbortController }[] = [];
  /** True once a range of the present size was answered in full. */
  #mayPrefetch = false;

  constructor(context: ResourceContext, options: RangeOptions, due: readonly ReportWindow[]) {
    [this.#context, this.#options, this.#remaining] = [context, options, due];
  }

  /** The next range and its answer, after the previous one was processed; null after the last. Throws as `readRange` does. */
  async next(): Promise<{ task: RangeTask; answer: RangeAnswer } | null> {
    this.#context.signal.throwIfAborted();
    const again = this.#putBack.shift();
    if (again !== undefined) return { task: again, answer: await this.#readAlone(again) };
    if (this.#inFlight.length === 0 && this.#remaining.length > 0) this.#request(this.#context.runAhead);
    const first = this.#inFlight.shift();
    if (first === undefined) return null;
    const task = newTask(first.range);
    if (this.#mayPrefetch) this.#prefetch();
    const answer = await first.answer;
    if ('page' in answer) {
      this.#mayPrefetch = true;
      this.#prefetch();
    } else if (this.#inFlight.length > 0 && ERRORS_BY_LOAD.has(answer.error?.code ?? '')) {
      this.#mayPrefetch = false;
      await this.abort();
      return { task, answer: await this.#readAlone(task) };
    }
    return { task, answer };
  }

  /** Ranges to process in place of the last one. */
  putBack(tasks: readonly RangeTask[]): void {
    this.#putBack.unshift(...tasks);
    if (tasks.length > 0) this.#mayPrefetch = false;
  }

  /** Aborts what is in flight, and releases what has arrived. The ranges are requested again by later calls of `next`. */
  async abort(): Promise<void> {
    const aborted = this.#inFlight.splice(0);
    this.#remaining = [...aborted.flatMap(({ range }) => range.windows.toReversed()), ...this.#remaining];
    for (const { stop } of aborted) stop.abort();
    for (const ended of await Promise.allSettled(aborted.map(({ answer }) => answer))) {
      if (ended.status === 'fulfilled' && 'page' in ended.value) ended.value.page.release();
    }
  }

  #readAlone(task: RangeTask): Promise<RangeAnswer> {
    return readRange(this.#context, {
      ...this.#options,
      range: task.range,
      formerEndedAt: task.former?.endedAt ?? null,
    });
  }

  #prefetch(): void {
    while (this.#remaining.length > 0 && this.#inFlight.length < this.#context.runAhead) this.#request(1);
  }

  /** `runAhead` bounds the pages in flight: of prefetched ranges one each, so that the first range is not delayed. */
  #request(runAhead: number): void {
    const { windows, maxWindows, until, hasEnd } = this.#options;
    const limits = { largest: windows.largest / DAY_MS, windows: hasEnd ? maxWindows : 1, until };
    const { range, left } = nextRange(this.#remaining, limits);
    this.#remaining = left;
    const stop = new AbortController();
    const signal = AbortSignal.any([this.#context.signal, stop.signal]);
    const answer = readRange({ ...this.#context, signal, runAhead }, { ...this.#options, range });
    answer.catch(() => undefined);
    this.#inFlight.push({ range, answer, stop });
  }
}

export function newTask(range: ReportRange): RangeTask {
  return { range, responses: 0, former: null, wasExcessive: false };
}

/** The records of a response, one for each key: a page that was requested again repeats some. */
export function distinctRecords(records: readonly SourceRecord[], { id }: ResourceProfile): SourceRecord[] {
  const byKey = new Map<unknown, SourceRecord>();
  for (const record of records) {
    const found = record.rejection === undefined ? recordKey(record.value, id) : { reject: null };
    byKey.set('key' in found ? found.key : record, record);
  }
  return [...byKey.values()];
}

/**
 * Refuses a response with records of days that were not requested: the service's filter, or its zone, is not what the
 * profile says. Throws `SyncError` (`window_outside`, stop) that says which.
 */
export function refuseOutside(
  records: readonly SourceRecord[],
  { from, to }: ReportRange,
  windows: ReportWindows,
  reading: DayReading,
): void {
  const counts = new Map<Day, number>();
  for (const { value, rejection } of records) {
    const day = rejection === undefined ? toDay(fieldAt(value, windows.field), reading) : from;
    if (day === null || day < from || day >= to) counts.set(day ?? 'no day', (counts.get(day ?? 'no day') ?? 0) + 1);
  }
  if (counts.size === 0) return;
  const found = [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const outside = found.reduce((sum, [, count]) => sum + count, 0);
  const first = found.slice(0, 5).map(([day, count]) => `${count} of ${day}`);
  const last = addDays(to, -1);
  const asked = from === last ? `of ${last}` : `of ${from} to ${last}`;
  const message = `${outside} of ${records.length} records that were asked for ${asked} are of other days by ${windows.field}: ${first.join(', ')}${found.length > 5 ? ', ...' : ''}`;
  throw new SyncError('window_outside', message, {
    recovery: 'stop',
    hint: outsideHint([...counts.keys()], from, to, windows),
  });
}

function outsideHint(
  days: readonly string[],
  from: Day,
  to: Day,
  { field, to_inclusive, zone }: ReportWindows,
): string {
  if (days.includes('no day')) return `windows.field (${field}) must name the field with a record's day`;
  if (!to_inclusive && days.every((day) => day === to))
    return 'the service counts the end of a range in, or its days are of another zone: set windows.to_inclusive: true, or windows.zone, in the profile';
  if (days.every((day) => day === addDays(from, -1) || day === to))
    return `they lie at the border: the days of the service are of another zone than windows.zone (${zone}), or times of the field are (times)`;
  return 'the service does not keep to the range: set windows.from_param, to_param and format as it reads them';
}

/** A sum over a range that the service states otherwise than it was counted. */
export interface TotalDifference {
  field: string;
  /** Null if the response states none. */
  told: number | null;
  counted: number;
}

/** How it is stored with each window of the range, as JSON. */
export interface StatedTotals {
  from: Day;
  /** The day after the range. */
  to: Day;
  differs: TotalDifference[];
}

/** Sums of fractions differ in their last digits by the order of addition. */
const TOLERANCE = 1e-9;

/** Compares the sums that a response states (`totals`: path in the body by field) with those of its records. Pure. */
export function compareTotals(
  totals: Readonly<Record<string, string>>,
  body: JsonValue,
  records: readonly SourceRecord[],
): TotalDifference[] {
  return Object.entries(totals).flatMap(([field, path]) => {
    const stated = fieldAt(body, path) ?? null;
    const told = toNumber(stated);
    const counted = records.reduce((sum, { value }) => sum + (toNumber(fieldAt(value, field)) ?? 0), 0);
    const isEmpty = stated === null && records.length === 0;
    const isSame = told !== null && Math.abs(told - counted) <= TOLERANCE * Math.max(1, Math.abs(told));
    return isSame || isEmpty ? [] : [{ field, told, counted }];
  });
}

/** True if more is stated than listed: some services cap the rows of a query without saying so. */
export function isShort(differs: readonly TotalDifference[]): boolean {
  return differs.some(({ told, counted }) => told !== null && Math.abs(told) > Math.abs(counted));
}

/** Many services write numbers as texts. */
function toNumber(value: JsonValue | undefined): number | null {
  if (typeof value === 'number') return value;
  const text = isExact(value) ? value.rawJSON : value;
  if (typeof text !== 'string' || text.trim() === '') return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}
