// Syncs a resource by the service's feed of changes, after a full scan if there is no cursor yet.
//
// The first run fetches the feed's present cursor, scans everything, and then reads the feed from that cursor, so that
// nothing that changed during the scan is missed. Later runs only read the feed. Services forget old cursors: then
// everything is scanned again.
import pMap from 'p-map';
import { keyIn } from '../../checks/listing-scan.ts';
import type { ChangeFeed } from '../../config/profile/delete-fields.ts';
import type { FeedRow } from '../../database/own-tables.ts';
import { readCheckpoint, saveCheckpoint, saveFeed } from '../../database/state/checkpoints.ts';
import { saveCounters } from '../../database/state/runs.ts';
import { noteReportedDeletes } from '../../database/state/suspects.ts';
import { currentBodies } from '../../database/state/versions.ts';
import { openPageLoader, type PageLoader } from '../../load/page-loader.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { readItem } from '../../pagination/read-item.ts';
import { emptyHint, listedRecords } from '../../pagination/requests/read-page.ts';
import { tombstoneOf } from '../../rows/columns/updated-time.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { isObject } from '../../rows/records/as-record.ts';
import { feedCandidateStatements } from '../deletes/detect-deletes.ts';
import { fullPlan } from '../filter/filter-evidence.ts';
import type { ScanPlan } from '../plan.ts';
import { countPage, countRecords, type RunContext, withPage } from '../run-progress.ts';
import { type FinishedScan, scanUntilComplete } from '../scan/scan-until-complete.ts';
import { loadRecord, refuseUnverifiedItem } from '../single-record.ts';
import {
  changesIn,
  cursorAt,
  type FeedChanges,
  nextPosition,
  readFeedState,
  requestFeed,
  requestStart,
} from './feed-response.ts';

/** Called after a full scan that may be compared with the copy to find deletes. */
type OnScanned = (scan: FinishedScan) => Promise<void>;

/**
 * Brings the copy up to date by the service's feed of changes: a full scan if one is planned, and what the feed says
 * since then. If the service no longer knows the cursor, everything is scanned in the same run, after a fresh cursor was
 * fetched. Throws what stopped it, with everything until then in place.
 */
export async function followFeed(
  context: RunContext,
  feed: ChangeFeed,
  plan: ScanPlan,
  onScanned: OnScanned,
): Promise<void> {
  const { progress, owned } = context;
  const hasCursor = (await readFeedState(context, feed)).cursor !== null;
  const needsScan = plan.mode === 'full' || !hasCursor;
  if (needsScan && !(await scanAll(context, feed, plan.mode === 'full' ? plan : null, onScanned))) return;
  if (await readChanges(context, feed)) return saveSuccess(context);
  if (needsScan) throw refusedAgain();
  progress.warnings.push({
    code: 'feed_refused',
    message: `the service no longer knows where the feed of ${owned.resource} was left: everything was scanned instead`,
    hint: 'if this comes often, sync more often than the service forgets',
  });
  await save(context, { ...(await readFeedState(context, feed)), cursor: null, page: null });
  if (!(await scanAll(context, feed, null, onScanned))) return;
  if (!(await readChanges(context, feed))) throw refusedAgain();
  await saveSuccess(context);
}

/** Scans everything, by a new plan if none is given. Returns false if the scan may have missed records. */
async function scanAll(
  context: RunContext,
  feed: ChangeFeed,
  given: ScanPlan | null,
  onScanned: OnScanned,
): Promise<boolean> {
  const { warehouse, owned, profile, credential, clock, watcher, progress } = context;
  const { resource } = owned;
  const stored = await readCheckpoint(warehouse.own, resource);
  const plan = given ?? fullPlan({ resource, profile, credential, now: clock.now(), stored });
  if (given === null) watcher.started(resource, plan);
  progress.mode = 'full';
  if (!plan.resumed) await saveFreshCursor(context, feed);
  const scan = await scanUntilComplete(context, plan, false);
  if (scan.allowsDeletes) await onScanned(scan);
  return scan.isComplete;
}

/** Fetched before the scan's first request, so that the feed has all that changes from now on. */
async function saveFreshCursor(context: RunContext, feed: ChangeFeed): Promise<void> {
  const { start } = feed;
  const state = await readFeedState(context, feed);
  if (start === null || 'walk' in start) return save(context, { ...state, fresh: null });
  const answer = await requestStart(context, { ...start, path: start.path ?? feed.path });
  const fresh = cursorAt(context, feed, answer, start.cursor);
  if (fresh !== null) return save(context, { ...state, fresh });
  throw new SyncError('feed_refused', `The answer names no cursor of the feed at ${start.cursor}`, {
    recovery: 'stop',
    hint: 'Set incremental.start.cursor in the profile to where the service names the present end of the feed.',
  });
}

/** Reads the feed from its stored cursor to its end; false if the service does not know the cursor. */
async function readChanges(context: RunContext, feed: ChangeFeed): Promise<boolean> {
  const { profile, clock, owned, progress } = context;
  const state = await readFeedState(context, feed);
  if (state.cursor === null && feed.start !== null) {
    progress.warnings.push({
      code: 'feed_not_begun',
      message: `no cursor of the feed of ${owned.resource} was named during the full scan: the next run scans everything again`,
      hint: 'if this comes again, set incremental.start in the profile to where the service names the first cursor',
    });
    return true;
  }
  const loader = await openPageLoader(context, { acceptsOlder: false });
  const path = feed.records ?? profile.records;
  for (let isEnd = false; !isEnd;) {
    const answer = await requestFeed(context, feed, state);
    // Pages may expire sooner than the cursor that they began at.
    if (answer === null && state.page === null) return false;
    if (answer === null) {
      state.page = null;
      continue;
    }
    const entries = listedRecords(answer, { records: path, empty: profile.empty, page: profile.page });
    if (entries === null) {
      const place = path === '' ? 'as its body' : `at ${path}`;
      const hint = `Set incremental.records in the profile to where the entries of the feed are.${emptyHint(answer, path)}`;
      const message = `The feed's answer has no array of entries ${place}`;
      throw new SyncError('bad_page', message, { recovery: 'stop', hint });
    }
    const values = entries.map(({ value }) => value);
    const next = nextPosition(feed, answer, values, state, (place) => cursorAt(context, feed, answer, place));
    const { cursor, page } = next;
    Object.assign(state, { cursor, page, moved_at: timestampText(clock.now()) });
    await loadChanges(context, loader, changesIn(entries, feed, profile), answer.requestedAt, state);
    isEnd = next.isEnd;
  }
  return true;
}

/** A feed that was read to its end brings the copy up to date like a scan by a filter. */
async function saveSuccess(context: RunContext): Promise<void> {
  const { warehouse, owned, clock } = context;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null) return;
  const done = { ...stored, last_success_at: timestampText(clock.now()), unproved_at: null, due_at: null };
  await owned.commit([saveCheckpoint(warehouse.own, done)]);
}

async function save({ warehouse, owned }: RunContext, state: FeedRow): Promise<void> {
  await owned.commit([saveFeed(warehouse.own, state)]);
}

function refusedAgain(): SyncError {
  return new SyncError('feed_refused', 'The service refuses a cursor of the feed that it has just given', {
    recovery: 'stop',
    hint: 'See how the cursor is sent and where it comes from (query, next and start of incremental in the profile), and what means that it is unknown (expired). If 404 means that nothing has changed, set empty: [404] and leave 404 out of expired.',
  });
}

const MAX_PARALLEL_FETCHES = 4;

/**
 * Writes what one response of the feed says, and the position after it, in one transaction; records that it only names
 * are fetched before. Records that it names as deleted become delete candidates. Throws what fetching and loading throw;
 * then the feed is requested again from the position before.
 */
async function loadChanges(
  context: RunContext,
  loader: PageLoader,
  changes: FeedChanges,
  requestedAt: number,
  state: FeedRow,
): Promise<void> {
  const { progress, warehouse, run, signal } = context;
  const { full, partial } = await findPartial(context, changes.records);
  const toFetch = [...changes.toFetch, ...partial];
  await pMap(toFetch, (key) => fetchAndLoad(context, key), { concurrency: MAX_PARALLEL_FETCHES });
  const gone = await liveAmong(context, changes.gone);
  const outcome = await loader.load({ records: full, requestedAt }, async (facts, counted) => {
    await progress.columns.addPage(context, facts, timestampText(requestedAt));
    return [
      ...feedCandidateStatements(context, { ...facts, tombstoned: [...facts.tombstoned, ...gone] }, requestedAt),
      saveFeed(warehouse.own, state),
      saveCounters(warehouse.own, run, withPage(progress.figures, counted, progress.meter)),
    ];
  });
  countPage(progress, outcome);
  signal.throwIfAborted();
}

/**
 * A feed may bring only the fields that have changed. A record without fields of its stored state is fetched
 * individually, where that is possible, because it may as well have lost them.
 */
async function findPartial(
  { warehouse, owned, profile }: RunContext,
  records: readonly SourceRecord[],
): Promise<{ full: SourceRecord[]; partial: string[] }> {
  if (profile.item === null) return { full: [...records], partial: [] };
  const keys = records.flatMap((record) => keyIn(record.value, profile) ?? []);
  const bodies = await currentBodies(warehouse.own, owned.resource, keys);
  const found = { full: [] as SourceRecord[], partial: [] as string[] };
  for (const record of records) {
    const key = keyIn(record.value, profile);
    const body = key === null ? undefined : bodies.get(key);
    const isTombstone = tombstoneOf(record.value, profile) !== null;
    const isPartial = body !== undefined && !isTombstone && lacksFields(record.value, parseJson(body));
    if (key !== null && isPartial) found.partial.push(key);
    else found.full.push(record);
  }
  return found;
}

function lacksFields(value: JsonValue, stored: JsonValue): boolean {
  return isObject(stored) && isObject(value) && Object.keys(stored).some((name) => !Object.hasOwn(value, name));
}

/** Returns those of the deletes whose row is live. */
async function liveAmong({ warehouse, owned }: RunContext, gone: FeedChanges['gone']): Promise<FeedChanges['gone']> {
  const table = owned.shape?.tables[0];
  if (table === undefined || gone.length === 0) return [];
  const keys = gone.map(({ key }) => key);
  const rows = await warehouse.rows.stored(table, keys, []);
  return gone.filter(({ key }) => rows.get(key)?.deletedAt === null);
}

async function fetchAndLoad(context: RunContext, key: string): Promise<void> {
  const { warehouse, owned, progress } = context;
  const reading = await readItem(context, key, 'incremental');
  if (reading.isThere) {
    await refuseUnverifiedItem(context, key, reading, 'incremental');
    countRecords(progress, await loadRecord(context, key, reading, { acceptsOlder: true }));
    return;
  }
  const named = await liveAmong(context, [{ key, at: reading.tombstone?.at ?? null }]);
  if (named.length === 0) return;
  // The feed names the delete (`told`), or the record itself does.
  const reason = reading.tombstone === undefined ? 'told' : 'stated';
  const candidate = { resource: owned.resource, reason, evidence_at: timestampText(reading.requestedAt) } as const;
  await owned.commit(noteReportedDeletes(warehouse.own, candidate, named));
}
