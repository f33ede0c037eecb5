// Builds the status of one source from its warehouse, the memory of this process, and its settings.
import type { ScheduleSettings, SourceSettings } from '../../config/settings.ts';
import { databaseAt } from '../../database/databases.ts';
import type { Inbox, InboxCounters } from '../../database/inbox.ts';
import type { TableAccess } from '../../database/reading.ts';
import { isThisProcess } from '../../database/state/leases.ts';
import type { RateLimiterMetrics } from '../../http/rate-limit/rate-limiter.ts';
import { errorReport, SyncError } from '../../model/errors.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { computeRates } from '../../observe/progress.ts';
import type { Problem, SourceActivity } from '../source-activity.ts';
import type { LastRead } from './cached-reader.ts';
import { NOTHING_STORED, type RowCount, type StoredStatus } from './read-stored-status.ts';
import {
  type LimitStatus,
  type ResourceStatus,
  type RunningStatus,
  type ScheduleStatus,
  scrubTexts,
  type SourceStatus,
  type WebhookStatus,
} from './snapshot.ts';

/** What the status of one source is built from. */
export interface StatusParts {
  source: SourceSettings;
  activity: SourceActivity;
  /** Passes an open warehouse to `work`; throws the reason if there is none. */
  read: <T>(work: (warehouse: TableAccess) => Promise<T>) => Promise<T>;
  /** Null if the source is not open. */
  rateLimiter: () => RateLimiterMetrics | null;
  schedule: (resource: string) => ScheduleStatus;
  inbox: (() => Promise<InboxCounters>) | null;
  deliveries: Inbox['list'] | null;
  scrub: (text: string) => string;
}

/** The values last read from the warehouse and the inbox. */
interface SourceReading {
  stored: LastRead<StoredStatus>;
  counts: LastRead<ReadonlyMap<string, RowCount>>;
  inbox: LastRead<InboxCounters> | null;
}

interface Times {
  /** Epoch milliseconds. */
  now: number;
  /** The same time on the monotonic clock. */
  monotonic: number;
  startedAt: number;
}

export function sourceStatus(parts: StatusParts, { stored, counts, inbox }: SourceReading, times: Times): SourceStatus {
  const { source, activity, scrub } = parts;
  // A process that found the object store full has stored the error with the file that it could not write.
  const message = stored.value?.files.full ?? null;
  const full = message === null ? null : { code: 'file_store_full', message, hint: null, since: null };
  const stopped = activity.filesStopped ?? full;
  const status: SourceStatus = {
    source: source.name,
    base_url: source.base_url,
    warehouse: warehouseStatus(parts, stored, times),
    resources: source.resources.map((resource) => resourceStatus(parts, resource, stored.value, counts, times)),
    limit: limitStatus(activity, parts.rateLimiter(), times),
    webhooks: inbox && webhookStatus(parts, inbox, times.now),
    changes: {
      by_webhook: activity.changes.webhook.total(times.now),
      by_schedule: activity.changes.incremental.total(times.now),
    },
    schema_changes: stored.value?.schemaChanges ?? [],
    ...(stopped && { files_stopped: stopped }),
  };
  return scrubTexts(status, scrub);
}

function resourceStatus(
  { activity, schedule }: StatusParts,
  resource: string,
  source: StoredStatus | null,
  counts: SourceReading['counts'],
  { now, monotonic }: Times,
): ResourceStatus {
  const stored = source?.resources.get(resource) ?? NOTHING_STORED;
  const lease = source?.leases.get(resource);
  const isOwnedElsewhere = lease !== undefined && timestampMs(lease.expires_at) > now && !isThisProcess(lease);
  const owner = isOwnedElsewhere ? { name: lease.owner, since: timestampMs(lease.acquired_at) } : null;
  const running = runningStatus(activity, resource, monotonic);
  const { parked_until: parked } = stored;
  const files = source?.files.resources.get(resource);
  return {
    ...stored,
    resource,
    rows: counts.value?.get(resource) ?? null,
    ...(files && { files }),
    schedule: schedule(resource),
    running,
    // During a sync, the stored position does not mean that it was interrupted.
    unfinished: running === null ? stored.unfinished : null,
    parked_until: parked !== null && parked > now ? parked : null,
    owner,
    runs: stored.runs.map((run) => {
      // It is stored as running, and no process runs it: its process was killed.
      const isDead = run.status === 'running' && running === null && owner === null;
      return isDead ? Object.assign({}, run, { status: 'interrupted' }) : run;
    }),
  };
}

function runningStatus(activity: SourceActivity, resource: string, monotonic: number): RunningStatus | null {
  const scan = activity.running(resource);
  if (scan === null) return null;
  const { pages, records, total } = scan.progress;
  const { recordsPerSecond, etaSeconds } = computeRates(scan.progress, monotonic);
  const times = { started_at: scan.startedAt, last_page_at: scan.lastPageAt };
  const rates = { records_per_second: recordsPerSecond, eta_seconds: etaSeconds };
  return { mode: scan.mode, ...times, pages, records, total, ...rates };
}

const HOUR_MS = 3_600_000;
/** Right after the start, the used part of the limit would jump. */
const MIN_MEASURED_MS = 10_000;

function limitStatus(
  { requests, limited }: SourceActivity,
  rateLimiter: RateLimiterMetrics | null,
  { now, startedAt }: Times,
): LimitStatus {
  const allowed = rateLimiter?.allowedPerSecond ?? null;
  const measuredMs = Math.min(HOUR_MS, now - startedAt);
  const count = requests.total(now);
  return {
    allowed_per_second: allowed,
    paused_until: rateLimiter?.pausedUntil ?? null,
    requests: count,
    limited: limited.total(now),
    used: allowed === null || measuredMs < MIN_MEASURED_MS ? null : count / (allowed * (measuredMs / 1_000)),
  };
}

const SLOW: Problem = {
  code: 'warehouse_busy',
  message: 'it has not answered for some seconds',
  hint: 'see whether another program holds a lock on it, and whether its disk is well',
};

/** A process with many sources opens them one after the other; after this long, a closed one is a problem. */
const MAX_FIRST_OPENING_MS = 5 * 60_000;

function warehouseStatus(
  { source, scrub }: StatusParts,
  { value, readAt, error, isLate }: LastRead<StoredStatus>,
  { now, startedAt }: Times,
): SourceStatus['warehouse'] {
  const isOpening = error instanceof SyncError && error.code === 'warehouse_opening';
  const isFine = error === null || (isOpening && now - startedAt < MAX_FIRST_OPENING_MS);
  const { shown, file } = databaseAt(source.warehouse);
  return {
    address: file ?? shown,
    problem: isFine ? (isLate ? SLOW : null) : toProblem(error, scrub),
    read_at: readAt,
    ...(value?.sizes ?? { file_bytes: null, wal_bytes: null }),
  };
}

/** An error as the page shows it, without secrets. */
export function toProblem(error: unknown, scrub: (text: string) => string): Problem {
  const { code, message, hint = null } = errorReport(error, scrub);
  return { code, message, hint };
}

/** Used until the inbox was counted, and while it cannot be read. */
const EMPTY_INBOX: InboxCounters = { waiting: 0, waitingBytes: 0, dead: 0, different: 0, oldest: null };

function webhookStatus(
  { activity, scrub, source: { webhook } }: StatusParts,
  { value, error }: LastRead<InboxCounters>,
  now: number,
): WebhookStatus {
  const { waiting, waitingBytes, dead, different, oldest } = (error === null ? value : null) ?? EMPTY_INBOX;
  const { max_waiting = Infinity, max_waiting_size = Infinity } = webhook ?? {};
  const [p50 = null, p95 = null] = activity.delays.quantiles(now, 0.5, 0.95);
  return {
    path: `/webhooks/${activity.source}`,
    problem: error === null ? null : toProblem(error, scrub),
    waiting,
    full: Math.min(1, Math.max(waiting / max_waiting, waitingBytes / max_waiting_size)),
    dead,
    different,
    oldest_at: oldest === null ? null : timestampMs(oldest),
    last_received_at: activity.lastReceivedAt,
    received: activity.received.total(now),
    refused: activity.refused.total(now),
    refused_by: { ...activity.refusedBy },
    delay_p50_ms: p50,
    delay_p95_ms: p95,
  };
}

/** The schedule of a resource; `due` is absent if it is not known. */
export function scheduleStatus(
  { timezone, resources, ...usual }: ScheduleSettings,
  resource: string,
  due?: { nextAt: number | null; overdueAt: number | null },
): ScheduleStatus {
  const { incremental = usual.incremental, full = usual.full } = resources[resource] ?? {};
  return { incremental, full, timezone, next_at: due?.nextAt ?? null, overdue_at: due?.overdueAt ?? null };
}
