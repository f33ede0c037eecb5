// Verifies that the service's filter lists what it must; if not, scans everything instead.
//
// An incremental sync requests `updated_since=<cursor>`. A service may ignore that parameter, read it in another zone, or
// filter by the time of creation: then changes would be missed without an error. So each scan is verified by records that
// must be listed. Example: post 42 set the cursor 10:00, so `updated_since=09:50` must list it.
// - After an incremental scan, the record that set the cursor must be in it (`verifyFilter`).
// - After a full scan, one more request must list the records that changed last (`testFilter`).
// A request and the records that it must list are a question (`FilterQuestion`). A question that the filter failed is
// stored, and asked again before the next incremental scan (`scanIfFilterFailed`): until the filter passes it, every sync
// is a full scan.
import { z } from 'zod';
import { type FilterQuestion, isNewestFirst, MAX_EARLIER_MS, unlistedKeys } from '../../checks/filter.ts';
import { filterQuery, filterText } from '../../pagination/requests/filter-query.ts';
import { sinceValue, toEpochMs } from '../../pagination/requests/filter-query.ts';
import { type IncrementalProfile, withStoredNames } from '../../config/profile/incremental.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { CheckpointRow } from '../../database/own-tables.ts';
import { readCheckpoint, saveCheckpoint } from '../../database/state/checkpoints.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { type ItemReading, readItem } from '../../pagination/read-item.ts';
import { updatedTime, updatedZone } from '../../rows/columns/updated-time.ts';
import { canonicalHash } from '../../rows/records/record-key.ts';
import { startsAfterCursor } from '../advance-checkpoint.ts';
import type { ScanPlan } from '../plan.ts';
import type { Warning } from '../report.ts';
import { isOfRequest } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';
import { type FinishedScan, scanUntilComplete } from '../scan/scan-until-complete.ts';
import {
  acceptsUnverifiedFilter,
  catchUpWarning,
  consequence,
  cursorFor,
  fullPlan,
  latestRecords,
  liveRecords,
  orderWarning,
  type ProbeRecord,
} from './filter-evidence.ts';

/**
 * The stored question, with the record that the filter did not list first. The same question is asked again, because the
 * filter may pass another one by chance: a filter by the time of creation lists every new record.
 */
const questionSchema = z.object({ filter: z.string(), since: z.string(), keys: z.array(z.string()).min(1) });

/** Returns the question that the filter has failed; null for none, or if the profile has another filter now. */
export function failedQuestion(
  { filter_doubt }: CheckpointRow,
  incremental: IncrementalProfile,
): FilterQuestion | null {
  if (filter_doubt === null) return null;
  const parsed = questionSchema.safeParse(JSON.parse(filter_doubt));
  return parsed.success && parsed.data.filter === hashFilter(incremental) ? parsed.data : null;
}

/** Fields of earlier versions, so that the questions that these have stored still have the same hash. */
const FORMER_FIELDS = { window: null, start: null, until_param: null, most: null, headers: {}, body: {} };

/** Identifies a filter, whatever its look-back. */
function hashFilter(incremental: IncrementalProfile): string {
  return canonicalHash({ ...withStoredNames(incremental), ...FORMER_FIELDS, overlap: 0 });
}

/** Stores the question that the filter failed; null if it has passed. */
async function storeQuestion(context: RunContext, question: FilterQuestion | null): Promise<void> {
  const { warehouse, owned, profile } = context;
  const checkpoint = await readCheckpoint(warehouse.own, owned.resource);
  if (checkpoint === null || profile.incremental === null) return;
  const failed = question && { filter: hashFilter(profile.incremental), since: question.since, keys: question.keys };
  await save(context, { ...checkpoint, filter_doubt: failed && JSON.stringify(failed) });
}

async function save({ warehouse, owned }: RunContext, checkpoint: CheckpointRow): Promise<void> {
  await owned.commit([saveCheckpoint(warehouse.own, checkpoint)]);
}

/**
 * Before an incremental scan: asks the stored question again. If the filter fails again, scans everything and returns that
 * full scan; returns null if the incremental scan may begin.
 */
export async function scanIfFilterFailed(context: RunContext, plan: ScanPlan): Promise<FinishedScan | null> {
  const { profile } = context;
  const { incremental } = profile;
  if (plan.mode === 'full' || incremental === null || acceptsUnverifiedFilter(profile)) return null;
  const stored = failedQuestion(plan.checkpoint, incremental);
  if (stored === null) return null;
  const question = await repeatQuestion(context, stored);
  if (question !== null) return scanFully(context, plan, unlistedWarning(context, incremental, question), question);
  plan.checkpoint = { ...plan.checkpoint, filter_doubt: null };
  await storeQuestion(context, null);
  return null;
}

/** Returns null if the filter lists all records of the question that still exist; else the question with these records. */
async function repeatQuestion(context: RunContext, { since, keys }: FilterQuestion): Promise<FilterQuestion | null> {
  const live = new Set((await liveRecords(context, keys)).map(({ key }) => key));
  const remaining = keys.filter((key) => live.has(key));
  const [first] = remaining;
  if (first === undefined) return { since, keys };
  const missing = (await findUnlisted(context, { since, keys: remaining })) ?? remaining;
  // A record that has changed meanwhile must be listed too.
  const records = missing.map((key) => ({ key, at: Infinity }));
  const omitted = await findOmitted(context, records);
  if (omitted === null && missing.length < remaining.length) return null;
  return { since, keys: [...new Set([omitted?.key ?? first, ...remaining])] };
}

/** Warns that the filter does not list a record although it must. */
function unlistedWarning(
  { profile, owned }: RunContext,
  incremental: IncrementalProfile,
  { since, keys: [key = ''] }: FilterQuestion,
): Warning {
  const filter = filterText(incremental, filterQuery(profile, since));
  return {
    code: 'filter_not_believed',
    message: `${filter} does not list the record ${key}, which changed after that: ${consequence(profile)}`,
    hint: `see what \`content-sync check ${owned.resource}\` says of the filter; set incremental.param, template, format and lookback right, or \`incremental: null\``,
  };
}

/**
 * After an incremental scan: checks that it has listed the record that set the cursor, which changed after the requested
 * time. If not, and the record still exists, scans everything and returns that full scan, else null. Only warns if the
 * profile accepts an unverified filter, or if the run has just scanned everything (`isCatchUp`): then changes made
 * meanwhile may be missing.
 */
export async function verifyFilter(
  context: RunContext,
  plan: ScanPlan,
  scan: FinishedScan,
  isCatchUp = false,
): Promise<FinishedScan | null> {
  const { profile, progress, owned } = context;
  const { incremental } = profile;
  const { oldest, disorder } = scan.evidence;
  const since = plan.checkpoint.walk_since;
  // An incomplete scan is partial in any case, and does not move the cursor.
  if (incremental === null || since === null || !scan.isComplete) return null;
  const zone = updatedZone(profile);
  if (!isNewestFirst(profile) && oldest < toEpochMs(since, zone) - MAX_EARLIER_MS) {
    const filter = filterText(incremental, filterQuery(profile, since));
    progress.warnings.push({
      code: 'filter_ignored',
      message: `${filter} also lists what last changed at ${new Date(oldest).toISOString()}: the service ignores it or reads it otherwise`,
      hint: `see what \`content-sync check ${owned.resource}\` says of the filter; nothing is lost, but every sync reads so much`,
    });
  }
  // A scan since a later time than the cursor cannot list the record, which an earlier scan has verified.
  if (disorder === null && startsAfterCursor(plan.checkpoint, zone)) return null;
  const question = disorder === null ? await findFailedQuestion(context, plan, scan) : null;
  if (disorder === null && question === null) return null;
  if (isCatchUp) {
    progress.warnings.push(catchUpWarning(context, incremental));
    return null;
  }
  const warning =
    question === null ? orderWarning(context, disorder ?? '') : unlistedWarning(context, incremental, question);
  if (!acceptsUnverifiedFilter(profile)) return scanFully(context, plan, warning, question);
  progress.warnings.push(warning);
  return null;
}

/** Scans everything, because the filter failed. `question` is the one that it failed; null for a wrong order. */
async function scanFully(
  context: RunContext,
  plan: ScanPlan,
  warning: Warning,
  question: FilterQuestion | null,
): Promise<FinishedScan> {
  const { profile, progress, watcher, owned, credential, clock } = context;
  const { resource } = owned;
  const [key, ...others] = question?.keys ?? [];
  const stored = key === undefined ? plan.checkpoint : { ...plan.checkpoint, cursor_key: key };
  const full = fullPlan({ resource, profile, credential, now: clock.now(), stored });
  watcher.started(resource, full);
  const scan = await scanUntilComplete(context, full, false);
  // If the full scan does not list the record either, it is deleted, and the filter was right.
  const isDeleted = key !== undefined && scan.isComplete && !scan.evidence.listsCursorKey;
  if (!isDeleted) progress.warnings.push(warning);
  const remaining = isDeleted ? others : (question?.keys ?? []);
  if (question !== null) await storeQuestion(context, remaining.length === 0 ? null : { ...question, keys: remaining });
  return scan;
}

/** Returns the question that the filter failed in this scan; null if the scan verifies it. */
async function findFailedQuestion(
  context: RunContext,
  plan: ScanPlan,
  scan: FinishedScan,
): Promise<FilterQuestion | null> {
  const { evidence, checkpoint } = scan;
  const { cursorKey } = evidence;
  if (cursorKey === null) return null;
  if (evidence.listsCursorKey) {
    const before = plan.checkpoint;
    const pages = evidence.pages + (plan.resumed ? before.walk_pages : 0);
    // The next scans may leave out the look-back. If it fits in one page, it costs nothing, and verifies the filter.
    if (checkpoint.cursor === before.cursor && pages > 1) {
      await save(context, { ...checkpoint, cursor_seen_at: before.cursor_seen_at ?? checkpoint.checked_at });
    }
    return null;
  }
  const question = { since: plan.checkpoint.walk_since ?? '', keys: [cursorKey] };
  // A resumed scan has not seen its first pages, which may have listed the record.
  if (plan.resumed && (await listsAll(context, question))) return null;
  const reading = await fetchRecord(context, cursorKey);
  if (reading?.isThere === false) return replaceCursorRecord(context, question, scan);
  // If it has changed since, it moved in the listing while that was read: the filter must list it now.
  const hasChanged = reading !== null && changedAt(context.profile, reading) > evidence.cursorAt;
  return hasChanged && (await listsAll(context, question)) ? null : question;
}

/** The number of records that are fetched individually: records that changed together are often deleted together. */
const MAX_FETCHED = 3;

/**
 * Chooses another record as evidence after that of the cursor was deleted. It must exist when it is fetched individually,
 * because a broken path makes every record look deleted. If the scan has not listed it, the filter must list it in a
 * request since its time. Returns the question that the filter failed, or null.
 */
async function replaceCursorRecord(
  context: RunContext,
  failed: FilterQuestion,
  { checkpoint, evidence }: FinishedScan,
): Promise<FilterQuestion | null> {
  const { profile } = context;
  const { cursor, cursor_key } = checkpoint;
  const [key = null] = failed.keys;
  // The scan has moved the cursor to a later record, which the filter has listed.
  if (cursor === null || cursor_key !== key || profile.incremental === null) return null;
  const { cursorAt, latest } = evidence;
  const listed = latest.find((record) => record.key !== key && record.at <= cursorAt);
  const others = listed === undefined ? await latestRecords(context, cursorAt, key) : [listed];
  for (const other of others.slice(0, MAX_FETCHED)) {
    if ((await fetchRecord(context, other.key))?.isThere !== true) continue;
    const from = listed === undefined ? cursorFor(other, cursor, profile) : cursor;
    const since = sinceValue(from, profile.incremental, null, updatedZone(profile));
    const question = { since: since ?? failed.since, keys: [other.key] };
    if (listed === undefined && !(await listsAll(context, question))) return question;
    await save(context, { ...checkpoint, cursor: from, cursor_key: other.key, cursor_seen_at: null });
    return null;
  }
  return failed;
}

/** The maximum number of records in one question, and at most half a page, so that one request usually lists all. */
const MAX_PROBE_RECORDS = 20;
/** The maximum number of pages that are read: many records may have changed at the same time as the earliest one. */
const MAX_PAGES = 3;

/**
 * After a full scan: requests the records that changed last, all of which the filter must list. One record would not be
 * enough: a filter by the time of creation lists a new one, and never one that was edited. Stores a question that the
 * filter fails, and warns.
 */
export async function testFilter(context: RunContext, scan: FinishedScan): Promise<void> {
  const { profile, progress, warehouse, owned } = context;
  const { incremental } = profile;
  const { cursor, checked_at: checkedAt } = scan.checkpoint;
  if (!scan.isComplete || cursor === null || incremental === null || acceptsUnverifiedFilter(profile)) return;
  // A listing in the order newest first is verified by that order.
  if (incremental.mode !== 'filter' || profile.partitions !== null) return;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null || failedQuestion(stored, incremental) !== null) return;
  // The filter may not list the latest changes yet; the next scan requests them in any case.
  const listedUntil = checkedAt === null ? Infinity : timestampMs(checkedAt) - incremental.lookback;
  const until = Math.min(toEpochMs(cursor, updatedZone(profile)), listedUntil);
  const latest = scan.evidence.latest.filter(({ at }) => at <= until);
  const question = createQuestion(latest, profile, incremental, cursor);
  if (question === null) return;
  const missing = new Set(await findUnlisted(context, question, MAX_PAGES));
  const unlisted = latest.filter(({ key }) => missing.has(key));
  const omitted = await findOmitted(context, unlisted);
  if (omitted === null) return;
  const failed = { since: question.since, keys: [...new Set([omitted.key, ...missing])] };
  await storeQuestion(context, failed);
  if (omitted.isVerified) progress.warnings.push(unlistedWarning(context, incremental, failed));
}

/** Creates a question for the latest records, since a time just before the earliest of them. Null if there is none. */
function createQuestion(
  latest: readonly ProbeRecord[],
  profile: ResourceProfile,
  incremental: IncrementalProfile,
  cursor: string,
): FilterQuestion | null {
  const records = latest.slice(0, Math.max(1, Math.min(MAX_PROBE_RECORDS, profile.page.size >> 1)));
  const earliest = records.at(-1);
  if (earliest === undefined) return null;
  const before = latest.find(({ at }) => at < earliest.at)?.at ?? -Infinity;
  const lookback = Math.min(incremental.lookback, Math.floor((earliest.at - before) / 2));
  const from = cursorFor(earliest, cursor, profile);
  const since = sinceValue(from, { ...incremental, lookback }, null, updatedZone(profile));
  return since === null ? null : { since, keys: records.map(({ key }) => key) };
}

/** True if the filter lists all records of the question. */
async function listsAll(context: RunContext, question: FilterQuestion): Promise<boolean> {
  return (await findUnlisted(context, question))?.length === 0;
}

/**
 * Returns the keys that the filter does not list on the first pages; null if that is unknown, or if the service refuses
 * the request: then it also refuses the next scan, which reports why.
 */
function findUnlisted(context: RunContext, question: FilterQuestion, maxPages?: number): Promise<string[] | null> {
  return unlessRefused(unlistedKeys(context, question, maxPages));
}

/** Returns null if records cannot be fetched individually. Throws if the run itself cannot continue. */
async function fetchRecord(context: RunContext, key: string): Promise<ItemReading | null> {
  return context.profile.item === null ? null : unlessRefused(readItem(context, key, 'incremental'));
}

/** Returns null if the service refuses the request. Throws if the run itself cannot continue. */
async function unlessRefused<T>(request: Promise<T>): Promise<T | null> {
  try {
    return await request;
  } catch (error) {
    if (!isOfRequest(error)) throw error;
    return null;
  }
}

/**
 * Returns the first of the unlisted records that the filter had no reason to omit: it exists, and has not changed since.
 * `isVerified` is false if that is unknown, because records cannot be fetched individually.
 */
async function findOmitted(
  context: RunContext,
  unlisted: readonly ProbeRecord[],
): Promise<{ key: string; isVerified: boolean } | null> {
  for (const { key, at } of unlisted.slice(0, MAX_FETCHED)) {
    const reading = await fetchRecord(context, key);
    if (reading === null) return { key, isVerified: false };
    if (reading.isThere && changedAt(context.profile, reading) <= at) return { key, isVerified: true };
  }
  return null;
}

/** Returns when the record last changed; -Infinity if it is deleted or has no such time. */
function changedAt(profile: ResourceProfile, reading: ItemReading): number {
  return reading.isThere ? (updatedTime(reading.record.value, profile)?.at ?? -Infinity) : -Infinity;
}
