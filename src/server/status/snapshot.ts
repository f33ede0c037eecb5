import type { ColumnChange } from '../../model/schema-change.ts';
import type { ApiLifetime } from '../../model/service-notice.ts';
import type { WalkMode } from '../../model/vocabulary.ts';
import type { WalkError } from '../../observe/activity.ts';
import type { FileTrouble } from '../../database/state/files.ts';
import type { RunFigures } from '../../database/state/runs.ts';
import type { FileStatus, RunRow } from '../../database/own-tables.ts';

/** Epoch milliseconds; null for "never" or "not known". */
type Moment = number | null;

/**
 * The status model: all that the page shows and `/status.json` prints; times in epoch ms, sizes in bytes. Something new
 * on the page is a field here, read in `stored.ts` (if the warehouse knows it) or `source-status.ts` (if this process
 * does), and drawn in `web/page/`.
 */
export interface StatusSnapshot {
  at: number;
  version: string;
  started_at: number;
  /** True while the process is on its way out. */
  stopping: boolean;
  sources: SourceStatus[];
  /** Sources that were left out, because their settings cannot be used. */
  refused: RefusedStatus[];
  /** Why settings that were read again are not used, and since when; null if those are in use that were read last. */
  settings: SettingsStatus | null;
  /** The channels of `alerts`; absent where nobody is told. */
  alerts?: AlertChannelStatus[];
}

/** Whether somebody can be told. */
export interface AlertChannelStatus {
  channel: string;
  /** Why the last message did not get through; null if it did, or if there was none. */
  problem: string | null;
  /** Since when none gets through. */
  since: Moment;
  /** What it was told of and goes on. */
  open: number;
}

export interface SettingsStatus extends Problem {
  at: number;
}

export interface RefusedStatus {
  source: string;
  problem: Problem;
}

export interface SourceStatus {
  source: string;
  base_url: string;
  api: ApiStatus;
  warehouse: WarehouseStatus;
  resources: ResourceStatus[];
  limit: LimitStatus;
  /** Null if no webhooks are configured. */
  webhooks: WebhookStatus | null;
  /** Rows written, changed or deleted in the last hour, by how the change was noticed. */
  changes: { by_webhook: number; by_schedule: number };
  /** The newest first. */
  schema_changes: SchemaChangeStatus[];
  /** Why no files are fetched, and since when; absent while they are, or where none are copied. */
  files_stopped?: Problem & { since: Moment };
}

/** The version of the service's API that is asked for, and how long it will be there. */
export interface ApiStatus {
  version: string;
  /** Null if the service says nothing about it. */
  lifetime: (ApiLifetime & { days_left: number | null }) | null;
}

/** Something that went wrong and what to do about it. */
export type Problem = WalkError;

export interface WarehouseStatus {
  /** As a person would look for it. */
  address: string;
  problem: Problem | null;
  /** When the figures that come from it were read; null while it waits to be opened for the first time. */
  read_at: Moment;
  /** On Postgres all of the source's schema, with its indexes. */
  file_bytes: number | null;
  wal_bytes: number | null;
}

export interface ResourceStatus {
  resource: string;
  /** Null until they were counted. */
  rows: { live: number; deleted: number; counted_at: number } | null;
  last_success_at: Moment;
  last_full_at: Moment;
  schedule: ScheduleStatus;
  running: RunningStatus | null;
  /** A walk that was stopped on its way: the next run goes on there. */
  unfinished: { mode: WalkMode; pages: number; records: number } | null;
  /** The service asked to be left alone until then. */
  parked_until: Moment;
  /** Since when no run of it begins, and who wanted that; null if runs begin. */
  paused: { since: number; by: string } | null;
  /** Who owns the resource, if not this process. */
  owner: { name: string; since: number } | null;
  /** The newest first. */
  runs: PastRun[];
  rejects: RejectStatus[];
  suspects: { held: number; held_since: Moment; held_why: string | null };
  /** Of its records' files that are copied too; absent where there are none. */
  files?: FilesStatus;
}

export interface ScheduleStatus {
  /** Cron expressions; null for never. */
  incremental: string | null;
  full: string | null;
  timezone: string;
  next_at: Moment;
  /** From then on it counts as overdue, unless a success comes first. */
  overdue_at: Moment;
}

export interface RunningStatus {
  mode: WalkMode;
  started_at: number;
  last_page_at: number;
  pages: number;
  records: number;
  /** As the service says; null if it does not. */
  total: number | null;
  records_per_second: number;
  eta_seconds: number | null;
}

export interface PastRun
  extends Omit<RunFigures, 'records' | 'retries' | 'bytes'>, Pick<RunRow, 'run_id' | 'mode' | 'status'> {
  started_at: number;
  seconds: number | null;
  error: Problem | null;
  /** Facts that the run could not prove, or that a person should know. */
  warnings: RunWarning[];
}

/** `accepted` is true if the profile accepts it. */
type RunWarning = Omit<Problem, 'hint'> & { hint: string; accepted?: boolean | undefined };

export interface RejectStatus {
  reason: string;
  count: number;
}

export interface LimitStatus {
  /** Requests per second that the service is understood to allow. */
  allowed_per_second: number | null;
  /** Part of it that may be used. */
  share: number;
  paused_until: Moment;
  /** Of the last hour. */
  requests: number;
  limited: number;
  /** Part of the limit used in the last hour, or since the start if that was later. */
  used: number | null;
  /** Oldest first, 60 of them. `used` is null if nothing is known. */
  minutes: { at: number; requests: number; limited: number; used: number | null }[];
}

export interface WebhookStatus {
  path: string;
  /** Null if the inbox can be read. */
  problem: Problem | null;
  waiting: number;
  /** Part of the permitted number or size that waits; at 1, further deliveries are refused. */
  full: number;
  oldest_at: Moment;
  dead: number;
  /** Deliveries that came under the id of another one with another body, of those that are kept. */
  different: number;
  last_received_at: Moment;
  /** Of the last hour. */
  received: number;
  refused: number;
  /** By reason, since the process began. */
  refused_by: Readonly<Record<string, number>>;
  /** Milliseconds from receipt to row. */
  delay_p50_ms: number | null;
  delay_p95_ms: number | null;
  /** Oldest first, 60 of them. */
  minutes: { at: number; received: number; refused: number; p50_ms: number | null; p95_ms: number | null }[];
}

/** Files of a resource's records that are copied too: how many of those that are shown have which status. */
export interface FilesStatus extends Record<FileStatus, number> {
  /** Of those whose content is known. */
  bytes: number;
  /** One that could not be fetched, the first one there was; null if there is none. */
  trouble: TroubledFile | null;
}

/** A file that is not here as it is served, and why. */
export interface TroubledFile extends Pick<FileTrouble, 'record_id' | 'field' | 'status' | 'code'> {
  message: string;
}

export interface SchemaChangeStatus extends ColumnChange {
  changed_at: number;
  resource: string;
  table: string;
  column: string;
}

/** The same value with every text in it passed through `scrub`. For data of JSON's kinds. */
export function scrubTexts<T>(value: T, scrub: (text: string) => string): T;
export function scrubTexts(value: unknown, scrub: (text: string) => string): unknown {
  if (typeof value === 'string') return scrub(value);
  if (Array.isArray(value)) return value.map((part: unknown) => scrubTexts(part, scrub));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, scrubTexts(part, scrub)]));
}
