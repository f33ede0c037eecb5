// Reads the whole listing of a resource for `content-sync verify`, which compares it with the copy.
//
// The service may change while its listing is read: then records move between the pages, and one scan may miss some. So
// the listing is read up to three times. As in a run, it is complete if its end is verified, or if all scans together have
// seen as many distinct records as the service states as its total.
import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { freshCheckpoint } from '../../database/state/checkpoints.ts';
import { dropForgotten, type KeyedRecord, keyRecords } from '../../load/key-records.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { IncompleteReason, Page, ScanEnd } from '../../pagination/page.ts';
import { tombstoneOf } from '../../rows/columns/updated-time.ts';
import { fingerprintProfile, startScan } from '../plan.ts';
import type { RunContext } from '../run-progress.ts';
import { concludeScan } from '../scan/judge-scan.ts';
import { openPages } from '../scan/load-pages.ts';
import { waitFor } from '../scan/scan-until-complete.ts';
import { readFinalWindows } from './report-pages.ts';

const MAX_SCANS = 3;
/** Reasons that no longer matter if the scans together have seen as many distinct records as the total. */
const OVERRULED_BY_TOTAL: ReadonlySet<IncompleteReason['code']> = new Set(['fewer', 'slipped', 'entered', 'unwatched']);

/** The records that the scans of a listing have seen; `T` is what the caller keeps of each. */
export interface Listing<T> {
  /** The distinct records by key, each as it was listed last. */
  seen: Map<string, T>;
  /** The last total that the service stated. */
  total: number | null;
  /** Why the listing may be incomplete. */
  doubts: readonly string[];
  /** True if it has every record of the service. */
  isComplete: boolean;
  /** True if the service has no record for a live row that is not in it: the row is one too many. */
  showsExtraRows: boolean;
}

/** Called with the records of a page that have a key, and the number of rejected ones; returns what to keep of each. */
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
    const hasTotal = total !== null && scan.uncompared === 0 && seen.size >= total;
    const isCompleteByTotal = scans > 1 && hasTotal && scan.reasons.every(({ code }) => OVERRULED_BY_TOTAL.has(code));
    const isComplete = scan.isComplete || isCompleteByTotal;
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
  /** Records that cannot be found in `seen`: rejected, erased or excluded ones, which the total may count. */
  uncompared: number;
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
  const scan: OneScan = { ...facts, end: null, reasons: [], uncompared: 0 };
  for await (const page of await pagesToVerify(context, former, formerEndedAt)) {
    try {
      const { records, forgotten } = dropForgotten(page.records, profile, owned.forgotten);
      const { keyed, rejects, filteredOut } = keyRecords(records, profile);
      for (const [key, record] of readPage(keyed, rejects.length)) listing.seen.set(key, record);
      // Each of several listings has a total of its own.
      if (isOneListing) listing.total = page.total ?? listing.total;
      scan.uncompared += forgotten + rejects.length + filteredOut.length;
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

/** Reads some records from the listing. If `isComplete`, the service does not list those that are missing in the result. */
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
  const { profile, clock, owned } = context;
  if (profile.windows !== null) return readFinalWindows(context, profile.windows);
  const start = startScan(freshCheckpoint(owned.resource, fingerprintProfile(profile)), 'full', null, clock.now());
  return openPages(context, start, { numbering: { isVerified: former !== null }, formerEndedAt });
}
