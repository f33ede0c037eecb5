// Marks rows as deleted if the evidence suffices and the limits allow it; keeps the others as delete candidates.
import type { CompiledQuery } from 'kysely';
import type { CheckpointRow, DeleteCandidateRow, TimestampText } from '../../database/own-tables.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import type { OwnedResource } from '../../database/state/owned-resource.ts';
import { softDeleteStatements } from '../../database/state/stored-rows.ts';
import {
  type CandidateFacts,
  forgetDeleteCandidates,
  markConfirmed,
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

export interface DeletedRecord {
  key: string;
  /** When it was requested; local epoch milliseconds. */
  confirmedAt: number;
  /** The service's own time of the delete, as UTC text; null or absent if it states none. */
  deletedAt?: string | null | undefined;
}

/** A record that cannot be fetched individually, and that the listing shows all the same. */
interface RelistedRecord extends FoundRecord {
  key: string;
}

/**
 * Evidence for a delete. Besides a 404 or 410 for the record itself: `scan`: a complete scan did not list it; `named`: an
 * event or a feed of deletes names it; `none`: nothing else. Without such a response: `tombstone`: the record itself says
 * so; `scans`: enough complete scans did not list it.
 */
export type EvidenceSource = 'scan' | 'named' | 'tombstone' | 'scans' | 'none';

export interface DeleteEvidence {
  reason: DeleteCandidateRow['reason'];
  source: EvidenceSource;
  /** True if an operator has confirmed the delete: then it is never held. */
  isReleased: boolean;
}

/** What became of records that are gone, by key. A key that is in no list has no live row, or one that was written since. */
export interface SoftDeleteOutcome {
  deleted: string[];
  /** Their rows stay live as delete candidates, for an operator or for the end of the next run. */
  held: string[];
  /** Their rows stay live: the listing shows the records. */
  listed: RelistedRecord[];
  /** Their rows stay live until a complete scan decides. */
  waiting: string[];
  /** Why the service's response verifies nothing; null if it does. */
  doubt: string | null;
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
 * Marks the rows of records as deleted that the service no longer has: all of them, or none if they are too many or if
 * the response verifies nothing; then they become delete candidates. `lastSeen` comes from `watchKeys`, begun before the
 * records were requested. Throws what fetching a record throws, and `SyncError`.
 */
export async function softDelete(
  context: ResourceContext,
  gone: readonly DeletedRecord[],
  evidence: DeleteEvidence,
  lastSeen?: ReadonlyMap<string, number>,
): Promise<SoftDeleteOutcome> {
  const { owned, profile, warehouse } = context;
  if (lastSeen === undefined) {
    return watchKeys(owned, gone.map(keyOf), (begun) => softDelete(context, gone, evidence, begun));
  }
  if (gone.length === 0) return { deleted: [], held: [], listed: [], waiting: [], doubt: null };
  const { reason, source, isReleased } = evidence;
  const needsNothing = isReleased || source === 'tombstone' || source === 'scans';
  const isSure = needsNothing || (profile.item === null && reason !== 'told');
  const lane = reason === 'event' ? 'refetch' : 'bulk';
  const found = await compareWithListing(context, gone, isSure ? 'scans' : source, lane);
  // An operator's decision needs no control request, nor does a resource whose records cannot be fetched individually.
  const needsControl = !isSure && profile.item !== null && found.gone.length > 0;
  const doubt = needsControl ? await verifyItemPath(context, found.gone, lane) : null;
  return owned.runAlone(async () => {
    const checkpoint = await readCheckpoint(warehouse.own, owned.resource);
    return writeDeletes({ context, evidence, lastSeen, doubt, checkpoint }, found);
  });
}

/** One attempt to delete rows, within a commit slot of the resource. */
interface DeleteAttempt {
  context: ResourceContext;
  evidence: DeleteEvidence;
  lastSeen: ReadonlyMap<string, number>;
  doubt: string | null;
  checkpoint: CheckpointRow | null;
}

async function writeDeletes(
  attempt: DeleteAttempt,
  { gone, listed, waiting }: ComparedRecords,
): Promise<SoftDeleteOutcome> {
  const { context, evidence, doubt } = attempt;
  const { owned } = context;
  const table = owned.shape?.tables[0];
  const found = await sortByRow(attempt, table, gone);
  await noteUndecided(attempt, found, waiting, listed.map(keyOf));
  const undecided = { held: found.contested.map(keyOf), waiting: waiting.map(keyOf), listed, doubt };
  if (found.live.length === 0 || table === undefined) return { ...undecided, deleted: [] };

  const keys = found.live.map(keyOf);
  const since = found.live.reduce((least, { at }) => (at < least ? at : least), '9');
  const hold = evidence.isReleased ? null : await findHold(attempt, table, keys.length, since);
  if (hold !== null) {
    await owned.commit(candidateStatements(attempt, hold, since, keys));
    return { ...undecided, deleted: [], held: [...undecided.held, ...keys] };
  }
  await markDeleted(attempt, table, found.live);
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
  /** No row, a deleted one, or one that was written after the service was asked. */
  absent: DeletedRecord[];
  /** A loader saw them after the service was asked: two responses that contradict each other. */
  contested: DeletedRecord[];
}

async function sortByRow(
  { context: { warehouse, clock }, lastSeen }: DeleteAttempt,
  table: TableShape | undefined,
  gone: readonly DeletedRecord[],
): Promise<SortedRecords> {
  const now = timestampText(clock.now());
  const rows =
    table === undefined ? new Map<string, StoredRow>() : await warehouse.rows.stored(table, gone.map(keyOf), []);
  const sorted: SortedRecords = { live: [], absent: [], contested: [] };
  for (const record of gone) {
    const { key, confirmedAt, deletedAt = null } = record;
    const row = rows.get(key);
    const at = timestampText(confirmedAt);
    // A row with a future time was written before our clock was put back.
    const isFuture = row !== undefined && row.syncedAt > now;
    if (row === undefined || row.deletedAt !== null || (row.syncedAt > at && !isFuture)) sorted.absent.push(record);
    else if ((lastSeen.get(key) ?? -Infinity) >= confirmedAt) sorted.contested.push(record);
    else sorted.live.push({ key, at: isFuture ? row.syncedAt : at, deletedAt });
  }
  return sorted;
}

/**
 * Keeps what a later step decides as candidates, and forgets the others. A record without a row stays a candidate while a
 * full scan may still bring a page with it.
 */
async function noteUndecided(
  attempt: DeleteAttempt,
  { absent, contested }: SortedRecords,
  waiting: readonly DeletedRecord[],
  listed: readonly string[],
): Promise<void> {
  const { context, evidence, checkpoint } = attempt;
  const { warehouse, owned, clock } = context;
  const isScanning = !['missing', 'left_out'].includes(evidence.reason) && checkpoint?.walk_mode === 'full';
  // A record that was seen live after it said that it is deleted was restored.
  const isRestored = evidence.reason === 'stated' || evidence.reason === 'left_out';
  const kept = [...(isRestored ? [] : contested), ...waiting, ...(isScanning ? absent : [])];
  const at = timestampText(Math.min(...kept.map(({ confirmedAt }) => confirmedAt), clock.now()));
  const decided = [...listed, ...(isScanning ? [] : absent.map(keyOf)), ...(isRestored ? contested.map(keyOf) : [])];
  const statements: CompiledQuery[] = [
    ...forgetDeleteCandidates(warehouse.own, owned.resource, decided, 'waiting'),
    ...candidateStatements(attempt, { state: 'open', detail: null }, at, kept.map(keyOf)),
  ];
  await owned.commit(statements);
}

type Hold = Pick<CandidateFacts, 'state' | 'detail'>;

/** Returns why rows are not deleted now, or null. `since` is when the first of the records was requested. */
async function findHold(
  { context, evidence: { reason }, doubt, checkpoint }: DeleteAttempt,
  table: TableShape,
  count: number,
  since: TimestampText,
): Promise<Hold | null> {
  const { credential, profile } = context;
  // The next complete scan decides, because the record cannot be fetched individually.
  if (reason === 'event' && profile.item === null) return { state: 'open', detail: null };
  // Another credential may see less than the one that copied the record: its first complete scan decides.
  const knownCredential = checkpoint?.full_credential ?? checkpoint?.walk_credential ?? credential;
  if (knownCredential !== credential) return { state: 'open', detail: null };
  if (doubt !== null) {
    // A full scan since then may have brought records by which the path can be verified: the end of a run tries again.
    const isScanned = checkpoint?.walk_mode === 'full' || (checkpoint?.last_full_at ?? '') >= since;
    return { state: reason === 'event' && isScanned ? 'open' : 'held', detail: doubt };
  }
  const detail = await tooManyDeletes(context, table, count);
  return detail === null ? null : { state: 'held', detail };
}

async function markDeleted(
  { context, evidence }: DeleteAttempt,
  table: TableShape,
  rows: readonly RowToDelete[],
): Promise<void> {
  const { warehouse, owned, profile, clock } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const keys = rows.map(keyOf);
  const children = owned.shape?.tables.slice(1) ?? [];
  const statements = [...Map.groupBy(rows, ({ at, deletedAt }) => `${at} ${deletedAt}`).values()].flatMap((alike) => {
    const { at = '', deletedAt = null } = alike[0] ?? {};
    return softDeleteStatements(warehouse, {
      resource,
      history: profile.history,
      table,
      children,
      keys: alike.map(keyOf),
      at,
      deletedAt,
    });
  });
  const noted = evidence.isReleased
    ? markConfirmed(own, resource, keys, timestampText(clock.now()))
    : forgetDeleteCandidates(own, resource, keys);
  if (profile.mask !== null) noted.push(forgetSourceTexts(own, resource));
  await owned.commit([...statements, ...noted]);
}

function candidateStatements(
  { context: { warehouse, owned }, evidence }: DeleteAttempt,
  hold: Hold,
  since: TimestampText,
  keys: readonly string[],
): CompiledQuery[] {
  const candidate = { resource: owned.resource, reason: evidence.reason, evidence_at: since, ...hold };
  return noteMissingRecords(warehouse.own, candidate, keys, 0);
}

/** Records that cannot be fetched individually, sorted by whether they are listed. */
interface ComparedRecords {
  /** Not listed, or reported as deleted by an event while the listing is too long to request. */
  gone: DeletedRecord[];
  listed: RelistedRecord[];
  /** The listing is too long to request, and nothing else speaks for the delete. */
  waiting: DeletedRecord[];
}

/**
 * Requests the listing for records that cannot be fetched individually, because what is listed is not deleted.
 *
 * | alone | the listing                  | named by an event | the row                                       |
 * |-------|------------------------------|-------------------|-----------------------------------------------|
 * | 404   | a complete scan missed it    | either            | deleted                                       |
 * | 404   | requested now: not listed    | either            | deleted                                       |
 * | 404   | requested now: listed        | either            | stays                                         |
 * | 404   | too long to request          | yes               | deleted, if others exist under the same path  |
 * | 404   | too long to request          | no                | stays until a complete scan decides           |
 *
 * `deleted` also needs another record that exists under the same path (`verifyItemPath`), and the limits must allow it.
 * Throws what keeps the service from responding.
 */
async function compareWithListing(
  context: ResourceContext,
  gone: readonly DeletedRecord[],
  source: EvidenceSource,
  lane: Lane,
): Promise<ComparedRecords> {
  if (source !== 'named' && source !== 'none') return { gone: [...gone], listed: [], waiting: [] };
  const live = await readLiveRows(context, gone);
  const compared: ComparedRecords = { gone: [], listed: [], waiting: [] };
  for (const record of gone) {
    const row = live.get(record.key);
    // Without a live row from before, there is nothing to delete.
    const found =
      row === undefined ? null : await findInListing(context, { ...record, ...row, after: record.confirmedAt }, lane);
    if (found?.is === 'listed') compared.listed.push({ ...found, key: record.key });
    else if (found?.is === 'unknown' && source === 'none') compared.waiting.push(record);
    else compared.gone.push(record);
  }
  return compared;
}

/** The live rows of these records that were not written since, with their time of change as a service may write it. */
export async function readLiveRows(
  { warehouse, owned, profile, clock }: ResourceContext,
  gone: readonly DeletedRecord[],
): Promise<Map<string, { updated: string | null }>> {
  const table = owned.shape?.tables[0];
  if (table === undefined) return new Map();
  const rows = await warehouse.rows.stored(table, gone.map(keyOf), updatedColumns(table.columns, profile));
  const now = timestampText(clock.now());
  const live = gone.flatMap(({ key, confirmedAt }): [string, { updated: string | null }][] => {
    const row = rows.get(key);
    if (row === undefined || row.deletedAt !== null) return [];
    const isCurrent = row.syncedAt <= timestampText(confirmedAt) || row.syncedAt > now;
    return isCurrent ? [[key, { updated: toServiceTime(row.updated) }]] : [];
  });
  return new Map(live);
}

function toServiceTime(cell: Cell): string | null {
  if (typeof cell === 'number') return String(cell);
  const instant = typeof cell === 'string' ? parseInstant(cell) : null;
  return instant === null ? null : new Date(instant.epochMs).toISOString().replace('.000', '');
}

/** Records that are fetched before the path counts as broken: one of them may be deleted as well. */
const MAX_CONTROLS = 3;

/**
 * Returns why a 404 verifies nothing, or null if it does: another record must exist under the same path when it is
 * fetched after the last of `gone`. Otherwise `item` of the profile is wrong, or the credential must not read single
 * records. Concurrent callers share one control request. Throws what fetching a record throws.
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
  const started = { since: clock.now(), verdict: fetchControls(context, new Set(gone.map(keyOf)), lane) };
  proof.control = started;
  try {
    return await started.verdict;
  } finally {
    if (proof.control === started) proof.control = null;
  }
}

async function fetchControls(context: ResourceContext, gone: ReadonlySet<string>, lane: Lane): Promise<string | null> {
  const { proof, warehouse, owned } = context;
  const table = owned.shape?.tables[0];
  const keys = table === undefined ? [] : await warehouse.rows.liveSample(table, owned.resource, MAX_CONTROLS + 5);
  const others = keys.filter((key) => !gone.has(key));
  // From both ends and the middle: records that were created together are often deleted together.
  const controls = new Set(
    [others.at(0), others.at(-1), others.at(others.length / 2)].filter((key) => key !== undefined),
  );
  for (const key of controls) {
    try {
      const reading = await readItem(context, key, lane);
      if (!reading.isThere) continue;
      proof.at = Math.max(proof.at, reading.requestedAt);
      return null;
    } catch (error) {
      // A record without a path of its own verifies nothing.
      if (!(error instanceof SyncError) || error.recovery !== 'skip') throw error;
    }
  }
  const [first] = controls;
  if (first === undefined) return 'there is no other record to try the path of single records with';
  return `the service says that others are gone too, such as ${first}: check item in the profile and what the credential may read`;
}
