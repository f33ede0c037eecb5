// Finds delete candidates: live rows that a complete scan did not list, and records that a page marks as deleted.
//
// Each page of a full scan stores fingerprints of its keys (`_sync_seen`). After the last page they are compared with the
// keys of all live rows. A row that was not seen becomes a candidate (`_sync_suspects`); `verify-deletes.ts` decides it.
// `DeleteCandidateRow` explains the reasons and states of candidates.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import type { DeleteCandidateRow, TimestampText } from '../../database/own-tables.ts';
import {
  forgetSeen,
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

/** How late a listing may be if neither the settings nor a filter of the profile say so. */
const DEFAULT_DELAY_MS = 600_000;

/** Milliseconds by which the listing may be late: a younger row may still be missing in it. */
export function listingDelayMs({ deletes, profile }: ResourceContext): number {
  return deletes.settle ?? profile.incremental?.lookback ?? DEFAULT_DELAY_MS;
}

/**
 * After a complete full scan: notes the live rows that it has not seen as delete candidates, forgets the candidates that
 * it has seen, and forgets the scan, in one transaction. Deletes nothing. Does nothing if there is no such scan, so that
 * it may be called again after a kill. A scan under another credential may have seen less: then all candidates are held for
 * an operator, and that credential becomes the one of the last full scan. Returns it, else null.
 */
export async function detectDeletes(context: RunContext): Promise<string | null> {
  const { warehouse, owned, profile, progress } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const scan = await readSeenScan(own, resource);
  if (scan === null) return null;
  const checkpoint = await readCheckpoint(own, resource);
  // Each scan forgets the pages of other scans as it begins: without a scan in progress they are all of one scan.
  if (checkpoint === null || checkpoint.walk_mode !== null) return null;
  const newCredential = isOtherCredential(checkpoint) ? checkpoint.walk_credential : null;
  const table = owned.shape?.tables[0];
  // Records without a usable id may be those of the rows that were not seen.
  const isUnknown = scan.bytes === 0 || (scan.unkeyed > 0 && profile.item === null);
  let missing: number | null = null;
  const statements: CompiledQuery[] = [];
  if (table !== undefined && !isUnknown) {
    const unseen = await findUnseen(context, table, scan, newCredential !== null);
    missing = unseen.missing.length;
    statements.push(...(await unseenStatements(context, table, scan, unseen, newCredential !== null)));
  }
  statements.push(forgetSeen(own, resource));
  if (newCredential !== null) {
    statements.push(saveCheckpoint(own, { ...checkpoint, full_credential: newCredential, walk_credential: null }));
  }
  await owned.commit(statements);
  if (newCredential !== null && missing !== 0) progress.warnings.push(credentialWarning(resource, missing));
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

/** Keys of live rows from before the scan that it has not seen. */
interface UnseenKeys {
  missing: string[];
  /** Written so shortly before that the listing may not have shown them yet. */
  young: string[];
}

async function findUnseen(
  context: ResourceContext,
  table: TableShape,
  scan: SeenScan,
  isNewCredential: boolean,
): Promise<UnseenKeys> {
  const { warehouse, owned, profile } = context;
  const seen = new KeySet(scan.bytes / KEY_FINGERPRINT_BYTES);
  for await (const { ids } of readSeenPages(warehouse.own, owned.resource, scan.walk_started_at))
    eachKey(ids, (high, low) => seen.add(high, low));
  // A record that cannot be fetched individually must be older than the delay of the listing.
  const delayMs = profile.item === null ? listingDelayMs(context) : 0;
  const youngSince = timestampText(timestampMs(scan.walk_started_at) - delayMs);
  const unseen: UnseenKeys = { missing: [], young: [] };
  for await (const { key, syncedAt } of unseenRows(context, table, (fingerprint) => hasKey(seen, fingerprint))) {
    if (syncedAt >= scan.walk_started_at) continue;
    // Under a new credential all of them are held for an operator, also young ones.
    (syncedAt < youngSince || isNewCredential ? unseen.missing : unseen.young).push(key);
  }
  return unseen;
}

/** Rows that are compared before other work gets the event loop. */
const KEYS_PER_STEP = 20_000;

/** Live rows, in the order of their keys, whose key fingerprints `isSeen` does not accept. */
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

/** Why rows that were not seen under another credential are held, whatever their number. */
const OTHER_CREDENTIAL = 'first missed under another credential than before, which may simply be allowed to see less';

async function unseenStatements(
  context: ResourceContext,
  table: TableShape,
  { walk_started_at }: SeenScan,
  { missing, young }: UnseenKeys,
  isNewCredential: boolean,
): Promise<CompiledQuery[]> {
  const { own } = context.warehouse;
  const { resource } = context.owned;
  const released = new Set((await readDeleteCandidates(own, resource, ['released'])).map(({ record_id }) => record_id));
  const count = missing.filter((key) => !released.has(key)).length;
  let detail: string | null = null;
  if (count > 0) detail = isNewCredential ? OTHER_CREDENTIAL : await tooManyDeletes(context, table, count);
  const candidate = { resource, reason: 'missing', evidence_at: walk_started_at } as const;
  const waits = `its row is younger than ${formatDuration(listingDelayMs(context) / 1_000)} (deletes.settle)`;
  return [
    ...noteMissingRecords(own, { ...candidate, state: detail === null ? 'open' : 'held', detail }, missing, 1),
    // Not listed, but too young to conclude anything: what an event has said of them stays.
    ...noteMissingRecords(own, { ...candidate, state: 'open', detail: waits }, young, 0),
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

/** Returns why this number of rows must not be deleted now; null if they may be. */
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
 * Returns why deletes are too many, as a sentence; null if they are not. They are too many if they and those of the last
 * 24 hours (`recent`, without those that an operator decided) exceed either limit of the rows that were live before.
 */
export function describeExcess(
  limits: DeleteLimits,
  { requested, live, recent }: { requested: number; live: number; recent: number },
): string | null {
  // In a product such as 0.07 * 100 the last digit is off.
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
  /** The same delay of the listing may explain what it showed since this time and what this scan shows. */
  mayLagSince: TimestampText;
}

/** Reads the candidates that a listed record refutes, and those in an older state. */
export async function readCandidates(
  context: ResourceContext,
  mode: ScanMode,
  scanStartedAt: TimestampText,
): Promise<ScanCandidates> {
  const { warehouse, owned } = context;
  const all = await readDeleteCandidates(warehouse.own, owned.resource, ['open', 'held', 'released']);
  // A held or released delete stays for the operator. But if the record itself had said that it is deleted, and is listed as
  // live now, nothing is left to decide.
  const known = all.filter(({ state, reason }) => state === 'open' || reason === 'stated' || reason === 'left_out');
  const mayLagSince = timestampText(timestampMs(scanStartedAt) - listingDelayMs(context));
  return { mode, scanStartedAt, mayLagSince, candidates: new Map(known.map((each) => [each.record_id, each])) };
}

/**
 * A scan accepts an older state of a record only if an earlier full scan has shown the same state, and one delay of
 * the listing does not explain both.
 */
export function olderPolicy({ candidates, mode, mayLagSince }: ScanCandidates): OlderPolicy {
  const shown = [...candidates].filter(
    ([, { reason, sweeps, evidence_at }]) => reason === 'older' && sweeps > 0 && evidence_at < mayLagSince,
  );
  const hashes = mode === 'full' ? shown.map(([key, { hash }]) => [key, hash ?? ''] as const) : [];
  return { acceptsOlder: false, seenBefore: new Map(hashes) };
}

/** A record that the profile's filter excludes verifies as much as two complete scans that do not list it. */
const LEFT_OUT_SCANS = 2;

/**
 * The statements of a page's transaction that forget candidates which the page lists, and note older states, tombstones,
 * and rows whose records no longer belong to the resource. `requestedAt` in local epoch milliseconds.
 */
export function candidateStatements(
  { warehouse: { own }, owned: { resource } }: LoadContext,
  { candidates, mode, scanStartedAt }: ScanCandidates,
  facts: PageFacts,
  requestedAt: number,
): CompiledQuery[] {
  const evidence_at = timestampText(requestedAt);
  const isKnownBefore = (key: string): boolean => {
    const known = candidates.get(key);
    return known !== undefined && known.evidence_at <= evidence_at;
  };
  const listed = candidates.size === 0 ? [] : listedKeys(facts).filter(isKnownBefore);
  const states = facts.older.map(({ key, value }) => {
    const hash = canonicalHash(value);
    const before = candidates.get(key);
    // The same scan counts once, also if it shows the state again after a kill.
    const isSame = before?.reason === 'older' && before.hash === hash && before.evidence_at < scanStartedAt;
    return { record_id: key, hash, sweeps: (isSame ? before.sweeps : 0) + (mode === 'full' ? 1 : 0) };
  });
  // A later page of this scan may show that they are records of the resource after all.
  for (const { key } of facts.tombstoned) candidates.set(key, { reason: 'stated', hash: null, sweeps: 0, evidence_at });
  for (const { key } of facts.excludedRows)
    candidates.set(key, { reason: 'left_out', hash: null, sweeps: LEFT_OUT_SCANS, evidence_at });
  return [
    ...forgetDeleteCandidates(own, resource, listed, 'not_settled'),
    ...noteOlderStates(own, resource, states, scanStartedAt),
    ...reportedDeletes(own, resource, facts, evidence_at),
  ];
}

/** The statements of `candidateStatements` for a response of a feed of changes, which knows nothing of complete scans. */
export function feedCandidateStatements(
  { warehouse: { own }, owned: { resource } }: LoadContext,
  facts: PageFacts,
  requestedAt: number,
): CompiledQuery[] {
  const evidenceAt = timestampText(requestedAt);
  const states = facts.older.map(({ key, value }) => ({ record_id: key, hash: canonicalHash(value), sweeps: 0 }));
  return [
    ...forgetDeleteCandidates(own, resource, listedKeys(facts), 'refuted_by_feed'),
    ...noteOlderStates(own, resource, states, evidenceAt),
    ...reportedDeletes(own, resource, facts, evidenceAt),
  ];
}

/** The keys whose records are listed as live, and not in an older state than their row. */
function listedKeys({ keys, older, tombstoned }: PageFacts): string[] {
  const others = new Set([...older, ...tombstoned].map(({ key }) => key));
  return keys.filter((key) => !others.has(key));
}

/** Notes the rows whose records say that they are deleted, or that the profile's filter excludes. */
function reportedDeletes(
  own: LoadContext['warehouse']['own'],
  resource: string,
  { tombstoned, excludedRows }: PageFacts,
  evidence_at: TimestampText,
): CompiledQuery[] {
  const open = { resource, state: 'open', evidence_at, detail: null } as const;
  const excluded = excludedRows.filter(({ isOlder }) => !isOlder).map(({ key }) => key);
  // An older state may come from a replica that lags behind: that record is fetched individually if possible.
  const older = excludedRows.filter(({ isOlder }) => isOlder).map(({ key }) => key);
  return [
    ...noteReportedDeletes(own, { resource, reason: 'stated', evidence_at }, tombstoned),
    ...noteMissingRecords(own, { ...open, reason: 'left_out' }, excluded, LEFT_OUT_SCANS),
    ...noteMissingRecords(own, { ...open, reason: 'missing' }, older, LEFT_OUT_SCANS),
  ];
}
