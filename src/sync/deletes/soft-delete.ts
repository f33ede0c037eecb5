// Marks rows as deleted whose records the service no longer has (`softDelete`), if the evidence suffices and the limits for
// deletes allow it. A row whose delete is not verified stays live, as a delete candidate for the next run or an operator.
//
// A 404 for a single record is weak evidence: the path in the profile may be wrong, the credential may not be allowed to
// read single records, or a replica lags behind. So the kind of evidence (`EVIDENCE`) says what is requested first: the
// listing, because a listed record is not deleted, and another record that must exist under the same path.
import type { CompiledQuery } from 'kysely';
import type { CheckpointRow, DeleteCandidateRow, TimestampText } from '../../database/own-tables.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import type { OwnedResource } from '../../database/state/owned-resource.ts';
import { softDeleteStatements } from '../../database/state/stored-rows.ts';
import {
  type CandidateFacts,
  forgetDeleteCandidates,
  markSettled,
  noteMissingRecords,
} from '../../database/state/suspects.ts';
import { forgetSourceTexts } from '../../database/state/versions.ts';
import type { StoredRow } from '../../database/warehouse.ts';
import { keyOf } from '../../load/prepare-page.ts';
import { SyncError } from '../../model/errors.ts';
import type { Cell, TableShape } from '../../model/table.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { readItem } from '../../pagination/read-item.ts';
import { parseInstant } from '../../rows/columns/cells.ts';
import { updatedColumns } from '../../rows/columns/updated-time.ts';
import type { ResourceContext } from '../resource-context.ts';
import { findInListing, type FoundRecord } from '../single-record.ts';
import { tooManyDeletes } from './detect-deletes.ts';

/** What is requested before the row is deleted. `ifTooLong`: what happens if the listing is too long to request. */
interface RequiredRequests {
  listing: { ifTooLong: 'delete' | 'wait' } | null;
  otherRecord: boolean;
}

const NO_REQUESTS: RequiredRequests = { listing: null, otherRecord: false };

/** Kinds of evidence that a record is deleted. */
const EVIDENCE = {
  /** An operator has confirmed the delete, which is then not limited either. */
  operator: NO_REQUESTS,
  /** The record itself says that it is deleted, or that the profile's filter excludes it. */
  tombstone: NO_REQUESTS,
  /** As many complete scans as are needed did not list it. */
  scans: NO_REQUESTS,
  /** One complete scan did not list it, and its own path answers 404 or 410. */
  scan_and_404: { listing: null, otherRecord: true },
  /** An event or a feed of deletes names it, and its own path, if there is one, answers 404 or 410. */
  reported: { listing: { ifTooLong: 'delete' }, otherRecord: true },
  /** Only its own path answers 404 or 410: it waits for a complete scan if the listing is too long to request. */
  only_404: { listing: { ifTooLong: 'wait' }, otherRecord: true },
} as const satisfies Record<string, RequiredRequests>;

export type EvidenceKind = keyof typeof EVIDENCE;

export interface DeleteEvidence {
  kind: EvidenceKind;
  /** Stored with the candidate if the row stays live. */
  reason: DeleteCandidateRow['reason'];
}

export interface DeletedRecord {
  key: string;
  /** When it was requested; local epoch milliseconds. */
  confirmedAt: number;
  /** When the service says that it deleted the record, as UTC text; null or absent if it does not say. */
  deletedAt?: string | null | undefined;
}

/** A record that the listing shows although its own path answered 404 or 410. */
interface RelistedRecord extends FoundRecord {
  key: string;
}

/** What was done with the rows, by key. A key that is in no list has no live row, or one that was written since. */
export interface SoftDeleteOutcome {
  deleted: string[];
  /** Their rows stay live as delete candidates (`held` or `open`), for an operator or for the end of the next run. */
  held: string[];
  /** Their rows stay live: the listing shows the records. */
  listed: RelistedRecord[];
  /** Their rows stay live until a complete scan decides. */
  waiting: string[];
  /** Why the 404 of a single record is no evidence here; null if it is, or is not needed. */
  pathProblem: string | null;
}

/** Runs `work` with a map in which page loaders note when they last saw one of the keys. */
export async function watchKeys<T>(
  owned: OwnedResource,
  keys: readonly string[],
  work: (lastSeen: ReadonlyMap<string, number>) => Promise<T>,
): Promise<T> {
  const lastSeen = new Map(keys.map((key) => [key, -Infinity]));
  owned.watches.add(lastSeen);
  try {
    return await work(lastSeen);
  } finally {
    owned.watches.delete(lastSeen);
  }
}

/**
 * Marks the rows of `gone` as deleted, except those that the listing or a later page still shows. If they are too many, or
 * the evidence does not suffice, all become delete candidates instead. `lastSeen` comes from a `watchKeys` that began before
 * the records were requested; by default one begins now. Throws what fetching a record throws, and `SyncError`.
 */
export async function softDelete(
  context: ResourceContext,
  gone: readonly DeletedRecord[],
  evidence: DeleteEvidence,
  lastSeen?: ReadonlyMap<string, number>,
): Promise<SoftDeleteOutcome> {
  const { owned, profile, warehouse } = context;
  if (lastSeen === undefined) {
    return watchKeys(owned, gone.map(keyOf), (seen) => softDelete(context, gone, evidence, seen));
  }
  if (gone.length === 0) return { deleted: [], held: [], listed: [], waiting: [], pathProblem: null };
  const { kind, reason } = evidence;
  const canFetch = profile.item !== null;
  // Without a path of single records, complete scans have decided, except if a feed names the delete (`told`).
  const { listing, otherRecord }: RequiredRequests = canFetch || reason === 'told' ? EVIDENCE[kind] : NO_REQUESTS;
  const lane = reason === 'event' ? 'refetch' : 'bulk';
  const compared =
    listing === null
      ? { gone, listed: [], waiting: [] }
      : await compareWithListing(context, gone, listing.ifTooLong, lane);
  const needsOther = otherRecord && canFetch && compared.gone.length > 0;
  const pathProblem = needsOther ? await verifyItemPath(context, compared.gone, lane) : null;
  return owned.runAlone(async () => {
    const checkpoint = await readCheckpoint(warehouse.own, owned.resource);
    return writeDeletes({ context, evidence, lastSeen, pathProblem, checkpoint }, compared);
  });
}

/** Records that the service no longer has by their own path, sorted by whether the listing shows them. */
interface ComparedRecords {
  gone: readonly DeletedRecord[];
  listed: RelistedRecord[];
  waiting: DeletedRecord[];
}

/** Looks the records up in the listing of the service. Throws the errors of its requests. */
async function compareWithListing(
  context: ResourceContext,
  records: readonly DeletedRecord[],
  ifTooLong: 'delete' | 'wait',
  lane: Lane,
): Promise<ComparedRecords> {
  const live = await readLiveRows(context, records);
  const [gone, listed, waiting]: [DeletedRecord[], RelistedRecord[], DeletedRecord[]] = [[], [], []];
  for (const record of records) {
    const row = live.get(record.key);
    // A record without such a row needs no request, because nothing is deleted.
    const found =
      row === undefined ? null : await findInListing(context, { ...record, ...row, after: record.confirmedAt }, lane);
    if (found?.is === 'listed') listed.push({ ...found, key: record.key });
    else if (found?.is === 'unknown' && ifTooLong === 'wait') waiting.push(record);
    else gone.push(record);
  }
  return { gone, listed, waiting };
}

/** True for a row that was written after a request. A row with a future time is older: the clock was set back since. */
export function isWrittenAfter({ syncedAt }: { syncedAt: string }, requestedAt: number, now: number): boolean {
  return syncedAt > timestampText(requestedAt) && syncedAt <= timestampText(now);
}

/** Reads the live rows of these records that were not written since, with their times of change as a service writes them. */
export async function readLiveRows(
  { warehouse, owned, profile, clock }: ResourceContext,
  gone: readonly DeletedRecord[],
): Promise<Map<string, { updated: string | null }>> {
  const table = owned.shape?.tables[0];
  if (table === undefined) return new Map();
  const rows = await warehouse.rows.stored(table, gone.map(keyOf), updatedColumns(table.columns, profile));
  const live = new Map<string, { updated: string | null }>();
  for (const { key, confirmedAt } of gone) {
    const row = rows.get(key);
    if (row === undefined || row.deletedAt !== null || isWrittenAfter(row, confirmedAt, clock.now())) continue;
    live.set(key, { updated: toServiceTime(row.updated) });
  }
  return live;
}

function toServiceTime(cell: Cell): string | null {
  if (typeof cell === 'number') return String(cell);
  const instant = typeof cell === 'string' ? parseInstant(cell) : null;
  return instant === null ? null : new Date(instant.epochMs).toISOString().replace('.000', '');
}

/** An attempt to delete rows, while no other code of this process writes to the resource. */
interface DeleteAttempt {
  context: ResourceContext;
  evidence: DeleteEvidence;
  lastSeen: ReadonlyMap<string, number>;
  pathProblem: string | null;
  checkpoint: CheckpointRow | null;
}

async function writeDeletes(
  attempt: DeleteAttempt,
  { gone, listed, waiting }: ComparedRecords,
): Promise<SoftDeleteOutcome> {
  const { context, evidence, pathProblem } = attempt;
  const { owned, warehouse } = context;
  const table = owned.shape?.tables[0];
  const { live, seenSince, absent } = await sortByRow(attempt, table, gone);
  const keys = live.map(keyOf);
  const undecided = { held: seenSince.map(keyOf), waiting: waiting.map(keyOf), listed, pathProblem };
  const statements = undecidedStatements(attempt, { seenSince, absent, waiting, listed: listed.map(keyOf) });
  let postponed: Postponement | null = null;
  if (table !== undefined && live.length > 0) {
    const [since = ''] = live.map(({ at }) => at).toSorted();
    postponed = evidence.kind === 'operator' ? null : await findPostponement(attempt, table, keys.length, since);
    if (postponed === null) statements.push(...deleteStatements(attempt, table, live));
    else {
      const candidate = { resource: owned.resource, reason: evidence.reason, evidence_at: since, ...postponed };
      statements.push(...noteMissingRecords(warehouse.own, candidate, keys, NO_SCAN_COUNTS));
    }
  }
  await owned.commit(statements);
  if (postponed !== null) return { ...undecided, deleted: [], held: [...undecided.held, ...keys] };
  return { ...undecided, deleted: keys };
}

/** A live row whose record is gone; `at` is the time from which the row counts as deleted. */
interface RowToDelete {
  key: string;
  at: TimestampText;
  deletedAt: TimestampText | null;
}

interface SortedRecords {
  live: RowToDelete[];
  /** No row, a deleted one, or one that was written after the request. */
  absent: DeletedRecord[];
  /** A page that was requested after the record still showed it: the two responses contradict each other. */
  seenSince: DeletedRecord[];
}

async function sortByRow(
  { context: { warehouse, clock }, lastSeen }: DeleteAttempt,
  table: TableShape | undefined,
  gone: readonly DeletedRecord[],
): Promise<SortedRecords> {
  const now = clock.now();
  const rows =
    table === undefined ? new Map<string, StoredRow>() : await warehouse.rows.stored(table, gone.map(keyOf), []);
  const sorted: SortedRecords = { live: [], absent: [], seenSince: [] };
  for (const record of gone) {
    const { key, confirmedAt, deletedAt = null } = record;
    const row = rows.get(key);
    if (row === undefined || row.deletedAt !== null || isWrittenAfter(row, confirmedAt, now))
      sorted.absent.push(record);
    else if ((lastSeen.get(key) ?? -Infinity) >= confirmedAt) sorted.seenSince.push(record);
    else {
      const isFuture = row.syncedAt > timestampText(now);
      sorted.live.push({ key, at: isFuture ? row.syncedAt : timestampText(confirmedAt), deletedAt });
    }
  }
  return sorted;
}

/**
 * Returns the statements that keep the undecided records as candidates, and forget the decided ones. A record without a row
 * is undecided while a full scan may still bring a page with it.
 */
function undecidedStatements(
  { context, evidence, checkpoint }: DeleteAttempt,
  records: { absent: DeletedRecord[]; seenSince: DeletedRecord[]; waiting: DeletedRecord[]; listed: string[] },
): CompiledQuery[] {
  const { warehouse, owned, clock } = context;
  const { reason } = evidence;
  // Candidates that a full scan has found (these two reasons) are decided by that scan itself.
  const isScanning = reason !== 'missing' && reason !== 'left_out' && checkpoint?.walk_mode === 'full';
  // For these reasons the record itself said that it is deleted or excluded: a later page shows that it was restored.
  const isRestored = reason === 'stated' || reason === 'left_out';
  const kept = [...records.waiting];
  const decided = [...records.listed];
  if (isRestored) decided.push(...records.seenSince.map(keyOf));
  else kept.push(...records.seenSince);
  if (isScanning) kept.push(...records.absent);
  else decided.push(...records.absent.map(keyOf));
  const evidence_at = timestampText(Math.min(...kept.map(({ confirmedAt }) => confirmedAt), clock.now()));
  const candidate = { resource: owned.resource, reason, evidence_at, state: 'open', detail: null } as const;
  return [
    ...forgetDeleteCandidates(warehouse.own, owned.resource, decided, 'not_settled'),
    ...noteMissingRecords(warehouse.own, candidate, kept.map(keyOf), NO_SCAN_COUNTS),
  ];
}

/** Value of `sweeps`, the full scans that did not list a candidate: none, because other evidence found it. */
const NO_SCAN_COUNTS = 0;

/** The state in which rows that are not deleted now become candidates: a `held` one needs an operator, an `open` one waits. */
type Postponement = Pick<CandidateFacts, 'state' | 'detail'>;

/** Returns why rows are not deleted now, or null. `since` is when the first of the records was requested. */
async function findPostponement(
  { context, evidence: { reason }, pathProblem, checkpoint }: DeleteAttempt,
  table: TableShape,
  count: number,
  since: TimestampText,
): Promise<Postponement | null> {
  const { credential, profile } = context;
  // The next complete scan decides, because the record cannot be fetched individually.
  if (reason === 'event' && profile.item === null) return { state: 'open', detail: null };
  // Another credential may see less than the one that copied the record: its first complete scan decides.
  const lastCredential = checkpoint?.full_credential ?? checkpoint?.walk_credential ?? credential;
  if (lastCredential !== credential) return { state: 'open', detail: null };
  if (pathProblem !== null) {
    // After an event, a full scan may bring other records by which the path can be verified: the end of that run tries again.
    // Otherwise an operator decides.
    const isScanned = checkpoint?.walk_mode === 'full' || (checkpoint?.last_full_at ?? '') >= since;
    return { state: reason === 'event' && isScanned ? 'open' : 'held', detail: pathProblem };
  }
  const detail = await tooManyDeletes(context, table, count);
  return detail === null ? null : { state: 'held', detail };
}

function deleteStatements(
  { context, evidence }: DeleteAttempt,
  table: TableShape,
  rows: readonly RowToDelete[],
): CompiledQuery[] {
  const { warehouse, owned, profile, clock } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const keys = rows.map(keyOf);
  const children = owned.shape?.tables.slice(1) ?? [];
  const target = { resource, history: profile.history, table, children };
  const statements: CompiledQuery[] = [];
  for (const sameTimes of Map.groupBy(rows, ({ at, deletedAt }) => `${at} ${deletedAt}`).values()) {
    const { at = '', deletedAt = null } = sameTimes[0] ?? {};
    statements.push(...softDeleteStatements(warehouse, { ...target, keys: sameTimes.map(keyOf), at, deletedAt }));
  }
  if (evidence.kind === 'operator') statements.push(...markSettled(own, resource, keys, timestampText(clock.now())));
  else statements.push(...forgetDeleteCandidates(own, resource, keys));
  return profile.mask === null ? statements : [...statements, forgetSourceTexts(own, resource)];
}

/**
 * Returns why the 404 of a single record is no evidence; null if it is, because another record was found by the same path
 * after `gone` were requested. If none is found, `item` of the profile may be wrong, or the credential may not read single
 * records. Concurrent callers share one such request. Throws what fetching a record throws.
 */
async function verifyItemPath(
  context: ResourceContext,
  gone: readonly DeletedRecord[],
  lane: Lane,
): Promise<string | null> {
  const { proof, clock } = context;
  const since = Math.max(...gone.map(({ confirmedAt }) => confirmedAt));
  if (proof.at >= since) return null;
  if (proof.control !== null && proof.control.since >= since) return proof.control.verdict;
  const started = { since: clock.now(), verdict: fetchOtherRecord(context, new Set(gone.map(keyOf)), lane) };
  proof.control = started;
  try {
    return await started.verdict;
  } finally {
    if (proof.control === started) proof.control = null;
  }
}

/** Rows among which the other records are chosen. */
const SAMPLED_ROWS = 8;

async function fetchOtherRecord(
  context: ResourceContext,
  gone: ReadonlySet<string>,
  lane: Lane,
): Promise<string | null> {
  const { proof, warehouse, owned } = context;
  const table = owned.shape?.tables[0];
  const keys = table === undefined ? [] : await warehouse.rows.liveSample(table, owned.resource, SAMPLED_ROWS);
  const others = keys.filter((key) => !gone.has(key));
  // Records that were created together are often deleted together: both ends and the middle were created at different times.
  const chosen = new Set([others.at(0), others.at(-1), others.at(others.length / 2)]);
  let fetched: string | null = null;
  for (const key of chosen) {
    if (key === undefined) continue;
    fetched ??= key;
    try {
      const reading = await readItem(context, key, lane);
      if (!reading.isThere) continue;
      proof.at = Math.max(proof.at, reading.requestedAt);
      return null;
    } catch (error) {
      // This record has no path of its own (`skip`), so the next one is tried.
      if (!(error instanceof SyncError) || error.recovery !== 'skip') throw error;
    }
  }
  if (fetched === null) return 'there is no other record to try the path of single records with';
  return `the service says that others are gone too, such as ${fetched}: check item in the profile and what the credential may read`;
}
