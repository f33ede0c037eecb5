// Plans the scan of a resource: full or incremental, new or resumed.
import { isDeepStrictEqual } from 'node:util';
import { sinceValue } from '../checks/since.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { CheckpointRow, RunRow } from '../database/own-tables.ts';
import { freshCheckpoint, NO_SCAN } from '../database/state/checkpoints.ts';
import { ConfigError, DeferredError } from '../model/errors.ts';
import type { JsonObject, JsonValue } from '../model/json.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import type { ScanMode } from '../model/vocabulary.ts';
import { updatedZone } from '../rows/columns/updated-time.ts';
import { canonicalHash } from '../rows/records/record-key.ts';
import { isOtherCredential, SEVERAL } from './advance-checkpoint.ts';

/** `backfill` copies everything, `sync` what changed. */
export type SyncCommand = 'backfill' | 'sync';

export interface ScanPlan {
  mode: ScanMode;
  /** The checkpoint to continue from, its fields filled in for this scan. */
  checkpoint: CheckpointRow;
  resumed: boolean;
}

export interface PlanInput {
  command: SyncCommand;
  resource: string;
  profile: ResourceProfile;
  stored: CheckpointRow | null;
  /** Start over, whatever is stored. */
  restart: boolean;
  /** The resource's part in an interrupted backfill that this one resumes; null if none exists. */
  interrupted: RunRow | null;
  /** The credential in use, as a hash. */
  credential: string;
  /** True if a feed of changes can be continued from where it was left. */
  hasFeedCursor?: boolean;
  /** Local epoch milliseconds. */
  now: number;
}

/**
 * Decides how a resource is scanned: an unfinished full scan is resumed, a first one is full, and `sync` requests changes
 * if the profile has a filter and the rows were copied with this credential. So does a resumed backfill, for a resource
 * that was done by then. Throws `ConfigError` if the stored rows were made with another profile.
 */
export function planScan(input: PlanInput): ScanPlan {
  const { command, resource, profile, restart, interrupted, credential, now } = input;
  const fingerprint = fingerprintOf(profile);
  const stored = restart ? null : input.stored;
  if (stored !== null) refuseOtherData(stored, fingerprint, resource);
  const base = stored ?? freshCheckpoint(resource, fingerprint);
  if (base.due_at !== null && timestampMs(base.due_at) > now) {
    const message = `${resource}: the service asked to be left alone until ${base.due_at} UTC`;
    throw new DeferredError(message, timestampMs(base.due_at), { hint: 'run the same command again after that time' });
  }

  // If the last full scan missed records, the interrupted incremental one may have been meant to fetch them, which cannot
  // be trusted: both start anew. The `walk_*` columns describe the unfinished scan.
  const maySupplyMissed = base.walk_mode !== 'full' && base.unproved_full_at !== null;
  const mayResume =
    !maySupplyMissed && (command === 'sync' || base.walk_mode === 'full' || interrupted?.mode === 'incremental');
  if (base.walk_mode !== null && isSameScan(base.fingerprint, fingerprint) && mayResume) {
    const walk_credential = base.walk_credential === credential ? credential : SEVERAL;
    return { mode: base.walk_mode, checkpoint: { ...base, walk_credential }, resumed: true };
  }
  const requestsChanges = command === 'sync' || isDone(interrupted, base);
  // Under another credential than that of the rows, all is scanned: what it may not see would never be missed.
  const hasFullCopy = base.last_full_at !== null && !isOtherCredential({ ...base, walk_credential: credential });
  const since = requestsChanges && hasFullCopy ? sinceFor(base, profile) : null;
  const needsNoFilter = input.hasFeedCursor === true || profile.windows !== null;
  const mode: ScanMode = since !== null || (requestsChanges && hasFullCopy && needsNoFilter) ? 'incremental' : 'full';
  const checkpoint = { ...startScan({ ...base, fingerprint }, mode, since, now), walk_credential: credential };
  return { mode, checkpoint, resumed: false };
}

/** The checkpoint at the beginning of a new scan. */
export function startScan(base: CheckpointRow, mode: ScanMode, since: string | null, now: number): CheckpointRow {
  const begun = { walk_mode: mode, walk_since: since, walk_started_at: timestampText(now) };
  return { ...base, ...NO_SCAN, walk_credential: base.walk_credential, due_at: null, ...begun };
}

/**
 * Default values of fields that were added after the first release. A field with its default is not hashed, so that the
 * fingerprints which older versions stored still match.
 */
const HASHED_UNLESS_DEFAULT: Readonly<Record<string, JsonValue>> = {
  times: {},
  key_field: null,
  unwrap: [],
  filter: [],
  partitions: null,
  deleted: null,
  method: 'GET',
  headers: {},
  body: null,
  windows: null,
};

/**
 * Identifies the settings of a profile that a checkpoint depends on, as three hashes `rows.cut.records`: of path, filter
 * and columns; of how pages are cut; of path and filter alone. Another cut only restarts a scan, and other columns of the
 * same records can be made from the stored bodies.
 */
export function fingerprintOf(profile: ResourceProfile): string {
  const { path, records, id, updated, query, page, depth, json, fields, mask } = profile;
  // The other fields of windows may be changed at any time.
  let windows: JsonObject | null = null;
  if (profile.windows !== null) {
    const { field, from_param, to_param, to_inclusive, format, granularity, zone } = profile.windows;
    windows = { field, from_param, to_param, to_inclusive, format, granularity, zone };
  }
  const later = Object.entries({ ...profile, windows }).filter(
    ([name, value]) =>
      Object.hasOwn(HASHED_UNLESS_DEFAULT, name) && !isDeepStrictEqual(value, HASHED_UNLESS_DEFAULT[name]),
  );
  const requested = { path, records, id, updated, query };
  const rows = canonicalHash({ ...requested, depth, json, ...Object.fromEntries(later), ...rowSettings(profile) });
  const hashed = Object.keys(fields).filter((path_) => fields[path_]?.hash === true);
  const key = hashed.length === 0 ? {} : { hashed, mark: mask?.mark ?? '' };
  const sameRecords = canonicalHash({ ...requested, ...Object.fromEntries(later), ...key });
  return `${rows}.${canonicalHash(pageCut(page))}.${sameRecords}`;
}

/** True if the scan of a checkpoint can be resumed. Earlier versions have stored two parts. */
function isSameScan(stored: string, fingerprint: string): boolean {
  const [rows, cut] = fingerprint.split('.');
  const [storedRows, storedCut] = stored.split('.');
  return rows === storedRows && cut === storedCut;
}

/** True if a profile asks for the records that were stored: with other columns at most. */
export function isOfSameRecords(stored: string, fingerprint: string): boolean {
  const [rows, , data] = stored.split('.');
  const [rowsNow, , dataNow] = fingerprint.split('.');
  return rows === rowsNow || data === dataNow;
}

/** The settings of single fields that change the rows, so no descriptions; empty if there are none. */
function rowSettings({ fields, mask }: ResourceProfile): JsonObject {
  const settings = Object.entries(fields).flatMap(([path, { type = null, rename = null, exclude, hash }]) =>
    type === null && rename === null && !exclude && !hash ? [] : [[path, { type, rename, exclude, hash }] as const],
  );
  return {
    ...(settings.length === 0 ? {} : { fields: Object.fromEntries(settings) }),
    ...(mask ? { mask: mask.mark } : {}),
  };
}

/** Fields of a page that came later are left out without a value. */
const LATER_PAGE_FIELDS: ReadonlySet<string> = new Set(['end', 'first_cursor', 'next_page']);

/** The fields of a page section that determine which records are on a page. */
export function pageCut(page: ResourceProfile['page']): JsonObject {
  const { total = null, pages = null, ignored_totals: _, ...rest } = page;
  const fields = Object.entries({ ...rest, total, pages }).filter(
    ([name, value]) => value !== null || !LATER_PAGE_FIELDS.has(name),
  );
  return Object.fromEntries(fields);
}

function refuseOtherData(stored: CheckpointRow, fingerprint: string, resource: string): void {
  if (stored.fingerprint.split('.')[0] === fingerprint.split('.')[0]) return;
  throw new ConfigError(
    'profile_changed',
    `${resource}: the profile's path, method, query, headers, body, records, id, updated, depth, json, times, unwrap, filter, partitions, deleted, windows or fields (type, rename, exclude, hash), or the source's hash_key, is not what the stored rows were made with`,
    {
      hint: `put it back; or make the tables anew: content-sync rebuild ${resource}, without a request, where only columns differ (depth, json, fields), else content-sync backfill ${resource} --restart`,
    },
  );
}

/** The value of the filter for the next incremental scan; null if there is none. */
function sinceFor(checkpoint: CheckpointRow, profile: ResourceProfile): string | null {
  const { incremental, partitions } = profile;
  const { cursor, cursor_seen_at: seenAt, checked_at: checkedAt } = checkpoint;
  // Without a filter, only the listings of changed parents are requested.
  const isByParents = partitions !== null && 'parent' in partitions && partitions.changed_only;
  if (incremental === null) return isByParents ? checkpoint.last_success_at : null;
  if (cursor === null) return null;
  const hasTimes = seenAt !== null && checkedAt !== null;
  const age = hasTimes ? { first: timestampMs(seenAt), last: timestampMs(checkedAt) } : null;
  return sinceValue(cursor, incremental, age, updatedZone(profile));
}

/** True if the resource reached its end in the interrupted backfill. `incremental` means that an earlier attempt had done so. */
function isDone(interrupted: RunRow | null, { walk_mode, last_success_at }: CheckpointRow): boolean {
  if (interrupted === null || walk_mode !== null || last_success_at === null) return false;
  return interrupted.mode === 'incremental' || last_success_at >= interrupted.started_at;
}

/** Ends of a run after which the same command resumes. */
const RESUMABLE: ReadonlySet<RunRow['status']> = new Set(['running', 'interrupted', 'deferred']);

/**
 * Of the last run of each resource, those that are part of a backfill which was interrupted in any of them: what was
 * done by then must not be fetched again.
 */
export function interruptedBackfills(lastRuns: readonly RunRow[]): RunRow[] {
  const backfills = lastRuns.filter((run) => run.command === 'backfill');
  const interrupted = new Set(backfills.filter((run) => RESUMABLE.has(run.status)).map((run) => run.run_id));
  return backfills.filter((run) => interrupted.has(run.run_id));
}
