// Plans the scan of a resource: full or incremental, new or resumed. Example: a backfill was killed after 700 pages. The
// next run resumes after page 700, unless the profile requests other records by now.
import { isDeepStrictEqual } from 'node:util';
import { sinceValue } from '../pagination/requests/filter-query.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { CheckpointRow, RunRow } from '../database/own-tables.ts';
import { freshCheckpoint, NO_SCAN } from '../database/state/checkpoints.ts';
import { ConfigError, DeferredError } from '../model/errors.ts';
import type { JsonObject, JsonValue } from '../model/json.ts';
import { timestampMs, timestampText } from '../model/timestamp-text.ts';
import type { ScanMode } from '../model/vocabulary.ts';
import { updatedZone } from '../rows/columns/updated-time.ts';
import { canonicalHash } from '../rows/records/record-key.ts';
import { isOtherCredential, SEVERAL_CREDENTIALS } from './advance-checkpoint.ts';

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
  /** Null for a resource that was never scanned, or that starts again from the beginning. */
  stored: CheckpointRow | null;
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
 * Decides how a resource is scanned. An unfinished scan is resumed, and the first one is full. `sync` requests only
 * changes if the profile has a way to and the rows were copied with this credential; so does a resumed `backfill`, for
 * a resource that it had finished. Throws `ConfigError` if the stored rows were made with another profile.
 */
export function planScan(input: PlanInput): ScanPlan {
  const { resource, profile, stored, credential, now } = input;
  const fingerprint = fingerprintProfile(profile);
  if (stored !== null) refuseChangedProfile(stored, fingerprint, resource);
  const before = stored ?? freshCheckpoint(resource, fingerprint);
  if (before.due_at !== null && timestampMs(before.due_at) > now) {
    const message = `${resource}: the service requested a wait until ${before.due_at} UTC`;
    throw new DeferredError(message, timestampMs(before.due_at), {
      hint: 'run the same command again after that time',
    });
  }
  // The `walk_*` columns describe the unfinished scan.
  if (before.walk_mode !== null && mayResume(before, fingerprint, input)) {
    const walk_credential = before.walk_credential === credential ? credential : SEVERAL_CREDENTIALS;
    return { mode: before.walk_mode, checkpoint: { ...before, walk_credential }, resumed: true };
  }
  const { mode, since } = planNewScan(before, input);
  const checkpoint = startScan({ ...before, fingerprint }, mode, since, now);
  return { mode, checkpoint: { ...checkpoint, walk_credential: credential }, resumed: false };
}

/** True if the command may continue the unfinished scan, and the service would still cut the same pages. */
function mayResume(before: CheckpointRow, fingerprint: string, { command, interrupted }: PlanInput): boolean {
  if (!hasSamePages(before.fingerprint, fingerprint)) return false;
  if (before.walk_mode === 'full') return true;
  // After a full scan that missed records, this one may have been started to find them (`scan-until-complete.ts`). Only
  // the stopped process knew how many it had found.
  if (before.unproved_full_at !== null) return false;
  return command === 'sync' || interrupted?.mode === 'incremental';
}

/** Chooses the mode of a new scan, and the time from which an incremental one requests changes; null for no time. */
function planNewScan(before: CheckpointRow, input: PlanInput): { mode: ScanMode; since: string | null } {
  const { command, interrupted, profile, credential, hasFeedCursor } = input;
  const mayRequestChanges = command === 'sync' || isDone(interrupted, before);
  // Only a full scan shows which of the rows another credential cannot see.
  const isOther = isOtherCredential({ ...before, walk_credential: credential });
  if (!mayRequestChanges || before.last_full_at === null || isOther) return { mode: 'full', since: null };
  const since = sinceFor(before, profile);
  const needsNoTime = hasFeedCursor === true || profile.windows !== null;
  return { mode: since !== null || needsNoTime ? 'incremental' : 'full', since };
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
 * Identifies the settings of a profile on which a checkpoint depends, as three hashes `rows.pages.records`. If the first
 * one changes, the tables must be made again, and if only the second one does, an unfinished scan starts again. As long
 * as the third one is equal, the stored bodies suffice to make the tables (`rebuild`).
 */
export function fingerprintProfile(profile: ResourceProfile): string {
  const { path, records, id, updated, query, page, depth, json, fields, mask } = profile;
  const request = { path, records, id, updated, query, ...laterSettings(profile) };
  const rows = canonicalHash({ ...request, depth, json, ...rowSettings(profile) });
  const hashed = Object.keys(fields).filter((name) => fields[name]?.hash === true);
  const hashSettings = hashed.length === 0 ? {} : { hashed, mark: mask?.mark ?? '' };
  return `${rows}.${canonicalHash(selectPageSettings(page))}.${canonicalHash({ ...request, ...hashSettings })}`;
}

/** Returns the settings in `HASHED_UNLESS_DEFAULT` that are not the default. */
function laterSettings(profile: ResourceProfile) {
  let windows: JsonObject | null = null;
  if (profile.windows !== null) {
    // The other fields of windows may be changed at any time.
    const { field, from_param, to_param, to_inclusive, format, granularity, zone } = profile.windows;
    windows = { field, from_param, to_param, to_inclusive, format, granularity, zone };
  }
  const changed = Object.entries({ ...profile, windows }).filter(
    ([name, value]) =>
      Object.hasOwn(HASHED_UNLESS_DEFAULT, name) && !isDeepStrictEqual(value, HASHED_UNLESS_DEFAULT[name]),
  );
  return Object.fromEntries(changed);
}

/** True if rows and pages are the same. Earlier versions have stored only these two hashes. */
function hasSamePages(stored: string, fingerprint: string): boolean {
  const [rows, pages] = fingerprint.split('.');
  const [storedRows, storedPages] = stored.split('.');
  return rows === storedRows && pages === storedPages;
}

/** True if the profile requests the records whose bodies are stored; their columns may be others. */
export function hasSameRecords(stored: string, fingerprint: string): boolean {
  const [storedRows, , storedRecords] = stored.split('.');
  const [rows, , records] = fingerprint.split('.');
  return rows === storedRows || records === storedRecords;
}

/** The settings of single fields that change the rows; descriptions do not. */
function rowSettings({ fields, mask }: ResourceProfile): JsonObject {
  const settings = Object.entries(fields).flatMap(([path, { type = null, rename = null, exclude, hash }]) =>
    type === null && rename === null && !exclude && !hash ? [] : [[path, { type, rename, exclude, hash }] as const],
  );
  return {
    ...(settings.length === 0 ? {} : { fields: Object.fromEntries(settings) }),
    ...(mask ? { mask: mask.mark } : {}),
  };
}

/** Fields that were added after the first release; they are not hashed if they are null. */
const LATER_PAGE_FIELDS: ReadonlySet<string> = new Set(['end', 'first_cursor', 'next_page']);

/** Returns the fields of `page` that determine which records are on a page. */
export function selectPageSettings(page: ResourceProfile['page']): JsonObject {
  const { total = null, pages = null, ignored_totals: _, ...rest } = page;
  const fields = Object.entries({ ...rest, total, pages }).filter(
    ([name, value]) => value !== null || !LATER_PAGE_FIELDS.has(name),
  );
  return Object.fromEntries(fields);
}

/** Throws if the rows of the profile would be others than the stored ones. */
function refuseChangedProfile(stored: CheckpointRow, fingerprint: string, resource: string): void {
  if (stored.fingerprint.split('.')[0] === fingerprint.split('.')[0]) return;
  const message = `${resource}: the profile's path, method, query, headers, body, records, id, updated, depth, json, times, unwrap, filter, partitions, deleted, windows or fields (type, rename, exclude, hash), or the source's hash_key, differs from that of the stored rows`;
  const hint = `undo the change, or make the tables again: content-sync warehouse rebuild ${resource} if only columns differ (depth, json, fields; it sends no request), else content-sync backfill ${resource} --restart`;
  throw new ConfigError('profile_changed', message, { hint });
}

/** Returns the time from which the next incremental scan requests changes; null if the profile or the copy has none. */
function sinceFor(checkpoint: CheckpointRow, profile: ResourceProfile): string | null {
  const { incremental, partitions } = profile;
  const { cursor, cursor_seen_at: seenAt, checked_at: checkedAt } = checkpoint;
  // A resource without a filter can request only the listings of parents that have changed.
  const isByParents = partitions !== null && 'parent' in partitions && partitions.changed_only;
  if (incremental === null) return isByParents ? checkpoint.last_success_at : null;
  if (cursor === null) return null;
  const hasTimes = seenAt !== null && checkedAt !== null;
  const age = hasTimes ? { first: timestampMs(seenAt), last: timestampMs(checkedAt) } : null;
  return sinceValue(cursor, incremental, age, updatedZone(profile));
}

/** True if the interrupted backfill had finished the resource. Its mode is `incremental` if an earlier attempt had. */
function isDone(interrupted: RunRow | null, { walk_mode, last_success_at }: CheckpointRow): boolean {
  if (interrupted === null || walk_mode !== null || last_success_at === null) return false;
  return interrupted.mode === 'incremental' || last_success_at >= interrupted.started_at;
}

/** Statuses of a run that the same command resumes. */
const RESUMABLE: ReadonlySet<RunRow['status']> = new Set(['running', 'interrupted', 'deferred']);

/**
 * Selects the runs that are part of an interrupted backfill, so that resources which it had finished are not fetched
 * again. `lastRuns` has the last run of each resource.
 */
export function selectInterruptedBackfills(lastRuns: readonly RunRow[]): RunRow[] {
  const backfills = lastRuns.filter((run) => run.command === 'backfill');
  const interrupted = new Set(backfills.filter((run) => RESUMABLE.has(run.status)).map((run) => run.run_id));
  return backfills.filter((run) => interrupted.has(run.run_id));
}
