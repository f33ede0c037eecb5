import type { Kysely } from 'kysely';
import type { FilesSettings } from '../../config/file-stores.ts';
import { type Versioned, versionText } from '../../config/profile/http-fields.ts';
import type { Profile } from '../../config/profile/profile.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { databaseAt } from '../../database/databases.ts';
import type { Inbox, InboxFigures } from '../../database/inbox.ts';
import type { LeaseRow, OwnTables } from '../../database/own-tables.ts';
import type { WarehouseReader } from '../../database/reading.ts';
import { readCheckpoint } from '../../database/state/checkpoints.ts';
import { isThisProcess } from '../../database/state/leases.ts';
import type { GovernorFigures } from '../../http/rate-limit/rate-limiter.ts';
import type { Clock } from '../../model/clock.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { type ApiLifetime, daysLeft } from '../../model/service-notice.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { type RunningWalk, type SeriesMinute, SourceActivity, type WalkError } from '../../observe/activity.ts';
import type { Metrics } from '../../observe/metrics.ts';
import { ratesOf } from '../../observe/progress.ts';
import { scrubOwn } from '../../observe/scrub.ts';
import { dueOf, type StoredSuccess, timesOf } from '../schedule/due.ts';
import type { LastRead } from './cached-reader.ts';
import { type ApiStatus, type FilesStatus, type LimitStatus, type PastRun, type Problem, type ResourceStatus, type RunningStatus, type ScheduleStatus, scrubTexts, type SourceStatus, type WebhookStatus } from './snapshot.ts';
import { NOTHING_STORED, type RowCount, type StoredFiles, type StoredState } from './stored.ts';

/** What is read of an open warehouse. */
export type StoredTables = Pick<WarehouseReader, 'own' | 'dialect' | 'rows'>;

/** A source that is being served, as the status reads it. */
export interface StatusParts {
  source: Pick<SourceSettings, 'name' | 'base_url' | 'warehouse' | 'resources' | 'rate' | 'webhook'> & {
    profile: Versioned & Pick<Profile, 'resources'>;
    files: Pick<FilesSettings, 'kept'>;
  };
  activity: SourceActivity;
  /** Gives an open warehouse to `work`; throws the reason if there is none. */
  read: <T>(work: (warehouse: StoredTables) => Promise<T>) => Promise<T>;
  /** Null if the source is not open. */
  governor: () => GovernorFigures | null;
  schedule: (resource: string) => ScheduleStatus;
  /** Null if no webhooks are configured. */
  inbox: (() => Promise<InboxFigures>) | null;
  /** Lists them; null if no webhooks are configured. */
  deliveries: Inbox['list'] | null;
  /** Takes secrets out of a text. */
  scrub: (text: string) => string;
}

/** The readings of a source for one snapshot. */
interface SourceFacts {
  stored: LastRead<StoredState>;
  /** In the order of the source's resources. */
  counts: readonly Pick<LastRead<RowCount>, 'value' | 'readAt'>[];
  files: StoredFiles;
  /** Null if no webhooks are configured. */
  inbox: Pick<LastRead<InboxFigures>, 'value' | 'error'> | null;
}

interface Times {
  /** Epoch milliseconds. */
  now: number;
  /** The same moment on the monotonic clock. */
  monotonic: number;
  startedAt: number;
}

/** Puts together what the warehouse, this process's memory and the settings say of a source. */
export function sourceStatus(
  parts: StatusParts,
  { stored, counts, files, inbox }: SourceFacts,
  times: Times,
): SourceStatus {
  const { source, activity } = parts;
  const status: SourceStatus = {
    source: source.name,
    base_url: source.base_url,
    api: apiStatus(source.profile, stored.value?.lifetime ?? null, times.now),
    warehouse: warehouseStatus(parts, stored, times),
    resources: source.resources.map((resource, at) => ({
      ...resourceStatus(parts, resource, stored.value, counts[at], times),
      ...filesOf(files.resources.get(resource)),
    })),
    limit: limitStatus(activity, parts.governor(), source.rate.share, times),
    webhooks: inbox && webhookStatus(parts, inbox, times.now),
    changes: activity.changesOfHour(times.now),
    schema_changes: stored.value?.schemaChanges ?? [],
    ...stoppedFiles(activity, files),
  };
  // What this process itself has counted holds no text of anybody else's.
  const { limit, webhooks: counted, ...foreign } = status;
  return { ...scrubTexts(foreign, parts.scrub), limit, webhooks: counted };
}

/** This process knows why it stopped; another one has left it with a file that waits. */
function stoppedFiles({ filesStopped }: SourceActivity, { full }: StoredFiles): Pick<SourceStatus, 'files_stopped'> {
  if (filesStopped !== null) return { files_stopped: filesStopped };
  if (full === null) return {};
  return { files_stopped: { code: 'file_store_full', message: full, hint: null, since: null } };
}

function filesOf(files: FilesStatus | undefined): Pick<ResourceStatus, 'files'> {
  return files === undefined ? {} : { files };
}

function resourceStatus(
  { activity, schedule }: StatusParts,
  resource: string,
  state: StoredState | null,
  count: SourceFacts['counts'][number] | undefined,
  { now, monotonic }: Times,
): ResourceStatus {
  const stored = state?.resources.get(resource) ?? NOTHING_STORED;
  const lease = state?.leases.get(resource);
  const isOver = lease === undefined || timestampMs(lease.expires_at) <= now;
  const owner = isOver || isThisProcess(lease) ? null : ownerOf(lease);
  const walk = activity.running(resource);
  const running = walk === null ? null : runningStatus(walk, monotonic);
  const { parked_until: parked } = stored;
  const { value = null, readAt = null } = count ?? {};
  const error = activity.lastError(resource);
  return {
    ...stored,
    resource,
    rows: value === null || readAt === null ? null : { ...value, counted_at: readAt },
    schedule: schedule(resource),
    running,
    // While the resource is walked, a stored position is not an unfinished walk.
    unfinished: running === null ? stored.unfinished : null,
    parked_until: parked !== null && parked > now ? parked : null,
    owner,
    runs: stored.runs.map((run) => pastRun(run, error, running !== null || owner !== null)),
  };
}

function ownerOf({ owner, acquired_at }: LeaseRow): ResourceStatus['owner'] {
  return { name: owner, since: timestampMs(acquired_at) };
}

function runningStatus({ mode, startedAt, lastPageAt, progress }: RunningWalk, monotonic: number): RunningStatus {
  const { recordsPerSecond, etaSeconds } = ratesOf(progress, monotonic);
  const { pages, records, total } = progress;
  const at = { started_at: startedAt, last_page_at: lastPageAt };
  return { mode, ...at, pages, records, total, records_per_second: recordsPerSecond, eta_seconds: etaSeconds };
}

/** A run as it is stored, with the advice that is not; one that nobody works on any more was interrupted. */
function pastRun(run: PastRun, known: WalkError | null, isWorkedOn: boolean): PastRun {
  const status = run.status === 'running' && !isWorkedOn ? 'interrupted' : run.status;
  const isKnown = run.error?.code === known?.code && run.error?.message === known?.message;
  return { ...run, status, error: isKnown ? known : run.error };
}

const MINUTE_MS = 60_000;
/** A minute that has just begun is left out, because its part of the limit would jump. */
const LEAST_MS = 10_000;

/** How the limit was used; `governor` is null if the source is not open. */
function limitStatus(
  activity: SourceActivity,
  governor: GovernorFigures | null,
  share: number,
  times: Times,
): LimitStatus {
  const { now } = times;
  const rates = activity.allowed.minutes(now);
  const limited = activity.limited.minutes(now);
  const known = governor?.allowedPerSecond ?? null;
  const minutes = activity.requests.minutes(now).map((minute, index) => {
    const used = usedIn(minute, rateOf(rates[index]) ?? known, times);
    return { at: minute.at, requests: minute.count, limited: limited[index]?.count ?? 0, used };
  });
  const seen = minutes.map((minute) => minute.used).filter((used) => used !== null);
  return {
    allowed_per_second: known,
    share,
    paused_until: governor?.pausedUntil ?? null,
    requests: activity.requests.total(now).count,
    limited: activity.limited.total(now).count,
    used: seen.length === 0 ? null : seen.reduce((sum, used) => sum + used, 0) / seen.length,
    minutes,
  };
}

function rateOf(minute: SeriesMinute | undefined): number | null {
  return minute === undefined || minute.count === 0 ? null : minute.sum / minute.count / 1_000;
}

/** Null before the process began, in a minute that has just begun, and if no limit is known. */
function usedIn({ at, count }: SeriesMinute, rate: number | null, { now, startedAt }: Times): number | null {
  const ms = Math.min(at + MINUTE_MS, now) - Math.max(at, startedAt);
  return rate === null || ms < LEAST_MS ? null : count / (rate * (ms / 1_000));
}

const SLOW: Problem = {
  code: 'warehouse_slow',
  message: 'it has not answered for some seconds',
  hint: 'see whether another program holds a lock on it, and whether its disk is well',
};

/** A process that opens many sources at its start takes its time; after this long, one that is still closed is a problem. */
const MAX_FIRST_OPENING_MS = 5 * 60_000;

function warehouseStatus(
  { source, scrub }: StatusParts,
  stored: LastRead<StoredState>,
  { now, startedAt }: Times,
): SourceStatus['warehouse'] {
  const late = stored.isLate ? SLOW : null;
  const { error } = stored;
  const isOpening = error instanceof SyncError && error.code === 'warehouse_opening';
  const isWaiting = isOpening && now - startedAt < MAX_FIRST_OPENING_MS;
  const { shown, file } = databaseAt(source.warehouse);
  return {
    address: file ?? shown,
    problem: error === null || isWaiting ? late : problemOf(error, scrub),
    read_at: stored.readAt,
    ...(stored.value?.sizes ?? { file_bytes: null, wal_bytes: null }),
  };
}

/** An error as it is shown, without secrets. */
export function problemOf(error: unknown, scrub: (text: string) => string): Problem {
  const isOurs = error instanceof SyncError;
  const hint = isOurs ? (error.hint ?? null) : null;
  return scrubTexts({ code: isOurs ? error.code : 'bug', message: messageOf(error), hint }, scrub);
}

/** Until it was counted for the first time, or while it cannot be read. */
const NOTHING_WAITS: InboxFigures = { waiting: 0, waitingBytes: 0, dead: 0, different: 0, oldest: null };

function webhookStatus(
  { activity, scrub, source }: StatusParts,
  { value, error }: NonNullable<SourceFacts['inbox']>,
  now: number,
): WebhookStatus {
  const figures = (error === null ? value : null) ?? NOTHING_WAITS;
  const { waiting, dead, different, oldest } = figures;
  return {
    ...webhookTraffic(activity, now),
    problem: error === null ? null : problemOf(error, scrub),
    waiting,
    full: fullness(figures, source.webhook),
    dead,
    different,
    oldest_at: oldest === null ? null : timestampMs(oldest),
  };
}

function fullness({ waiting, waitingBytes }: InboxFigures, webhook: SourceSettings['webhook']): number {
  if (webhook === null) return 0;
  return Math.min(1, Math.max(waiting / webhook.max_waiting, waitingBytes / webhook.max_waiting_size));
}

/** The webhooks that came in; the figures of the inbox are added by the caller. */
function webhookTraffic(
  activity: SourceActivity,
  now: number,
): Omit<WebhookStatus, 'problem' | 'waiting' | 'full' | 'oldest_at' | 'dead' | 'different'> {
  const delays = activity.delays.total(now);
  const [refused, spread] = [activity.refused.minutes(now), activity.delays.minutes(now)];
  return {
    path: `/webhooks/${activity.source}`,
    last_received_at: activity.lastReceivedAt,
    received: activity.received.total(now).count,
    refused: activity.refused.total(now).count,
    refused_by: { ...activity.refusedBy },
    delay_p50_ms: delays.p50,
    delay_p95_ms: delays.p95,
    minutes: activity.received.minutes(now).map((minute, index) => ({
      at: minute.at,
      received: minute.count,
      refused: refused[index]?.count ?? 0,
      p50_ms: spread[index]?.p50 ?? null,
      p95_ms: spread[index]?.p95 ?? null,
    })),
  };
}

interface StoredSource extends Pick<StatusParts, 'read' | 'inbox'> {
  clock: Clock;
  metrics: Metrics;
  secrets: readonly string[];
  /** By resource; those that were never walked are not there. */
  successes: ReadonlyMap<string, StoredSuccess>;
}

/** The status of a source that this process does not keep: what its warehouse and inbox remember, and nothing more. */
export function storedParts(
  source: SourceSettings,
  { clock, metrics, secrets, successes, read, inbox }: StoredSource,
): StatusParts {
  return {
    source,
    activity: new SourceActivity(source.name, clock, metrics),
    read,
    governor: () => null,
    schedule: (resource) => scheduleOf(source, resource, successes.get(resource) ?? null, clock.now()),
    inbox,
    deliveries: null,
    scrub: (text) => scrubOwn(text, secrets),
  };
}

/** When each resource was last walked, by its name. Throws what the warehouse throws. */
export async function readSuccesses(
  { resources }: Pick<SourceSettings, 'resources'>,
  own: Kysely<OwnTables>,
): Promise<Map<string, StoredSuccess>> {
  const successes = new Map<string, StoredSuccess>();
  for (const resource of resources) {
    const checkpoint = await readCheckpoint(own, resource);
    if (checkpoint !== null) successes.set(resource, checkpoint);
  }
  return successes;
}

function scheduleOf(
  { name: source, profile, schedule }: SourceSettings,
  resource: string,
  stored: StoredSuccess | null,
  now: number,
): ScheduleStatus {
  const { timezone, resources, ...usual } = schedule;
  const { incremental = usual.incremental, full = usual.full } = resources[resource] ?? {};
  const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
  const times = timesOf({ source, resource, hasFilter }, schedule);
  const elapsed = { success: null, full: null };
  const { nextAt, overdueAt } = dueOf({ times, stored, elapsed, now, watchedSince: now });
  return { incremental, full, timezone, next_at: nextAt, overdue_at: overdueAt };
}

/** `now` in epoch milliseconds. */
export function apiStatus(profile: Versioned, lifetime: ApiLifetime | null, now: number): ApiStatus {
  const version = versionText(profile);
  return { version, lifetime: lifetime === null ? null : { ...lifetime, days_left: daysLeft(lifetime, now) } };
}
