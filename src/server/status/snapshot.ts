// The types of the status: all that the page shows and /status.json prints.
import type { StoredSizes } from '../../database/database.ts';
import type { FileStatus } from '../../database/own-tables.ts';
import type { RunRecord } from '../../database/state/runs.ts';
import type { ColumnChange } from '../../model/table.ts';
import type { ScanMode } from '../../model/vocabulary.ts';
import type { Problem } from '../source-activity.ts';

/** Epoch milliseconds; null for "never" or "not known". */
type Time = number | null;

/**
 * The status model; times in epoch ms, sizes in bytes. To show more, add a field here, read it in `read-stored-status.ts`
 * (from the warehouse) or `source-status.ts` (from this process), and render it in `server/page/`.
 */
export interface StatusSnapshot {
  at: number;
  version: string;
  started_at: number;
  stopping: boolean;
  sources: SourceStatus[];
  /** Sources whose settings cannot be used. */
  refused: RefusedStatus[];
  /** The channels of `alerts`; absent if none are configured. */
  alerts?: AlertChannelStatus[];
}

export interface AlertChannelStatus {
  channel: string;
  /** Why the last message was not delivered; null if it was, or if there was none. */
  problem: string | null;
  /** Since when none is delivered. */
  since: Time;
  /** Reported problems that have not ended. */
  open: number;
}

export interface RefusedStatus {
  source: string;
  problem: Problem;
}

export interface SourceStatus {
  source: string;
  base_url: string;
  warehouse: WarehouseStatus;
  resources: ResourceStatus[];
  limit: LimitStatus;
  webhooks: WebhookStatus | null;
  /** Rows written, changed or deleted in the last hour, by what found the change. */
  changes: { by_webhook: number; by_schedule: number };
  schema_changes: SchemaChangeStatus[];
  /** Why no files are fetched, and since when; absent while they are, or if none are copied. */
  files_stopped?: Problem & { since: Time };
}

export interface WarehouseStatus extends StoredSizes {
  /** Without user and password. */
  address: string;
  problem: Problem | null;
  /** When its status was read; null until it is opened for the first time. */
  read_at: Time;
}

/** The status of a resource as the warehouse stores it. */
export interface StoredResource {
  last_success_at: Time;
  last_full_at: Time;
  /** An interrupted sync, which the next run resumes. */
  unfinished: { mode: ScanMode; pages: number; records: number } | null;
  /** Until when the service accepts no requests. */
  parked_until: Time;
  /** Since when it is paused, and by whom; null if it is not. */
  paused: { since: number; by: string } | null;
  runs: PastRun[];
  rejects: { reason: string; count: number }[];
  /** Deletes that are held back until a user confirms or discards them: their number, since when, and why. */
  suspects: { held: number; held_since: Time; held_why: string | null };
}

export interface ResourceStatus extends StoredResource {
  resource: string;
  /** Null until they were counted. */
  rows: { live: number; deleted: number } | null;
  schedule: ScheduleStatus;
  running: RunningStatus | null;
  /** The process that owns the resource, if not this one. */
  owner: { name: string; since: number } | null;
  /** The copied files of its records; absent if there are none. */
  files?: FilesStatus;
}

export interface ScheduleStatus {
  /** Cron expressions; null for never. */
  incremental: string | null;
  full: string | null;
  timezone: string;
  next_at: Time;
  /** From then on it counts as overdue, unless a success comes first. */
  overdue_at: Time;
}

export interface RunningStatus {
  mode: ScanMode;
  started_at: number;
  last_page_at: number;
  pages: number;
  records: number;
  /** As the service states it; null if it does not. */
  total: number | null;
  records_per_second: number;
  eta_seconds: number | null;
}

/** A stored run with its duration, which is null while it runs. */
export interface PastRun extends RunRecord {
  seconds: number | null;
}

export interface LimitStatus {
  /** Estimated limit of the service, in requests per second. */
  allowed_per_second: number | null;
  paused_until: Time;
  /** Of the last hour. */
  requests: number;
  /** Responses with 429 in the last hour. */
  limited: number;
  /** The fraction of the limit used in the last hour, or since the start if that was later; null if it is not known. */
  used: number | null;
}

export interface WebhookStatus {
  path: string;
  /** Null if the inbox can be read. */
  problem: Problem | null;
  /** Deliveries that wait to be processed. */
  waiting: number;
  /** The fraction of the permitted number or size that waits; at 1, further deliveries are refused. */
  full: number;
  /** When the oldest of the waiting deliveries was received. */
  oldest_at: Time;
  /** Deliveries that were given up. */
  dead: number;
  /** Stored deliveries that had the id of another one and another body. */
  different: number;
  last_received_at: Time;
  /** Of the last hour. */
  received: number;
  refused: number;
  /** By reason, since the process began. */
  refused_by: Readonly<Record<string, number>>;
  /** Milliseconds from receipt to row. */
  delay_p50_ms: number | null;
  delay_p95_ms: number | null;
}

/** How many copied files of a resource's current records have which status. */
export interface FilesStatus extends Record<FileStatus, number> {
  /** Of those whose content is known. */
  bytes: number;
  /** The first file that could not be fetched; null if there is none. */
  trouble: TroubledFile | null;
}

export interface TroubledFile {
  record_id: string;
  field: string;
  status: FileStatus;
  code: string | null;
  message: string;
}

export interface SchemaChangeStatus extends ColumnChange {
  changed_at: number;
  resource: string;
  table: string;
  column: string;
}

/** Returns the same value with every text in it passed through `scrub`. For JSON data only. */
export function scrubTexts<T>(value: T, scrub: (text: string) => string): T;
export function scrubTexts(value: unknown, scrub: (text: string) => string): unknown {
  if (typeof value === 'string') return scrub(value);
  if (Array.isArray(value)) return value.map((part: unknown) => scrubTexts(part, scrub));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, scrubTexts(part, scrub)]));
}
