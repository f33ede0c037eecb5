// Requests ranges of days of a report, and checks the days and totals of the responses.
//
// A service answers `GET /stats?from=2026-01-01&to=2026-01-31` with a row for each day and page. One request covers as
// many windows (days, weeks or months) as the service can list at once. If a range is too large for the service or for
// this process, the caller splits it into halves. The next ranges are requested while one is written (`RangeQueue`).
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
  type DayReading,
  nextRange,
  rangeQuery,
  type ReportRange,
  type ReportWindow,
  toDay,
} from './report-windows.ts';

/** The pages of a range, joined because they are committed in one transaction. */
export interface JoinedPage extends Page {
  parts: readonly Page[];
}

interface RangeRequest {
  range: ReportRange;
  windows: ReportWindows;
  /** False if requests name only the first day of one window. */
  hasEnd: boolean;
  lane: Lane;
  /** Records on the largest page that named a next one, of earlier ranges; null if that is not known. */
  fullPageSize: number | null;
  /** When the scan ended that this one repeats, in local epoch milliseconds; absent or null for the first one. */
  formerEndedAt?: number | null;
}

/** The response for a whole range, of one or more pages. */
export interface FullAnswer {
  page: JoinedPage;
  end: ScanEnd;
  /** The body of its last page, which may state totals. */
  body: JsonValue;
  /** True if it has as many rows as the service lists at most for a query (`windows.most`): more may exist. */
  isFull: boolean;
}

/**
 * The response for a range, or why there is none: `error` is what the request failed with, or null if a range of several
 * windows is too large. Then the caller splits the range, or reports that the service refuses it (`isUnitRefusal`).
 */
export type RangeAnswer = FullAnswer | { error: SyncError | null };

/** Errors after which the same range would fail again, but a smaller one may succeed. */
const TOO_MUCH: ReadonlySet<string> = new Set(['window_too_large', 'timeout', 'memory_full', 'body_too_large']);

/**
 * Requests a range page by page, to a verified end like any scan. A range of several windows ends as soon as it is known to
 * be too large; a single window is always read to its end. The caller releases the page. Throws errors that are not about
 * the range.
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

/** Max size of a range of several windows, whose pages stay in memory until the last one has arrived. */
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

/** The options of the next requests. The caller updates them after each response. */
export interface RangeOptions extends Omit<RangeRequest, 'range'> {
  /** Max windows per range, as far as is known. */
  maxWindows: number;
  /** The day after the last one that is requested. */
  until: Day;
}

/** A range whose rows are to be replaced, and its earlier responses. */
export interface RangeTask {
  range: ReportRange;
  /** Number of complete responses so far. */
  responses: number;
  /** The end of the last one, and when it was reached, in local epoch milliseconds; null before the first. */
  former: { end: ScanEnd; endedAt: number } | null;
  /** True if a response would have deleted too many rows. */
  wasExcessive: boolean;
}

/** Errors that other requests in flight may have caused: the range is then requested again, with no other one in flight. */
const ERRORS_BY_LOAD: ReadonlySet<string> = new Set(['timeout', 'memory_full']);

/**
 * The ranges to replace, the newest first. While the caller writes one, the next ones are requested. Nothing is prefetched
 * before the first response, and after a range was put back: the response decides how large the next ranges are.
 */
export class RangeQueue {
  readonly #context: ResourceContext;
  readonly #options: RangeOptions;
  #remaining: readonly ReportWindow[];
  #putBack: RangeTask[] = [];
  #inFlight: { range: ReportRange; answer: Promise<RangeAnswer>; stop: AbortController }[] = [];
  /** True once a range of the present size has had a response. */
  #mayPrefetch = false;

  constructor(context: ResourceContext, options: RangeOptions, due: readonly ReportWindow[]) {
    [this.#context, this.#options, this.#remaining] = [context, options, due];
  }

  /** Returns the next range and its response; null after the last one. Throws as `readRange` does. */
  async next(): Promise<{ task: RangeTask; answer: RangeAnswer } | null> {
    this.#context.signal.throwIfAborted();
    const again = this.#putBack.shift();
    if (again !== undefined) return { task: again, answer: await this.#readAlone(again) };
    if (this.#inFlight.length === 0 && this.#remaining.length > 0) this.#request(this.#context.runAhead);
    const first = this.#inFlight.shift();
    if (first === undefined) return null;
    const task = createTask(first.range);
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

  /** Adds ranges that come next, in place of the last one: its halves, or the same range again. */
  putBack(tasks: readonly RangeTask[]): void {
    this.#putBack.unshift(...tasks);
    if (tasks.length > 0) this.#mayPrefetch = false;
  }

  /** Aborts the requests in flight and releases their pages. Later calls of `next` request these ranges again. */
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

  /** `runAhead`: max pages in flight; 1 for a prefetched range, so that it does not delay the first one. */
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

export function createTask(range: ReportRange): RangeTask {
  return { range, responses: 0, former: null, wasExcessive: false };
}

/** Selects the last record of each key: a page that was requested again repeats some. */
export function selectDistinctRecords(records: readonly SourceRecord[], { id }: ResourceProfile): SourceRecord[] {
  const byKey = new Map<unknown, SourceRecord>();
  for (const record of records) {
    const found = record.rejection === undefined ? recordKey(record.value, id) : { reject: null };
    byKey.set('key' in found ? found.key : record, record);
  }
  return [...byKey.values()];
}

/**
 * Throws `SyncError` (`window_outside`, stop) if the response has records of days that were not requested: the filter of
 * the service, or its time zone, is not what the profile says.
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

/** A total that the service states for a range, and that differs from the sum of its records. */
export interface TotalDifference {
  field: string;
  /** The stated total; null if the response has none. */
  told: number | null;
  counted: number;
}

/** The differences of a range, as they are stored with each of its windows, as JSON. */
export interface StatedTotals {
  from: Day;
  /** The day after the range. */
  to: Day;
  differs: TotalDifference[];
}

/** Relative: sums of fractions differ in their last digits, depending on the order of addition. */
const TOLERANCE = 1e-9;

/** Compares the totals of a response with the sums of its records. `totals` has the path in the body for each field. */
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

/** True if a stated total exceeds the sum of the records: some services cap the rows of a query silently. */
export function hasMissingRows(differs: readonly TotalDifference[]): boolean {
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
