// Reads the whole listing of a resource for `verify`, without writing and without a lease.
//
// The service may change while its listing is read: then records move between the pages, and one scan may miss some. So
// the listing is read up to three times, and is complete by the rule of a run: its end is verified, or all scans together
// have seen as many distinct records as the service states as its total.
import { setImmediate as yieldToEvents } from 'node:timers/promises';
import type { ReportWindows } from '../../config/profile/incremental.ts';
import { sendsRangeEnd } from '../../config/profile/resource.ts';
import type { WindowRow } from '../../database/own-tables.ts';
import { freshCheckpoint } from '../../database/state/checkpoints.ts';
import type { Forgotten } from '../../database/state/forgotten.ts';
import type { OwnedResource } from '../../database/state/owned-resource.ts';
import { readWindows } from '../../database/state/windows.ts';
import { newMeter } from '../../http/client.ts';
import { dropForgotten, type KeyedRecord, keyRecords } from '../../load/key-records.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { ResourceShape } from '../../model/table.ts';
import type { IncompleteReason, Page, ScanEnd } from '../../pagination/page.ts';
import { tombstoneOf } from '../../rows/columns/updated-time.ts';
import { fingerprintProfile, startScan } from '../plan.ts';
import { compareTotals, type FullAnswer, hasMissingRows, createTask, RangeQueue } from '../reports/read-range.ts';
import { readRowsOfRange } from '../reports/replace-range.ts';
import { dayReading, halvesOf } from '../reports/report-windows.ts';
import { createResourceContext, type SourceContext } from '../resource-context.ts';
import { newProgress, type RunContext } from '../run-progress.ts';
import { concludeScan, pagesOf } from '../scan/load-pages.ts';
import { waitFor } from '../scan/scan-until-complete.ts';
import type { Findings } from './report.ts';

const MAX_SCANS = 3;
/** These reasons count no longer if the scans together have seen as many distinct records as the total says. */
const DISPROVED_BY_COUNT: ReadonlySet<IncompleteReason['code']> = new Set(['fewer', 'slipped', 'entered', 'unwatched']);

/** What the scans of a listing have shown; `T` is what the caller keeps of a record. */
export interface Listing<T> {
  /** The distinct records by key, each as it was listed last. */
  seen: Map<string, T>;
  /** The last total that the service stated. */
  total: number | null;
  /** Why the listing may be incomplete. */
  doubts: readonly string[];
  /** True if it holds every record of the service, by the rule of a run. */
  isComplete: boolean;
  /** True if a live row that it does not hold is one too many. */
  showsExtraRows: boolean;
}

/** Called with the records of a page that have a key, and the number of rejected ones; returns what is kept of them. */
type ReadPage<T> = (records: KeyedRecord[], rejected: number) => (readonly [key: string, T])[];

/** Reads the whole listing, again if it moved meanwhile. Throws what scanning throws. */
export async function readListing<T>(context: RunContext, readPage: ReadPage<T>): Promise<Listing<T>> {
  const { profile, clock, signal } = context;
  const listing = { seen: new Map<string, T>(), total: null as number | null };
  let former: ScanEnd | null = null;
  let formerEndedAt: number | null = null;
  for (let scans = 1; ; scans += 1) {
    const scan: OneScan = await scanOnce(context, listing, readPage, former, formerEndedAt);
    const { total, seen } = listing;
    const isCounted = total !== null && scan.withoutKey === 0 && seen.size >= total;
    const isDisproved = scans > 1 && isCounted && scan.reasons.every(({ code }) => DISPROVED_BY_COUNT.has(code));
    const isComplete = scan.isComplete || isDisproved;
    const waitMs = waitFor(scan.end === null ? 0 : scan.end.cacheWaitMs, scan.isCached);
    if (isComplete || !scan.mayRepeat || scans === MAX_SCANS || waitMs === null) {
      const doubts = isComplete ? [] : scan.reasons.map(({ message }) => message);
      const showsExtraRows = isComplete && (scan.showsExtraRows || !scan.isComplete);
      return { ...listing, doubts, isComplete, showsExtraRows };
    }
    former = profile.windows === null ? scan.end : null;
    formerEndedAt = clock.now();
    await clock.sleep(waitMs, signal);
  }
}

/** One scan of a listing, or of the listings of all partitions or final windows. */
interface OneScan {
  /** Null if there is nothing to scan: no window of a report is final. */
  end: ScanEnd | null;
  reasons: IncompleteReason[];
  isComplete: boolean;
  showsExtraRows: boolean;
  mayRepeat: boolean;
  isCached: boolean;
  /** Records that are not compared by key. */
  withoutKey: number;
}

async function scanOnce<T>(
  context: RunContext,
  listing: { seen: Map<string, T>; total: number | null },
  readPage: ReadPage<T>,
  former: ScanEnd | null,
  formerEndedAt: number | null,
): Promise<OneScan> {
  const { profile, owned, signal } = context;
  const isOneListing = profile.windows === null && profile.partitions === null;
  const facts = { isComplete: true, showsExtraRows: true, mayRepeat: false, isCached: false };
  const scan: OneScan = { ...facts, end: null, reasons: [], withoutKey: 0 };
  for await (const page of await pagesToVerify(context, former, formerEndedAt)) {
    try {
      const { records, forgotten } = dropForgotten(page.records, profile, owned.forgotten);
      const { keyed, rejects, filteredOut } = keyRecords(records, profile);
      for (const [key, record] of readPage(keyed, rejects.length)) listing.seen.set(key, record);
      // Each of several listings has a total of its own.
      if (isOneListing) listing.total = page.total ?? listing.total;
      scan.withoutKey += forgotten + rejects.length + filteredOut.length;
      if (page.end !== null) addEnd(context, scan, page, page.end, former);
    } finally {
      page.release();
    }
    signal.throwIfAborted();
    await yieldToEvents();
  }
  if (scan.end === null && profile.windows === null) throw new Error('a listing came to no end');
  return scan;
}

function addEnd(context: RunContext, scan: OneScan, page: Page, end: ScanEnd, former: ScanEnd | null): void {
  const { verdict } = concludeScan(context, page, end, { former });
  const isComplete = verdict.isComplete && !verdict.needsCatchUp;
  scan.end = end;
  scan.reasons.push(...(isComplete ? verdict.incompleteReasons : end.incompleteReasons));
  scan.isComplete &&= isComplete;
  scan.showsExtraRows &&= isComplete && verdict.allowsDeletes;
  scan.mayRepeat ||= verdict.mayRepeat || verdict.needsCatchUp;
  scan.isCached ||= verdict.isCached;
}

/** Reads these records from the listing. `isComplete`: those that are not among them are not listed. */
export async function readFromListing(
  context: RunContext,
  keys: ReadonlySet<string>,
): Promise<{ records: Map<string, SourceRecord>; isComplete: boolean }> {
  const { seen, showsExtraRows } = await readListing(context, (records) =>
    records.map((record) => {
      const isWanted = keys.has(record.key) && tombstoneOf(record.value, context.profile) === null;
      return [record.key, isWanted ? record : null] as const;
    }),
  );
  const records = new Map([...seen].flatMap(([key, record]) => (record === null ? [] : [[key, record] as const])));
  return { records, isComplete: showsExtraRows };
}

async function pagesToVerify(
  context: RunContext,
  former: ScanEnd | null,
  formerEndedAt: number | null,
): Promise<AsyncIterable<Page>> {
  const { profile, clock, owned, warehouse } = context;
  if (profile.windows !== null) {
    const windows = await readWindows(warehouse.own, owned.resource);
    return readReportPages(context, profile.windows, windows.filter(isFinal));
  }
  const start = startScan(freshCheckpoint(owned.resource, fingerprintProfile(profile)), 'full', null, clock.now());
  return pagesOf(context, start, { numbering: { isVerified: former !== null }, formerEndedAt });
}

/** The windows of a report that may still change: their number and first day, and the keys of their live rows. */
export async function readOpenWindows(
  context: RunContext,
  windows: ReportWindows,
): Promise<{ count: number; from: string; keys: Set<string> }> {
  const rows = await readWindows(context.warehouse.own, context.owned.resource);
  const open = rows.filter((row) => isCopied(row) && !isFinal(row));
  const keys = new Set<string>();
  const reading = dayReading(context.profile, windows);
  for (const { window_start: from, window_end: to } of open) {
    for (const key of (await readRowsOfRange(context, { windows, reading }, { from, to }, 'live')).keys())
      keys.add(key);
  }
  return { count: open.length, from: open[0]?.window_start ?? '', keys };
}

function isCopied({ fetched_at: fetchedAt, dropped_at: droppedAt }: WindowRow): boolean {
  return fetchedAt !== null && droppedAt === null;
}

/** True for a window that could not change any more when it was copied. */
function isFinal(row: WindowRow): boolean {
  return isCopied(row) && row.is_final === 1 && row.held_at === null;
}

/** The responses for these windows. A range whose response is cut short or refused is requested in halves. */
async function* readReportPages(
  context: RunContext,
  windows: ReportWindows,
  rows: readonly WindowRow[],
): AsyncGenerator<Page> {
  // Totals that were right when the rows were copied show a response that is cut short.
  const comparesTotals = rows.every(({ totals }) => totals === null);
  const isCutShort = ({ body, page }: FullAnswer): boolean =>
    comparesTotals && hasMissingRows(compareTotals(windows.totals, body, page.records));
  const options = {
    windows,
    hasEnd: sendsRangeEnd(context.profile),
    lane: 'backfill',
    fullPageSize: null,
    maxWindows: Infinity,
    until: rows.at(-1)?.window_end ?? '',
  } as const;
  const newestFirst = rows.map((row) => ({ start: row.window_start, end: row.window_end })).toReversed();
  const queue = new RangeQueue(context, options, newestFirst);
  try {
    for (let next = await queue.next(); next !== null; next = await queue.next()) {
      const { task, answer } = next;
      const halves = halvesOf(task.range);
      if ('error' in answer && halves === null) throw answer.error ?? new Error('a single window is too large');
      if ('page' in answer && (halves === null || !isCutShort(answer))) {
        yield answer.page;
        continue;
      }
      if ('page' in answer) answer.page.release();
      queue.putBack((halves ?? []).map(createTask));
    }
  } finally {
    await queue.abort();
  }
}

export interface VerifyContext extends RunContext {
  shape: ResourceShape;
  findings: Findings;
  /** Epoch milliseconds of the service's clock: changes before must be in the copy. */
  copiedUntil: number;
}

const doNothing = (): void => undefined;

/** The context of a scan without a lease, so that it disturbs no process that writes. */
export function readingContext(
  source: SourceContext,
  { shape, forgotten }: { shape: ResourceShape; forgotten: Forgotten },
  signal: AbortSignal,
): RunContext {
  const refuse = (): never => {
    throw new Error(`${shape.resource} is read-only here`);
  };
  const owned: OwnedResource = {
    resource: shape.resource,
    shape,
    forgotten,
    years: null,
    openRejects: 0,
    watches: new Set(),
    heldViews: [],
    sourceViews: { refreshed: Promise.resolve(), upToDate: null },
    fixedColumns: [],
    rereadForgotten: () => Promise.resolve(),
    lease: refuse,
    commit: refuse,
    recover: () => Promise.resolve(false),
    reacquire: () => Promise.resolve(),
    release: () => Promise.resolve(),
    runAlone: (work) => work(),
  };
  const meter = newMeter();
  return {
    ...createResourceContext(source, owned, { meter, signal }),
    run: { run_id: source.runId, resource: shape.resource, command: 'verify', mode: 'full' },
    progress: newProgress('full', [], meter),
    watcher: { started: doNothing, page: doNothing, ended: doNothing },
  };
}
