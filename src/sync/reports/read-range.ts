// Requests ranges of report windows, prefetches the next ones, and checks the days and totals of responses.
import { listingScan } from '../../checks/listing-scan.ts';
import type { ReportWindows } from '../../config/profile/incremental.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { Page, ScanEnd } from '../../pagination/page.ts';
import { type ScanOptions, scanPages } from '../../pagination/scan-pages.ts';
import { isExact } from '../../rows/json/parse-json.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { recordKey } from '../../rows/records/record-key.ts';
import type { ResourceContext } from '../resource-context.ts';
import {
  addDays,
  type Day,
  DAY_MS,
  dayOf,
  type DayReading,
  nextRange,
  rangeQuery,
  type ReportRange,
  type ReportWindow,
} from './report-windows.ts';

/** The pages of a range, which are committed as one. */
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

/** The service's whole response for a range. */
export interface RangeAnswer {
  page: JoinedPage;
  end: ScanEnd;
  /** The body of its last page, which may state totals. */
  body: JsonValue;
  /** True if it holds as many rows as the service lists for one query. */
  isFull: boolean;
}

/** Why a range has to be split: it is more than the service lists, or than it or this process can do at once. */
export type TooMuch = { tooMuch: 'capped' | 'refused' | 'slow' | 'memory'; error: SyncError | null };

/** Source bytes of a range of several windows, which is in memory until its last page has arrived. */
const MAX_RANGE_BYTES = 16_777_216;

/** Errors after which the same range would fail again, and a smaller one may not. */
const TOO_MUCH: Readonly<Record<string, TooMuch['tooMuch']>> = {
  window_too_large: 'refused',
  timeout: 'slow',
  memory_full: 'memory',
  body_too_large: 'memory',
};

/**
 * Requests a range page by page, to a verified end like any scan. A range of several windows is given up as soon as it has
 * to be split; of a single window, all that there is is returned. The caller releases the page. Throws as `scanPages` does.
 */
export async function readRange(context: ResourceContext, request: RangeRequest): Promise<RangeAnswer | TooMuch> {
  const pages: Page[] = [];
  try {
    const tooMuch = await collectPages(context, request, pages);
    if (tooMuch === null) return joinAnswer(pages, request.windows);
    for (const page of pages) page.release();
    return tooMuch;
  } catch (error) {
    for (const page of pages) page.release();
    const tooMuch = error instanceof SyncError ? TOO_MUCH[error.code] : undefined;
    if (tooMuch === undefined || !(error instanceof SyncError)) throw error;
    return { tooMuch, error };
  }
}

async function collectPages(
  context: ResourceContext,
  { range, windows, hasEnd, lane, fullPageSize, formerEndedAt = null }: RangeRequest,
  pages: Page[],
): Promise<TooMuch | null> {
  const { most, too_large: tooLarge } = windows;
  const maySplit = range.windows.length > 1;
  let [rows, bytes] = [0, 0];
  const options: ScanOptions = {
    ...listingScan(context, lane, rangeQuery(windows, range, hasEnd)),
    tooLarge,
    formerEndedAt,
    runAhead: context.runAhead,
    // The pages stay in memory until the last of them has arrived.
    keepsPages: true,
    ...(fullPageSize === null ? {} : { fullPageSize: fullPageSize <= context.profile.page.size ? fullPageSize : 0 }),
  };
  for await (const page of scanPages(options)) {
    pages.push(page);
    rows += page.records.length - page.repeatedRecords;
    bytes += page.records.reduce((sum, record) => sum + record.bytes.length, 0);
    if (maySplit && most !== null && Math.max(rows, page.total ?? 0) >= most) return { tooMuch: 'capped', error: null };
    if (maySplit && bytes > MAX_RANGE_BYTES) return { tooMuch: 'memory', error: null };
  }
  return null;
}

function joinAnswer(pages: readonly Page[], { most }: ReportWindows): RangeAnswer {
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
  const isFull = most !== null && Math.max(rows, ...totals) >= most;
  return { page, end: last.end, body: last.answer?.json ?? null, isFull };
}

/** Errors that the other requests in flight may have caused: then the range is requested again alone. */
const ERRORS_BY_LOAD: ReadonlySet<string> = new Set(['timeout', 'memory_full']);

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

interface BegunTask extends RangeTask {
  answer: Promise<RangeAnswer | TooMuch>;
  stop: AbortController;
}

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
  #begun: BegunTask[] = [];
  /** True once a range of the present size came whole. */
  #mayPrefetch = false;

  constructor(context: ResourceContext, options: RangeOptions, due: readonly ReportWindow[]) {
    [this.#context, this.#options, this.#remaining] = [context, options, due];
  }

  /** The next range, after the previous one was processed; null after the last. `answer` throws what its request threw. */
  next(): { task: RangeTask; answer: () => Promise<RangeAnswer | TooMuch> } | null {
    const again = this.#putBack.shift();
    if (again !== undefined) {
      const formerEndedAt = again.former?.endedAt ?? null;
      return { task: again, answer: () => readRange(this.#context, { ...this.#options, ...again, formerEndedAt }) };
    }
    if (this.#begun.length === 0 && this.#remaining.length > 0) this.#begin(this.#context.runAhead);
    const head = this.#begun.shift();
    if (head === undefined) return null;
    if (this.#mayPrefetch) this.#fill();
    return { task: head, answer: () => this.#answerFor(head) };
  }

  /** Ranges to process in place of the last one. */
  putBack(tasks: readonly RangeTask[]): void {
    this.#putBack.unshift(...tasks);
    if (tasks.length > 0) this.#mayPrefetch = false;
  }

  /** Aborts what is in flight, and releases what has arrived. The ranges are requested again by later calls of `next`. */
  async abort(): Promise<void> {
    const begun = this.#begun.splice(0);
    this.#remaining = [...begun.flatMap(({ range }) => range.windows.toReversed()), ...this.#remaining];
    for (const { stop } of begun) stop.abort();
    for (const ended of await Promise.allSettled(begun.map(({ answer }) => answer))) {
      if (ended.status === 'fulfilled' && !('tooMuch' in ended.value)) ended.value.page.release();
    }
  }

  async #answerFor({ range, answer }: BegunTask): Promise<RangeAnswer | TooMuch> {
    const found = await answer;
    if (!('tooMuch' in found)) {
      this.#mayPrefetch = true;
      this.#fill();
    } else if (this.#begun.length > 0 && ERRORS_BY_LOAD.has(found.error?.code ?? '')) {
      this.#mayPrefetch = false;
      await this.abort();
      return readRange(this.#context, { ...this.#options, range });
    }
    return found;
  }

  #fill(): void {
    while (this.#remaining.length > 0 && this.#begun.length < this.#context.runAhead) this.#begin(1);
  }

  /** `runAhead` bounds the pages in flight: of prefetched ranges one each, so that the first range is not delayed. */
  #begin(runAhead: number): void {
    const { windows, maxWindows, until, hasEnd } = this.#options;
    const limits = { largest: windows.largest / DAY_MS, windows: hasEnd ? maxWindows : 1, until };
    const { range, left } = nextRange(this.#remaining, limits);
    this.#remaining = left;
    const stop = new AbortController();
    const signal = AbortSignal.any([this.#context.signal, stop.signal]);
    const answer = readRange({ ...this.#context, signal, runAhead }, { ...this.#options, range });
    answer.catch(() => undefined);
    this.#begun.push({ ...newTask(range), answer, stop });
  }
}

export function newTask(range: ReportRange): RangeTask {
  return { range, responses: 0, former: null, wasExcessive: false };
}

/** The records of a response, one for each key: a page that was requested again repeats some. */
export function distinctRecords(records: readonly SourceRecord[], { id }: ResourceProfile): SourceRecord[] {
  const byKey = new Map<unknown, SourceRecord>();
  for (const record of records) {
    const found = record.aside === undefined ? recordKey(record.value, id) : { reject: null };
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
  const days = records
    .filter(({ aside }) => aside === undefined)
    .map(({ value }) => dayOf(fieldAt(value, windows.field), reading));
  const outside = days.filter((day) => day === null || day < from || day >= to);
  if (outside.length === 0) return;
  const last = addDays(to, -1);
  const found = [...Map.groupBy(outside, (day) => day ?? 'no day')].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const counts = found.slice(0, 5).map(([day, alike]) => `${alike.length} of ${day}`);
  const asked = from === last ? `of ${last}` : `of ${from} to ${last}`;
  const message = `${outside.length} of ${records.length} records that were asked for ${asked} are of other days by ${windows.field}: ${counts.join(', ')}${found.length > 5 ? ', ...' : ''}`;
  const hint = outsideHint(
    found.map(([day]) => day),
    { from, to },
    windows,
  );
  throw new SyncError('window_outside', message, { recovery: 'stop', hint });
}

function outsideHint(
  days: readonly string[],
  { from, to }: { from: Day; to: Day },
  { field, to_inclusive, zone }: ReportWindows,
): string {
  if (days.includes('no day')) return `windows.field (${field}) must name the field with a record's day`;
  const [before, after] = [addDays(from, -1), to];
  if (days.every((day) => day === after) && !to_inclusive)
    return 'the service counts the end of a range in, or its days are of another zone: set windows.to_inclusive: true, or windows.zone, in the profile';
  if (days.every((day) => day === before || day === after))
    return `they lie at the border: the days of the service are of another zone than windows.zone (${zone}), or times of the field are (times)`;
  return 'the service does not keep to the range: set windows.from_param, to_param and format as it reads them';
}

/** A sum over a range that the service states otherwise than it was counted. */
export interface TotalDifference {
  field: string;
  /** Null if the response states none. */
  reported: number | null;
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
    const reported = toNumber(stated);
    const counted = records.reduce((sum, { value }) => sum + (toNumber(fieldAt(value, field)) ?? 0), 0);
    const isEmpty = stated === null && records.length === 0;
    const isSame = reported !== null && Math.abs(reported - counted) <= TOLERANCE * Math.max(1, Math.abs(reported));
    return isSame || isEmpty ? [] : [{ field, reported, counted }];
  });
}

/** True if more is stated than listed: some services cap the rows of a query without saying so. */
export function isShort(differs: readonly TotalDifference[]): boolean {
  return differs.some(({ reported, counted }) => reported !== null && Math.abs(reported) > Math.abs(counted));
}

/** Many services write numbers as texts. */
function toNumber(value: JsonValue | undefined): number | null {
  if (typeof value === 'number') return value;
  const text = isExact(value) ? value.rawJSON : value;
  if (typeof text !== 'string' || text.trim() === '') return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}
