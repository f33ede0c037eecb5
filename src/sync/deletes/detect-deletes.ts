// Finds delete candidates: live rows that a complete full scan did not list (`detectDeletes`), and records that a page
// marks as deleted (`candidateStatements`). Example: the copy has the posts 1 to 100, and a full scan lists all but 42.
//
// Each page of a full scan stores hashes of its keys (`_sync_seen`). After the last page they are compared with the keys
// of all live rows. A row that was not listed becomes a candidate (`_sync_suspects`): `verify-deletes.ts` fetches post 42
// and deletes its row only on a 404. `DeleteCandidateRow` explains the reasons and states of candidates.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import type { DeleteCandidateRow, TimestampText } from '../../database/own-tables.ts';
import {
  deleteSeenPages,
  readCheckpoint,
  readSeenPages,
  readSeenScan,
  saveCheckpoint,
  type SeenScan,
} from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import {
  countDeleteCandidates,
  forgetDeleteCandidates,
  forgetListed,
  noteMissingRecords,
  noteOlderStates,
  noteReportedDeletes,
  readDeleteCandidates,
} from '../../database/state/suspects.ts';
import type { LoadContext } from '../../load/load-context.ts';
import type { PageFacts } from '../../load/page-loader.ts';
import type { OlderPolicy } from '../../load/prepare-page.ts';
import type { TableShape } from '../../model/table.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { ScanMode } from '../../model/vocabulary.ts';
import { formatDuration } from '../../observe/format-values.ts';
import { eachKey, hasKey, KeySet } from '../../pagination/guards/key-set.ts';
import { canonicalHash, KEY_FINGERPRINT_BYTES, keyFingerprints } from '../../rows/records/record-key.ts';
import { isOtherCredential } from '../advance-checkpoint.ts';
import type { Warning } from '../report.ts';
import type { DeleteLimits, ResourceContext } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';

/** Used if neither the settings nor a filter of the profile say how late a listing may be. */
const DEFAULT_DELAY_MS = 600_000;

/** Returns after how many milliseconds a listing shows every new record: a younger row may still be missing in it. */
export function listingDelayMs({ deletes, profile }: ResourceContext): number {
  return deletes.settle ?? profile.incremental?.lookback ?? DEFAULT_DELAY_MS;
}

/**
 * Called after a complete full scan. In one transaction, stores the live rows that it did not list as delete candidates,
 * and removes the candidates that it listed and the stored pages of the scan. Deletes no row. Does nothing without such a
 * scan, so that it may be called again after a kill. A scan under another credential may list less: then all candidates
 * are held for an operator, and that credential becomes the one of the last full scan. Returns it, else null.
 */
export async function detectDeletes(context: RunContext): Promise<string | null> {
  const { warehouse, owned, profile, progress } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const scan = await readSeenScan(own, resource);
  if (scan === null) return null;
  const checkpoint = await readCheckpoint(own, resource);
  // The stored pages are those of the last scan: they are complete unless it is still in progress.
  if (checkpoint === null || checkpoint.walk_mode !== null) return null;
  const newCredential = isOtherCredential(checkpoint) ? checkpoint.walk_credential : null;
  const table = owned.shape?.tables[0];
  // Without any id the scan shows nothing, and a record without a usable id may be that of any row.
  const isInconclusive = scan.bytes === 0 || (scan.unkeyed > 0 && profile.item === null);
  let missingCount: number | null = null;
  const statements: CompiledQuery[] = [];
  if (table !== undefined && !isInconclusive) {
    const unlisted = await findUnlisted(context, table, scan, newCredential !== null);
    missingCount = unlisted.missing.length;
    statements.push(...(await unlistedStatements(context, table, scan, unlisted, newCredential !== null)));
  }
  statements.push(deleteSeenPages(own, resource));
  if (newCredential !== null) {
    statements.push(saveCheckpoint(own, { ...checkpoint, full_credential: newCredential, walk_credential: null }));
  }
  await owned.commit(statements);
  if (newCredential !== null && missingCount !== 0) progress.warnings.push(credentialWarning(resource, missingCount));
  return newCredential;
}

/** `missing`: rows from before that were not listed under the new credential; null if that is not known. */
function credentialWarning(resource: string, missing: number | null): Warning {
  const rows = missing === 1 ? '1 row that was copied before is' : `${missing} rows that were copied before are`;
  const found =
    missing === null
      ? 'records without a usable id keep it from being known what it does not list'
      : `${rows} not listed under it, and held until an operator decides`;
  return {
    code: 'credential_changed',
    message: `the credential or the version of the API is another one than before: ${found}`,
    hint: `see that the credential may read all of ${resource}; what is held: content-sync deletes list ${resource}`,
  };
}

/** Keys of live rows from before the scan that it did not list. */
interface UnlistedKeys {
  missing: string[];
  /** Written so shortly before the scan that the listing may not have shown them yet. */
  young: string[];
}

async function findUnlisted(
  context: ResourceContext,
  table: TableShape,
  scan: SeenScan,
  isNewCredential: boolean,
): Promise<UnlistedKeys> {
  const { warehouse, owned, profile } = context;
  const listed = new KeySet(scan.bytes / KEY_FINGERPRINT_BYTES);
  for await (const { ids } of readSeenPages(warehouse.own, owned.resource, scan.walk_started_at))
    eachKey(ids, (high, low) => listed.add(high, low));
  // No request can verify a record that cannot be fetched individually: its row must be older than the listing's delay.
  const delayMs = profile.item === null ? listingDelayMs(context) : 0;
  const youngSince = timestampText(timestampMs(scan.walk_started_at) - delayMs);
  const unlisted: UnlistedKeys = { missing: [], young: [] };
  for await (const { key, syncedAt } of unseenRows(context, table, (hash) => hasKey(listed, hash))) {
    if (syncedAt >= scan.walk_started_at) continue;
    // Under a new credential all of them are held for an operator, also young ones.
    const keys = syncedAt < youngSince || isNewCredential ? unlisted.missing : unlisted.young;
    keys.push(key);
  }
  return unlisted;
}

/** Rows that are compared before other work runs in the event loop. */
const KEYS_PER_STEP = 20_000;

/** Yields the live rows, in the order of their keys, for whose key's hash `isSeen` returns false. */
export async function* unseenRows(
  { warehouse, signal }: LoadContext,
  table: TableShape,
  isSeen: (fingerprint: Uint8Array) => boolean,
): AsyncGenerator<{ key: string; syncedAt: TimestampText }> {
  let keys = await warehouse.rows.keysAfter(table, '', KEYS_PER_STEP);
  while (keys.length > 0) {
    const fingerprints = keyFingerprints(keys);
    const unseen = keys.filter((_, at) => {
      return !isSeen(fingerprints.subarray(at * KEY_FINGERPRINT_BYTES, (at + 1) * KEY_FINGERPRINT_BYTES));
    });
    const rows = unseen.length === 0 ? [] : await warehouse.rows.stored(table, unseen, []);
    for (const [key, { deletedAt, syncedAt }] of rows) if (deletedAt === null) yield { key, syncedAt };
    await nextTurn();
    signal.throwIfAborted();
    keys = await warehouse.rows.keysAfter(table, keys.at(-1) ?? '', KEYS_PER_STEP);
  }
}

/** The reason why rows that were not listed under another credential are held, whatever their number. */
const OTHER_CREDENTIAL = 'first missed under another credential than before, which may simply be allowed to see less';

/** Stores the unlisted rows as candidates, which are held if they are too many, and removes those that the scan listed. */
async function unlistedStatements(
  context: ResourceContext,
  table: TableShape,
  { walk_started_at }: SeenScan,
  { missing, young }: UnlistedKeys,
  isNewCredential: boolean,
): Promise<CompiledQuery[]> {
  const { own } = context.warehouse;
  const { resource } = context.owned;
  // An operator has confirmed these deletes: they do not count for the limits.
  const released = new Set((await readDeleteCandidates(own, resource, ['released'])).map(({ record_id }) => record_id));
  const count = missing.filter((key) => !released.has(key)).length;
  let heldBecause: string | null = null;
  if (count > 0) heldBecause = isNewCredential ? OTHER_CREDENTIAL : await tooManyDeletes(context, table, count);
  const candidate = { resource, reason: 'missing', evidence_at: walk_started_at } as const;
  const decision = { state: heldBecause === null ? 'open' : 'held', detail: heldBecause } as const;
  const waitsBecause = `its row is younger than ${formatDuration(listingDelayMs(context) / 1_000)} (deletes.settle)`;
  return [
    ...noteMissingRecords(own, { ...candidate, ...decision }, missing, 1),
    // This scan does not count for them, because they may be too young for the listing.
    ...noteMissingRecords(own, { ...candidate, state: 'open', detail: waitsBecause }, young, 0),
    forgetListed(own, resource, walk_started_at),
  ];
}

const KEYS_PER_QUERY = 500;

/** Counts the keys that have a live row. */
export async function countLive(
  { warehouse }: LoadContext,
  table: TableShape,
  keys: readonly string[],
): Promise<number> {
  let live = 0;
  for (const part of inParts(keys, KEYS_PER_QUERY)) {
    for (const { deletedAt } of (await warehouse.rows.stored(table, part, [])).values())
      if (deletedAt === null) live += 1;
  }
  return live;
}

const DAY_MS = 86_400_000;

/** Returns why deleting this number of rows would exceed the limits (`deletes` of the settings); null if it would not. */
export async function tooManyDeletes(
  { warehouse, owned, clock, deletes }: ResourceContext,
  { name }: TableShape,
  requested: number,
): Promise<string | null> {
  const since = timestampText(clock.now() - DAY_MS);
  const deleted = await warehouse.rows.countDeleted(name, since);
  const confirmed = await countDeleteCandidates(warehouse.own, owned.resource, 'settled', since);
  const volume = { requested, live: await warehouse.rows.count(name), recent: Math.max(0, deleted - confirmed) };
  return describeExcess(deletes, volume);
}

/**
 * Explains why deletes are too many; null if they are not. They and those of the last 24 hours (`recent`, without those
 * that an operator confirmed) must not exceed `max_rows`, nor the part `max_part` of the rows that were live before.
 */
export function describeExcess(
  limits: DeleteLimits,
  { requested, live, recent }: { requested: number; live: number; recent: number },
): string | null {
  // 0.29 * 100 is 28.999999999999996.
  const part = Math.floor(limits.max_part * (live + recent) + 1e-9);
  const allowed = Math.min(limits.max_rows, part);
  if (requested + recent <= allowed) return null;
  const already = recent === 0 ? '' : `, after ${recent} in the last 24 h`;
  const limit = allowed === part ? `max_part ${limits.max_part}` : `max_rows ${limits.max_rows}`;
  return `${requested} of ${live} live rows would be deleted${already}: more than ${allowed} (deletes.${limit})`;
}

/** The delete candidates of a resource when a scan begins or resumes. */
interface ScanCandidates {
  /** Updated by the pages of the scan. */
  candidates: Map<string, Pick<DeleteCandidateRow, 'reason' | 'hash' | 'sweeps' | 'evidence_at'>>;
  mode: ScanMode;
  scanStartedAt: TimestampText;
  /** `scanStartedAt` minus the delay of the listing: an older state that was listed since then may come from one lag. */
  mayLagSince: TimestampText;
}

/** Reads the candidates that the pages of a scan may refute, and the older states that earlier scans have listed. */
export async function readCandidates(
  context: ResourceContext,
  mode: ScanMode,
  scanStartedAt: TimestampText,
): Promise<ScanCandidates> {
  const { warehouse, owned } = context;
  const all = await readDeleteCandidates(warehouse.own, owned.resource, ['open', 'held', 'released']);
  // A held or released delete stays for the operator, unless the record itself was the reason (`stated`, `left_out`): if it
  // is listed as live now, there is nothing to decide.
  const refutable = all.filter(({ state, reason }) => state === 'open' || reason === 'stated' || reason === 'left_out');
  const mayLagSince = timestampText(timestampMs(scanStartedAt) - listingDelayMs(context));
  return { mode, scanStartedAt, mayLagSince, candidates: new Map(refutable.map((each) => [each.record_id, each])) };
}

/**
 * A listing may show an older state than the row, because a replica lags behind or because an editor has restored it. A
 * full scan accepts it only if an earlier full scan has listed the same state, too long ago for one lag to explain both.
 */
export function olderPolicy({ candidates, mode, mayLagSince }: ScanCandidates): OlderPolicy {
  const listedBefore = [...candidates].filter(
    ([, { reason, sweeps, evidence_at }]) => reason === 'older' && sweeps > 0 && evidence_at < mayLagSince,
  );
  const hashes = mode === 'full' ? listedBefore.map(([key, { hash }]) => [key, hash ?? ''] as const) : [];
  return { acceptsOlder: false, seenBefore: new Map(hashes) };
}

/** A listed record that the profile's filter excludes counts like two complete scans that do not list it. */
const LEFT_OUT_SCANS = 2;

/**
 * Returns the statements of a page's transaction. They remove the candidates that the page lists, and store older states,
 * tombstones, and rows whose records the profile's filter excludes. `requestedAt` in local epoch milliseconds.
 */
export function candidateStatements(
  { warehouse: { own }, owned: { resource } }: LoadContext,
  { candidates, mode, scanStartedAt }: ScanCandidates,
  facts: PageFacts,
  requestedAt: number,
): CompiledQuery[] {
  const evidence_at = timestampText(requestedAt);
  const isRefuted = (key: string): boolean => {
    const candidate = candidates.get(key);
    return candidate !== undefined && candidate.evidence_at <= evidence_at;
  };
  const refuted = candidates.size === 0 ? [] : listedKeys(facts).filter(isRefuted);
  const olderStates = facts.older.map(({ key, value }) => {
    const hash = canonicalHash(value);
    const before = candidates.get(key);
    // A scan counts once, also if it lists the state again after a kill.
    const isSame = before?.reason === 'older' && before.hash === hash && before.evidence_at < scanStartedAt;
    return { record_id: key, hash, sweeps: (isSame ? before.sweeps : 0) + (mode === 'full' ? 1 : 0) };
  });
  // A later page of this scan may refute these again.
  for (const { key } of facts.tombstoned) candidates.set(key, { reason: 'stated', hash: null, sweeps: 0, evidence_at });
  for (const { key } of facts.excludedRows)
    candidates.set(key, { reason: 'left_out', hash: null, sweeps: LEFT_OUT_SCANS, evidence_at });
  return [
    ...forgetDeleteCandidates(own, resource, refuted, 'not_settled'),
    ...noteOlderStates(own, resource, olderStates, scanStartedAt),
    ...reportedDeletes(own, resource, facts, evidence_at),
  ];
}

/** Returns such statements for a response of a feed of changes, which is no part of a complete scan. */
export function feedCandidateStatements(
  { warehouse: { own }, owned: { resource } }: LoadContext,
  facts: PageFacts,
  requestedAt: number,
): CompiledQuery[] {
  const evidenceAt = timestampText(requestedAt);
  const olderStates = facts.older.map(({ key, value }) => ({ record_id: key, hash: canonicalHash(value), sweeps: 0 }));
  return [
    ...forgetDeleteCandidates(own, resource, listedKeys(facts), 'refuted_by_feed'),
    ...noteOlderStates(own, resource, olderStates, evidenceAt),
    ...reportedDeletes(own, resource, facts, evidenceAt),
  ];
}

/** Returns the keys whose records are listed as live, and not in an older state than their row. */
function listedKeys({ keys, older, tombstoned }: PageFacts): string[] {
  const others = new Set([...older, ...tombstoned].map(({ key }) => key));
  return keys.filter((key) => !others.has(key));
}

/** Stores the rows whose records say that they are deleted, or that the profile's filter excludes, as candidates. */
function reportedDeletes(
  own: LoadContext['warehouse']['own'],
  resource: string,
  { tombstoned, excludedRows }: PageFacts,
  evidence_at: TimestampText,
): CompiledQuery[] {
  const open = { resource, state: 'open', evidence_at, detail: null } as const;
  const excluded = excludedRows.filter(({ isOlder }) => !isOlder).map(({ key }) => key);
  // An older state may come from a replica that lags behind: the reason `missing` lets the record be fetched individually.
  const older = excludedRows.filter(({ isOlder }) => isOlder).map(({ key }) => key);
  return [
    ...noteReportedDeletes(own, { resource, reason: 'stated', evidence_at }, tombstoned),
    ...noteMissingRecords(own, { ...open, reason: 'left_out' }, excluded, LEFT_OUT_SCANS),
    ...noteMissingRecords(own, { ...open, reason: 'missing' }, older, LEFT_OUT_SCANS),
  ];
}
