import { setImmediate as yieldToEvents } from 'node:timers/promises';
import type { Doubt, WalkEnd } from '../../extract/guards/walk-end.ts';
import type { Page } from '../../extract/page.ts';
import { dropForgotten } from '../../load/drop-forgotten.ts';
import { keyRecords, type KeyedRecord } from '../../load/key-records.ts';
import { AGE_STEP_MS } from '../../model/answer-age.ts';
import type { SourceRecord } from '../../model/json.ts';
import { tombstoneOf } from '../../shape/tombstone.ts';
import { asksForEnd, type ReportWindows } from '../../source/report-windows.ts';
import { freshCheckpoint } from '../../state/checkpoints.ts';
import { readWindows } from '../../state/windows.ts';
import type { WindowRow } from '../../warehouse/own-tables.ts';
import { fingerprintOf, startWalk } from '../plan.ts';
import { compareTotals, isShort } from '../reports/compare-totals.ts';
import { readRange } from '../reports/read-range.ts';
import { dayReading } from '../reports/record-day.ts';
import { rowsOfRange } from '../reports/replace-range.ts';
import type { ReportWindow } from '../reports/report-days.ts';
import { halvesOf, nextRange, type ReportRange } from '../reports/report-ranges.ts';
import type { RunContext } from '../run-progress.ts';
import { pagesOf } from '../walk/load-pages.ts';
import { endedBy } from '../walk/load-pages.ts';
import { windowsOf } from '../walk/windows.ts';

/** A listing that moves while it is read is scanned this many times. */
const MAX_SCANS = 3;
const MAX_CACHE_WAIT_MS = 600_000;
/** These doubts are settled if the scans together have seen as many distinct records as the total says. */
const SETTLED_BY_COUNT: ReadonlySet<Doubt['code']> = new Set(['fewer', 'slipped', 'entered', 'unwatched']);

/** What the scans of a listing have shown; `T` is what the caller keeps of a record. */
export interface Listing<T> {
  /** The distinct records by key, each as it was listed last. */
  seen: Map<string, T>;
  pages: number;
  /** The last total that the service stated. */
  total: number | null;
  end: string | null;
  doubts: readonly string[];
  /** True if it holds every record of the service, by the rule of a run. */
  isComplete: boolean;
  /** True if a live row that it does not hold is one too many. */
  showsExtraRows: boolean;
}

/**
 * Scans the whole listing, and again if it moved meanwhile. Completeness is judged as a run does: by the end of the scan,
 * and by the distinct records of all scans against the last total. `readPage` gets the records of a page that have a key
 * and the number of those that are rejected. Throws what scanning throws.
 */
export async function readListing<T>(
  context: RunContext,
  readPage: (records: KeyedRecord[], rejected: number) => Promise<Iterable<readonly [key: string, T]>>,
): Promise<Listing<T>> {
  const { profile, clock, owned, signal } = context;
  const listing = { seen: new Map<string, T>(), pages: 0 };
  let total: number | null = null;
  let former: WalkEnd | null = null;
  let formerEndedAt: number | null = null;
  for (let scans = 1; ; scans += 1) {
    let withoutKey = 0;
    const scan = await scanOnce(context, { former, formerEndedAt }, async (page) => {
      const { records, forgotten } = dropForgotten(page.records, profile, owned.forgotten);
      const { keyed, setAside, leftOut } = keyRecords(records, profile);
      for (const [key, record] of await readPage(keyed, setAside.length)) listing.seen.set(key, record);
      listing.pages += 1;
      total = page.total ?? total;
      withoutKey += forgotten + setAside.length + leftOut.length;
    });
    const { doubts, end, settleMs } = scan;
    // Each of several listings has a total of its own.
    if (!scan.isOneListing) total = null;
    const isCounted =
      total !== null &&
      withoutKey === 0 &&
      listing.seen.size >= total &&
      doubts.every(({ code }) => SETTLED_BY_COUNT.has(code));
    const isComplete = scan.isComplete || (scans > 1 && isCounted);
    const waitMs = settleMs !== null && settleMs <= MAX_CACHE_WAIT_MS ? settleMs : scan.isCached ? null : AGE_STEP_MS;
    if (isComplete || !scan.mayRepeat || scans === MAX_SCANS || waitMs === null) {
      const shown = { end: end?.proof ?? null, doubts: isComplete ? [] : doubts.map(({ message }) => message) };
      return {
        ...listing,
        ...shown,
        total,
        isComplete,
        showsExtraRows: isComplete && (scan.showsExtraRows || !scan.isComplete),
      };
    }
    former = profile.windows === null ? end : null;
    formerEndedAt = clock.now();
    await clock.sleep(waitMs, signal);
  }
}

/** Reads these records from the listing. `isComplete`: those that are not among them are not listed. */
export async function readFromListing(
  context: RunContext,
  keys: ReadonlySet<string>,
): Promise<{ records: Map<string, SourceRecord>; isComplete: boolean }> {
  const { seen, showsExtraRows } = await readListing(context, (records) =>
    Promise.resolve(
      records.map((record) => {
        const isWanted = keys.has(record.key) && tombstoneOf(record.value, context.profile) === null;
        return [record.key, isWanted ? record : null] as const;
      }),
    ),
  );
  const records = new Map([...seen].flatMap(([key, record]) => (record === null ? [] : [[key, record] as const])));
  return { records, isComplete: showsExtraRows };
}

interface Scan {
  /** Of its last listing; null if nothing was listed. */
  end: WalkEnd | null;
  doubts: Doubt[];
  isComplete: boolean;
  showsExtraRows: boolean;
  mayRepeat: boolean;
  isCached: boolean;
  settleMs: number | null;
  /** False for partitions, windows of time and reports. */
  isOneListing: boolean;
}

async function scanOnce(
  context: RunContext,
  { former, formerEndedAt }: { former: WalkEnd | null; formerEndedAt: number | null },
  readPage: (page: Page) => Promise<void>,
): Promise<Scan> {
  const { profile, clock, owned, signal, warehouse } = context;
  const start = startWalk(freshCheckpoint(owned.resource, fingerprintOf(profile)), 'full', null, clock.now());
  const windows = await windowsOf(context, start);
  // Nothing is listed if no window of a report is final: then nothing is missing either.
  const scan: Scan = {
    end: null,
    doubts: [],
    settleMs: 0,
    isComplete: true,
    showsExtraRows: true,
    mayRepeat: false,
    isCached: false,
    isOneListing: windows === null && profile.windows === null && profile.partitions === null,
  };
  const pages =
    profile.windows === null
      ? await pagesOf(context, { windows }, start, { numbering: { isProved: former !== null }, formerEndedAt })
      : readReportPages(context, profile.windows, (await readWindows(warehouse.own, owned.resource)).filter(isFinal));
  for await (const page of pages) {
    try {
      await readPage(page);
      if (page.end !== null) {
        const { proof } = endedBy(context, page, page.end, { former });
        const isComplete = proof.isProved && !proof.needsCatchUp;
        scan.end = page.end;
        scan.doubts.push(...(isComplete ? proof.doubts : page.end.doubts));
        scan.isComplete &&= isComplete;
        scan.showsExtraRows &&= isComplete && proof.maySweep;
        scan.mayRepeat ||= proof.mayRepeat || proof.needsCatchUp;
        scan.isCached ||= proof.isKept;
        scan.settleMs = page.end.settleMs;
      }
    } finally {
      page.release();
    }
    signal.throwIfAborted();
    await yieldToEvents();
  }
  if (scan.end === null && profile.windows === null) throw new Error('a listing came to no end');
  return scan;
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
    for (const key of (await rowsOfRange(context, { windows, reading }, { from, to }, 'live')).keys()) keys.add(key);
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

const DAY_MS = 86_400_000;

async function* readReportPages(
  context: RunContext,
  windows: ReportWindows,
  rows: readonly WindowRow[],
): AsyncGenerator<Page> {
  const counts = new Map(rows.map((row) => [row.window_start, row.rows]));
  const hasEnd = asksForEnd(context.profile);
  // Totals that were right when the rows were copied show a response that is cut short.
  const comparesTotals = rows.every(({ totals }) => totals === null);
  const bounds = {
    largest: windows.largest / DAY_MS,
    windows: hasEnd ? Infinity : 1,
    until: rows.at(-1)?.window_end ?? '',
    rows: windows.most,
    rowsOf: ({ start }: ReportWindow) => counts.get(start) ?? null,
  };
  let left: readonly ReportWindow[] = rows
    .map((row) => ({ start: row.window_start, end: row.window_end }))
    .toReversed();
  while (left.length > 0) {
    const next = nextRange(left, bounds);
    left = next.left;
    yield* readRangePages(context, windows, next.range, { hasEnd, comparesTotals });
  }
}

/** A range whose response is cut short or refused is read in halves. */
async function* readRangePages(
  context: RunContext,
  windows: ReportWindows,
  range: ReportRange,
  how: { hasEnd: boolean; comparesTotals: boolean },
): AsyncGenerator<Page> {
  const answer = await readRange(context, { range, windows, hasEnd: how.hasEnd, lane: 'backfill', kept: null });
  const halves = halvesOf(range);
  if ('tooMuch' in answer) {
    if (halves === null) throw answer.error ?? new Error('a single window is too large');
  } else {
    const isCutShort = how.comparesTotals && isShort(compareTotals(windows.totals, answer.body, answer.page.records));
    if (halves === null || !isCutShort) {
      yield answer.page;
      return;
    }
    answer.page.release();
  }
  for (const half of halves) yield* readRangePages(context, windows, half, how);
}
