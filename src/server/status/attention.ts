import { sharedDatabase } from '../../database/databases.ts';
import { lifetimeText } from '../../model/service-notice.ts';
import { agoText, bytesText, countOf, countText, durationText, inText } from '../../observe/figures.ts';
import { CLOCK_SKEW_MS } from '../../sync/prepare-resource.ts';
import type { AlertChannelStatus, ResourceStatus, SourceStatus, StatusSnapshot } from './snapshot.ts';
import { troubleText } from './stored.ts';

/** How bad it is: nothing works; the copy grows old; a person should look. Worst first. */
const SEVERITIES = ['down', 'late', 'look'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** One thing that needs a person. */
export interface Attention {
  severity: Severity;
  /** Empty where it concerns all of them. */
  source: string;
  resource: string | null;
  /** The problem, as one sentence without the name of the resource. */
  what: string;
  /** The remedy. */
  next: string | null;
  /** The command that does it. */
  command: string | null;
}

type Finding = Omit<Attention, 'source' | 'resource'>;
type Checked = Attention & { check: string };
type Check<T> = (status: T, now: number, source: SourceStatus) => Finding | readonly Finding[] | null;

/** A walk without a new page for so long stands still, unless the service asked for a pause. */
const STUCK_MS = 15 * 60_000;
const OLD_DELIVERY_MS = 5 * 60_000;
/** A stated wait that is longer may be a mistake. */
const LONG_WAIT_MS = 86_400_000;
const NEARLY_FULL = 0.9;
/** So much log means that a reader keeps the database from folding it back. */
const LARGE_WAL = 256_000_000;
/** The schedule finds a few changes before their webhooks are worked on. */
const UNTOLD_CHANGES = 10;
const MANY_LIMITED = { requests: 10, part: 0.05 };

/** All that needs attention, the worst first. */
export function attentionOf(snapshot: StatusSnapshot): Attention[] {
  return checkedOf(snapshot).map(({ check: _check, ...found }) => found);
}

/** The same, with the names of the checks that have found it. */
export function checkedOf(snapshot: StatusSnapshot): Checked[] {
  const found = snapshot.sources.flatMap((source) => [
    ...findings(SOURCE_CHECKS, source, null, snapshot.at, source),
    ...source.resources.flatMap((status) => findings(RESOURCE_CHECKS, status, status.resource, snapshot.at, source)),
  ]);
  const refused = snapshot.refused.map(({ source, problem }): Checked => {
    const what = 'It is left out, because its settings cannot be used';
    return { ...finding('down', what, problem.hint), source, resource: null, check: 'refused' };
  });
  return [...refused, ...settingsFindings(snapshot), ...(snapshot.alerts ?? []).flatMap(untold), ...found].toSorted(
    (a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity),
  );
}

function settingsFindings({ settings, at }: StatusSnapshot): Checked[] {
  if (settings === null) return [];
  const what = `The settings were read again ${agoText(settings.at, at)} and cannot be used; the running settings stay: ${settings.message}`;
  return [{ ...finding('look', what, settings.hint), source: '', resource: null, check: 'settings' }];
}

function findings<T>(
  checks: readonly Check<T>[],
  status: T,
  resource: string | null,
  now: number,
  source: SourceStatus,
): Checked[] {
  return checks.flatMap((check) => {
    const found = check(status, now, source);
    const all = found === null ? [] : [found].flat();
    return all.map((each) => Object.assign({ source: source.source, resource, check: check.name }, each));
  });
}

/** True where a success should have come by now. */
export function isOverdue({ schedule }: ResourceStatus, now: number): boolean {
  return schedule.overdue_at !== null && schedule.overdue_at <= now;
}

const SOURCE_CHECKS: readonly Check<SourceStatus>[] = [
  filesStopped,
  function apiEnding({ api: { lifetime } }, now) {
    const said = lifetime === null ? null : lifetimeText(lifetime, now);
    return said?.isEnding === true ? finding('look', sentence(said.what), said.next) : null;
  },
  function unreachable({ warehouse: { problem, read_at } }, now) {
    if (problem === null) return null;
    const since = read_at === null ? '' : `; the figures below are from ${agoText(read_at, now)}`;
    return finding('down', `The warehouse cannot be read: ${problem.message}${since}`, problem.hint);
  },
  function inboxUnreadable({ webhooks }) {
    const problem = webhooks?.problem ?? null;
    return problem && finding('down', `The inbox of webhooks cannot be read: ${problem.message}`, problem.hint);
  },
  function deadDeliveries({ source, webhooks }) {
    if (webhooks === null || webhooks.dead === 0) return null;
    const what = `${countOf(webhooks.dead, 'webhook delivery', 'webhook deliveries')} could not be worked on`;
    return finding('look', what, 'see why, then replay them', `content-sync deliveries list --source ${source}`);
  },
  function fullInbox({ webhooks }) {
    if (webhooks === null || webhooks.full < NEARLY_FULL) return null;
    const what = `${countOf(webhooks.waiting, 'webhook delivery waits', 'webhook deliveries wait')}, ${Math.floor(webhooks.full * 100)} % of what may; beyond that senders are told to come again (503)`;
    return finding('late', what, 'see why they wait; webhook.max_waiting and webhook.max_waiting_size allow more');
  },
  function differentBodies({ source, webhooks }) {
    if (webhooks === null || webhooks.different === 0) return null;
    const what = `${countOf(webhooks.different, 'webhook delivery', 'webhook deliveries')} came under the id of another one with another body`;
    const next = 'the first one stays, and what the other one names is read as well; ask the sender why its ids repeat';
    return finding('look', what, next, `content-sync deliveries list --source ${source}`);
  },
  function oldDelivery({ webhooks }, now) {
    const oldest = webhooks?.oldest_at ?? null;
    if (oldest === null || now - oldest < OLD_DELIVERY_MS) return null;
    const what = `The oldest of ${countOf(webhooks?.waiting ?? 0, 'waiting delivery', 'waiting deliveries')} came ${agoText(oldest, now)}`;
    return finding(
      'late',
      what,
      'see why they wait and whether the service answers; they are tried again by themselves',
    );
  },
  function silentWebhooks({ webhooks, changes: { by_schedule, by_webhook } }) {
    if (webhooks === null || by_schedule < UNTOLD_CHANGES || by_schedule < by_webhook) return null;
    const what = `The schedule found ${countOf(by_schedule, 'change')} in the last hour, webhooks told of ${countText(by_webhook)}`;
    return finding('look', what, `check in the service that its webhooks go to ${webhooks.path} and are not refused`);
  },
  function oftenLimited({ limit: { limited, requests } }) {
    if (limited < MANY_LIMITED.requests || limited < requests * MANY_LIMITED.part) return null;
    const what = `The service refused ${countText(limited)} of ${countOf(requests, 'request')} of the last hour (429)`;
    return finding('look', what, 'lower rate.share or rate.requests_per_second if others use the same key');
  },
  function largeLog({ warehouse: { wal_bytes } }) {
    if (wal_bytes === null || wal_bytes < LARGE_WAL) return null;
    const what = `The warehouse's write-ahead log has grown to ${bytesText(wal_bytes)}`;
    return finding('look', what, 'a program keeps a read transaction open: end it, and the log shrinks by itself');
  },
];

/** Warnings of runs that have a finding of their own, or that ask nothing of anybody. */
const NOT_TOLD: ReadonlySet<string> = new Set([
  'deletes_held',
  'api_deprecated',
  'times_cut',
  'credential_renewed',
  'files_failed',
  'files_refused',
]);

const RESOURCE_CHECKS: readonly Check<ResourceStatus>[] = [
  filesMissing,
  function overdue(status, now) {
    const { overdue_at } = status.schedule;
    if (overdue_at === null || overdue_at > now) return null;
    const last = status.last_success_at;
    const success = last === null ? 'there was no success yet' : `the last success was ${agoText(last, now)}`;
    const error = lastError(status);
    const why = error === null ? '' : `; the last run failed: ${error.message} [${error.code}]`;
    const what = `Overdue for ${durationText((now - overdue_at) / 1_000)}: ${success}${why}`;
    return finding('late', what, error?.hint ?? null);
  },
  function clockAhead({ last_success_at: last }, now) {
    if (last === null || last - now < CLOCK_SKEW_MS) return null;
    const what = `Its last success is ${durationText((last - now) / 1_000)} in the future: the clock was ahead then, or is behind now`;
    return finding('look', what, 'check the clock; the next run corrects the times of the copy');
  },
  function failed(status, now) {
    const error = isOverdue(status, now) ? null : lastError(status);
    return error && finding('late', `The last run failed: ${error.message} [${error.code}]`, error.hint);
  },
  function paused({ resource, paused }, now, { source }) {
    if (paused === null) return null;
    const what = `Paused ${agoText(paused.since, now)} by ${paused.by}: nothing of it is brought in`;
    const command = `content-sync resume --source ${source} ${resource}`;
    return finding('look', what, 'resume it when it may go on', command);
  },
  function stuck({ running }, now, { limit }) {
    if (running === null || now - running.last_page_at < STUCK_MS) return null;
    if (limit.paused_until !== null && limit.paused_until > now) return null;
    const what = `The ${running.mode} walk stands still: its last page came ${agoText(running.last_page_at, now)}`;
    return finding('late', what, 'see the log; a restart goes on at the last page');
  },
  function ownedElsewhere({ owner }, now, { warehouse }) {
    // On a shared database the work goes to whoever is free.
    if (owner === null || sharedDatabase(warehouse.address) !== null) return null;
    const what = `Another process (${owner.name}) works on it since ${agoText(owner.since, now)}`;
    return finding('look', what, 'this one takes over by itself when that one ends');
  },
  function parked({ parked_until }, now, { source }) {
    if (parked_until === null || parked_until <= now) return null;
    const what = `The service asked to be left alone; the next request goes out ${inText(parked_until, now)}`;
    if (parked_until - now <= LONG_WAIT_MS) return finding('look', what, null);
    const next = 'if that is a mistake, forget it; if the wait is in another unit, set rate_limit in the profile';
    return finding('late', what, next, `content-sync retry --now --source ${source}`);
  },
  function heldDeletes({ resource, suspects: { held } }, _now, { source }) {
    if (held === 0) return null;
    const what = `${countOf(held, 'delete')} held back: too many at once to be believed; the rows stay live`;
    const command = `content-sync deletes list --source ${source} ${resource}`;
    return finding('look', what, 'look at them, then confirm or discard', command);
  },
  function warned({ runs }, _now, { files_stopped: stopped }) {
    const last = runs.find(({ status }) => status !== 'running');
    const isTold = (code: string): boolean => NOT_TOLD.has(code) || (code === 'files_waiting' && stopped !== undefined);
    const told = last?.warnings.filter(({ code }) => !isTold(code)) ?? [];
    return told.map(({ message, hint, accepted }) =>
      finding('look', accepted ? `Accepted: ${message}` : message, hint),
    );
  },
  function rejects({ rejects }) {
    const count = rejects.reduce((sum, reject) => sum + reject.count, 0);
    if (count === 0) return null;
    const next = 'each stands in _sync_rejects with its reason and its body';
    return finding('look', `${countOf(count, 'record is', 'records are')} set aside`, next);
  },
];

function sentence(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function finding(severity: Severity, what: string, next: string | null, command: string | null = null): Finding {
  return { severity, what, next, command };
}

/** What the last run of a resource failed with; null if it did not, or if it is being run again. */
export function lastError({ runs, running }: ResourceStatus) {
  const last = runs.find(({ status }) => status !== 'running');
  return running === null && last?.status === 'failed' ? last.error : null;
}

/** How everything stands. `quiet`: nothing is wrong, and there is nothing to be proud of yet. */
export interface Headline {
  tone: Severity | 'fine' | 'quiet';
  text: string;
}

/** How everything stands, in one sentence, and how bad the worst of it is. */
export function headlineOf(snapshot: StatusSnapshot, found: readonly Attention[]): Headline {
  const resources = snapshot.sources.flatMap((source) => source.resources);
  const [worst] = found;
  if (worst !== undefined) {
    const things = countOf(found.length, 'thing needs attention', 'things need attention');
    return { tone: worst.severity, text: `${things}; ${freshnessText(worst, resources, snapshot.at)}` };
  }
  const successes = resources.map((status) => status.last_success_at);
  if (snapshot.sources.length === 0) return { tone: 'quiet', text: 'There are no sources' };
  if (successes.includes(null)) return { tone: 'quiet', text: firstCopyText(resources) };
  const oldest = Math.min(...successes.filter((at) => at !== null));
  const age = resources.length === 0 ? '' : `, the oldest synced ${agoText(oldest, snapshot.at)}`;
  return { tone: 'fine', text: `Everything is fresh: ${countOf(resources.length, 'resource')}${age}` };
}

function freshnessText(worst: Attention, resources: readonly ResourceStatus[], now: number): string {
  const overdue = resources.filter((status) => isOverdue(status, now)).length;
  if (overdue > 0) return `${overdue} of ${countOf(resources.length, 'resource')} overdue`;
  return worst.severity === 'down' ? 'how fresh the data is cannot be told' : 'no resource is overdue';
}

function firstCopyText(resources: readonly ResourceStatus[]): string {
  const done = resources.filter((status) => status.last_success_at !== null).length;
  const running = resources.some((status) => status.running !== null);
  const what = running ? 'The first copy is being made' : 'The first copy has yet to be made';
  return `${what}: ${done} of ${countOf(resources.length, 'resource')} done`;
}

/** Nothing is lost meanwhile, and nothing of what is new comes. */
function filesStopped({ files_stopped: stopped }: SourceStatus, now: number) {
  if (stopped === undefined) return null;
  const since = stopped.since === null ? '' : `, which began ${agoText(stopped.since, now)}`;
  const what = `No files are fetched${since}: ${stopped.message} [${stopped.code}]`;
  return finding('late', what, stopped.hint ?? 'it goes on by itself once it can');
}

/** What is not here of the files that records show; what the service no longer has is no fault of anybody's. */
function filesMissing({ files }: ResourceStatus, _now: number, { source }: SourceStatus) {
  if (files === undefined || files.failed + files.refused === 0) return null;
  const more =
    files.failed > 0 && files.refused > 0 ? `; ${countOf(files.refused, 'file is', 'files are')} refused` : '';
  const next =
    files.failed > 0
      ? 'they are asked for again by themselves; see which'
      : 'the profile does not admit them: see which, and change `files` if they should be copied';
  const command = `content-sync files status --source ${source}`;
  return finding('look', `${troubleText(files)}${more}`, next, command);
}

/** A channel of `alerts` that cannot be reached: who relies on it must be able to see so. */
function untold({ channel, problem, since }: AlertChannelStatus) {
  if (problem === null) return [];
  const from = since === null ? '' : ` since ${new Date(since).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const what = `Alerts do not get through${from}: ${problem}`;
  const command = `content-sync alerts test ${channel}`;
  const next = 'they are tried again; see whether address and credential are right';
  return [{ ...finding('look', what, next, command), source: `alerts.${channel}`, resource: null, check: 'untold' }];
}
