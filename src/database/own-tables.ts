// The types of the rows of internal tables (`OwnTables`), in which content-sync stores its state, such as `_sync_runs`. In
// all other files, `own` is the handle for queries on these tables (Kysely), in contrast to the copied tables (`rows`).
// `migrations/` creates the tables, the functions in `state/` read and write them. Some names are older than today's terms:
// a walk is a scan of a listing, a suspect is a delete candidate, unproved means not verified, and sweeps are full scans.
import { z } from 'zod';
import type { ValueChange } from '../model/table.ts';
import { type CalendarDay, timestampMs } from '../model/timestamp-text.ts';
import { type ColumnType, type RunStatus, type ScanMode, WALK_MODES } from '../model/vocabulary.ts';

/** UTC text `YYYY-MM-DD HH:MM:SS.SSS`, as all times in internal tables. */
export type TimestampText = string;

/** All internal tables, for Kysely. */
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
  _sync_limits: { name: string; state: string; updated_at: string };
  _sync_tokens: TokenRow;
  /** Resources whose rows must be rewritten from the stored bodies, and the last id that was; '' before the first. */
  _sync_reshapes: { resource: string; done_up_to: string; marked_at: TimestampText };
  _sync_seen: SeenRow;
  _sync_windows: WindowRow;
  _sync_suspects: DeleteCandidateRow;
  _sync_feeds: FeedRow;
  /** Not written since 0.2. */
  _sync_notices: Record<'version' | 'kind' | 'value' | 'path' | 'first_heard' | 'last_heard', string>;
  _sync_views: ViewRow;
  _sync_view_columns: ViewColumnRow;
  _sync_growth: { id: 1; growths: number };
  _sync_pauses: { resource: string; paused_at: TimestampText; paused_by: string };
  _sync_verifications: VerificationRow;
  _sync_forgotten: ForgottenRow;
  _sync_alerts: AlertRow;
  _sync_files: FileRow;
  _sync_file_objects: FileObjectRow;
  _sync_file_passages: FilePassageRow;
  /** One row: the name by which this database marks its file stores. */
  _sync_file_owner: { id: number; owner: string };
}

const text = z.string().nullable().default(null);
const timestamp = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$/, 'expected YYYY-MM-DD HH:MM:SS.SSS')
  .refine((time) => !Number.isNaN(timestampMs(time)), 'expected a date and a time that there are')
  .nullable()
  .default(null);
const count = z.int().min(0);

/** The fields of a checkpoint that describe an unfinished scan; by default none. */
export const walkSchema = z.object({
  walk_mode: z.enum(WALK_MODES).nullable().default(null),
  walk_position: z.string().regex(/^[/{]/, 'expected a page position').nullable().default(null),
  walk_since: text,
  walk_started_at: timestamp,
  /** The service's clock when the scan began. */
  walk_clock: timestamp,
  /** The highest updated value of the scan, as the service wrote it, and the key of its record. */
  walk_high_water: text,
  walk_high_key: text,
  walk_pages: count.default(0),
  walk_records: count.default(0),
  /** The smallest total that a page of the scan has reported; null if none has. */
  walk_total: count.nullable().default(null),
  /** Hash of the credential under which the unfinished scan began. */
  walk_credential: text,
});

/** The progress of one resource; by default that of a resource without a scan. Columns of earlier versions are ignored. */
export const checkpointSchema = walkSchema.extend({
  resource: z.string().min(1),
  /** The version of the meaning of the row; a newer one is refused. */
  format: z.int(),
  /** Hash of the settings on which the listed records depend (id, path, filter). With other ones the scan begins again. */
  fingerprint: z.string().min(1),
  /** The time of change, as the service wrote it, up to which all changes are stored; null before the first full scan. */
  cursor: text,
  /** The key of a record with the cursor's time, which a working filter lists; null if no record set the cursor. */
  cursor_key: text,
  /** The service's clock when the cursor's value was first seen; null if the service sends no time. */
  cursor_seen_at: timestamp,
  /** The service's clock when the last complete scan began. */
  checked_at: timestamp,
  last_success_at: timestamp,
  last_full_at: timestamp,
  /** When a scan last ended without verification of its end; null if the last one was verified. */
  unproved_at: timestamp,
  /** The same for full scans. */
  unproved_full_at: timestamp,
  /** The number of records on the largest page that had a next page; null if none had one. */
  kept_size: count.nullable().default(null),
  /** The service has asked to send no request before; null if it has not. */
  due_at: timestamp,
  /** JSON: the question that the filter failed (`sync/filter/verify-filter.ts`); null for none. */
  filter_doubt: text,
  /** JSON array: the assumptions of the profile that a run has verified; null for none. */
  verified: text,
  /** Hash of the credential of the last complete full scan: another credential may list other records. */
  full_credential: text,
});

export type CheckpointRow = z.output<typeof checkpointSchema>;

export interface ColumnRow {
  table_name: string;
  column_name: string;
  resource: string;
  /** JSON array: the path of the array that the table holds, `[]` for the resource's own table. */
  table_path: string;
  /** The order within the role. */
  position: number;
  /** `key`: a part of the primary key. `source`: a field of the records. */
  role: 'key' | 'source';
  /** JSON array: the path of the field in the record. */
  source_path: string;
  type: ColumnType;
  first_seen: TimestampText;
  comment: string | null;
  /** A value that an early version has stored; later versions only erase it. */
  example?: string | null | undefined;
}

/** A change of a column: it was added or widened, or it lost its values or has them again. */
export interface SchemaChangeRow {
  changed_at: TimestampText;
  resource: string;
  table_name: string;
  column_name: string;
  from_type: ColumnType | null;
  to_type: ColumnType;
  /** Null for changes that early versions made. */
  run_id: string | null;
  /** Null for a column that was added or widened; other changes keep the type. */
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
  /** `delete`: the version marks the delete, and has no body. */
  op: 'upsert' | 'delete';
  hash: string;
  /** The record as JSON, without hidden fields. */
  body: string | null;
  /** The text of the service, if the body has hidden fields and the profile retains it. */
  source_text: string | null;
}

/** A record that could not become a row. */
export interface RejectRow {
  resource: string;
  hash: string;
  /** A `RejectReason`; `detail` explains it to the operator. */
  reason: string;
  record_id: string | null;
  detail: string;
  body: string;
  run_id: string;
  first_seen: TimestampText;
  last_seen: TimestampText;
  /** When the record was stored, or was no longer listed; null for an open reject. */
  resolved_at: TimestampText | null;
}

/** Which process may write a resource, or the files of a source (`FILES_LEASE`). */
export interface LeaseRow {
  name: string;
  /** Grows with every owner; repeats if the database was rolled back. */
  token: number;
  /** Unique per owner; empty if an early version took the lease. */
  fence: string;
  /** Transactions that the owner has committed. */
  commits: number;
  owner: string;
  /** The namespace in which `pid` identifies a process (`processNamespace`). */
  host: string;
  pid: number;
  acquired_at: TimestampText;
  expires_at: TimestampText;
}

/** The keys on one page of a full scan. After the scan they show which live rows it did not list. */
export interface SeenRow {
  resource: string;
  walk_started_at: TimestampText;
  page: number;
  /** Eight bytes per id (`rows/records/record-key.ts`). */
  ids: Uint8Array;
  /** Records of the page without a usable id: one of them may be any record. */
  unkeyed: number;
  /** The position of the page in a listing with numbered pages. */
  position: string | null;
}

/** The position in a feed of changes or deletes. */
export interface FeedRow {
  resource: string;
  /** `deletes`: a separate listing of deletes. `changes`: all changes in their order. */
  feed: 'deletes' | 'changes';
  /** Hash of the feed's declaration in the profile: the state of another declaration is not used. */
  fingerprint: string;
  /** Position up to which the feed was read, as the service wrote it; null to read it from the start. */
  cursor: string | null;
  /** The next page, in a feed whose cursor only moves at its end; null at its beginning. */
  page: string | null;
  /** A cursor from before an unfinished full scan, which replaces `cursor` when that scan ends. */
  fresh: string | null;
  moved_at: TimestampText;
}

/** A record that may be deleted, or is listed in an older state than its row; the row stays live until that is verified. */
export interface DeleteCandidateRow {
  resource: string;
  record_id: string;
  /**
   * `missing`: a full scan did not list it. `left_out`: it is listed, but the profile's `filter` excludes it now. `event`: a
   * webhook reports a delete. `stated`: the record itself says that it is deleted. `told`: a feed reports a delete.
   * `older`: no delete; it is listed in an older state than its row.
   */
  reason: 'missing' | 'event' | 'older' | 'stated' | 'told' | 'left_out';
  /**
   * `open`: to be verified by another request. `held`: an operator must decide, because there are too many or their
   * verification is not possible. `released`: the operator has confirmed, and the delete is still to be carried out.
   * `settled`: it was carried out by that decision; the row stays for a day, in which the delete limits do not count it.
   */
  state: 'open' | 'held' | 'released' | 'settled';
  /** Consecutive full scans that did not list it, or that listed the same older state. `left_out` counts as two. */
  sweeps: number;
  found_at: TimestampText;
  /** When the last scan began that did not list it, or when the service reported the delete. */
  evidence_at: TimestampText;
  /** Why it is held or waits; null for none. */
  detail: string | null;
  /** `canonicalHash` of the older state that was listed; null for other reasons. */
  hash: string | null;
  /** The service's own time of the delete; null if it has named none. */
  deleted_at: TimestampText | null;
}

/** A token that the service has issued in place of one of the settings. */
interface TokenRow {
  name: string;
  /** Increases with every token; 0 before the first. */
  version: number;
  /** The token, encrypted with the secret of the settings; null before the first. */
  sealed: string | null;
  /** Epoch milliseconds of the warehouse's clock. */
  expires_at: number | null;
  /** The process that requests the next token, and the time before which no other process does. */
  asker: string | null;
  asked_until: number | null;
}

/** A record that an operator has erased. Without `record_id` the row does not identify it. */
export interface ForgottenRow {
  resource: string;
  /** HMAC-SHA256 of source, resource and id under `privacy_key`, in hex digits. */
  fingerprint: string;
  /** Identifies that key and the source's name: under another key the fingerprints mean nothing. */
  key_mark: string;
  /** The version of content-sync that erased it. */
  version: string;
  asked_at: string;
  /** The id, until the record is erased completely; then null. */
  record_id: string | null;
  /** When rows, versions and all other data of the warehouse were erased. */
  erased_at: string | null;
  /** When the data was also removed from log and free pages. */
  cleaned_at: string | null;
  /** JSON: the number of erased rows by kind. */
  counts: string | null;
}

/** An alert that was sent to a channel; `SentAlert` explains its fields. */
interface AlertRow {
  channel: string;
  /** The kind, with the resource if the alert is about one. */
  alert: string;
  /** The reported text. */
  what: string;
  since: string;
  told_at: string;
  /** When its end was reported; null until then. */
  over_at: string | null;
  /** Not used since 0.2, like `returns`. */
  gone_at: string | null;
  returns: number;
}

/** One resource's part in a run. */
export interface RunRow {
  run_id: string;
  resource: string;
  command: string;
  mode: ScanMode;
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
  deleted: number;
  /** Delete candidates that wait for an operator when the run ends. */
  held: number;
  retries: number;
  /** Responses by which the service refused a request because of its rate limit, such as 429. */
  limited: number;
  bytes: number;
  error_code: string | null;
  error: string | null;
  /** JSON array of `{code, message, hint, accepted?}`; null for none. */
  warnings: string | null;
  /** Not written since 0.2, like the next three. */
  runs?: number | undefined;
  first_started_at?: string | null | undefined;
  all_requests?: number | null | undefined;
  all_bytes?: number | null | undefined;
  /** JSON object: attempts by outcome; null while it runs, and in rows of early versions. */
  outcomes: string | null;
  error_hint: string | null;
  /** Identifies the failed request for the service's operators. */
  request_id: string | null;
  /** Records that were dropped because an operator had them erased. */
  forgotten?: number | undefined;
}

/** `whole` compares the copy with the service, `internal` with itself. */
export type VerifyMode = 'whole' | 'internal';

/** `unproved`: no difference was found, but the listing may be incomplete. */
export type Verdict = 'equal' | 'differs' | 'unproved';

export interface VerificationRow {
  verification_id: string;
  resource: string;
  mode: VerifyMode;
  verdict: Verdict;
  began_at: string;
  ended_at: string;
  differences: number;
  requests: number;
  /** The report of the verification for auditors, as JSON (`VerifyReport` of `sync/verify/report.ts`). */
  certificate: string;
}

/** A managed view as it was created. */
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
  type: ColumnType;
  source_path: string | null;
  description: string | null;
  /** `content.id` if it holds the key of another resource. */
  refers_to: string | null;
  /** 1 if it is computed from the values at `source_path`. */
  is_computed: 0 | 1;
  first_seen: string;
}

interface DeleteRow {
  resource: string;
  id: string;
  /** The version of the record that marks the delete. */
  version: number;
  /** The service's own time, or the time of the request if the service names none. */
  deleted_at: string;
  /** The time of the request that returned the record again; null while it is deleted. */
  restored_at: string | null;
}

/** The state of one window of reports. Days are `YYYY-MM-DD` in the reports' own zone. */
export interface WindowRow {
  resource: string;
  window_start: string;
  /** The first day after the window. */
  window_end: string;
  /** The time of the request whose response is stored; null if none was stored. */
  fetched_at: string | null;
  /** 1 if the response was final by then: `restate` after the window's end. */
  is_final: 0 | 1;
  /** Live rows of that response, also after the window was dropped by age. */
  rows: number;
  /** JSON: sums of the service that differ from the counted ones; null if none differs. */
  totals: string | null;
  /** 1 if the response had as many rows as the service lists and could not be split further. */
  capped: 0 | 1;
  /** When its rows last changed; null if it never had any. */
  changed_at: string | null;
  /** When its rows were removed by age (`keep`). */
  dropped_at: string | null;
  /** When a response was held for an operator, because it would delete too many rows; null if none is. */
  held_at: string | null;
  /** Why it is held, as a sentence. */
  held: string | null;
  /** When an operator allowed the next response to delete any number of rows. */
  released_at: string | null;
}

/**
 * `waiting`: to be fetched, for the first time or again; `stored`: equal to the last response; `failed`: retried at
 * `due_at`; `refused`: not fetched until its record or the profile changes; `gone`: the service no longer has it.
 */
export const FILE_STATUSES = ['waiting', 'stored', 'failed', 'refused', 'gone'] as const;
export type FileStatus = (typeof FILE_STATUSES)[number];

/** One content of a file that belongs to a record, stored or to be fetched. */
export interface FileRow {
  resource: string;
  record_id: string;
  /** The profile's name of the file. */
  field: string;
  /** From 0, for a record with a list of addresses. */
  position: number;
  /** From 1: the contents of this file in the order in which they were seen. */
  version: number;
  /** The address of the content, without our credentials. */
  url: string;
  /** A newer address in the record, from which nothing was fetched yet. */
  next_url: string | null;
  status: FileStatus;
  /** `StoreAddress.name` of the store with the content; null before the first content, like all facts about it. */
  store: string | null;
  sha256: string | null;
  bytes: number | null;
  type: string | null;
  width: number | null;
  height: number | null;
  etag: string | null;
  last_modified: string | null;
  /** `_hash` of the row in which this address was read. */
  record_hash: string;
  /** Failed attempts since the last success. */
  attempts: number;
  /** When it is fetched; null if only a change of its record makes it due. */
  due_at: string | null;
  /** Why it failed, is refused or gone; null otherwise. */
  code: string | null;
  error: string | null;
  /** When the service last served this content. */
  fetched_at: string | null;
  valid_from: string;
  /** When another content replaced it, or the record no longer showed it; null for the current content. */
  valid_to: string | null;
}

/** One content in a store, which several files may have. */
export interface FileObjectRow {
  store: string;
  sha256: string;
  bytes: number;
  type: string;
  width: number | null;
  height: number | null;
  stored_at: string;
  /** When it was last read and found intact; null if never. */
  checked_at: string | null;
  /** 1 if it was missing or damaged. */
  missing: number;
}

/** When the records of a resource were searched for files; the name of the table is older than the term search. */
export interface FilePassageRow {
  resource: string;
  /** Hash of the file settings of the profile. */
  settings: string;
  /** When the last search began, and the last one over all records. */
  looked_at: string;
  full_at: string;
}
