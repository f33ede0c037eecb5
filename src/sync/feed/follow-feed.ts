// Syncs a resource by the service's feed of changes, such as `GET /changes?since=<cursor>`.
//
// The first run fetches the current cursor, scans the whole listing, and then reads the feed from that cursor, so that no
// change during the scan is missed. Later runs only read the feed. A service may forget old cursors: then the run fetches
// a new cursor and scans the listing again.
import { keyIn } from '../../rows/records/record-key.ts';
import pMap from 'p-map';
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
 * Brings the copy up to date by the feed; scans the listing before that if the plan says so, or if the feed has no cursor
 * that the service knows. Throws the error that stopped it; what was committed by then stays.
 */
export async function followFeed(
  context: RunContext,
  feed: ChangeFeed,
  plan: ScanPlan,
  onScanned: OnScanned,
): Promise<void> {
  const { progress, owned } = context;
  const state = await readFeedState(context, feed);
  if (plan.mode !== 'full' && state.cursor !== null) {
    if (await readChanges(context, feed)) return saveSuccess(context);
    progress.warnings.push({
      code: 'feed_refused',
      message: `the service no longer knows where the feed of ${owned.resource} was left: everything was scanned instead`,
      hint: 'if this comes often, sync more often than the service forgets',
    });
    await save(context, { ...(await readFeedState(context, feed)), cursor: null, page: null });
  }
  if (!(await scanAll(context, feed, plan, onScanned))) return;
  if (!(await readChanges(context, feed))) throw refusedAgain();
  await saveSuccess(context);
}

/** Scans the whole listing, by the run's plan if that is a full scan. Returns false if the scan may have missed records. */
async function scanAll(
  context: RunContext,
  feed: ChangeFeed,
  planned: ScanPlan,
  onScanned: OnScanned,
): Promise<boolean> {
  const { warehouse, owned, profile, credential, clock, watcher, progress } = context;
  const { resource } = owned;
  let plan = planned;
  if (planned.mode !== 'full') {
    const stored = await readCheckpoint(warehouse.own, resource);
    plan = fullPlan({ resource, profile, credential, now: clock.now(), stored });
    watcher.started(resource, plan);
  }
  progress.mode = 'full';
  if (!plan.resumed) await saveFreshCursor(context, feed);
  const scan = await scanUntilComplete(context, plan, false);
  if (scan.allowsDeletes) await onScanned(scan);
  return scan.isComplete;
}

/** Fetches the current cursor before the scan's first request, so that the feed has all that changes from now on. */
async function saveFreshCursor(context: RunContext, feed: ChangeFeed): Promise<void> {
  const { start } = feed;
  const state = await readFeedState(context, feed);
  // Such feeds are read from their beginning, or the last page of the scan names the first cursor.
  if (start === null || 'walk' in start) return save(context, { ...state, fresh: null });
  const answer = await requestStart(context, { ...start, path: start.path ?? feed.path });
  const fresh = cursorAt(context, feed, answer, start.cursor);
  if (fresh !== null) return save(context, { ...state, fresh });
  throw new SyncError('feed_refused', `The answer names no cursor of the feed at ${start.cursor}`, {
    recovery: 'stop',
    hint: 'Set incremental.start.cursor in the profile to where the service names the present end of the feed.',
  });
}

/** Reads the feed from its stored cursor to its end. Returns false if the service does not know the cursor. */
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
    if (answer === null) {
      if (state.page === null) return false;
      // A page may expire sooner than the cursor that it began at: begin there again.
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
    const readCursor = (place: string): string | null => cursorAt(context, feed, answer, place);
    const { cursor, page, ...next } = nextPosition(feed, answer, values, state, readCursor);
    Object.assign(state, { cursor, page, moved_at: timestampText(clock.now()) });
    await loadChanges(context, loader, changesIn(entries, feed, profile), answer.requestedAt, state);
    isEnd = next.isEnd;
  }
  return true;
}

/** Notes the success: a feed that was read to its end brings the copy up to date, as a scan by a filter does. */
async function saveSuccess(context: RunContext): Promise<void> {
  const { warehouse, owned, clock } = context;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null) return;
  const succeeded = { ...stored, last_success_at: timestampText(clock.now()), unproved_at: null, due_at: null };
  await owned.commit([saveCheckpoint(warehouse.own, succeeded)]);
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
 * Loads the changes of one response and stores the position after it, in one transaction. Records of which the feed only
 * gives the id are fetched before, and records that it reports as deleted become delete candidates. If this throws, the
 * next run requests the same response again.
 */
async function loadChanges(
  context: RunContext,
  loader: PageLoader,
  changes: FeedChanges,
  requestedAt: number,
  state: FeedRow,
): Promise<void> {
  const { progress, warehouse, run, signal } = context;
  const { complete, partial } = await findPartial(context, changes.records);
  const toFetch = [...changes.toFetch, ...partial];
  await pMap(toFetch, (key) => fetchAndLoad(context, key), { concurrency: MAX_PARALLEL_FETCHES });
  const deleted = await selectLive(context, changes.gone);
  const outcome = await loader.load({ records: complete, requestedAt }, async (facts, counted) => {
    await progress.columns.addPage(context, facts, timestampText(requestedAt));
    return [
      ...feedCandidateStatements(context, { ...facts, tombstoned: [...facts.tombstoned, ...deleted] }, requestedAt),
      saveFeed(warehouse.own, state),
      saveCounters(warehouse.own, run, withPage(progress.figures, counted, progress.meter)),
    ];
  });
  countPage(progress, outcome);
  signal.throwIfAborted();
}

/**
 * Separates records that lack fields of their stored state. The feed may list only the fields that have changed, or the
 * record may have lost the others: to find out, the caller fetches it individually, if the profile has a path for that.
 */
async function findPartial(
  { warehouse, owned, profile }: RunContext,
  records: readonly SourceRecord[],
): Promise<{ complete: SourceRecord[]; partial: string[] }> {
  if (profile.item === null) return { complete: [...records], partial: [] };
  const keys = records.flatMap((record) => keyIn(record.value, profile) ?? []);
  const bodies = await currentBodies(warehouse.own, owned.resource, keys);
  const found = { complete: [] as SourceRecord[], partial: [] as string[] };
  for (const record of records) {
    const key = keyIn(record.value, profile);
    const body = key === null ? undefined : bodies.get(key);
    const isTombstone = tombstoneOf(record.value, profile) !== null;
    const isPartial = body !== undefined && !isTombstone && lacksFields(record.value, parseJson(body));
    if (key !== null && isPartial) found.partial.push(key);
    else found.complete.push(record);
  }
  return found;
}

function lacksFields(value: JsonValue, stored: JsonValue): boolean {
  return isObject(stored) && isObject(value) && Object.keys(stored).some((name) => !Object.hasOwn(value, name));
}

/** Returns those of the reported deletes whose row is live. */
async function selectLive(
  { warehouse, owned }: RunContext,
  deletes: FeedChanges['gone'],
): Promise<FeedChanges['gone']> {
  const table = owned.shape?.tables[0];
  if (table === undefined || deletes.length === 0) return [];
  const keys = deletes.map(({ key }) => key);
  const rows = await warehouse.rows.stored(table, keys, []);
  return deletes.filter(({ key }) => rows.get(key)?.deletedAt === null);
}

/** Fetches one record and loads it. If it no longer exists, its row becomes a delete candidate. */
async function fetchAndLoad(context: RunContext, key: string): Promise<void> {
  const { warehouse, owned, progress } = context;
  const reading = await readItem(context, key, 'incremental');
  if (reading.isThere) {
    await refuseUnverifiedItem(context, key, reading, 'incremental');
    countRecords(progress, await loadRecord(context, key, reading, { acceptsOlder: true }));
    return;
  }
  const deleted = await selectLive(context, [{ key, at: reading.tombstone?.at ?? null }]);
  if (deleted.length === 0) return;
  // `DeleteCandidateRow`: the record itself says that it is deleted (`stated`), or only the feed does (`told`).
  const reason = reading.tombstone === undefined ? 'told' : 'stated';
  const candidate = { resource: owned.resource, reason, evidence_at: timestampText(reading.requestedAt) } as const;
  await owned.commit(noteReportedDeletes(warehouse.own, candidate, deleted));
}
