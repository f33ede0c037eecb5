import PQueue from 'p-queue';
import { isOtherAnswer, type ItemReading, readItem } from '../../pagination/read-item.ts';
import type { PageOutcome } from '../../load/page-loader.ts';
import type { SyncError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { holdOpen, holdSuspects, readSuspects } from '../../database/state/suspects.ts';
import type { SuspectRow } from '../../database/own-tables.ts';
import { type FoundRecord, loadRecord, refuseDoubtful } from '../item/check-reading.ts';
import { isOfRequest, type ResourceContext, type SourceContext, withResource } from '../resource-context.ts';
import { deleteVolume, tooMany } from './delete-limits.ts';
import { type Evidence, type Gone, liveRows, softDeleteGone, watching } from './soft-delete-gone.ts';
import { listingDelayMs } from './sweep.ts';

/** Counts of one verification. */
export interface ConfirmedDeletes {
  deleted: number;
  /** The error that kept candidates from being verified; they stay as they are. */
  trouble: SyncError | null;
  /** True if there were no candidates in the requested states. */
  isNone: boolean;
}

/** Max records fetched individually per run; the rest waits for the next run. */
const READS_PER_RUN = 2_000;
/** Records fetched before any is decided: few, so that a response is not old by then. */
const READS_PER_STEP = 20;
const READS_AT_ONCE = 4;
/** After this many errors in one step, the next candidates are not fetched. */
const MAX_ERRORS = 3;
/** Rows per transaction, if nothing is fetched. */
const ROWS_PER_STEP = 500;
/** The listing is requested for these: few, so that its response is not old by then. */
const TOLD_ROWS_PER_STEP = 100;

/** Page styles in which a record can move from a page still to come to one already read. */
const DRIFTING: ReadonlySet<string> = new Set(['page', 'offset']);
/** Complete scans without the record that verify a delete where fetching it alone verifies nothing. */
const SCANS_WITHOUT_FETCH = 2;

/** One candidate and the service's response for it. */
interface Look {
  suspect: SuspectRow;
  answer: ItemReading | { error: SyncError };
}

type States = readonly ('open' | 'released')[];

/** Called with the outcome of every record that exists after all. */
type Loaded = (outcome: PageOutcome) => void;

/**
 * Carries out the deletes that an operator has confirmed, for a command and for `serve`, which looks for them regularly.
 * Throws `SyncError('lease_held')` if another process owns the resource: then that process does it.
 */
export function deleteReleased(
  source: SourceContext,
  resource: string,
  signal: AbortSignal,
): Promise<ConfirmedDeletes> {
  return withResource(source, resource, signal, (context) => confirmDeletes(context, ['released'], () => undefined));
}

/**
 * Verifies delete candidates. Tombstones and operator-confirmed deletes need no request. Other candidates are fetched
 * individually if the profile has `item`: rows of missing records are marked as deleted, existing records are loaded.
 * Without `item`, complete scans decide. Throws `DeferredError`, the signal's reason and what the warehouse throws, with
 * everything until then in place.
 */
export async function confirmDeletes(
  context: ResourceContext,
  states: States,
  loaded: Loaded,
): Promise<ConfirmedDeletes> {
  const { warehouse, owned, profile, credential } = context;
  const candidates = await readSuspects(warehouse.own, owned.resource, states);
  const confirmed: ConfirmedDeletes = { deleted: 0, trouble: null, isNone: candidates.length === 0 };
  if (confirmed.isNone) return confirmed;
  const known = (await readCheckpoint(warehouse.own, owned.resource))?.full_credential ?? credential;
  const allowed = candidates.filter(({ state }) => state === 'released' || known === credential);
  const named = allowed.filter(isNamedOpen);
  const isHeld = await holdIfTooMany(context, named);
  const rest = isHeld ? allowed.filter((candidate) => !isNamedOpen(candidate)) : allowed;
  for (const [evidence, group] of groupByEvidence(rest, (candidate) => evidenceAtHand(candidate, profile))) {
    confirmed.deleted += await deleteGroup(context, group, evidence, loaded);
  }
  if (profile.item === null) return confirmed;
  const toFetch = rest.filter((candidate) => !hasTombstone(candidate)).slice(0, READS_PER_RUN);
  for (const part of inParts(toFetch, READS_PER_STEP)) {
    const step = await fetchAndDelete(context, part, loaded);
    confirmed.deleted += step.deleted;
    confirmed.trouble ??= step.trouble;
    if (step.isHopeless) return confirmed;
  }
  return confirmed;
}

/** True if the service itself names the record, in the record or in a feed of deletes. */
function isNamedOpen(candidate: SuspectRow): boolean {
  return candidate.state === 'open' && (hasTombstone(candidate) || candidate.reason === 'told');
}

/** True if the record itself showed that it is deleted, or that `filter` leaves it out. */
function hasTombstone({ reason }: SuspectRow): boolean {
  return reason === 'stated' || reason === 'left_out';
}

/** Holds the deletes that the service names if they are too many together. */
async function holdIfTooMany(context: ResourceContext, named: readonly SuspectRow[]): Promise<boolean> {
  const { warehouse, owned, deletes } = context;
  const table = owned.shape?.tables[0];
  if (named.length === 0 || table === undefined) return false;
  const ids = named.map(({ record_id }) => record_id);
  let asked = 0;
  for (const part of inParts(ids, ROWS_PER_STEP)) {
    const rows = await warehouse.rows.stored(table, part, []);
    for (const { deletedAt } of rows.values()) if (deletedAt === null) asked += 1;
  }
  const detail = tooMany(deletes, { asked, ...(await deleteVolume(context, table)) });
  if (detail === null) return false;
  await warehouse.apply(holdSuspects(warehouse.own, owned.resource, ids, detail), owned.lease());
  return true;
}

const BY_TOMBSTONE: Evidence = { reason: 'stated', witness: 'stated', isReleased: false };
const BY_OPERATOR: Evidence = { reason: 'missing', witness: 'scans', isReleased: true };
const BY_SCANS: Evidence = { reason: 'missing', witness: 'scans', isReleased: false };
const BY_SCAN_AND_FETCH: Evidence = { reason: 'missing', witness: 'walked', isReleased: false };
const BY_FEED: Evidence = { reason: 'told', witness: 'told', isReleased: false };
const BY_FETCH: Evidence = { reason: 'missing', witness: 'untold', isReleased: false };

/** The evidence that decides a candidate without fetching it individually; null if there is none. */
function evidenceAtHand(candidate: SuspectRow, { item, page }: ResourceProfile): Evidence | null {
  const { reason, state, sweeps } = candidate;
  const isReleased = state === 'released';
  if (hasTombstone(candidate)) return { ...BY_TOMBSTONE, reason, isReleased };
  if (item !== null || reason === 'older') return null;
  if (isReleased) return BY_OPERATOR;
  if (reason === 'told') return BY_FEED;
  // An event and one scan that agrees with it prove as much as two scans.
  const needed = reason === 'missing' && DRIFTING.has(page.style) ? SCANS_WITHOUT_FETCH : 1;
  return sweeps >= needed ? BY_SCANS : null;
}

function groupByEvidence<T>(items: readonly T[], find: (item: T) => Evidence | null): [Evidence, T[]][] {
  const groups = new Map<string, [Evidence, T[]]>();
  for (const item of items) {
    const evidence = find(item);
    if (evidence === null) continue;
    const key = Object.values(evidence).join();
    const group = groups.get(key) ?? [evidence, []];
    group[1].push(item);
    groups.set(key, group);
  }
  return [...groups.values()];
}

async function deleteGroup(
  context: ResourceContext,
  group: readonly SuspectRow[],
  evidence: Evidence,
  loaded: Loaded,
): Promise<number> {
  let deleted = 0;
  for (const step of inParts(group, evidence === BY_FEED ? TOLD_ROWS_PER_STEP : ROWS_PER_STEP)) {
    const keys = step.map(({ record_id }) => record_id);
    deleted += await watching(context.owned, keys, async (watch) => {
      // A row that was written after the evidence stays.
      const gone = step.map((candidate) => goneAt(candidate, timestampMs(candidate.evidence_at)));
      const outcome = await softDeleteGone(context, gone, evidence, watch);
      for (const listed of outcome.listed) await loadOlder(context, loaded, listed.key, listed);
      return outcome.deleted.length;
    });
  }
  return deleted;
}

function goneAt({ record_id: key, deleted_at: deletedAt }: SuspectRow, confirmedAt: number) {
  return { key, confirmedAt, deletedAt };
}

/** An older state is accepted too, because the service returned it just now. */
async function loadOlder(context: ResourceContext, loaded: Loaded, key: string, found: FoundRecord): Promise<void> {
  loaded(await loadRecord(context, key, found, { acceptsOlder: true }));
}

async function fetchAndDelete(
  context: ResourceContext,
  suspects: readonly SuspectRow[],
  loaded: Loaded,
): Promise<Omit<ConfirmedDeletes, 'isNone'> & { isHopeless: boolean }> {
  const { warehouse, owned } = context;
  const keys = suspects.map(({ record_id }) => record_id);
  return watching(owned, keys, async (watch) => {
    const { looks, ends } = await fetchEach(context, suspects);
    for (const { suspect, answer } of looks) {
      if (!('error' in answer) && answer.isThere) await loadOlder(context, loaded, suspect.record_id, answer);
    }
    let [deleted, doubt]: [number, string | null] = [0, null];
    const decided = new Set(await decidedByScans(context, looks));
    for (const [evidence, alike] of groupByEvidence(looks, (look) => evidenceFor(look, decided.has(look)))) {
      const outcome = await softDeleteGone(context, alike.map(goneBy), evidence, watch);
      for (const listed of outcome.listed) await loadOlder(context, loaded, listed.key, listed);
      deleted += outcome.deleted.length;
      doubt ??= outcome.doubt;
    }
    // The path of single records leads nowhere, so the responses for other candidates would be misread.
    if (doubt !== null) await warehouse.apply([holdOpen(warehouse.own, owned.resource, doubt)], owned.lease());
    if (ends.length > 0) throw ends[0];
    const errors = looks.flatMap((look) => ('error' in look.answer && !decided.has(look) ? [look.answer.error] : []));
    const isHopeless = doubt !== null || errors.filter((error) => !isOtherAnswer(error)).length >= MAX_ERRORS;
    return { deleted, trouble: errors[0] ?? null, isHopeless };
  });
}

/**
 * The candidates that are gone although the service did not answer 404 or 410 for them: those that an operator has
 * confirmed, and those that enough complete scans did not list and whose individual fetch returns something else.
 */
async function decidedByScans(context: ResourceContext, looks: readonly Look[]): Promise<Look[]> {
  const failed = looks.filter(({ answer }) => 'error' in answer && answer.error.code !== 'item_unproved');
  const released = failed.filter(({ suspect }) => suspect.state === 'released');
  const unlisted = failed.filter(
    ({ suspect: { state, sweeps, reason }, answer }) =>
      state === 'open' &&
      reason !== 'older' &&
      sweeps >= SCANS_WITHOUT_FETCH &&
      'error' in answer &&
      isOtherAnswer(answer.error),
  );
  // As without `item`: the listing may not show a young row yet.
  const delayMs = listingDelayMs(context);
  const settled = await liveRows(
    context,
    unlisted.map(({ suspect }) => goneAt(suspect, timestampMs(suspect.evidence_at) - delayMs)),
  );
  return [...released, ...unlisted.filter(({ suspect }) => settled.has(suspect.record_id))];
}

/** The evidence that the record of a candidate is gone; null if it exists or the response shows nothing. */
function evidenceFor({ suspect, answer }: Look, isDecided: boolean): Evidence | null {
  const isReleased = suspect.state === 'released';
  if ('error' in answer) return isDecided ? (isReleased ? BY_OPERATOR : BY_SCANS) : null;
  if (answer.isThere) return null;
  if (isReleased) return BY_OPERATOR;
  if (answer.stated !== undefined) return BY_TOMBSTONE;
  // It is listed, in an older state.
  if (suspect.reason === 'older') return null;
  if (suspect.sweeps > 0) return BY_SCAN_AND_FETCH;
  return suspect.reason === 'told' ? BY_FEED : BY_FETCH;
}

function goneBy({ suspect, answer }: Look): Gone {
  if ('error' in answer) return goneAt(suspect, timestampMs(suspect.evidence_at));
  const statedAt = answer.isThere ? undefined : answer.stated?.at;
  return { ...goneAt(suspect, answer.requestedAt), deletedAt: statedAt ?? suspect.deleted_at };
}

/** Returns the responses, and the errors that ended the step; both, because earlier responses count. */
async function fetchEach(context: ResourceContext, suspects: readonly SuspectRow[]) {
  const queue = new PQueue({ concurrency: READS_AT_ONCE });
  const looks: Look[] = [];
  const ends: unknown[] = [];
  const fetchOne = async (suspect: SuspectRow): Promise<void> => {
    if (ends.length > 0) return;
    try {
      looks.push({ suspect, answer: await readVerified(context, suspect.record_id) });
    } catch (error) {
      if (isOfRequest(error)) looks.push({ suspect, answer: { error } });
      else ends.push(error);
    }
  };
  await queue.addAll(suspects.map((suspect) => () => fetchOne(suspect)));
  return { looks, ends };
}

/** Throws `item_unproved` if the record exists and may differ from what the listing would show. */
async function readVerified(context: ResourceContext, key: string): Promise<ItemReading> {
  const reading = await readItem(context, key, 'bulk');
  const record = reading.isThere ? reading.record : reading.leftOut;
  if (record !== undefined) await refuseDoubtful(context, key, { ...reading, record }, 'bulk');
  return reading;
}
