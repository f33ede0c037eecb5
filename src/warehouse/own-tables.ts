import type { AlertRow, ForgottenRow } from './operator-rows.ts';
import type { LimitRow, TokenRow } from './account-rows.ts';
import type { FileObjectRow, FileOwnerRow, FilePassageRow, FileRow } from './file-rows.ts';
import type { CalendarDay } from '../model/calendar-day.ts';
import type { ValueChange } from '../model/schema-change.ts';
import type { NoticeRow } from '../model/service-notice.ts';
import type { ColumnType, WalkMode } from '../model/vocabulary.ts';
import type { RunRow } from './run-row.ts';
import type { VerificationRow } from './verification-row.ts';
import type { WindowRow } from './window-row.ts';
import type { DeleteRow, GrowthRow, ViewColumnRow, ViewRow } from './view-rows.ts';

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
  /** JSON: the question that the filter failed (`sync/filter/trusted-plan.ts`); null while it is trusted. */
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

export interface ReshapeRow {
  resource: string;
  /** The id up to which rows are written anew, in the database's order; '' before the first. */
  done_up_to: string;
  marked_at: TimestampText;
}

export interface SeenRow {
  resource: string;
  walk_started_at: TimestampText;
  page: number;
  /** Eight bytes per id (`shape/records/key-fingerprint.ts`). */
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
export const SUSPECT_REASONS = ['missing', 'event', 'older', 'stated', 'told', 'left_out'] as const;

/**
 * `open`: to be confirmed. `held`: too many at once, a person decides. `released`: the person said to go on. `settled`:
 * deleted on a person's word, so that the guard does not count it for a day.
 */
export const SUSPECT_STATES = ['open', 'held', 'released', 'settled'] as const;

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
  _sync_calendar_covers: { resource: string; year: number };
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
