// Decides what an alert channel reports now, from the status of all sources and what the channel has reported before.
//
// One incident must not flood a channel: if a service is down, the failures of its resources are gathered for a moment and
// reported together, once, and later that they are over.
import { ALERT_KINDS, type AlertKind, type ChannelSettings } from '../../config/alerts-schema.ts';
import type { SentAlert } from '../../database/state/server-state.ts';
import { formatColumnChange } from '../../model/table.ts';
import { findProblems } from '../status/attention.ts';
import type { SourceStatus, StatusSnapshot } from '../status/snapshot.ts';

/** Something that a channel may report; times in epoch milliseconds. */
export interface Condition {
  kind: AlertKind;
  source: string;
  /** The name under which the warehouse of the source stores it: its kind, with the resource if it has one. */
  alert: string;
  resource: string | null;
  since: number;
  /** The problem, as one sentence without the name of the resource. */
  what: string;
  next: string | null;
  command: string | null;
  /** A message groups conditions with the same kind and cause. */
  cause: string;
  /** Of rejected records, their number; else 1. */
  count: number;
}

export interface AlertState {
  conditions: Condition[];
  /** Sources whose state could be read: only for these is the end of a condition reported. */
  knownSources: ReadonlySet<string>;
  /** Resources with a complete copy: later changes of their tables are reported. */
  copied: { source: string; resource: string; lastChangeAt: number }[];
}

export function findConditions(snapshot: StatusSnapshot): AlertState {
  const readable = snapshot.sources.filter(({ warehouse }) => warehouse.problem === null);
  const knownSources = new Set([...readable, ...snapshot.refused].map(({ source }) => source));
  const found = findProblems(snapshot).flatMap((problem): Condition[] => {
    const { alerts = [], source, resource, what, next, command, cause, count = 1 } = problem;
    // The state of resources is outdated while their warehouse cannot be read.
    if (resource !== null && !knownSources.has(source)) return [];
    const since = problem.since ?? snapshot.at;
    return alerts.map((kind) => {
      const alert = resource === null ? kind : `${kind} ${resource}`;
      return { kind, source, alert, resource, since, what, next, command, cause, count };
    });
  });
  // If a run is partial for several reasons, only the first is reported.
  const first = new Map(found.toReversed().map((each) => [alertKey(each), each]));
  const reported = found.filter((each) => each.kind !== 'partial' || first.get(alertKey(each)) === each);
  const copies = readable.flatMap(completeCopies);
  return {
    conditions: [...reported, ...copies.flatMap(({ changes }) => changes)],
    knownSources,
    copied: copies.map(({ source, resource, lastChangeAt }) => ({ source, resource, lastChangeAt })),
  };
}

/** Returns the resources of a source with a complete copy, and the changes of their tables. */
function completeCopies({ source, resources, schema_changes: all }: SourceStatus) {
  return resources.flatMap(({ resource, last_full_at }) => {
    if (last_full_at === null) return [];
    const changes = all
      .filter((change) => change.resource === resource)
      .map((change): Condition => {
        const { table, column, changed_at: since } = change;
        const what = `${table}.${column}: ${formatColumnChange(change)}`;
        const alert = `schema_change ${resource}`;
        const base = { kind: 'schema_change', source, alert, resource, next: null, command: null } as const;
        return Object.assign(base, { since, what, cause: resource, count: 1 });
      });
    return [{ source, resource, lastChangeAt: Math.max(last_full_at, ...changes.map(({ since }) => since)), changes }];
  });
}

export interface AlertsInput {
  channel: string;
  settings: ChannelSettings;
  state: AlertState;
  /** What the channel has reported before, as the warehouses store it. */
  reported: readonly SentAlert[];
  /** When each begin or end that is not reported yet was first seen, by `alertKey`; epoch milliseconds. */
  pending: ReadonlyMap<string, number>;
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
  /** `pending` for the next check. */
  pending: ReadonlyMap<string, number>;
}

/** A channel without `repeat` reports an incident that returns at most once in this time. */
const RETURN_INTERVAL_MS = 3_600_000;
/** How long nothing new must begin, or end, before all is reported together; in units of `group_wait`. */
const QUIET_WAITS = { begin: 1, end: 4 };
/** The maximum time that a begin or end waits for others; in units of `group_wait`. */
const MAX_WAITS = 10;

export function alertKey({ source, alert }: SentAlert | Condition): string {
  return `${source}\n${alert}`;
}

/** Decides what a channel reports now, what it stores, and what waits for the next check. Pure. */
export function planAlerts(input: AlertsInput): PlannedAlerts {
  const { settings, state, reported, now, isOnce } = input;
  const rows = new Map(reported.map((row) => [alertKey(row), row]));
  const present = coveredConditions(settings, state.conditions);
  const presentKeys = new Set(present.map(alertKey));
  const fresh = present.filter((condition) => isNew(condition, rows.get(alertKey(condition)), input));
  const repeated = present.filter((condition) => isToRepeat(condition, rows.get(alertKey(condition)), input));
  const missing = reported.filter((row) => isOpen(row) && !presentKeys.has(alertKey(row)));
  // If its settings now exclude an alert, the channel does not report that it is over.
  const isExcluded = ({ alert, source }: SentAlert): boolean => {
    const [kind = ''] = alert.split(' ', 1);
    return !isCovered(settings, kind, source);
  };
  const ended = missing.filter((row) => !isExcluded(row) && state.knownSources.has(row.source));
  const firstSeen = (keys: readonly string[]) => new Map(keys.map((key) => [key, input.pending.get(key) ?? now]));
  const isTimeToReport = (pending: ReadonlyMap<string, number>, quietWaits: number): boolean => {
    const [first, last] = [Math.min(...pending.values()), Math.max(...pending.values())];
    return isOnce || now - last >= quietWaits * settings.group_wait || now - first >= MAX_WAITS * settings.group_wait;
  };
  const begins = firstSeen(fresh.map(alertKey));
  const ends = firstSeen(ended.map(alertKey));
  return {
    begun: isTimeToReport(begins, QUIET_WAITS.begin) ? [...fresh, ...repeated] : repeated,
    over: isTimeToReport(ends, QUIET_WAITS.end) ? ended : [],
    keep: [
      ...missing.filter(isExcluded).map((row) => Object.assign({}, row, { over_at: now })),
      ...baselineRows(input, rows),
    ],
    pending: new Map([...begins, ...ends]),
  };
}

/** True if the end of a reported alert is not reported yet. A change of a table has no end. */
export function isOpen({ alert, over_at }: SentAlert): boolean {
  return over_at === null && !alert.startsWith('schema_change');
}

function isCovered({ on, sources }: ChannelSettings, kind: string, source: string): boolean {
  return (on ?? ALERT_KINDS).some((each) => each === kind) && sources?.includes(source) !== false;
}

/** Returns the conditions that the channel reports. If a resource is overdue because it fails, only the failure is. */
function coveredConditions(settings: ChannelSettings, all: readonly Condition[]): Condition[] {
  const covered = all.filter(({ kind, source }) => isCovered(settings, kind, source));
  const names = new Set(covered.map(({ kind, source, resource }) => `${kind} ${source} ${resource}`));
  return covered.filter((condition) => {
    if (condition.kind === 'rejects') return condition.count > settings.rejects_above;
    return condition.kind !== 'overdue' || !names.has(`failed ${condition.source} ${condition.resource}`);
  });
}

/** A change of a table is new if it is later than the last reported one, or than the first complete copy (`baselineRows`). */
function isNew({ kind, since }: Condition, row: SentAlert | undefined, { settings, now }: AlertsInput): boolean {
  if (kind === 'schema_change') return row !== undefined && since > row.since;
  if (row === undefined) return true;
  return row.over_at !== null && now - row.told_at >= (settings.repeat ?? RETURN_INTERVAL_MS);
}

function isToRepeat({ kind }: Condition, row: SentAlert | undefined, { settings, now }: AlertsInput): boolean {
  if (settings.repeat === null || row === undefined || row.over_at !== null || kind === 'schema_change') return false;
  return now - row.told_at >= settings.repeat;
}

/** Returns a row for each resource that has just got its first complete copy: later changes of its tables are reported. */
function baselineRows(input: AlertsInput, rows: ReadonlyMap<string, SentAlert>): SentAlert[] {
  const { channel, settings, state, now } = input;
  return state.copied.flatMap(({ source, resource, lastChangeAt: since }) => {
    const row = { channel, source, alert: `schema_change ${resource}`, what: '', since, told_at: now, over_at: null };
    return rows.has(alertKey(row)) || !isCovered(settings, 'schema_change', source) ? [] : [row];
  });
}

/** Returns the rows that store reported conditions; of several with one key, the last one counts. */
export function reportedRows(begun: readonly Condition[], { channel, reported, now }: AlertsInput): SentAlert[] {
  const open = new Map(reported.filter(isOpen).map((row) => [alertKey(row), row]));
  return begun
    .toSorted((a, b) => a.since - b.since)
    .map((condition) => {
      const { source, alert, what } = condition;
      const since = open.get(alertKey(condition))?.since ?? condition.since;
      return { channel, source, alert, what, since, told_at: now, over_at: null };
    });
}
