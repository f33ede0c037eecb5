// Verifies delete candidates at the end of a run: fetches the records individually, or counts complete scans.
import pMap, { pMapSkip } from 'p-map';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { DeleteCandidateRow } from '../../database/own-tables.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { holdDeletes, holdOpenDeletes, readDeleteCandidates } from '../../database/state/suspects.ts';
import type { PageOutcome } from '../../load/page-loader.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { durationText } from '../../observe/figures.ts';
import { isOtherAnswer, type ItemReading, readItem } from '../../pagination/read-item.ts';
import type { Warning } from '../report.ts';
import { isOfRequest, type ResourceContext, type SourceContext, withResource } from '../resource-context.ts';
import { countRecords, type RunContext } from '../run-progress.ts';
import { loadRecord, refuseDoubtful } from '../single-record.ts';
import { countLive, listingDelayMs, tooManyDeletes } from './detect-deletes.ts';
import { type DeletedRecord, type DeleteEvidence, readLiveRows, softDelete, watchKeys } from './soft-delete.ts';

export interface VerifiedDeletes {
  deleted: number;
  /** The first error that kept candidates from being verified; they stay as they are. */
  error: SyncError | null;
  /** True if there were no candidates in the requested states. */
  isNone: boolean;
}

/** Max records fetched individually per run; the rest waits for the next run. */
const MAX_FETCHES = 2_000;
/** Records fetched before any is decided: few, so that a response is not old by then. */
const FETCHES_PER_STEP = 20;
const MAX_PARALLEL_FETCHES = 4;
/** After this many errors in one step, the next candidates are not fetched. */
const MAX_ERRORS = 3;
/** Rows per transaction: few, so that the listing's response is not old by then. */
const ROWS_PER_STEP = 100;

/** Page styles in which a record can move from a page still to come to one already read. */
const DRIFTING: ReadonlySet<string> = new Set(['page', 'offset']);
/** Complete scans without the record that verify a delete where fetching it individually verifies nothing. */
const SCANS_WITHOUT_FETCH = 2;

/** Called with the outcome of every record that exists after all. */
type OnLoaded = (outcome: PageOutcome) => void;

/** A candidate whose record is gone, and the evidence. */
interface DecidedDelete {
  gone: DeletedRecord;
  evidence: DeleteEvidence;
}

/** Carries out the deletes that an operator has confirmed. Throws `lease_held` if another process owns the resource. */
export function deleteReleased(source: SourceContext, resource: string, signal: AbortSignal): Promise<VerifiedDeletes> {
  return withResource(source, resource, signal, (context) => verifyDeletes(context, ['released'], () => undefined));
}

/** Verifies the delete candidates of a resource at the end of its run, and warns of those that stay open. */
export async function verifyCandidates(context: RunContext): Promise<void> {
  const { progress } = context;
  const onLoaded: OnLoaded = (outcome) => countRecords(progress, outcome);
  const verified = await verifyDeletes(context, ['released', 'open'], onLoaded);
  progress.figures.deleted += verified.deleted;
  if (!verified.isNone) progress.warnings.push(...(await openCandidateWarnings(context, verified.error)));
}

/**
 * Verifies delete candidates. Tombstones and operator-confirmed deletes need no request. Other candidates are fetched
 * individually if the profile has `item`: rows of missing records are marked as deleted, existing records are loaded.
 * Without `item`, complete scans decide. Throws `DeferredError`, the signal's reason and what the warehouse throws, with
 * everything until then in place.
 */
async function verifyDeletes(
  context: ResourceContext,
  states: readonly ('open' | 'released')[],
  onLoaded: OnLoaded,
): Promise<VerifiedDeletes> {
  const { warehouse, owned, profile, credential } = context;
  const candidates = await readDeleteCandidates(warehouse.own, owned.resource, states);
  const verified: VerifiedDeletes = { deleted: 0, error: null, isNone: candidates.length === 0 };
  if (verified.isNone) return verified;
  const known = (await readCheckpoint(warehouse.own, owned.resource))?.full_credential ?? credential;
  const allowed = candidates.filter(({ state }) => state === 'released' || known === credential);
  const isHeld = await holdIfTooMany(context, allowed.filter(isNamedOpen));
  const rest = isHeld ? allowed.filter((candidate) => !isNamedOpen(candidate)) : allowed;
  const decided = rest.flatMap((candidate) => {
    const evidence = evidenceAtHand(candidate, profile);
    // A row that was written after the evidence stays.
    return evidence === null ? [] : [{ gone: goneSince(candidate, timestampMs(candidate.evidence_at)), evidence }];
  });
  for (const step of inParts(decided, ROWS_PER_STEP)) {
    const keys = step.map(({ gone }) => gone.key);
    verified.deleted += await watchKeys(owned, keys, async (lastSeen) => {
      return (await deleteDecided(context, step, onLoaded, lastSeen)).deleted;
    });
  }
  if (profile.item === null) return verified;
  const toFetch = rest.filter((candidate) => !hasTombstone(candidate)).slice(0, MAX_FETCHES);
  for (const part of inParts(toFetch, FETCHES_PER_STEP)) {
    const step = await fetchAndDelete(context, part, onLoaded);
    verified.deleted += step.deleted;
    verified.error ??= step.error;
    if (step.isHopeless) break;
  }
  return verified;
}

/** True if the service itself names the record, in the record or in a feed of deletes. */
function isNamedOpen(candidate: DeleteCandidateRow): boolean {
  return candidate.state === 'open' && (hasTombstone(candidate) || candidate.reason === 'told');
}

/** True if the record itself showed that it is deleted, or that `filter` leaves it out. */
function hasTombstone({ reason }: DeleteCandidateRow): boolean {
  return reason === 'stated' || reason === 'left_out';
}

async function holdIfTooMany(context: ResourceContext, named: readonly DeleteCandidateRow[]): Promise<boolean> {
  const { warehouse, owned } = context;
  const table = owned.shape?.tables[0];
  if (named.length === 0 || table === undefined) return false;
  const ids = named.map(({ record_id }) => record_id);
  const detail = await tooManyDeletes(context, table, await countLive(context, table, ids));
  if (detail === null) return false;
  await owned.commit(holdDeletes(warehouse.own, owned.resource, ids, detail));
  return true;
}

const BY_TOMBSTONE: DeleteEvidence = { reason: 'stated', source: 'tombstone', isReleased: false };
const BY_OPERATOR: DeleteEvidence = { reason: 'missing', source: 'scans', isReleased: true };
const BY_SCANS: DeleteEvidence = { reason: 'missing', source: 'scans', isReleased: false };
const BY_SCAN_AND_FETCH: DeleteEvidence = { reason: 'missing', source: 'scan', isReleased: false };
const BY_FEED: DeleteEvidence = { reason: 'told', source: 'named', isReleased: false };
const BY_FETCH: DeleteEvidence = { reason: 'missing', source: 'none', isReleased: false };

/** The evidence that decides a candidate without fetching it individually; null if none exists. */
function evidenceAtHand(candidate: DeleteCandidateRow, { item, page }: ResourceProfile): DeleteEvidence | null {
  const { reason, state, sweeps } = candidate;
  const isReleased = state === 'released';
  if (hasTombstone(candidate)) return { ...BY_TOMBSTONE, reason, isReleased };
  if (item !== null || reason === 'older') return null;
  if (isReleased) return BY_OPERATOR;
  if (reason === 'told') return BY_FEED;
  // An event and one scan that agrees with it verify as much as two scans.
  const needed = reason === 'missing' && DRIFTING.has(page.style) ? SCANS_WITHOUT_FETCH : 1;
  return sweeps >= needed ? BY_SCANS : null;
}

function goneSince({ record_id: key, deleted_at: deletedAt }: DeleteCandidateRow, confirmedAt: number): DeletedRecord {
  return { key, confirmedAt, deletedAt };
}

/** An older state is accepted too, because the service returned it just now. */
const RETURNED_NOW = { acceptsOlder: true };

async function deleteDecided(
  context: ResourceContext,
  decided: readonly DecidedDelete[],
  onLoaded: OnLoaded,
  lastSeen: ReadonlyMap<string, number>,
): Promise<{ deleted: number; doubt: string | null }> {
  const total = { deleted: 0, doubt: null as string | null };
  const groups = Map.groupBy(decided, ({ evidence }) => Object.values(evidence).join());
  for (const group of groups.values()) {
    const [first] = group;
    if (first === undefined) continue;
    const gone = group.map((each) => each.gone);
    const { deleted, listed, doubt } = await softDelete(context, gone, first.evidence, lastSeen);
    for (const record of listed) onLoaded(await loadRecord(context, record.key, record, RETURNED_NOW));
    total.deleted += deleted.length;
    total.doubt ??= doubt;
  }
  return total;
}

/** One candidate, and the service's response when it is fetched individually. */
interface FetchedCandidate {
  candidate: DeleteCandidateRow;
  response: ItemReading | SyncError;
}

async function fetchAndDelete(
  context: ResourceContext,
  candidates: readonly DeleteCandidateRow[],
  onLoaded: OnLoaded,
): Promise<{ deleted: number; error: SyncError | null; isHopeless: boolean }> {
  const { warehouse, owned } = context;
  const keys = candidates.map(({ record_id }) => record_id);
  return watchKeys(owned, keys, async (lastSeen) => {
    const { fetched, fatal } = await fetchEach(context, candidates);
    for (const { candidate, response } of fetched) {
      if (response instanceof SyncError || !response.isThere) continue;
      onLoaded(await loadRecord(context, candidate.record_id, response, RETURNED_NOW));
    }
    const gone = fetched.flatMap(decideFetched);
    const missed = await decideFailed(context, fetched);
    const { deleted, doubt } = await deleteDecided(context, [...gone, ...missed.values()], onLoaded, lastSeen);
    // The path of single records is broken, so the responses for other candidates would be misread.
    if (doubt !== null) await owned.commit([holdOpenDeletes(warehouse.own, owned.resource, doubt)]);
    if (fatal !== undefined) throw fatal;
    const errors = fetched.flatMap((each) =>
      each.response instanceof SyncError && !missed.has(each) ? [each.response] : [],
    );
    const isHopeless = doubt !== null || errors.filter((error) => !isOtherAnswer(error)).length >= MAX_ERRORS;
    return { deleted, error: errors[0] ?? null, isHopeless };
  });
}

/** Returns the responses, and the error that ended the step; both, because earlier responses count. */
async function fetchEach(
  context: ResourceContext,
  candidates: readonly DeleteCandidateRow[],
): Promise<{ fetched: FetchedCandidate[]; fatal: unknown }> {
  let fatal: unknown;
  const fetchOne = async (candidate: DeleteCandidateRow): Promise<FetchedCandidate | typeof pMapSkip> => {
    if (fatal !== undefined) return pMapSkip;
    try {
      return { candidate, response: await fetchVerified(context, candidate.record_id) };
    } catch (error) {
      if (isOfRequest(error)) return { candidate, response: error };
      fatal ??= error;
      return pMapSkip;
    }
  };
  const fetched = await pMap(candidates, fetchOne, { concurrency: MAX_PARALLEL_FETCHES });
  return { fetched, fatal };
}

/** Throws `item_unproved` if the record exists and may differ from what the listing would show. */
async function fetchVerified(context: ResourceContext, key: string): Promise<ItemReading> {
  const reading = await readItem(context, key, 'bulk');
  const record = reading.isThere ? reading.record : reading.leftOut;
  if (record !== undefined) await refuseDoubtful(context, key, { ...reading, record }, 'bulk');
  return reading;
}

/** Nothing if the record exists, or the response shows nothing. */
function decideFetched({ candidate, response }: FetchedCandidate): DecidedDelete[] {
  if (response instanceof SyncError || response.isThere) return [];
  const since = goneSince(candidate, response.requestedAt);
  const gone = { ...since, deletedAt: response.stated?.at ?? candidate.deleted_at };
  if (candidate.state === 'released') return [{ gone, evidence: BY_OPERATOR }];
  if (response.stated !== undefined) return [{ gone, evidence: BY_TOMBSTONE }];
  // It is listed, in an older state.
  if (candidate.reason === 'older') return [];
  if (candidate.sweeps > 0) return [{ gone, evidence: BY_SCAN_AND_FETCH }];
  return [{ gone, evidence: candidate.reason === 'told' ? BY_FEED : BY_FETCH }];
}

/**
 * The candidates that are gone although the service did not answer 404 or 410 for them: those that an operator has
 * confirmed, and those that enough complete scans did not list and whose individual fetch returns something else.
 */
async function decideFailed(
  context: ResourceContext,
  fetched: readonly FetchedCandidate[],
): Promise<Map<FetchedCandidate, DecidedDelete>> {
  const decided = new Map<FetchedCandidate, DecidedDelete>();
  // As without `item`: the listing may not show a young row yet.
  const delayMs = listingDelayMs(context);
  for (const each of fetched) {
    const { candidate, response } = each;
    if (!(response instanceof SyncError) || response.code === 'item_unproved') continue;
    const evidenceAt = timestampMs(candidate.evidence_at);
    const gone = goneSince(candidate, evidenceAt);
    if (candidate.state === 'released') {
      decided.set(each, { gone, evidence: BY_OPERATOR });
      continue;
    }
    const isUnlisted = candidate.reason !== 'older' && candidate.sweeps >= SCANS_WITHOUT_FETCH;
    if (!isUnlisted || !isOtherAnswer(response)) continue;
    const settled = await readLiveRows(context, [goneSince(candidate, evidenceAt - delayMs)]);
    if (settled.size > 0) decided.set(each, { gone, evidence: BY_SCANS });
  }
  return decided;
}

/** Reported in every run until an operator has decided the `held` deletes. */
export async function heldDeleteWarnings(
  { warehouse, owned: { resource } }: ResourceContext,
  held: number,
): Promise<Warning[]> {
  if (held === 0) return [];
  const [first] = await readDeleteCandidates(warehouse.own, resource, ['held'], 1);
  const why = first?.detail ?? 'an operator must decide';
  const message = `${held} ${held === 1 ? 'delete is' : 'deletes are'} held, ${held === 1 ? 'its row stays' : 'their rows stay'} live: ${why}`;
  const hint = `look at them with: content-sync deletes list ${resource}; then \`deletes confirm\` or \`deletes discard\``;
  return [{ code: 'deletes_held', message, hint }];
}

/** Warns of candidates that are open when a run ends: the copy may differ from the service. */
async function openCandidateWarnings(context: ResourceContext, error: SyncError | null): Promise<Warning[]> {
  const { warehouse, owned, scrub } = context;
  const open = await readDeleteCandidates(warehouse.own, owned.resource, ['open']);
  const older = open.filter(({ reason }) => reason === 'older').length;
  const missed = open.filter(({ reason, sweeps }) => reason !== 'older' && sweeps > 0).length;
  const young = open.filter(({ reason, sweeps }) => reason === 'missing' && sweeps === 0).length;
  const warnings: Warning[] = [];
  const failed = error === null ? '' : `: ${messageOf(error)}`;
  if (missed + young > 0 || (error !== null && open.length > older)) {
    const delayMs = listingDelayMs(context);
    const parts = [
      ...(missed > 0 ? [`${formatCount(missed, 'row')} that a complete scan did not see`] : []),
      ...(young > 0 ? [`${formatCount(young, 'row')} not seen and younger than ${durationText(delayMs / 1_000)}`] : []),
    ];
    const what = parts.length === 0 ? 'records that an event reported as deleted' : parts.join(', and ');
    const next =
      young > missed
        ? 'the next full scan after that time decides; deletes.settle in the settings is how late a listing may be'
        : 'the next full scan decides; look at them with: content-sync deletes list';
    const isOther = error !== null && isOtherAnswer(error);
    const hint = isOther
      ? `${next}; to decide sooner, name such responses under \`gone\` in the profile`
      : (error?.hint ?? next);
    const fetching = failed === '' ? '' : `: they could not be fetched individually${failed}`;
    const message = scrub(`still live and not confirmed to be deleted: ${what}${fetching}`);
    warnings.push({ code: 'deletes_unconfirmed', message, hint: scrub(hint) });
  }
  if (older > 0) {
    const message = scrub(`the listing shows ${formatCount(older, 'record')} in an older state than the row${failed}`);
    const hint =
      'a listing may be late: the individually fetched record decides, or two full scans that show the same state, further apart than the listing may be late (deletes.settle)';
    warnings.push({ code: 'older_listed', message, hint });
  }
  return warnings;
}

function formatCount(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
