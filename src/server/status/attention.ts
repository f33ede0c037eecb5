// Finds the problems that need a user. Each check below is the only place that words its problem and the remedy:
// the page, /status.json and the alerts show what it returns.
import type { AlertKind } from '../../config/alerts-schema.ts';
import { sharedDatabase } from '../../database/databases.ts';
import {
  formatAge,
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  formatTimeUntil,
} from '../../observe/format-values.ts';
import { CLOCK_SKEW_MS } from '../../sync/prepare-resource.ts';
import { endedStatus, isOfFiles } from '../../sync/report.ts';
import type {
  AlertChannelStatus,
  FilesStatus,
  PastRun,
  ResourceStatus,
  SourceStatus,
  StatusSnapshot,
} from './snapshot.ts';

/** `down`: nothing works. `late`: the copy grows old. `look`: a user should check something. Worst first. */
const SEVERITIES = ['down', 'late', 'look'] as const;
export type Severity = (typeof SEVERITIES)[number];

interface Finding {
  severity: Severity;
  /** The problem, as one sentence without the name of the resource. */
  what: string;
  /** What the user should do; null if nothing can be done. */
  next: string | null;
  command?: string;
  /** The kinds of alerts that report it; none if absent. */
  alerts?: readonly AlertKind[];
  /** When it began, epoch milliseconds; absent if that is not known. */
  since?: number | null;
  /** Number of rejected records; 1 if absent. */
  count?: number;
  /** A message groups problems with the same cause: the name of the check if absent. */
  cause?: string;
}

/** A problem that needs a user, and the source and resource that have it. */
export interface Attention extends Omit<Finding, 'command'> {
  source: string;
  resource: string | null;
  command: string | null;
  cause: string;
}

type Check<T> = (status: T, now: number, source: SourceStatus) => Finding | readonly Finding[] | null;

/** The headings of the alerts; what a check finds follows them. */
export const ALERT_TITLES: Readonly<Record<AlertKind, string>> = {
  failed: 'failed',
  overdue: 'overdue',
  partial: 'partial',
  held_deletes: 'deletes held back',
  dead_deliveries: 'webhook deliveries given up',
  rejects: 'rejected records',
  files: 'files not fetched',
  schema_change: 'tables changed',
};

/** A scan without a new page for this long is stuck, unless the service requested a pause. */
const STUCK_MS = 15 * 60_000;
const OLD_DELIVERY_MS = 5 * 60_000;
/** The service may have stated a longer wait by mistake. */
const LONG_WAIT_MS = 86_400_000;
/** Part of the maximum number or size of waiting deliveries. */
const NEARLY_FULL = 0.9;
/** The log only grows this large if a reader keeps the database from truncating it. */
const LARGE_WAL_BYTES = 256_000_000;
/** The schedule finds a few changes before their webhooks are processed. */
const MIN_UNREPORTED_CHANGES = 10;
/** Responses with 429 of the last hour: at least this many, and this part of all requests. */
const MANY_LIMITED = { requests: 10, part: 0.05 };
/** Fewer failed files of a resource may just be broken at the service. */
const MIN_FAILED_FILES = 25;

/** All problems that need a user, the worst first. */
export function findProblems(snapshot: StatusSnapshot): Attention[] {
  const { at } = snapshot;
  const refused = snapshot.refused.map(({ source, problem }): Attention => {
    const what = 'It is left out, because its settings cannot be used';
    const subject = { source, resource: null, command: null, cause: 'refused' };
    return { severity: 'down', what, next: problem.hint, alerts: ['failed'], ...subject };
  });
  const found = snapshot.sources.flatMap((source) => [
    ...runChecks(SOURCE_CHECKS, source, null, at, source),
    ...source.resources.flatMap((status) => runChecks(RESOURCE_CHECKS, status, status.resource, at, source)),
  ]);
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
): Attention[] {
  return checks.flatMap((check) =>
    [check(status, now, source) ?? []].flat().map((found): Attention => {
      return Object.assign({ command: null, cause: check.name, source: source.source, resource }, found);
    }),
  );
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
    return { severity: 'late', what, next: stopped.hint ?? 'it resumes by itself', alerts: ['files'] };
  },
  function unreachable({ warehouse: { problem, read_at } }, now) {
    if (problem === null) return null;
    const since = read_at === null ? '' : `; the figures below are from ${formatAge(read_at, now)}`;
    const what = `The warehouse cannot be read: ${problem.message}${since}`;
    const alerts = problem.code === 'warehouse_opening' ? [] : (['failed'] as const);
    return { severity: 'down', what, next: problem.hint, alerts };
  },
  function inboxUnreadable({ webhooks }) {
    const problem = webhooks?.problem ?? null;
    if (problem === null) return null;
    const what = `The inbox of webhooks cannot be read: ${problem.message}`;
    return { severity: 'down', what, next: problem.hint, alerts: ['failed'] };
  },
  function deadDeliveries({ source, webhooks }) {
    if (webhooks === null || webhooks.dead === 0) return null;
    const what = `${formatCount(webhooks.dead, 'webhook delivery', 'webhook deliveries')} could not be processed`;
    const command = `content-sync deliveries list --source ${source}`;
    return { severity: 'look', what, next: 'see why, then replay them', command, alerts: ['dead_deliveries'] };
  },
  function fullInbox({ webhooks }) {
    if (webhooks === null || webhooks.full < NEARLY_FULL) return null;
    const waiting = formatCount(webhooks.waiting, 'webhook delivery waits', 'webhook deliveries wait');
    const what = `${waiting}, ${Math.floor(webhooks.full * 100)} % of the maximum; further deliveries will be refused (503)`;
    const next = 'see why they wait; webhook.max_waiting and webhook.max_waiting_size allow more';
    return { severity: 'late', what, next };
  },
  function differentBodies({ source, webhooks }) {
    if (webhooks === null || webhooks.different === 0) return null;
    const what = `${formatCount(webhooks.different, 'webhook delivery', 'webhook deliveries')} had the id of another one and another body`;
    const next = 'both are processed; ask the sender why its ids repeat';
    return { severity: 'look', what, next, command: `content-sync deliveries list --source ${source}` };
  },
  function oldDelivery({ webhooks }, now) {
    const oldest = webhooks?.oldest_at ?? null;
    if (oldest === null || now - oldest < OLD_DELIVERY_MS) return null;
    const waiting = formatCount(webhooks?.waiting ?? 0, 'waiting delivery', 'waiting deliveries');
    const next = 'see why they wait and whether the service answers; they are retried automatically';
    return { severity: 'late', what: `The oldest of ${waiting} came ${formatAge(oldest, now)}`, next };
  },
  function silentWebhooks({ webhooks, changes: { by_schedule, by_webhook } }) {
    if (webhooks === null || by_schedule < MIN_UNREPORTED_CHANGES || by_schedule < by_webhook) return null;
    const what = `The schedule found ${formatCount(by_schedule, 'change')} in the last hour, webhooks reported ${formatNumber(by_webhook)}`;
    const next = `check in the service that its webhooks go to ${webhooks.path} and are not refused`;
    return { severity: 'look', what, next };
  },
  function oftenLimited({ limit: { limited, requests } }) {
    if (limited < MANY_LIMITED.requests || limited < requests * MANY_LIMITED.part) return null;
    const what = `The service refused ${formatNumber(limited)} of ${formatCount(requests, 'request')} of the last hour (429)`;
    const next = 'lower rate.share or rate.requests_per_second if others use the same key';
    return { severity: 'look', what, next };
  },
  function largeLog({ warehouse: { wal_bytes } }) {
    if (wal_bytes === null || wal_bytes < LARGE_WAL_BYTES) return null;
    const what = `The warehouse's write-ahead log has grown to ${formatBytes(wal_bytes)}`;
    const next = 'a program keeps a read transaction open: end it, and the log shrinks by itself';
    return { severity: 'look', what, next };
  },
];

/** Warnings of runs that another check reports, or that need no action. */
const NOT_REPORTED: ReadonlySet<string> = new Set(['deletes_held', 'times_cut', 'files_failed', 'files_refused']);

const RESOURCE_CHECKS: readonly Check<ResourceStatus>[] = [
  /** Files that the service no longer has are not missing. */
  function filesMissing({ files }, _now, { source }) {
    if (files === undefined || files.failed + files.refused === 0) return null;
    const hasBoth = files.failed > 0 && files.refused > 0;
    const more = hasBoth ? `; ${formatCount(files.refused, 'file is', 'files are')} refused` : '';
    const next =
      files.failed > 0
        ? 'they are retried automatically; see which'
        : 'the profile does not admit them: see which, and change `files` if they should be copied';
    const command = `content-sync files status --source ${source}`;
    const alerts = files.failed < MIN_FAILED_FILES ? [] : (['files'] as const);
    return { severity: 'look', what: `${describeFailedFiles(files)}${more}`, next, command, alerts };
  },
  function overdue(status, now) {
    const { last_success_at: last, schedule } = status;
    if (schedule.overdue_at === null || !isOverdue(status, now)) return null;
    const success = last === null ? 'there was no success yet' : `the last success was ${formatAge(last, now)}`;
    const what = `Overdue for ${formatDuration((now - schedule.overdue_at) / 1_000)}: ${success}`;
    return { severity: 'late', what, next: null, alerts: ['overdue'], since: schedule.overdue_at };
  },
  function clockAhead({ last_success_at: last }, now) {
    if (last === null || last - now < CLOCK_SKEW_MS) return null;
    const what = `Its last success is ${formatDuration((last - now) / 1_000)} in the future: the clock was ahead then, or is behind now`;
    return { severity: 'look', what, next: 'check the clock; the next run corrects the times of the copy' };
  },
  function failed({ runs }) {
    const { last, since } = findLastEnd(runs);
    if (last?.status !== 'failed') return null;
    const { message, code, hint } = last.error ?? { message: 'see the log', code: 'failed', hint: null };
    const what = `The last run failed: ${message} [${code}]`;
    return { severity: 'late', what, next: hint, alerts: ['failed'], since, cause: code };
  },
  function paused({ resource, paused }, now, { source }) {
    if (paused === null) return null;
    const what = `Paused ${formatAge(paused.since, now)} by ${paused.by}: it is not synced`;
    const command = `content-sync control resume --source ${source} ${resource}`;
    return { severity: 'look', what, next: 'resume it when it may continue', command };
  },
  function stuck({ running }, now, { limit }) {
    if (running === null || now - running.last_page_at < STUCK_MS) return null;
    if (limit.paused_until !== null && limit.paused_until > now) return null;
    const what = `The ${running.mode} sync is stuck: its last page came ${formatAge(running.last_page_at, now)}`;
    return { severity: 'late', what, next: 'see the log; a restart resumes at the last page' };
  },
  function ownedElsewhere({ owner }, now, { warehouse }) {
    // On a shared database any process may do the work.
    if (owner === null || sharedDatabase(warehouse.address) !== null) return null;
    const what = `Another process (${owner.name}) has been syncing it since ${formatAge(owner.since, now)}`;
    return { severity: 'look', what, next: 'this process takes over by itself when that one ends' };
  },
  function parked({ parked_until }, now, { source }) {
    if (parked_until === null || parked_until <= now) return null;
    const what = `The service requested a wait; the next request is sent ${formatTimeUntil(parked_until, now)}`;
    if (parked_until - now <= LONG_WAIT_MS) return { severity: 'look', what, next: null };
    const next = 'if that is a mistake, forget it; if the wait is in another unit, set rate_limit in the profile';
    return { severity: 'late', what, next, command: `content-sync control retry --now --source ${source}` };
  },
  function heldDeletes({ resource, suspects: { held, held_since, held_why }, runs }, _now, { source }) {
    if (held === 0) return null;
    const next = 'look at them; then confirm those that are gone, and discard the others';
    const command = `content-sync deletes list --source ${source} ${resource}`;
    const alerts: AlertKind[] = isPartialBy(runs, 'held') ? ['held_deletes', 'partial'] : ['held_deletes'];
    return { severity: 'look', what: describeHeldDeletes(held, held_why), next, command, alerts, since: held_since };
  },
  function warned({ runs }, _now, { files_stopped: stopped }) {
    const { last, since } = findLastEnd(runs);
    const reported = (last?.warnings ?? []).filter(
      ({ code }) => !NOT_REPORTED.has(code) && !(code === 'files_waiting' && stopped !== undefined),
    );
    // The first one is why the run was partial; `heldDeletes` and `rejects` report their own reasons.
    const reason = reported.find((warning) => warning.accepted !== true && !isOfFiles(warning));
    return reported.map((warning): Finding => {
      const { message, hint, accepted, code } = warning;
      const alerts = last?.status === 'partial' && warning === reason ? (['partial'] as const) : [];
      const what = accepted ? `Accepted: ${message}` : message;
      return { severity: 'look', what, next: hint, alerts, since, cause: code };
    });
  },
  function rejects({ rejects, runs }) {
    const count = rejects.reduce((sum, reject) => sum + reject.count, 0);
    if (count === 0) return null;
    const what = `${formatCount(count, 'record is', 'records are')} rejected`;
    const next = '_sync_rejects has the reason and the body of each';
    const alerts: AlertKind[] = isPartialBy(runs, 'rejected') ? ['rejects', 'partial'] : ['rejects'];
    return { severity: 'look', what, next, alerts, count };
  },
];

/** Such as `3 files could not be fetched so far, such as file of a7: answered 503 [http_503]`. */
function describeFailedFiles({ failed, refused, trouble }: FilesStatus): string {
  const isFailed = failed > 0;
  const what = isFailed
    ? `${formatCount(failed, 'file')} could not be fetched so far`
    : `${formatCount(refused, 'file is', 'files are')} refused`;
  if (trouble === null) return what;
  const code = trouble.code === null ? '' : ` [${trouble.code}]`;
  return `${what}, such as ${trouble.field} of ${trouble.record_id}: ${trouble.message}${code}`;
}

/** Such as `1,870 deletes are held: 1,870 of 1,204,118 rows would go; at most 500 may. The rows stay live`. */
export function describeHeldDeletes(held: number, why: string | null): string {
  return `${formatCount(held, 'delete is', 'deletes are')} held: ${why ?? 'too many at once to be accepted'}; the rows stay live`;
}

/**
 * The last run that succeeded or failed, and the start of the first run in a row with its status: deferred and
 * interrupted runs decide nothing. Warnings about files do not count: `filesMissing` and `filesStopped` report those.
 */
function findLastEnd(runs: readonly PastRun[]): { last: PastRun | undefined; since: number | null } {
  const ended = runs.filter(({ status }) => ['ok', 'partial', 'failed'].includes(status)).map(withoutFileWarnings);
  const [last] = ended;
  // Runs are sorted from the newest to the oldest.
  const other = ended.findIndex(({ status }) => status !== last?.status);
  const first = other === -1 ? ended.at(-1) : ended[other - 1];
  return { last, since: first?.started_at ?? null };
}

function withoutFileWarnings(run: PastRun): PastRun {
  if (run.status === 'failed' || !run.warnings.some(isOfFiles)) return run;
  const others = run.warnings.filter((warning) => !isOfFiles(warning));
  return { ...run, status: endedStatus(run, others) };
}

/** True if the last run is partial because of rejected records or held deletes. */
function isPartialBy(runs: readonly PastRun[], count: 'rejected' | 'held'): boolean {
  const { last } = findLastEnd(runs);
  return last?.status === 'partial' && last[count] > 0;
}

/** Reports an unreachable channel of `alerts`: users who rely on it must be able to see that. */
function checkChannel({ channel, problem, since }: AlertChannelStatus): Attention[] {
  if (problem === null) return [];
  const from = since === null ? '' : ` since ${new Date(since).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const what = `Alerts do not get through${from}: ${problem}`;
  const next = 'they are retried automatically; check address and credential';
  const command = `content-sync config alerts test ${channel}`;
  return [{ severity: 'look', what, next, command, source: `alerts.${channel}`, resource: null, cause: 'channel' }];
}

/** The overall state. `quiet`: nothing is wrong, and there is no complete copy yet. */
export interface Headline {
  tone: Severity | 'fine' | 'quiet';
  text: string;
}

/** The overall state in one sentence, and the severity of the worst problem. */
export function buildHeadline(snapshot: StatusSnapshot, found: readonly Attention[]): Headline {
  const resources = snapshot.sources.flatMap((source) => source.resources);
  const [worst] = found;
  const total = formatCount(resources.length, 'resource');
  if (worst !== undefined) {
    const overdue = resources.filter((status) => isOverdue(status, snapshot.at)).length;
    const unknown = worst.severity === 'down' ? 'freshness unknown' : 'no resource is overdue';
    const freshness = overdue > 0 ? `${overdue} of ${total} overdue` : unknown;
    const things = formatCount(found.length, 'thing needs attention', 'things need attention');
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
