// Scans a listing, and repeats the scan until it has seen every record.
//
// While pages are read, records are created and deleted, and numbered pages shift: a record may move from page 5 to page 4
// after page 4 was read, and the scan misses it. If the service states a total of 100 records and the scan saw 99, the
// missing one is requested by the filter for changes, or the listing is scanned again.
import { sinceValue, toEpochMs } from '../../pagination/requests/filter-query.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { NO_SCAN, readCheckpoint, saveCheckpoint } from '../../database/state/checkpoints.ts';
import { AGE_STEP_MS } from '../../http/client.ts';
import type { PageFacts } from '../../load/page-loader.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import type { TableShape } from '../../model/table.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { ScanMode } from '../../model/vocabulary.ts';
import { eachKey, hasKey, KeySet } from '../../pagination/guards/key-set.ts';
import { longerLifetime } from '../../pagination/guards/page-ages.ts';
import { NumberingError } from '../../pagination/guards/verify-end.ts';
import type { ScanEnd } from '../../pagination/page.ts';
import { type ItemReading, readItem } from '../../pagination/read-item.ts';
import { storedZone, updatedColumns, updatedTime, updatedZone } from '../../rows/columns/updated-time.ts';
import { KEY_FINGERPRINT_BYTES, keyFingerprints } from '../../rows/records/record-key.ts';
import { unseenRows } from '../deletes/detect-deletes.ts';
import {
  acceptsUnverifiedFilter,
  catchUpWarning,
  type FilterEvidence,
  newEvidence,
  orderWarning,
} from '../filter/filter-evidence.ts';
import { type ScanPlan, startScan } from '../plan.ts';
import type { RunContext } from '../run-progress.ts';
import { endWarnings, type ScanVerdict } from './judge-scan.ts';
import { type LoadedScan, loadPages, type ScanAttempt } from './load-pages.ts';

/** The result of the scans of a listing: the last one is complete, or no further one is made. */
export interface FinishedScan extends ScanVerdict {
  checkpoint: CheckpointRow;
  /** The end of the last scan, and when that began. */
  end: ScanEnd;
  startedAt: string | null;
  /** Evidence about the filter from the pages of all scans. */
  evidence: FilterEvidence;
}

/** A scan with cached pages does not use up the two repetitions, but more than four are never made. */
const MAX_REPETITIONS = { uncached: 2, total: 4 };
/** The longest wait for a cache before a listing is scanned again. */
const MAX_CACHE_WAIT_MS = 600_000;

/**
 * Scans a listing, and scans it again if records moved between its pages or if fewer records were seen than the service
 * counts. A position that the service no longer knows begins the scan again, once. `hasFilter` is false if the filter
 * must not supply what a scan has missed. Adds its warnings to the run's. Throws as `loadPages` does.
 */
export async function scanUntilComplete(run: RunContext, firstPlan: ScanPlan, hasFilter = true): Promise<FinishedScan> {
  const context = hasFilter ? run : { ...run, profile: { ...run.profile, incremental: null } };
  const { profile, clock, progress } = context;
  const evidence = newEvidence(firstPlan.checkpoint, profile);
  const numbering = { isVerified: false };
  const planned = await detectDeletesAfterIncompleteScan(context, firstPlan);
  let plan = planned;
  const formerEnds: ScanEnd[] = [];
  let formerEndedAt: number | null = null;
  let cacheWaitMs: number | null = 0;
  const finished = { uncached: 0, total: 0 };
  for (;;) {
    const attempt = { plan, former: formerEnds.at(-1) ?? null, formerEndedAt, evidence, numbering };
    const loaded = await scanOnce(context, attempt);
    const { end, verdict } = loaded;
    const completed = verdict.isComplete ? null : await supplyMissing(context, loaded, attempt, formerEnds);
    const { isComplete } = completed?.verdict ?? verdict;
    finished.total += 1;
    finished.uncached += verdict.isCached ? 0 : 1;
    const isOutOfRepetitions = finished.total > MAX_REPETITIONS.total || finished.uncached > MAX_REPETITIONS.uncached;
    cacheWaitMs = longerLifetime(cacheWaitMs, end.cacheWaitMs);
    const waitMs = profile.accept.includes('cache') ? 0 : waitFor(cacheWaitMs, verdict.isCached);
    if (isComplete || !verdict.mayRepeat || isOutOfRepetitions || waitMs === null) {
      const { checkpoint, verdict: concluded } = completed ?? loaded;
      progress.warnings.push(...endWarnings(concluded));
      const { disorder } = evidence;
      const isUnsorted = isComplete && plan.mode === 'full' && disorder !== null;
      return {
        ...concluded,
        checkpoint: isUnsorted ? await forgetCursor(context, checkpoint, disorder, concluded.needsCatchUp) : checkpoint,
        // Once the missing records were supplied, every live row counts as seen.
        end: completed === null ? end : { ...end, hasSeen: () => true },
        startedAt: plan.checkpoint.walk_started_at,
        evidence,
      };
    }
    formerEnds.push(end);
    formerEndedAt = clock.now();
    await clock.sleep(waitMs, context.signal);
    const { walk_credential, walk_since } = planned.checkpoint;
    // The end of a scan may clear `walk_credential`: the repetition keeps the one of the plan.
    const repeatable = enableDeleteDetection({ ...loaded.checkpoint, walk_credential });
    const restarted = { ...startScan(repeatable, planned.mode, walk_since, clock.now()), walk_credential };
    plan = { ...planned, checkpoint: restarted, resumed: false };
  }
}

const CLOCK_STEP_MS = 1_000;
/** At most this many records are fetched individually to find out whether they still exist. */
export const MAX_FETCHED_ALONE = 100;

/**
 * For a scan that saw fewer records than the service counts, and has no other reason to be incomplete:
 * 1. After a full scan with a cursor, loads by the filter the records that changed since the scan began.
 * 2. Fetches individually the records that only an earlier scan saw.
 * 3. Returns the scan as complete if these make up the total and, after a full scan, no other live row exists. Then no
 *    row becomes a delete candidate. Otherwise returns null.
 */
async function supplyMissing(
  context: RunContext,
  { end, verdict, ifComplete }: LoadedScan,
  attempt: ScanAttempt,
  formerEnds: readonly ScanEnd[],
): Promise<{ checkpoint: CheckpointRow; verdict: ScanVerdict } | null> {
  const missing = end.shortfall?.count ?? 0;
  const isOnlyShort = verdict.incompleteReasons.every(({ code }) => code === 'fewer');
  if (missing === 0 || !isOnlyShort) return null;
  const added = new KeySet();
  const { cursor, cursor_seen_at: endedAt } = ifComplete;
  if (attempt.plan.mode === 'full' && cursor !== null) {
    // Ignore records that changed after the last page: they may be new, and the total did not count new ones.
    const countedUntil = endedAt === null ? Infinity : timestampMs(endedAt) + CLOCK_STEP_MS;
    await catchUp(context, attempt, cursor, ({ updated }) => {
      const counted = keyFingerprints(updated.flatMap(({ key, at }) => (at < countedUntil ? [key] : [])));
      eachFingerprint(counted, (key) => end.hasSeen(key) || eachKey(key, (high, low) => added.add(high, low)));
    });
  }
  const seen = { end, added, formerEnds };
  if (!(await confirmSeenEarlier(context, attempt.plan.mode, seen, missing - added.size))) return null;
  const checkpoint = { ...ifComplete, walk_credential: null };
  await context.owned.commit([saveCheckpoint(context.warehouse.own, checkpoint)]);
  const solved = { incompleteReasons: [], needsCatchUp: false, mayRepeat: false };
  return { checkpoint, verdict: { ...verdict, ...solved, isComplete: true, allowsDeletes: false } };
}

/** Loads what the filter lists as changed since a scan began; the checkpoint stays that of a scan that missed records. */
async function catchUp(
  context: RunContext,
  attempt: ScanAttempt,
  cursor: string,
  onPage: (facts: PageFacts) => void,
): Promise<void> {
  const { profile, warehouse, owned, clock } = context;
  const since = profile.incremental && sinceValue(cursor, profile.incremental, null, updatedZone(profile));
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (since === null || stored === null) return;
  const checkpoint = startScan(stored, 'incremental', since, clock.now());
  const plan: ScanPlan = { mode: 'incremental', checkpoint, resumed: false };
  await loadPages(context, { ...attempt, plan, former: null, formerEndedAt: null, onPage, isCatchUp: true });
}

/**
 * Fetches individually the records that only earlier scans saw. Returns true if enough of them still exist unchanged to
 * make up for the missing ones; `added` are the keys that the filter has supplied. After a full scan, every other live
 * row makes it false: its record may be deleted.
 */
async function confirmSeenEarlier(
  context: RunContext,
  mode: ScanMode,
  { end, added, formerEnds }: { end: ScanEnd; added: KeySet; formerEnds: readonly ScanEnd[] },
  missing: number,
): Promise<boolean> {
  const { owned, profile } = context;
  const table = owned.shape?.tables[0];
  if (mode === 'incremental' && missing <= 0) return true;
  if (table === undefined) return missing <= 0;
  const wasSeenEarlier = (key: Uint8Array): boolean => formerEnds.some(({ hasSeen }) => hasSeen(key));
  // An incremental scan lists only what changed, so most rows are in none of its scans.
  const isExpected = (key: Uint8Array): boolean => mode === 'incremental' && !wasSeenEarlier(key);
  const isSeen = (key: Uint8Array): boolean => end.hasSeen(key) || hasKey(added, key) || isExpected(key);
  const unseen = await findUnseenKeys(context, table, isSeen, null);
  if (unseen.length > MAX_FETCHED_ALONE || unseen.length < missing) return false;
  const areAllMissing = unseen.length <= missing && unseen.every((key) => wasSeenEarlier(keyFingerprints([key])));
  if (mode === 'full' && !areAllMissing) return false;
  if (unseen.length === 0) return true;
  if (profile.item === null) return false;
  const columns = updatedColumns(table.columns, profile);
  const rows = await context.warehouse.rows.stored(table, unseen, columns);
  let existing = 0;
  for (const key of unseen) {
    const found = await fetchAlone(context, key);
    if (found?.isThere !== true) continue;
    // The single record may lack fields of the listed one, so it is not stored: its time shows that the row is current.
    const row = rows.get(key);
    const at = row === undefined ? null : toEpochMs(String(row.updated), storedZone(columns, profile));
    if (at !== (updatedTime(found.record.value, profile)?.at ?? -Infinity)) return false;
    existing += 1;
  }
  return existing >= missing;
}

/**
 * Ids of live rows for which `isSeen` is false; stops after `MAX_FETCHED_ALONE + 1` ids, which the caller treats as too
 * many. Skips rows that were written at or after `before`.
 */
export async function findUnseenKeys(
  context: RunContext,
  table: TableShape,
  isSeen: (key: Uint8Array) => boolean,
  before: string | null,
): Promise<string[]> {
  const found: string[] = [];
  for await (const { key, syncedAt } of unseenRows(context, table, isSeen)) {
    if (before === null || syncedAt < before) found.push(key);
    if (found.length > MAX_FETCHED_ALONE) break;
  }
  return found;
}

/** Fetches one record; returns null if the service refuses the request. */
async function fetchAlone(context: RunContext, key: string): Promise<ItemReading | null> {
  try {
    return await readItem(context, key, 'bulk');
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof SyncError) || error instanceof DeferredError || error.recovery !== 'stop') throw error;
    return null;
  }
}

function eachFingerprint(keys: Uint8Array, visit: (key: Uint8Array) => void): void {
  for (let at = 0; at < keys.length; at += KEY_FINGERPRINT_BYTES) visit(keys.subarray(at, at + KEY_FINGERPRINT_BYTES));
}

/**
 * After a full scan of a listing that is not newest first although the profile says so: forgets the cursor, so that the
 * next scan is a full one too. Adds its warnings to the run's.
 */
async function forgetCursor(
  context: RunContext,
  checkpoint: CheckpointRow,
  disorder: string,
  needsCatchUp: boolean,
): Promise<CheckpointRow> {
  const { profile, progress, warehouse, owned } = context;
  const { incremental } = profile;
  if (incremental === null) return checkpoint;
  progress.warnings.push(orderWarning(context, disorder));
  if (needsCatchUp) progress.warnings.push(catchUpWarning(context, incremental));
  if (acceptsUnverifiedFilter(profile)) return checkpoint;
  const without = { ...checkpoint, cursor: null, cursor_key: null, cursor_seen_at: null };
  await owned.commit([saveCheckpoint(warehouse.own, without)]);
  return without;
}

/**
 * Returns how long to wait until a new scan gets no cached pages again. If that is unknown or too long: one second, which
 * is the precision of the `Age` header; or null, for no further scan, if this scan got cached pages.
 */
export function waitFor(cacheWaitMs: number | null, isCached: boolean): number | null {
  if (cacheWaitMs !== null && cacheWaitMs <= MAX_CACHE_WAIT_MS) return cacheWaitMs;
  return isCached ? null : AGE_STEP_MS;
}

/** Lets the first scan after incomplete ones detect deletes: rows exist, and some of their records may be deleted. */
async function detectDeletesAfterIncompleteScan({ warehouse }: RunContext, plan: ScanPlan): Promise<ScanPlan> {
  const { checkpoint, mode, resumed } = plan;
  if (mode !== 'full' || resumed || checkpoint.full_credential !== null) return plan;
  return (await warehouse.rows.count(checkpoint.resource)) === 0
    ? plan
    : { ...plan, checkpoint: enableDeleteDetection(checkpoint) };
}

/**
 * Without `full_credential`, the credential of the last complete full scan, a scan counts as the first one and detects
 * no deletes (`load-pages.ts`). So this sets it to the credential of the scan.
 */
function enableDeleteDetection(checkpoint: CheckpointRow): CheckpointRow {
  return { ...checkpoint, full_credential: checkpoint.full_credential ?? checkpoint.walk_credential };
}

/** Scans once. If the service no longer accepts the position of a resumed scan, scans from the beginning. */
async function scanOnce(context: RunContext, attempt: ScanAttempt): Promise<LoadedScan> {
  const { warehouse, owned, clock } = context;
  try {
    return await loadPages(context, attempt);
  } catch (error) {
    if (error instanceof NumberingError) {
      // The next run must not resume this scan: it would see too few records to detect the wrong numbering again.
      const stored = await readCheckpoint(warehouse.own, owned.resource);
      const forgotten = stored === null ? [] : [saveCheckpoint(warehouse.own, { ...stored, ...NO_SCAN })];
      await owned.commit(forgotten);
    }
    if (!(error instanceof SyncError) || error.code !== 'cursor_expired') throw error;
    const { plan } = attempt;
    const checkpoint = startScan(plan.checkpoint, plan.mode, plan.checkpoint.walk_since, clock.now());
    return loadPages(context, { ...attempt, plan: { ...plan, checkpoint } });
  }
}
