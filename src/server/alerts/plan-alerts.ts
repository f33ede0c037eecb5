import { ALERT_KINDS, type AlertKind, type ChannelSettings } from '../../config/alerts-schema.ts';
import type { SentAlert } from '../../database/state/server-state.ts';
import { formatColumnChange } from '../../model/table.ts';
import { endedStatus, isOfFiles } from '../../sync/report.ts';
import { findProblems } from '../status/attention.ts';
import type { PastRun, SourceStatus, StatusSnapshot } from '../status/snapshot.ts';

/** Something that a channel may report; times in epoch milliseconds. */
export interface Condition {
  kind: AlertKind;
  source: string;
  resource: string | null;
  since: number;
  /** The problem, as one sentence without the name of the resource. */
  what: string;
  /** The remedy. */
  next: string | null;
  /** The command that does it. */
  command: string | null;
  /** A message groups conditions with the same kind and cause. */
  cause: string;
  /** Of rejected records, their number; else 1. */
  count: number;
  /** Distinguishes conditions of the same kind and resource; empty if there is at most one. */
  detail: string;
}

/** All conditions of one snapshot. */
export interface Judgement {
  conditions: Condition[];
  /** Sources whose state is known: the end of a condition is reported for these only. */
  knownSources: ReadonlySet<string>;
  /** Resources with a complete copy: later changes of their tables are reported. */
  copied: { source: string; resource: string; lastChangeAt: number }[];
}

/** The name under which the warehouse of the source stores a condition. */
export function alertName({ kind, resource, detail }: Condition): string {
  return [kind, resource, detail].filter((part) => part !== null && part !== '').join(' ');
}

/** Finds the conditions in what the page shows. Pure. */
export function judge(snapshot: StatusSnapshot): Judgement {
  const readable = snapshot.sources.filter(({ warehouse }) => warehouse.problem === null);
  const known = new Set([...readable, ...snapshot.refused].map(({ source }) => source));
  const found = findProblems(snapshot).flatMap(({ alert, check, source, resource, ...problem }): Condition[] => {
    // What an unreadable warehouse held when it was last read is out of date.
    if (alert === undefined || (resource !== null && !known.has(source))) return [];
    const { what, next, command, since, count = 1, detail = '' } = problem;
    const condition = { kind: alert, source, resource, what, next, command, cause: check, count, detail };
    return [{ ...condition, since: since ?? snapshot.at }];
  });
  const copies = readable.flatMap(completeCopies);
  return {
    conditions: [...found, ...readable.flatMap(judgeRuns), ...copies.flatMap(({ changes }) => changes)],
    knownSources: known,
    copied: copies.map(({ source, resource, lastChangeAt }) => ({ source, resource, lastChangeAt })),
  };
}

/** Resources with a complete copy, and the changes of their tables. */
function completeCopies({ source, resources, schema_changes: all }: SourceStatus) {
  return resources.flatMap(({ resource, last_full_at }) => {
    if (last_full_at === null) return [];
    const own = all.filter((change) => change.resource === resource);
    const changes = own.map((change): Condition => {
      const { table, column, changed_at: since } = change;
      const what = `${table}.${column}: ${formatColumnChange(change)}`;
      const base = { kind: 'schema_change', source, resource, next: null, command: null } as const;
      return Object.assign(base, { since, what, cause: resource, count: 1, detail: '' });
    });
    return [{ source, resource, lastChangeAt: Math.max(last_full_at, ...changes.map(({ since }) => since)), changes }];
  });
}

/** Judges the last ended run of each resource; a deferred or interrupted one changes nothing. */
function judgeRuns({ source, resources }: SourceStatus): Condition[] {
  return resources.flatMap(({ resource, runs }): Condition[] => {
    const ended = runs.filter(({ status }) => ['ok', 'partial', 'failed'].includes(status)).map(withoutFiles);
    const [last] = ended;
    if (last === undefined || last.status === 'ok') return [];
    const kind = last.status === 'failed' ? 'failed' : 'partial';
    const before = ended.findIndex(({ status }) => status !== kind);
    const since = ended.at(before === -1 ? -1 : before - 1)?.started_at ?? last.started_at;
    return [{ kind, source, resource, since, command: null, count: 1, detail: '', ...explainRun(last, kind) }];
  });
}

/** Ignores the warnings about files, which alerts of kind `files` report. */
function withoutFiles(run: PastRun): PastRun {
  if (run.status === 'failed' || !run.warnings.some(isOfFiles)) return run;
  const warnings = run.warnings.filter((warning) => !isOfFiles(warning));
  return { ...run, warnings, status: endedStatus(run, warnings) };
}

function explainRun({ error, warnings, rejected, held }: PastRun, kind: 'failed' | 'partial') {
  const isFailed = kind === 'failed';
  const reason = isFailed ? error : warnings.find(({ accepted }) => accepted !== true);
  const what = isFailed ? 'The last run failed' : 'The last run was partial';
  if (reason) {
    const code = isFailed ? ` [${reason.code}]` : '';
    return { what: `${what}: ${reason.message}${code}`, next: reason.hint, cause: reason.code };
  }
  const why = rejected > 0 ? ': records were set aside' : held > 0 ? ': deletes were held back' : '';
  return { what: `${what}${isFailed ? '' : why}`, next: 'see the status page, or run content-sync status', cause: why };
}

/** What a process knows of a channel; times in epoch milliseconds. */
export interface ChannelNotes {
  /** When each condition that is not reported yet was first seen, by `keyOf`. */
  seen: ReadonlyMap<string, number>;
  /** When the last messages about begins and ends were sent. */
  begunAt: number;
  overAt: number;
}

export const NO_CHANNEL_NOTES: ChannelNotes = { seen: new Map(), begunAt: -Infinity, overAt: -Infinity };

export interface AlertsInput {
  channel: string;
  settings: ChannelSettings;
  judgement: Judgement;
  /** What this channel has reported. */
  told: readonly SentAlert[];
  notes: ChannelNotes;
  now: number;
  /** True for a process that checks once and ends: it waits for nothing. */
  isOnce: boolean;
}

export interface PlannedAlerts {
  /** To report as begun, or again. */
  begun: Condition[];
  /** To report as ended. */
  over: SentAlert[];
  /** To store without a message. */
  keep: SentAlert[];
  seen: ReadonlyMap<string, number>;
}

const DAY_MS = 86_400_000;
const MAX_SETTLE_MS = 6 * 3_600_000;
/** In units of `group_wait`: how long a condition must be gone before its end is reported. */
const SETTLE_WAITS = 4;
/** In units of `group_wait`: the longest that a new condition waits for others, and the shortest time between messages. */
const MAX_WAITS = 10;

/** Reported once, without an end: they are events, or last for months. */
const ENDLESS: ReadonlySet<string> = new Set<AlertKind>(['schema_change', 'deprecation']);

/** Identifies an alert among those of all sources. */
export function keyOf(source: string, alert: string): string {
  return `${source}\n${alert}`;
}

function keyOfCondition(condition: Condition): string {
  return keyOf(condition.source, alertName(condition));
}

function rowsByKey(told: readonly SentAlert[]): ReadonlyMap<string, SentAlert> {
  return new Map(told.map((row) => [keyOf(row.source, row.alert), row]));
}

/** Decides what a channel reports now: each incident once, grouped, and its end once it has stayed away. Pure. */
export function planAlerts(input: AlertsInput): PlannedAlerts {
  const { settings, judgement, told, notes, now, isOnce } = input;
  const present = coveredConditions(settings, judgement.conditions);
  const rows = rowsByKey(told);
  const fresh = present.filter((condition) => isNew(condition, rows.get(keyOfCondition(condition))));
  const seen = new Map(fresh.map(keyOfCondition).map((key) => [key, notes.seen.get(key) ?? now]));
  const [first, last] = [Math.min(...seen.values()), Math.max(...seen.values())];
  const isGathered = isOnce || now - last >= settings.group_wait || isDue(first, input);
  const repeated = present.filter((condition) => isToRepeat(condition, rows.get(keyOfCondition(condition)), input));
  const keys = new Set(present.map(keyOfCondition));
  const changes = told.map((row) => followUp(row, keys.has(keyOf(row.source, row.alert)), input));
  return {
    begun: isDue(notes.begunAt, input) ? [...(isGathered ? fresh : []), ...repeated] : [],
    over: endedNow(
      changes.flatMap(({ gone }) => gone ?? []),
      input,
    ),
    keep: [...changes.flatMap(({ keep }) => keep ?? []), ...firstMarks(input, rows)],
    seen,
  };
}

function isCovered({ on, sources }: ChannelSettings, kind: string, source: string): boolean {
  return (on ?? ALERT_KINDS).some((each) => each === kind) && sources?.includes(source) !== false;
}

/** The conditions that the channel reports. A resource that is overdue because it fails is one incident. */
function coveredConditions(settings: ChannelSettings, all: readonly Condition[]): Condition[] {
  const covered = all.filter(({ kind, source }) => isCovered(settings, kind, source));
  const names = new Set(covered.map(({ kind, source, resource }) => `${kind} ${source} ${resource}`));
  return covered.filter((condition) => {
    if (condition.kind === 'rejects') return condition.count > settings.rejects_above;
    return condition.kind !== 'overdue' || !names.has(`failed ${condition.source} ${condition.resource}`);
  });
}

/** A table change is new if it is later than the last reported one; without a row for it, none is. */
function isNew({ kind, since }: Condition, row: SentAlert | undefined): boolean {
  if (kind === 'schema_change') return row !== undefined && since > row.since;
  return row === undefined || row.over_at !== null;
}

function isToRepeat({ kind }: Condition, row: SentAlert | undefined, { settings, now }: AlertsInput): boolean {
  if (settings.repeat === null || row === undefined || row.over_at !== null || ENDLESS.has(kind)) return false;
  return now - row.told_at >= settings.repeat;
}

function isDue(lastAt: number, { settings, now, isOnce }: AlertsInput): boolean {
  return isOnce || now - lastAt >= MAX_WAITS * settings.group_wait;
}

type GoneAlert = SentAlert & { gone_at: number };

/** The change of a reported alert; `gone` if its end is not reported yet. */
function followUp(
  row: SentAlert,
  isPresent: boolean,
  { settings, judgement, now }: AlertsInput,
): { keep?: SentAlert; gone?: GoneAlert } {
  const [kind = ''] = row.alert.split(' ', 1);
  if (kind === 'schema_change' || row.over_at !== null) return {};
  if (isPresent) return row.gone_at === null ? {} : { keep: { ...row, gone_at: null } };
  const gone = { ...row, gone_at: row.gone_at ?? now };
  const isKnown = judgement.knownSources.has(row.source);
  const isSilent = !isCovered(settings, kind, row.source) || (isKnown && ENDLESS.has(kind));
  if (isSilent) return { keep: { ...gone, over_at: now } };
  if (!isKnown) return {};
  return row.gone_at === null ? { gone, keep: gone } : { gone };
}

/** Ends are grouped too. A condition that comes and goes must stay away twice as long after each return. */
function endedNow(gone: readonly GoneAlert[], input: AlertsInput): SentAlert[] {
  const { settings, notes, now, isOnce } = input;
  const overdueBy = ({ gone_at, returns }: GoneAlert): number => {
    const settle = Math.min(MAX_SETTLE_MS, SETTLE_WAITS * settings.group_wait * 2 ** returns);
    return now - gone_at - (isOnce && returns === 0 ? 0 : settle);
  };
  const ended = gone.filter((row) => overdueBy(row) >= 0);
  const isReady = ended.length === gone.length || ended.some((row) => isDue(now - overdueBy(row), input));
  return isReady && isDue(notes.overAt, input) ? ended : [];
}

/** Rows for resources that just got their first complete copy: later changes of their tables are reported. */
function firstMarks(input: AlertsInput, rows: ReadonlyMap<string, SentAlert>): SentAlert[] {
  const { channel, settings, judgement, now } = input;
  return judgement.copied.flatMap(({ source, resource, lastChangeAt: since }) => {
    const alert = `schema_change ${resource}`;
    if (rows.has(keyOf(source, alert)) || !isCovered(settings, 'schema_change', source)) return [];
    return [{ channel, source, alert, what: '', since, told_at: now, gone_at: null, over_at: null, returns: 0 }];
  });
}

/** The rows that store reported conditions; of several with one key, the last one counts. */
export function reportedRows(begun: readonly Condition[], { channel, told, now }: AlertsInput): SentAlert[] {
  const rows = rowsByKey(told);
  return begun
    .toSorted((a, b) => a.since - b.since)
    .map((condition) => {
      const before = rows.get(keyOfCondition(condition));
      const isOpen = before?.over_at === null;
      const isReturn = before !== undefined && now - (before.over_at ?? now) <= DAY_MS;
      const since = isOpen && condition.kind !== 'schema_change' ? before.since : condition.since;
      const returns = isReturn ? before.returns + (isOpen ? 0 : 1) : 0;
      const { source, what } = condition;
      const alert = alertName(condition);
      return { channel, source, alert, what, since, told_at: now, gone_at: null, over_at: null, returns };
    });
}
