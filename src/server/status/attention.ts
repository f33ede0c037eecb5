// Checks of the status: finds the problems that need a user, with severity and remedy, and the headline.
import type { AlertKind } from '../../config/alerts-schema.ts';
import { sharedDatabase } from '../../database/databases.ts';
import { countOf, countText, durationText, formatAge, formatBytes, formatTimeUntil } from '../../observe/figures.ts';
import { CLOCK_SKEW_MS } from '../../sync/prepare-resource.ts';
import type { AlertChannelStatus, FilesStatus, ResourceStatus, SourceStatus, StatusSnapshot } from './snapshot.ts';

/** `down`: nothing works. `late`: the copy grows old. `look`: a user should check something. Worst first. */
const SEVERITIES = ['down', 'late', 'look'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** What a check finds: a problem that needs a user, and whether `alerts` report it. */
interface CheckResult {
  severity: Severity;
  /** The problem, as one sentence without the name of the resource. */
  what: string;
  next: string | null;
  command: string | null;
  /** Absent if only the page shows it; so are the members below. */
  alert?: AlertKind;
  /** When it began, epoch milliseconds; absent if that is not known. */
  since?: number | null;
  count?: number;
}

/** A problem, and the source and resource that have it; `source` is empty if it concerns all sources. */
export type Attention = Omit<CheckResult, 'alert' | 'since' | 'count'> & {
  source: string;
  resource: string | null;
};

/** The same with the name of the check that found it, for alerts. */
export type FoundProblem = CheckResult & { source: string; resource: string | null; check: string };

type Check<T> = (status: T, now: number, source: SourceStatus) => CheckResult | readonly CheckResult[] | null;

/** A scan without a new page for this long is stuck, unless the service requested a pause. */
const STUCK_MS = 15 * 60_000;
const OLD_DELIVERY_MS = 5 * 60_000;
/** The service may have stated a longer wait by mistake. */
const LONG_WAIT_MS = 86_400_000;
const NEARLY_FULL = 0.9;
/** The log only grows this large if a reader keeps the database from truncating it. */
const LARGE_WAL_BYTES = 256_000_000;
/** The schedule finds a few changes before their webhooks are processed. */
const MIN_UNREPORTED_CHANGES = 10;
const MANY_LIMITED = { requests: 10, part: 0.05 };
/** Fewer failed files of a resource may just be broken at the service. */
const MIN_FAILED_FILES = 25;

/** All problems that need a user, the worst first. */
export function attentionOf(snapshot: StatusSnapshot): Attention[] {
  return findProblems(snapshot).map(({ severity, source, resource, what, next, command }) => {
    return { severity, source, resource, what, next, command };
  });
}

/** The same, with what alerts need. */
export function findProblems(snapshot: StatusSnapshot): FoundProblem[] {
  const { at } = snapshot;
  const found = snapshot.sources.flatMap((source) => [
    ...runChecks(SOURCE_CHECKS, source, null, at, source),
    ...source.resources.flatMap((status) => runChecks(RESOURCE_CHECKS, status, status.resource, at, source)),
  ]);
  const refused = snapshot.refused.map(({ source, problem }): FoundProblem => {
    const what = 'It is left out, because its settings cannot be used';
    return { ...down(what, problem.hint, null, { alert: 'failed' }), source, resource: null, check: 'refused' };
  });
  return [...refused, ...(snapshot.alerts ?? []).flatMap(checkChannel), ...found].toSorted(
    (a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity),
  );
}

function runChecks<T>(
  checks: readonly Check<T>[],
  status: T,
  resource: string | null,
  now: number,
  source: SourceStatus,
): FoundProblem[] {
  return checks.flatMap((check) => {
    const found = [check(status, now, source) ?? []].flat();
    return found.map((each) => Object.assign({ source: source.source, resource, check: check.name }, each));
  });
}

type ForAlerts = Pick<CheckResult, 'alert' | 'since' | 'count'>;

const down = createFinding('down');
const late = createFinding('late');
const look = createFinding('look');

function createFinding(severity: Severity) {
  return (what: string, next: string | null, command: string | null = null, alert: ForAlerts = {}): CheckResult => {
    return { severity, what, next, command, ...alert };
  };
}

/** True if a success should have come by now. */
export function isOverdue({ schedule }: ResourceStatus, now: number): boolean {
  return schedule.overdue_at !== null && schedule.overdue_at <= now;
}

const SOURCE_CHECKS: readonly Check<SourceStatus>[] = [
  function filesStopped({ files_stopped: stopped }, now) {
    if (stopped === undefined) return null;
    const since = stopped.since === null ? '' : `, which began ${formatAge(stopped.since, now)}`;
    const what = `No files are fetched${since}: ${stopped.message} [${stopped.code}]`;
    return late(what, stopped.hint ?? 'it resumes by itself', null, { alert: 'files' });
  },
  function unreachable({ warehouse: { problem, read_at } }, now) {
    if (problem === null) return null;
    const since = read_at === null ? '' : `; the figures below are from ${formatAge(read_at, now)}`;
    const what = `The warehouse cannot be read: ${problem.message}${since}`;
    return down(what, problem.hint, null, problem.code === 'warehouse_opening' ? {} : { alert: 'failed' });
  },
  function inboxUnreadable({ webhooks }) {
    const problem = webhooks?.problem ?? null;
    if (problem === null) return null;
    return down(`The inbox of webhooks cannot be read: ${problem.message}`, problem.hint, null, { alert: 'failed' });
  },
  function deadDeliveries({ source, webhooks }) {
    if (webhooks === null || webhooks.dead === 0) return null;
    const what = `${countOf(webhooks.dead, 'webhook delivery', 'webhook deliveries')} could not be processed`;
    const command = `content-sync deliveries list --source ${source}`;
    return look(what, 'see why, then replay them', command, { alert: 'dead_deliveries' });
  },
  function fullInbox({ webhooks }) {
    if (webhooks === null || webhooks.full < NEARLY_FULL) return null;
    const what = `${countOf(webhooks.waiting, 'webhook delivery waits', 'webhook deliveries wait')}, ${Math.floor(webhooks.full * 100)} % of the maximum; further deliveries will be refused (503)`;
    return late(what, 'see why they wait; webhook.max_waiting and webhook.max_waiting_size allow more');
  },
  function differentBodies({ source, webhooks }) {
    if (webhooks === null || webhooks.different === 0) return null;
    const what = `${countOf(webhooks.different, 'webhook delivery', 'webhook deliveries')} had the id of another one and another body`;
    const next = 'both are processed; ask the sender why its ids repeat';
    return look(what, next, `content-sync deliveries list --source ${source}`);
  },
  function oldDelivery({ webhooks }, now) {
    const oldest = webhooks?.oldest_at ?? null;
    if (oldest === null || now - oldest < OLD_DELIVERY_MS) return null;
    const waiting = countOf(webhooks?.waiting ?? 0, 'waiting delivery', 'waiting deliveries');
    const next = 'see why they wait and whether the service answers; they are retried automatically';
    return late(`The oldest of ${waiting} came ${formatAge(oldest, now)}`, next);
  },
  function silentWebhooks({ webhooks, changes: { by_schedule, by_webhook } }) {
    if (webhooks === null || by_schedule < MIN_UNREPORTED_CHANGES || by_schedule < by_webhook) return null;
    const what = `The schedule found ${countOf(by_schedule, 'change')} in the last hour, webhooks reported ${countText(by_webhook)}`;
    return look(what, `check in the service that its webhooks go to ${webhooks.path} and are not refused`);
  },
  function oftenLimited({ limit: { limited, requests } }) {
    if (limited < MANY_LIMITED.requests || limited < requests * MANY_LIMITED.part) return null;
    const what = `The service refused ${countText(limited)} of ${countOf(requests, 'request')} of the last hour (429)`;
    return look(what, 'lower rate.share or rate.requests_per_second if others use the same key');
  },
  function largeLog({ warehouse: { wal_bytes } }) {
    if (wal_bytes === null || wal_bytes < LARGE_WAL_BYTES) return null;
    const what = `The warehouse's write-ahead log has grown to ${formatBytes(wal_bytes)}`;
    return look(what, 'a program keeps a read transaction open: end it, and the log shrinks by itself');
  },
];

/** Warnings of runs that another check reports, or that need no action. */
const NOT_REPORTED: ReadonlySet<string> = new Set(['deletes_held', 'times_cut', 'files_failed', 'files_refused']);

const RESOURCE_CHECKS: readonly Check<ResourceStatus>[] = [
  /** Files that the service no longer has are not missing. */
  function filesMissing({ files }, _now, { source }) {
    if (files === undefined || files.failed + files.refused === 0) return null;
    const hasBoth = files.failed > 0 && files.refused > 0;
    const more = hasBoth ? `; ${countOf(files.refused, 'file is', 'files are')} refused` : '';
    const next =
      files.failed > 0
        ? 'they are retried automatically; see which'
        : 'the profile does not admit them: see which, and change `files` if they should be copied';
    const command = `content-sync files status --source ${source}`;
    const alert = files.failed < MIN_FAILED_FILES ? {} : ({ alert: 'files' } as const);
    return look(`${describeFailedFiles(files)}${more}`, next, command, alert);
  },
  function overdue(status, now) {
    const { overdue_at } = status.schedule;
    if (overdue_at === null || overdue_at > now) return null;
    const last = status.last_success_at;
    const success = last === null ? 'there was no success yet' : `the last success was ${formatAge(last, now)}`;
    const error = lastError(status);
    const why = error === null ? '' : `; the last run failed: ${error.message} [${error.code}]`;
    const what = `Overdue for ${durationText((now - overdue_at) / 1_000)}: ${success}${why}`;
    return late(what, error?.hint ?? null, null, { alert: 'overdue', since: overdue_at });
  },
  function clockAhead({ last_success_at: last }, now) {
    if (last === null || last - now < CLOCK_SKEW_MS) return null;
    const what = `Its last success is ${durationText((last - now) / 1_000)} in the future: the clock was ahead then, or is behind now`;
    return look(what, 'check the clock; the next run corrects the times of the copy');
  },
  function failed(status, now) {
    const error = isOverdue(status, now) ? null : lastError(status);
    return error && late(`The last run failed: ${error.message} [${error.code}]`, error.hint);
  },
  function paused({ resource, paused }, now, { source }) {
    if (paused === null) return null;
    const what = `Paused ${formatAge(paused.since, now)} by ${paused.by}: it is not synced`;
    return look(what, 'resume it when it may continue', `content-sync resume --source ${source} ${resource}`);
  },
  function stuck({ running }, now, { limit }) {
    if (running === null || now - running.last_page_at < STUCK_MS) return null;
    if (limit.paused_until !== null && limit.paused_until > now) return null;
    const what = `The ${running.mode} sync is stuck: its last page came ${formatAge(running.last_page_at, now)}`;
    return late(what, 'see the log; a restart resumes at the last page');
  },
  function ownedElsewhere({ owner }, now, { warehouse }) {
    // On a shared database any process may do the work.
    if (owner === null || sharedDatabase(warehouse.address) !== null) return null;
    const what = `Another process (${owner.name}) has been syncing it since ${formatAge(owner.since, now)}`;
    return look(what, 'this process takes over by itself when that one ends');
  },
  function parked({ parked_until }, now, { source }) {
    if (parked_until === null || parked_until <= now) return null;
    const what = `The service requested a wait; the next request is sent ${formatTimeUntil(parked_until, now)}`;
    if (parked_until - now <= LONG_WAIT_MS) return look(what, null);
    const next = 'if that is a mistake, forget it; if the wait is in another unit, set rate_limit in the profile';
    return late(what, next, `content-sync retry --now --source ${source}`);
  },
  function heldDeletes({ resource, suspects: { held, held_since } }, _now, { source }) {
    if (held === 0) return null;
    const what = `${countOf(held, 'delete')} held: too many at once to be accepted; the rows stay live`;
    const command = `content-sync deletes list --source ${source} ${resource}`;
    return look(what, 'look at them, then confirm or discard', command, { alert: 'held_deletes', since: held_since });
  },
  function warned({ runs }, _now, { files_stopped: stopped }) {
    const last = runs.find(({ status }) => status !== 'running');
    const reported = last?.warnings.filter(
      ({ code }) => !NOT_REPORTED.has(code) && !(code === 'files_waiting' && stopped !== undefined),
    );
    return (
      reported?.map(({ message, hint, accepted }) => look(accepted ? `Accepted: ${message}` : message, hint)) ?? []
    );
  },
  function rejects({ rejects }) {
    const count = rejects.reduce((sum, reject) => sum + reject.count, 0);
    if (count === 0) return null;
    const next = '_sync_rejects has the reason and the body of each';
    return look(`${countOf(count, 'record is', 'records are')} rejected`, next, null, { alert: 'rejects', count });
  },
];

/** Such as `3 files could not be fetched so far, such as file of a7: answered 503 [http_503]`. */
function describeFailedFiles({ failed, refused, trouble }: FilesStatus): string {
  const isFailed = failed > 0;
  const what = isFailed
    ? `${countOf(failed, 'file')} could not be fetched so far`
    : `${countOf(refused, 'file is', 'files are')} refused`;
  if (trouble === null) return what;
  const code = trouble.code === null ? '' : ` [${trouble.code}]`;
  return `${what}, such as ${trouble.field} of ${trouble.record_id}: ${trouble.message}${code}`;
}

/** The error of the last run of a resource; null if it succeeded, or if the resource is being synced again. */
function lastError({ runs, running }: ResourceStatus) {
  const last = runs.find(({ status }) => status !== 'running');
  return running === null && last?.status === 'failed' ? last.error : null;
}

/** Reports an unreachable channel of `alerts`: users who rely on it must be able to see that. */
function checkChannel({ channel, problem, since }: AlertChannelStatus): FoundProblem[] {
  if (problem === null) return [];
  const from = since === null ? '' : ` since ${new Date(since).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const next = 'they are retried automatically; check address and credential';
  const found = look(`Alerts do not get through${from}: ${problem}`, next, `content-sync alerts test ${channel}`);
  return [{ ...found, source: `alerts.${channel}`, resource: null, check: 'channel' }];
}

/** The overall state. `quiet`: nothing is wrong, and there is no complete copy yet. */
export interface Headline {
  tone: Severity | 'fine' | 'quiet';
  text: string;
}

/** The overall state in one sentence, and the severity of the worst problem. */
export function headlineOf(snapshot: StatusSnapshot, found: readonly Attention[]): Headline {
  const resources = snapshot.sources.flatMap((source) => source.resources);
  const [worst] = found;
  const total = countOf(resources.length, 'resource');
  if (worst !== undefined) {
    const overdue = resources.filter((status) => isOverdue(status, snapshot.at)).length;
    const unknown = worst.severity === 'down' ? 'freshness unknown' : 'no resource is overdue';
    const freshness = overdue > 0 ? `${overdue} of ${total} overdue` : unknown;
    const things = countOf(found.length, 'thing needs attention', 'things need attention');
    return { tone: worst.severity, text: `${things}; ${freshness}` };
  }
  if (snapshot.sources.length === 0) return { tone: 'quiet', text: 'There are no sources' };
  const successes = resources.flatMap((status) => status.last_success_at ?? []);
  if (successes.length < resources.length) {
    const isRunning = resources.some(({ running }) => running !== null);
    const what = isRunning ? 'The first copy is being made' : 'The first copy has yet to be made';
    return { tone: 'quiet', text: `${what}: ${successes.length} of ${total} done` };
  }
  const age = resources.length === 0 ? '' : `, the oldest synced ${formatAge(Math.min(...successes), snapshot.at)}`;
  return { tone: 'fine', text: `Everything is fresh: ${total}${age}` };
}
