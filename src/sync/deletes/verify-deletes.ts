// Verifies the delete candidates of a resource at the end of its run, and deletes the rows of those that are confirmed.
//
// A record that a scan did not list may exist all the same, for example on a page that had already been read. So the
// record is fetched individually, if the profile has a path for that (`item`); otherwise further scans must miss it too:
//
// | why it is a candidate (`reason`)                   | with `item`, its row is deleted     | without `item`               |
// |----------------------------------------------------|-------------------------------------|------------------------------|
// | any, and an operator has confirmed it (`released`) | unless the record is found          | at once                      |
// | the record shows it (`stated`, `left_out`)         | at once                             | at once                      |
// | a feed of deletes reports it (`told`)              | after a 404, if it is not listed    | if it is not listed          |
// | a webhook reports it (`event`)                     | after a 404, if it is not listed    | after one scan without it    |
// | one complete scan did not list it (`missing`)      | after a 404                         | if records never change page |
// | two complete scans did not list it (`missing`)     | after a 404, or for another record  | at once                      |
// | a scan listed an older state of it (`older`)       | never: the fetched record is loaded | never: two scans decide      |
//
// A record that is found is loaded like any other. `DeleteCandidateRow` explains reasons and states, and
// `soft-delete.ts` what else a 404 needs.
import pMap, { pMapSkip } from 'p-map';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { DeleteCandidateRow } from '../../database/own-tables.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { holdDeletes, holdOpenDeletes, readDeleteCandidates } from '../../database/state/suspects.ts';
import type { PageOutcome } from '../../load/page-loader.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { formatCount, formatDuration } from '../../observe/format-values.ts';
import { isOtherAnswer, type ItemReading, readItem } from '../../pagination/read-item.ts';
import type { Warning } from '../report.ts';
import { isOfRequest, type ResourceContext, type SourceContext, withResource } from '../resource-context.ts';
import { countRecords, type RunContext } from '../run-progress.ts';
import { loadRecord, refuseUnverifiedItem } from '../single-record.ts';
import { countLive, listingDelayMs, tooManyDeletes } from './detect-deletes.ts';
import { type DeletedRecord, type DeleteEvidence, readLiveRows, softDelete, watchKeys } from './soft-delete.ts';

export interface VerifiedDeletes {
  deleted: number;
  /** The first error that kept candidates from being verified; they stay as they are. */
  error: SyncError | null;
}

/** Called with the outcome of every record that exists after all. */
type OnLoaded = (outcome: PageOutcome) => void;

/** Carries out the deletes that an operator has confirmed. Throws `lease_held` if another process owns the resource. */
export function deleteReleased(source: SourceContext, resource: string, signal: AbortSignal): Promise<VerifiedDeletes> {
  return withResource(source, resource, signal, (context) => verifyDeletes(context, ['released'], () => undefined));
}

/** Verifies the delete candidates of a resource at the end of its run, and warns of those that stay open. */
export async function verifyCandidates(context: RunContext): Promise<void> {
  const { progress } = context;
  const onLoaded: OnLoaded = (outcome) => countRecords(progress, outcome);
  const { deleted, error } = await verifyDeletes(context, ['released', 'open'], onLoaded);
  progress.figures.deleted += deleted;
  progress.warnings.push(...(await openCandidateWarnings(context, error)));
}

/** Max records fetched individually per run; the rest waits for the next run. */
const MAX_FETCHES = 2_000;
/** Records fetched before any is decided: few, so that a response is not old by then. */
const FETCHES_PER_STEP = 20;
/** Rows per transaction: few, so that the listing's response is not old by then. */
const ROWS_PER_STEP = 100;

/** Throws `DeferredError`, the signal's reason and errors of the warehouse; earlier deletes stay committed then. */
async function verifyDeletes(
  context: ResourceContext,
  states: readonly ('open' | 'released')[],
  onLoaded: OnLoaded,
): Promise<VerifiedDeletes> {
  const { owned, profile } = context;
  const verified: VerifiedDeletes = { deleted: 0, error: null };
  const candidates = await readDecidableCandidates(context, states);
  const decided = candidates.flatMap((candidate) => decideWithoutFetch(candidate, profile) ?? []);
  for (const step of inParts(decided, ROWS_PER_STEP)) {
    const keys = step.map(({ record }) => record.key);
    await watchKeys(owned, keys, async (lastSeen) => {
      verified.deleted += (await deleteDecided(context, step, onLoaded, lastSeen)).deleted;
    });
  }
  if (profile.item === null) return verified;
  const toFetch = candidates.filter((candidate) => !isShownByRecord(candidate)).slice(0, MAX_FETCHES);
  for (const step of inParts(toFetch, FETCHES_PER_STEP)) {
    const { deleted, error, isHopeless } = await fetchAndDelete(context, step, onLoaded);
    verified.deleted += deleted;
    verified.error ??= error;
    if (isHopeless) break;
  }
  return verified;
}

/** Reads the candidates that may be decided now. Holds those that the service reports for an operator if they are too many. */
async function readDecidableCandidates(
  context: ResourceContext,
  states: readonly ('open' | 'released')[],
): Promise<readonly DeleteCandidateRow[]> {
  const { warehouse, owned, credential } = context;
  const all = await readDeleteCandidates(warehouse.own, owned.resource, states);
  const table = owned.shape?.tables[0];
  if (all.length === 0) return [];
  const lastCredential = (await readCheckpoint(warehouse.own, owned.resource))?.full_credential ?? credential;
  // Another credential than that of the last full scan may see less, so it only carries out what an operator confirmed.
  const decidable = lastCredential === credential ? all : all.filter(({ state }) => state === 'released');
  const reported = decidable.filter(isReportedByService).map(({ record_id }) => record_id);
  if (reported.length === 0 || table === undefined) return decidable;
  const tooMany = await tooManyDeletes(context, table, await countLive(context, table, reported));
  if (tooMany === null) return decidable;
  await owned.commit(holdDeletes(warehouse.own, owned.resource, reported, tooMany));
  return decidable.filter((candidate) => !isReportedByService(candidate));
}

/** True if the record itself showed that it is deleted, or that the profile's `filter` excludes it. */
function isShownByRecord({ reason }: DeleteCandidateRow): boolean {
  return reason === 'stated' || reason === 'left_out';
}

/** True for an open candidate that the service itself reports as deleted: in the record, or in a feed of deletes. */
function isReportedByService(candidate: DeleteCandidateRow): boolean {
  return candidate.state === 'open' && (isShownByRecord(candidate) || candidate.reason === 'told');
}

const BY_OPERATOR: DeleteEvidence = { kind: 'operator', reason: 'missing' };
const BY_SCANS: DeleteEvidence = { kind: 'scans', reason: 'missing' };
const BY_FEED: DeleteEvidence = { kind: 'reported', reason: 'told' };

/** Page styles in which a deleted record moves later records to an earlier page, which may have been read already. */
const NUMBERED_STYLES: ReadonlySet<string> = new Set(['page', 'offset']);
/** Complete scans that must miss a record, if nothing else can show that it is deleted. */
const SCANS_WITHOUT_FETCH = 2;

/** A candidate that is deleted, and the evidence. */
interface DecidedDelete {
  record: DeletedRecord;
  evidence: DeleteEvidence;
}

/** Decides a candidate without fetching it individually; null if that is not possible. */
function decideWithoutFetch(candidate: DeleteCandidateRow, { item, page }: ResourceProfile): DecidedDelete | null {
  const { reason, state, sweeps } = candidate;
  const isConfirmed = state === 'released';
  // A row that was written after the evidence stays.
  const record = toDeletedRecord(candidate, timestampMs(candidate.evidence_at));
  if (isShownByRecord(candidate)) return { record, evidence: { kind: isConfirmed ? 'operator' : 'tombstone', reason } };
  if (item !== null || reason === 'older') return null;
  if (isConfirmed) return { record, evidence: BY_OPERATOR };
  if (reason === 'told') return { record, evidence: BY_FEED };
  // An event and one scan without the record verify as much as two scans.
  const needed = reason === 'missing' && NUMBERED_STYLES.has(page.style) ? SCANS_WITHOUT_FETCH : 1;
  return sweeps >= needed ? { record, evidence: BY_SCANS } : null;
}

function toDeletedRecord(candidate: DeleteCandidateRow, confirmedAt: number): DeletedRecord {
  return { key: candidate.record_id, confirmedAt, deletedAt: candidate.deleted_at };
}

/** An older state is accepted too, because the service returned it just now. */
const RETURNED_NOW = { acceptsOlder: true };

/** Deletes the rows, and loads the records that the listing shows after all. */
async function deleteDecided(
  context: ResourceContext,
  decided: readonly DecidedDelete[],
  onLoaded: OnLoaded,
  lastSeen: ReadonlyMap<string, number>,
): Promise<{ deleted: number; pathProblem: string | null }> {
  const total = { deleted: 0, pathProblem: null as string | null };
  for (const group of Map.groupBy(decided, ({ evidence: { kind, reason } }) => `${kind} ${reason}`).values()) {
    const [first] = group;
    if (first === undefined) continue;
    const records = group.map(({ record }) => record);
    const { deleted, listed, pathProblem } = await softDelete(context, records, first.evidence, lastSeen);
    for (const record of listed) onLoaded(await loadRecord(context, record.key, record, RETURNED_NOW));
    total.deleted += deleted.length;
    total.pathProblem ??= pathProblem;
  }
  return total;
}

/** After this many errors in one step, the next candidates are not fetched. */
const MAX_ERRORS = 3;

/** Fetches candidates individually, and deletes the rows of those that no longer exist; loads the others. */
async function fetchAndDelete(
  context: ResourceContext,
  candidates: readonly DeleteCandidateRow[],
  onLoaded: OnLoaded,
): Promise<{ deleted: number; error: SyncError | null; isHopeless: boolean }> {
  const { warehouse, owned } = context;
  const keys = candidates.map(({ record_id }) => record_id);
  return watchKeys(owned, keys, async (lastSeen) => {
    const { fetched, fatal } = await fetchEach(context, candidates);
    const decided: DecidedDelete[] = [];
    const errors: SyncError[] = [];
    for (const { candidate, response } of fetched) {
      let decision: DecidedDelete | null;
      if (response instanceof SyncError) {
        decision = await decideByError(context, candidate, response);
        if (decision === null) errors.push(response);
      } else {
        if (response.isThere) onLoaded(await loadRecord(context, candidate.record_id, response, RETURNED_NOW));
        decision = decideByResponse(candidate, response);
      }
      if (decision !== null) decided.push(decision);
    }
    const { deleted, pathProblem } = await deleteDecided(context, decided, onLoaded, lastSeen);
    // If the path of single records is wrong, further responses would be misread, so an operator decides the others.
    if (pathProblem !== null) await owned.commit([holdOpenDeletes(warehouse.own, owned.resource, pathProblem)]);
    if (fatal !== undefined) throw fatal;
    const isHopeless = pathProblem !== null || errors.filter((error) => !isOtherAnswer(error)).length >= MAX_ERRORS;
    return { deleted, error: errors[0] ?? null, isHopeless };
  });
}

/** One candidate, and the service's response when it is fetched individually. */
interface FetchedCandidate {
  candidate: DeleteCandidateRow;
  response: ItemReading | SyncError;
}

const MAX_PARALLEL_FETCHES = 4;

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
  const record = reading.isThere ? reading.record : reading.excluded;
  if (record !== undefined) await refuseUnverifiedItem(context, key, { ...reading, record }, 'bulk');
  return reading;
}

/** Returns null if the record exists, or if the response decides nothing. */
function decideByResponse(candidate: DeleteCandidateRow, response: ItemReading): DecidedDelete | null {
  if (response.isThere) return null;
  const { tombstone, requestedAt } = response;
  const { state, reason, sweeps, deleted_at } = candidate;
  const record = { ...toDeletedRecord(candidate, requestedAt), deletedAt: tombstone?.at ?? deleted_at };
  if (state === 'released') return { record, evidence: BY_OPERATOR };
  if (tombstone !== undefined) return { record, evidence: { kind: 'tombstone', reason: 'stated' } };
  // The listing shows the record, so a 404 for it is wrong.
  if (reason === 'older') return null;
  if (sweeps > 0) return { record, evidence: { kind: 'scan_and_404', reason: 'missing' } };
  return { record, evidence: reason === 'told' ? BY_FEED : { kind: 'only_404', reason: 'missing' } };
}

/**
 * Decides a candidate whose request failed: its row is deleted if an operator has confirmed that, or if two complete scans
 * did not list it and the service returned another record, or no record at all. Null if neither holds.
 */
async function decideByError(
  context: ResourceContext,
  candidate: DeleteCandidateRow,
  error: SyncError,
): Promise<DecidedDelete | null> {
  // The record exists (`fetchVerified`).
  if (error.code === 'item_unproved') return null;
  const evidenceAt = timestampMs(candidate.evidence_at);
  const record = toDeletedRecord(candidate, evidenceAt);
  if (candidate.state === 'released') return { record, evidence: BY_OPERATOR };
  const isUnlisted = candidate.reason !== 'older' && candidate.sweeps >= SCANS_WITHOUT_FETCH;
  if (!isUnlisted || !isOtherAnswer(error)) return null;
  // The row must be older than the listing may be late: the listing may not show a younger one yet.
  const old = await readLiveRows(context, [toDeletedRecord(candidate, evidenceAt - listingDelayMs(context))]);
  return old.size > 0 ? { record, evidence: BY_SCANS } : null;
}

/** Warns in every run until an operator has decided the `held` deletes. */
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
  const unseen = open.filter(({ reason, sweeps }) => reason !== 'older' && sweeps > 0).length;
  const young = open.filter(({ reason, sweeps }) => reason === 'missing' && sweeps === 0).length;
  const warnings: Warning[] = [];
  if (unseen + young > 0 || (error !== null && open.length > older)) {
    const { message, hint } = describeUnconfirmed(unseen, young, listingDelayMs(context), error);
    warnings.push({ code: 'deletes_unconfirmed', message: scrub(message), hint: scrub(hint) });
  }
  if (older > 0) {
    const failed = error === null ? '' : `: ${messageOf(error)}`;
    const message = scrub(`the listing shows ${formatCount(older, 'record')} in an older state than the row${failed}`);
    const hint =
      'a listing may be late: the individually fetched record decides, or two full scans that show the same state, further apart than the listing may be late (deletes.settle)';
    warnings.push({ code: 'older_listed', message, hint });
  }
  return warnings;
}

/** Describes `unseen` rows, which a complete scan did not list, and `young` ones, which may be too new for the listing. */
function describeUnconfirmed(
  unseen: number,
  young: number,
  delayMs: number,
  error: SyncError | null,
): { message: string; hint: string } {
  const rows: string[] = [];
  if (unseen > 0) rows.push(`${formatCount(unseen, 'row')} that a complete scan did not see`);
  if (young > 0) rows.push(`${formatCount(young, 'row')} not seen and younger than ${formatDuration(delayMs / 1_000)}`);
  const what = rows.length === 0 ? 'records that an event reported as deleted' : rows.join(', and ');
  const why = error === null ? '' : `: they could not be fetched individually: ${messageOf(error)}`;
  const message = `still live and not confirmed to be deleted: ${what}${why}`;
  const next =
    young > unseen
      ? 'the next full scan after that time decides; deletes.settle in the settings is how late a listing may be'
      : 'the next full scan decides; look at them with: content-sync deletes list';
  if (error === null) return { message, hint: next };
  const sooner = `${next}; to decide sooner, name such responses under \`gone\` in the profile`;
  return { message, hint: isOtherAnswer(error) ? sooner : (error.hint ?? next) };
}
