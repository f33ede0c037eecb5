import type { CompiledQuery } from 'kysely';
import { keyIn } from '../../checks/listing-walk.ts';
import type { ChangeFeed } from '../../config/profile/delete-fields.ts';
import type { FeedRow } from '../../database/own-tables.ts';
import { readCheckpoint, saveCheckpoint, saveFeed } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { saveFigures } from '../../database/state/runs.ts';
import { forgetSuspects, suspectOlder, suspectStated } from '../../database/state/suspects.ts';
import { currentBodies } from '../../database/state/versions.ts';
import { openPageLoader, type PageFacts, type PageLoader, type PageOutcome } from '../../load/page-loader.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { readItem } from '../../pagination/read-item.ts';
import { emptyHint, listedRecords } from '../../pagination/requests/read-page.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { isObject } from '../../rows/records/field-at.ts';
import { canonicalHash } from '../../rows/records/fingerprint.ts';
import { tombstoneOf } from '../../rows/tombstone.ts';
import { suspectLost } from '../deletes/page-suspects.ts';
import { fullPlan } from '../filter/trusted-plan.ts';
import { loadRecord, refuseDoubtful } from '../item/check-reading.ts';
import type { WalkPlan } from '../plan.ts';
import { countPage, countRecords, type RunContext, withPage } from '../run-progress.ts';
import { walkWhole, type WholeWalk } from '../walk/walk-whole.ts';
import type { Warning } from '../warnings.ts';
import { askFeed, askStart, changesIn, cursorAt, type FeedChanges, feedPlace, feedStep } from './feed-answers.ts';

/**
 * Brings the copy up to date by the service's feed of changes: a whole walk if one is planned, and what the feed says
 * since then. A cursor that the service no longer knows means a whole walk in the same run, after a fresh cursor was
 * taken. `swept` is called after a whole walk that may be swept after. Throws what stopped it, with everything until
 * then in place.
 */
export async function followFeed(
  context: RunContext,
  feed: ChangeFeed,
  plan: WalkPlan,
  swept: (walked: WholeWalk) => Promise<void>,
): Promise<void> {
  const known = plan.mode === 'full' || (await feedPlace(context, feed)).cursor !== null;
  const isWalked = await walkIfFull(context, feed, known ? plan : await instead(context), swept);
  if (isWalked === false) return;
  if (await readChanges(context, feed)) return succeed(context);
  if (isWalked === true) throw refusedAnew();
  context.progress.warnings.push(refused(context.owned.resource));
  const place = await feedPlace(context, feed);
  await save(context, { ...place, cursor: null, page: null });
  const again = await walkIfFull(context, feed, await instead(context), swept);
  if (again === false) return;
  if (!(await readChanges(context, feed))) throw refusedAnew();
  await succeed(context);
}

async function instead(context: RunContext): Promise<WalkPlan> {
  const { warehouse, owned, profile, credential, clock, watcher } = context;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  const plan = fullPlan({ resource: owned.resource, profile, credential, now: clock.now(), stored });
  watcher.started(owned.resource, plan);
  return plan;
}

/** True after a whole walk that met every record, false after one that did not, null if none was planned. */
async function walkIfFull(
  context: RunContext,
  feed: ChangeFeed,
  plan: WalkPlan,
  swept: (walked: WholeWalk) => Promise<void>,
): Promise<boolean | null> {
  if (plan.mode !== 'full') return null;
  context.progress.mode = 'full';
  if (!plan.resumed) await takeFresh(context, feed);
  const walked = await walkWhole(context, plan, false);
  if (walked.maySweep) await swept(walked);
  return walked.isProved;
}

/** Before the walk's first request: what changes from now on is in the feed behind it, on whichever page it comes. */
async function takeFresh(context: RunContext, feed: ChangeFeed): Promise<void> {
  const { start } = feed;
  const place = await feedPlace(context, feed);
  if (start === null || 'walk' in start) return save(context, { ...place, fresh: null });
  const answer = await askStart(context, { ...start, path: start.path ?? feed.path });
  const fresh = cursorAt(context, feed, answer, start.cursor);
  if (fresh !== null) return save(context, { ...place, fresh });
  throw new SyncError('feed_cursor_missing', `The answer names no cursor of the feed at ${start.cursor}`, {
    recovery: 'stop',
    hint: 'Set incremental.start.cursor in the profile to where the service names the present end of the feed.',
  });
}

/** Reads the feed from where it was left to its end; false if the service does not know that place. */
async function readChanges(context: RunContext, feed: ChangeFeed): Promise<boolean> {
  let place = await feedPlace(context, feed);
  if (place.cursor === null && feed.start !== null) {
    context.progress.warnings.push(notBegun(context.owned.resource));
    return true;
  }
  const loader = await openPageLoader(context, { acceptsOlder: false });
  for (;;) {
    const read = await readOne(context, feed, loader, place);
    if (read === null) return false;
    if (read.isEnd) return true;
    place = read.place;
  }
}

/** One answer, loaded, and the place after it; null if the service does not know this one. */
async function readOne(
  context: RunContext,
  feed: ChangeFeed,
  loader: PageLoader,
  from: FeedRow,
): Promise<{ place: FeedRow; isEnd: boolean } | null> {
  const { profile, clock } = context;
  const answer = await askFeed(context, feed, from);
  // Pages may expire sooner than the cursor that they began at.
  if (answer === null) return from.page === null ? null : { place: { ...from, page: null }, isEnd: false };
  const path = feed.records ?? profile.records;
  const entries = listedRecords(answer, { records: path, empty: profile.empty, page: profile.page });
  if (entries === null) throw noEntries(path, emptyHint(answer, path));
  const came = { answer, entries: entries.map(({ value }) => value) };
  const { isEnd, ...step } = feedStep(feed, came, from, (name) => cursorAt(context, feed, answer, name));
  const place = { ...from, ...step, moved_at: timestampText(clock.now()) };
  const changes = changesIn(entries, feed, profile);
  await loadChanges(context, loader, { changes, requestedAt: answer.requestedAt, place });
  return { place, isEnd };
}

/** The feed was read to its end: that is as good as a walk by a filter. */
async function succeed(context: RunContext): Promise<void> {
  const { warehouse, owned, clock } = context;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null) return;
  const at = timestampText(clock.now());
  const done = { ...stored, last_success_at: at, unproved_at: null, due_at: null };
  await warehouse.apply([saveCheckpoint(warehouse.own, done)], owned.lease());
}

async function save({ warehouse, owned }: RunContext, place: FeedRow): Promise<void> {
  await warehouse.apply([saveFeed(warehouse.own, place)], owned.lease());
}

function noEntries(path: string, hint: string): SyncError {
  return new SyncError(
    'bad_page',
    `The feed's answer has no array of entries ${path === '' ? 'as its body' : `at ${path}`}`,
    {
      recovery: 'stop',
      hint: `Set incremental.records in the profile to where the entries of the feed are.${hint}`,
    },
  );
}

function refusedAnew(): SyncError {
  return new SyncError('feed_refused', 'The service refuses a cursor of the feed that it has just given', {
    recovery: 'stop',
    hint: 'See how the cursor is sent and where it comes from (query, next and start of incremental in the profile), and what means that it is unknown (expired). If 404 means that nothing has changed, set empty: [404] and leave 404 out of expired.',
  });
}

function notBegun(resource: string): Warning {
  return {
    code: 'feed_not_begun',
    message: `no cursor of the feed of ${resource} was named while everything was walked: the next run walks it again`,
    hint: 'if this comes again, set incremental.start in the profile to where the service names the first cursor',
  };
}

function refused(resource: string): Warning {
  return {
    code: 'feed_refused',
    message: `the service no longer knows where the feed of ${resource} was left: everything was walked instead`,
    hint: 'if this comes often, sync more often than the service forgets',
  };
}

const READS_AT_ONCE = 4;

/** One answer of the feed, ready to be written. */
interface FedPage {
  changes: FeedChanges;
  requestedAt: number;
  /** Where the feed stands after it. */
  place: FeedRow;
}

/**
 * Writes what one answer of the feed says, and that it was read, in one transaction; records that it only names are read
 * alone before that. What it says is deleted becomes a suspect, to be decided at the end of the run. Throws what reading
 * and loading throw; then the answer is asked for again.
 */
async function loadChanges(context: RunContext, loader: PageLoader, page: FedPage): Promise<void> {
  const { changes, requestedAt } = page;
  const { whole, partial } = await wholeAmong(context, changes.records);
  for (const part of inParts([...changes.named, ...partial], READS_AT_ONCE)) {
    await Promise.all(part.map((key) => loadNamed(context, key)));
  }
  const gone = await liveAmong(context, changes.gone);
  const { progress } = context;
  const outcome = await loader.load({ records: whole, requestedAt }, async (facts, counted) => {
    await progress.columns.addPage(context, facts, timestampText(requestedAt));
    return statementsOf(context, page, { ...facts, stated: [...facts.stated, ...gone] }, counted);
  });
  countPage(progress, outcome);
  context.signal.throwIfAborted();
}

/**
 * A feed may bring only the fields that have changed. A record without fields that its stored state has is read alone,
 * where that is possible: it may as well have lost them.
 */
async function wholeAmong(
  { warehouse, owned, profile }: RunContext,
  records: readonly SourceRecord[],
): Promise<{ whole: SourceRecord[]; partial: string[] }> {
  const keyed = records.map((record) => ({ record, key: keyIn(record.value, profile) }));
  const keys = keyed.flatMap(({ key }) => (key === null ? [] : [key]));
  const bodies =
    profile.item === null ? new Map<string, string>() : await currentBodies(warehouse.own, owned.resource, keys);
  const lacks = (value: JsonValue, key: string | null): boolean => {
    const body = bodies.get(key ?? '');
    const stored = body === undefined ? null : parseJson(body);
    return isObject(stored) && isObject(value) && Object.keys(stored).some((name) => !Object.hasOwn(value, name));
  };
  const whole: SourceRecord[] = [];
  const partial: string[] = [];
  for (const { record, key } of keyed) {
    if (key !== null && tombstoneOf(record.value, profile) === null && lacks(record.value, key)) partial.push(key);
    else whole.push(record);
  }
  return { whole, partial };
}

function statementsOf(
  { warehouse: { own }, owned: { resource }, run, progress }: RunContext,
  { place, requestedAt }: FedPage,
  { keys, older, stated, lost }: PageFacts,
  counted: PageOutcome,
): CompiledQuery[] {
  const asked = timestampText(requestedAt);
  const doubted = new Set([...older, ...stated].map(({ key }) => key));
  const states = older.map(({ key, value }) => ({ record_id: key, hash: canonicalHash(value), sweeps: 0 }));
  const listed = keys.filter((key) => !doubted.has(key));
  return [
    ...forgetSuspects(own, resource, listed, 'fed'),
    ...suspectOlder(own, resource, states, asked),
    ...suspectStated(own, { resource, reason: 'stated', evidence_at: asked }, stated),
    ...suspectLost(own, resource, lost, asked),
    saveFeed(own, place),
    saveFigures(own, run, withPage(progress.figures, counted, progress.meter)),
  ];
}

/** Of a record that has no live row nothing is written. */
async function liveAmong({ warehouse, owned }: RunContext, gone: FeedChanges['gone']): Promise<FeedChanges['gone']> {
  const table = owned.shape?.tables[0];
  if (table === undefined || gone.length === 0) return [];
  const keys = gone.map(({ key }) => key);
  const rows = await warehouse.stored(table, keys, []);
  return gone.filter(({ key }) => rows.get(key)?.deletedAt === null);
}

async function loadNamed(context: RunContext, key: string): Promise<void> {
  const { warehouse, owned, progress } = context;
  const reading = await readItem(context, key, 'incremental');
  if (!reading.isThere) {
    const [named] = await liveAmong(context, [{ key, at: reading.stated?.at ?? null }]);
    if (named === undefined) return;
    const reason = reading.stated === undefined ? 'told' : 'stated';
    const place = { resource: owned.resource, reason, evidence_at: timestampText(reading.requestedAt) } as const;
    await warehouse.apply(suspectStated(warehouse.own, place, [named]), owned.lease());
    return;
  }
  await refuseDoubtful(context, key, reading, 'incremental');
  countRecords(progress, await loadRecord(context, key, reading, { acceptsOlder: true }));
}
