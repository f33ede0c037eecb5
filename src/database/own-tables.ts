import type { CalendarDay } from '../model/calendar-day.ts';
import type { ValueChange } from '../model/schema-change.ts';
import type { NoticeRow } from '../model/service-notice.ts';
import type { ColumnType, RunStatus, WalkMode } from '../model/vocabulary.ts';
import type { FileObjectRow, FileOwnerRow, FilePassageRow, FileRow } from './file-rows.ts';

/** UTC text `YYYY-MM-DD HH:MM:SS.SSS`, as all our own tables hold times. */
export type TimestampText = string;

export interface CheckpointRow {
  resource: string;
  /** Version of this row's meaning; a newer one is refused. */
  format: number;
  /** Fingerprint of the settings the checkpoint was made under (id, path, filter): another one means other data. */
  fingerprint: string;
  /** The service's own value, up to which every change is known to be here; null before the first whole walk. */
  cursor: string | null;
  /** The key of a record that has the cursor's time: a filter that works lists it; null if no record set the cursor. */
  cursor_key: string | null;
  /** The service's clock when the cursor's value was first seen; null if the service does not tell. */
  cursor_seen_at: TimestampText | null;
  /** The service's clock when the last whole walk began. */
  checked_at: TimestampText | null;
  last_success_at: TimestampText | null;
  last_full_at: TimestampText | null;
  /** When a walk last came to an end that was not proved; null if the last one was. */
  unproved_at: TimestampText | null;
  /** The same of a full walk. */
  unproved_full_at: TimestampText | null;
  /** Records on the largest page that named a next one; null if none did yet. */
  kept_size: number | null;
  due_at: TimestampText | null;
  /** JSON: the question that the filter failed (`sync/filter/verify-filter.ts`); null while it is trusted. */
  filter_doubt: string | null;
  /** JSON array: the unverified assumptions of the profile that a run has verified; null if none. */
  verified: string | null;
  /** The unfinished walk; all null between walks. */
  walk_mode: WalkMode | null;
  walk_position: string | null;
  walk_since: string | null;
  walk_started_at: TimestampText | null;
  /** The service's clock when the walk began. */
  walk_clock: TimestampText | null;
  /** The highest updated value seen in the walk, as the service wrote it. */
  walk_high_water: string | null;
  /** The key of the record with that value. */
  walk_high_key: string | null;
  walk_pages: number;
  walk_records: number;
  /** The smallest total that a page of the walk has told; null if none has. */
  walk_total: number | null;
  /** Under which credential the unfinished walk began, as a hash. */
  walk_credential: string | null;
  /** The same of the last whole full walk: under another one it lists other records, and nothing is gone for it. */
  full_credential: string | null;
}

export interface ColumnRow {
  table_name: string;
  column_name: string;
  resource: string;
  /** JSON array: the path of the array that the table holds, `[]` for the resource's own table. */
  table_path: string;
  /** Order within the role. */
  position: number;
  role: 'key' | 'source';
  /** JSON array. */
  source_path: string;
  type: ColumnType;
  first_seen: TimestampText;
  comment: string | null;
  /** A value that may be shown; null until it was looked for, empty if there is none. */
  example: string | null;
}

export interface SchemaChangeRow {
  changed_at: TimestampText;
  resource: string;
  table_name: string;
  column_name: string;
  from_type: ColumnType | null;
  to_type: ColumnType;
  /** Null for changes from before it was noted. */
  run_id: string | null;
  /** Null for a column that was added or widened; the others keep their type. */
  kind: ValueChange | null;
  /** The table and column that seem to have the values of a column `renamed?`. */
  renamed_to: string | null;
}

export interface VersionRow {
  resource: string;
  id: string;
  version: number;
  valid_from: TimestampText;
  valid_to: TimestampText | null;
  op: 'upsert' | 'delete';
  hash: string;
  body: string | null;
  /** What the service sent, if the body has hidden fields and the profile keeps it. */
  source_text: string | null;
}

export interface RejectRow {
  resource: string;
  hash: string;
  reason: string;
  record_id: string | null;
  detail: string;
  body: string;
  run_id: string;
  first_seen: TimestampText;
  last_seen: TimestampText;
  resolved_at: TimestampText | null;
}

export interface LeaseRow {
  name: string;
  /** Grows with every owner; comes again if the database has forgotten one. */
  token: number;
  /** One owner's alone; empty if an earlier version took the lease. */
  fence: string;
  /** Transactions that the owner has committed. */
  commits: number;
  owner: string;
  host: string;
  pid: number;
  acquired_at: TimestampText;
  expires_at: TimestampText;
}

interface ReshapeRow {
  resource: string;
  /** The id up to which rows are written anew, in the database's order; '' before the first. */
  done_up_to: string;
  marked_at: TimestampText;
}

export interface SeenRow {
  resource: string;
  walk_started_at: TimestampText;
  page: number;
  /** Eight bytes per id (`rows/records/key-fingerprint.ts`). */
  ids: Uint8Array;
  /** Records of the page without a usable id: one of them may be any record. */
  unkeyed: number;
  /** Where the page lies in a listing that is cut by number. */
  position: string | null;
}

export interface FeedRow {
  resource: string;
  /** `deletes`: a listing of deletes beside that of the records. `changes`: all changes in their order. */
  feed: 'deletes' | 'changes';
  /** Of the feed as the profile declares it: what another one has left means nothing. */
  fingerprint: string;
  /** Up to where it was read, as the service wrote it; null if it has to be begun anew. */
  cursor: string | null;
  /** The page after that, in a feed whose cursor only moves at its end; null at the beginning of a reading. */
  page: string | null;
  /** A cursor from before a whole walk that has not come to its end yet, which then takes the place of `cursor`. */
  fresh: string | null;
  moved_at: TimestampText;
}

/**
 * Why a row may not be what the service has: a whole full walk did not meet its record; an event said that it is gone;
 * a listing shows an older state of it; the record itself says that it is deleted (`stated`); or a feed of the service
 * names it as deleted (`told`).
 */
const SUSPECT_REASONS = ['missing', 'event', 'older', 'stated', 'told', 'left_out'] as const;

/**
 * `open`: to be confirmed. `held`: too many at once, a person decides. `released`: the person said to go on. `settled`:
 * deleted on a person's word, so that the guard does not count it for a day.
 */
const SUSPECT_STATES = ['open', 'held', 'released', 'settled'] as const;

export interface SuspectRow {
  resource: string;
  record_id: string;
  reason: (typeof SUSPECT_REASONS)[number];
  state: (typeof SUSPECT_STATES)[number];
  /** Whole full walks in a row that did not meet it, or that showed the same older state. */
  sweeps: number;
  found_at: TimestampText;
  /** When the last walk that speaks against it began, or when the service said that it is gone. */
  evidence_at: TimestampText;
  /** Why it is held or waits; null if there is nothing to say. */
  detail: string | null;
  /** Of the older state that was listed (`canonicalHash`); null in all others. */
  hash: string | null;
  /** The service's own time of the delete; null if it has named none. */
  deleted_at: TimestampText | null;
}

/** The tables made by `migrations/`, as Kysely sees them. */
export interface OwnTables {
  _sync_runs: RunRow;
  _sync_checkpoints: CheckpointRow;
  _sync_columns: ColumnRow;
  _sync_schema_changes: SchemaChangeRow;
  _sync_versions: VersionRow;
  _sync_deletes: DeleteRow;
  _sync_calendar: CalendarDay;
  _sync_rejects: RejectRow;
  _sync_leases: LeaseRow;
  _sync_limits: LimitRow;
  _sync_tokens: TokenRow;
  _sync_reshapes: ReshapeRow;
  _sync_seen: SeenRow;
  _sync_windows: WindowRow;
  _sync_suspects: SuspectRow;
  _sync_feeds: FeedRow;
  _sync_notices: NoticeRow;
  _sync_views: ViewRow;
  _sync_view_columns: ViewColumnRow;
  _sync_growth: GrowthRow;
  _sync_pauses: { resource: string; paused_at: TimestampText; paused_by: string };
  _sync_verifications: VerificationRow;
  _sync_forgotten: ForgottenRow;
  _sync_alerts: AlertRow;
  _sync_files: FileRow;
  _sync_file_objects: FileObjectRow;
  _sync_file_passages: FilePassageRow;
  _sync_file_owner: FileOwnerRow;
}

/** The limits of a service that are known. */
interface LimitRow {
  name: string;
  state: string;
  updated_at: string;
}

/** A token that takes the place of one of the settings. */
interface TokenRow {
  name: string;
  /** Grows with every token; 0 before the first. */
  version: number;
  /** Encrypted by those who have the secret of the settings; null before the first. */
  sealed: string | null;
  /** Epoch milliseconds of the warehouse's clock. */
  expires_at: number | null;
  /** Who asks the service for the next one, and until when nobody else does. */
  asker: string | null;
  asked_until: number | null;
}

/** A record that was erased on a person's word. Without `record_id` nothing here leads back to it. */
export interface ForgottenRow {
  resource: string;
  /** HMAC-SHA256 of source, resource and id under `privacy_key`, in hex digits. */
  fingerprint: string;
  /** Of that key and the source's name: under another one the fingerprints mean nothing. */
  key_mark: string;
  /** Of content-sync, as it was erased. */
  version: string;
  asked_at: string;
  /** The id, until everything of the record is erased; null from then on. */
  record_id: string | null;
  /** When rows, versions and all else of the warehouse were gone. */
  erased_at: string | null;
  /** When log and free pages no longer held any of it either. */
  cleaned_at: string | null;
  /** JSON: how much was erased, by what it was. */
  counts: string | null;
}

/** Something that a channel of `alerts` was told. */
interface AlertRow {
  channel: string;
  alert: string;
  what: string;
  since: string;
  told_at: string;
  gone_at: string | null;
  over_at: string | null;
  returns: number;
}

/** One resource's part in a run, or in several in a row that changed nothing. Times are UTC text, as in all our own tables. */
export interface RunRow {
  run_id: string;
  resource: string;
  command: string;
  mode: WalkMode;
  status: RunStatus | 'running';
  started_at: string;
  finished_at: string | null;
  pages: number;
  requests: number;
  records: number;
  inserted: number;
  updated: number;
  unchanged: number;
  rejected: number;
  /** Records that this run found to be deleted. */
  deleted: number;
  /** Suspected deletes that wait for a person when the run ends. */
  held: number;
  retries: number;
  limited: number;
  bytes: number;
  error_code: string | null;
  error: string | null;
  /** JSON array of `{code, message, hint, accepted?}`: what the run warned of; null for nothing. */
  warnings: string | null;
  /** How many runs the row stands for; its figures and times are those of the latest one. */
  runs: number;
  /** When the first of them began, and what all of them asked for; null in a row of one run. */
  first_started_at: string | null;
  all_requests: number | null;
  all_bytes: number | null;
  /** JSON object: attempts of all its runs by outcome; null while it is under way, and of runs before there was one. */
  outcomes: string | null;
  error_hint: string | null;
  /** By which the service's operators find the request that failed; null if its answer named none. */
  request_id: string | null;
  /** Records that were dropped because a person has had them erased. */
  forgotten?: number | undefined;
}

/** `whole` compares the copy with the service, `internal` with itself. */
export type VerifyMode = 'whole' | 'internal';

/** `unproved`: nothing differs in what was compared, but the listing may be incomplete. */
export type Verdict = 'equal' | 'differs' | 'unproved';

/** What one verification of a resource has found. */
export interface VerificationRow {
  verification_id: string;
  resource: string;
  mode: VerifyMode;
  verdict: Verdict;
  /** Both as all times of own tables. */
  began_at: string;
  ended_at: string;
  /** Things that differ. */
  differences: number;
  /** Requests that it took. */
  requests: number;
  /** JSON: `VerifyReport` of `sync/verify/report.ts`. */
  certificate: string;
}

/** A view that people read, as it was made. Times are UTC text, as in all our own tables. */
export interface ViewRow {
  view_name: string;
  /** Null for a view of the whole source. */
  resource: string | null;
  query: string;
  description: string;
  made_at: string;
}

export interface ViewColumnRow {
  view_name: string;
  column_name: string;
  position: number;
  /** As the view shows it. */
  type: ColumnType;
  source_path: string | null;
  description: string | null;
  /** `content.id` if it holds the key of another resource. */
  refers_to: string | null;
  /** 1 if it is computed from the values at `source_path`. */
  is_computed: 0 | 1;
  first_seen: string;
}

/** A single row. */
interface GrowthRow {
  id: 1;
  /** How often tables and views have changed. */
  growths: number;
}

/** One delete of a record. */
interface DeleteRow {
  resource: string;
  id: string;
  /** The record's version that says it. */
  version: number;
  /** The service's own time where it has named one, else when it was asked. */
  deleted_at: string;
  /** When the service was asked and had the record again; null as long as it is gone. */
  restored_at: string | null;
}

/** What is remembered of a window of reports; days are of the reports' own zone, `YYYY-MM-DD`, moments UTC text as in all our own tables. */
export interface WindowRow {
  resource: string;
  window_start: string;
  /** The first day behind it. */
  window_end: string;
  /** When the answer that stands in the tables was asked for; null if none was ever taken over. */
  fetched_at: string | null;
  /** 1 if that was when nothing of it could change any more: `restate` after its end. */
  is_final: 0 | 1;
  /** Live rows, as of that answer; they stay when the window is dropped by age. */
  rows: number;
  /** JSON: sums that the service tells otherwise than they were counted; null if none differs. */
  totals: string | null;
  /** 1 if the answer held as many rows as the service lists, and could not be cut any more. */
  capped: 0 | 1;
  /** When its rows last changed; null if it never had any. */
  changed_at: string | null;
  /** When its rows were taken out by age (`keep`). */
  dropped_at: string | null;
  /** When an answer was held back for a person to decide; null if none is. */
  held_at: string | null;
  /** Why, as a sentence. */
  held: string | null;
  /** When a person has said that the next answer counts whatever it takes away. */
  released_at: string | null;
}
