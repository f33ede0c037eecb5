import { ALERT_KINDS, type AlertKind, type ChannelSettings } from '../../config/alerts-schema.ts';
import type { ToldAlert } from '../../database/state/alerts-told.ts';
import { formatColumnChange } from '../../model/schema-change.ts';
import { endedStatus, isOfFiles } from '../../sync/report.ts';
import { checkedOf } from '../status/attention.ts';
import type { PastRun, SourceStatus, StatusSnapshot } from '../status/snapshot.ts';

/** What a process knows of a channel; times in epoch milliseconds. */
export interface ChannelNotes {
  /** When each condition that is not reported yet was first seen, by `keyOf`. */
  seen: ReadonlyMap<string, number>;
  /** When the last messages about a begin and about an end were sent. */
  begunAt: number;
  overAt: number;
}

export const NO_NOTES: ChannelNotes = { seen: new Map(), begunAt: -Infinity, overAt: -Infinity };

export interface TellingInput {
  channel: string;
  settings: ChannelSettings;
  judgement: Judgement;
  /** What this channel has reported. */
  told: readonly ToldAlert[];
  notes: ChannelNotes;
  now: number;
  /** True for a process that looks once and ends: it waits for nothing. */
  isOnce: boolean;
}

export interface Telling {
  /** To report as begun; also what is due to be repeated. */
  begun: Condition[];
  /** To report as ended. */
  over: ToldAlert[];
  /** To remember without a message. */
  keep: ToldAlert[];
  seen: ReadonlyMap<string, number>;
}

const DAY_MS = 86_400_000;
const MAX_SETTLE_MS = 6 * 3_600_000;
/** In units of `group_wait`: for how long a condition must be gone, and the time between two messages of one sort. */
const SETTLE_WAITS = 4;
const MAX_WAITS = 10;

/** Reported once, without an end: they are events, or last for months. */
const ENDLESS: ReadonlySet<string> = new Set<AlertKind>(['schema_change', 'deprecation']);

/** Identifies a condition among those of all sources. */
export function keyOf(source: string, alert: string): string {
  return `${source}\n${alert}`;
}

/** Decides what a channel reports now: each incident once, grouped, and its end after it has stayed away. Pure. */
export function planTelling(input: TellingInput): Telling {
  const { settings, judgement, told, notes, now, isOnce } = input;
  const present = presentConditions(settings, judgement.conditions);
  const rows = new Map(told.map((row) => [keyOf(row.source, row.alert), row]));
  const fresh = present.filter((condition) => isNew(condition, rows.get(keyOfCondition(condition))));
  const seen = new Map(fresh.map(keyOfCondition).map((key) => [key, notes.seen.get(key) ?? now]));
  const [first, last] = [Math.min(...seen.values()), Math.max(...seen.values())];
  const isGathered = isOnce || now - last >= settings.group_wait || isDue(first, input);
  const repeated = present.filter((condition) => isToRepeat(condition, rows.get(keyOfCondition(condition)), input));
  const keys = new Set(present.map(keyOfCondition));
  const changes = told.map((row) => followUp(row, keys.has(keyOf(row.source, row.alert)), input));
  const gone = changes.flatMap((change) => change.gone ?? []);
  return {
    begun: isDue(notes.begunAt, input) ? [...(isGathered ? fresh : []), ...repeated] : [],
    over: endedNow(gone, input),
    keep: [...changes.flatMap(({ keep }) => keep ?? []), ...firstMarks(input, rows)],
    seen,
  };
}

function keyOfCondition(condition: Condition): string {
  return keyOf(condition.source, alertOf(condition));
}

function isCovered({ on, sources }: ChannelSettings, kind: string, source: string): boolean {
  return (on ?? ALERT_KINDS).some((each) => each === kind) && sources?.includes(source) !== false;
}

/** What the channel reports. A resource that is overdue because it fails is one incident. */
function presentConditions(settings: ChannelSettings, all: readonly Condition[]): Condition[] {
  const covered = all.filter(({ kind, source }) => isCovered(settings, kind, source));
  const names = new Set(covered.map(({ kind, source, resource }) => `${kind} ${source} ${resource}`));
  return covered.filter((condition) => {
    if (condition.kind === 'rejects') return condition.count > settings.rejects_above;
    return condition.kind !== 'overdue' || !names.has(`failed ${condition.source} ${condition.resource}`);
  });
}

/** A change of a table is new if it is later than the last one that was reported; without a mark, none is. */
function isNew({ kind, since }: Condition, row: ToldAlert | undefined): boolean {
  if (kind === 'schema_change') return row !== undefined && since > row.since;
  return row === undefined || row.over_at !== null;
}

function isToRepeat({ kind }: Condition, row: ToldAlert | undefined, { settings, now }: TellingInput): boolean {
  if (settings.repeat === null || row === undefined || row.over_at !== null || ENDLESS.has(kind)) return false;
  return now - row.told_at >= settings.repeat;
}

function isDue(lastAt: number, { settings, now, isOnce }: TellingInput): boolean {
  return isOnce || now - lastAt >= MAX_WAITS * settings.group_wait;
}

type GoneAlert = ToldAlert & { gone_at: number };
type FollowUp = { keep?: ToldAlert; gone?: GoneAlert };

/** What became of something that was reported; `gone` if its end is not reported yet. */
function followUp(row: ToldAlert, isPresent: boolean, { settings, judgement, now }: TellingInput): FollowUp {
  const [kind = ''] = row.alert.split(' ', 1);
  if (kind === 'schema_change' || row.over_at !== null) return {};
  if (isPresent) return row.gone_at === null ? {} : { keep: { ...row, gone_at: null } };
  const gone = { ...row, gone_at: row.gone_at ?? now };
  const isKnown = judgement.readable.has(row.source);
  if (!isCovered(settings, kind, row.source) || (isKnown && ENDLESS.has(kind)))
    return { keep: { ...gone, over_at: now } };
  if (!isKnown) return {};
  return row.gone_at === null ? { gone, keep: gone } : { gone };
}

/** Ends are grouped too. What comes and goes must stay away twice as long each time it has come back. */
function endedNow(gone: readonly GoneAlert[], input: TellingInput): ToldAlert[] {
  const { settings, notes, now, isOnce } = input;
  const settledFor = ({ gone_at, returns }: GoneAlert): number => {
    const settle = Math.min(MAX_SETTLE_MS, SETTLE_WAITS * settings.group_wait * 2 ** returns);
    return now - gone_at - (isOnce && returns === 0 ? 0 : settle);
  };
  const ended = gone.filter((row) => settledFor(row) >= 0);
  const isReady =
    ended.length === gone.length || ended.some((row) => settledFor(row) >= MAX_WAITS * settings.group_wait);
  return isOnce || (isReady && isDue(notes.overAt, input)) ? ended : [];
}

/** Marks from when on changes of tables are reported, for resources that just got their first complete copy. */
function firstMarks(input: TellingInput, rows: ReadonlyMap<string, unknown>): ToldAlert[] {
  const { channel, settings, judgement, now } = input;
  return judgement.copied.flatMap(({ source, resource, lastChangeAt: since }) => {
    const alert = alertOf({ kind: 'schema_change', resource, detail: '' });
    if (rows.has(keyOf(source, alert)) || !isCovered(settings, 'schema_change', source)) return [];
    return [{ channel, source, alert, what: '', since, told_at: now, gone_at: null, over_at: null, returns: 0 }];
  });
}

/** The rows that remember conditions after they were reported; of several with one key, the last one counts. */
export function rememberBegun(
  begun: readonly Condition[],
  { channel, told, now }: Pick<TellingInput, 'channel' | 'told' | 'now'>,
): ToldAlert[] {
  const rows = new Map(told.map((row) => [keyOf(row.source, row.alert), row]));
  return begun
    .toSorted((a, b) => a.since - b.since)
    .map((condition) => {
      const before = rows.get(keyOfCondition(condition));
      const isOpen = before?.over_at === null;
      const isReturn = before !== undefined && now - (before.over_at ?? now) <= DAY_MS;
      const since = isOpen && condition.kind !== 'schema_change' ? before.since : condition.since;
      const returns = isReturn ? before.returns + (isOpen ? 0 : 1) : 0;
      const { source, what } = condition;
      const alert = alertOf(condition);
      return { channel, source, alert, what, since, told_at: now, gone_at: null, over_at: null, returns };
    });
}

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
  /** Sources whose state is known: only there can a condition have ended. */
  readable: ReadonlySet<string>;
  /** Resources with a complete copy: from then on a change of their tables is reported. */
  copied: { source: string; resource: string; lastChangeAt: number }[];
}

/** The kind of alert by the check of the page; the page alone shows findings of other checks. */
const KIND_BY_CHECK: Readonly<Record<string, AlertKind>> = {
  refused: 'failed',
  unreachable: 'failed',
  inboxUnreadable: 'failed',
  overdue: 'overdue',
  heldDeletes: 'held_deletes',
  deadDeliveries: 'dead_deliveries',
  rejects: 'rejects',
  filesStopped: 'files',
  filesMissing: 'files',
  apiEnding: 'deprecation',
};

/** Fewer failed files of a resource may just be broken at the service. */
const MIN_FAILED_FILES = 25;

/** The code of a warehouse that is not open yet, which is no problem. */
const OPENING = 'warehouse_opening';

/** Finds the conditions in what the page shows. Pure. */
export function judge(snapshot: StatusSnapshot): Judgement {
  const readable = snapshot.sources.filter(({ warehouse }) => warehouse.problem === null);
  const complete = readable.flatMap(({ source, resources, schema_changes }) =>
    resources
      .filter(({ last_full_at }) => last_full_at !== null)
      .map(({ resource, last_full_at }) => {
        const changes = schema_changes.filter((change) => change.resource === resource);
        const lastChangeAt = Math.max(last_full_at ?? 0, ...changes.map(({ changed_at }) => changed_at));
        return { copied: { source, resource, lastChangeAt }, changes };
      }),
  );
  const changed = complete.flatMap(({ copied: { source, resource }, changes }) =>
    changes.map(({ table, column, changed_at: since, ...change }): Condition => {
      const what = `${table}.${column}: ${formatColumnChange(change)}`;
      const rest = { next: null, command: null, cause: resource, count: 1, detail: '' };
      return { kind: 'schema_change', source, resource, since, what, ...rest };
    }),
  );
  return {
    conditions: [...findConditions(snapshot), ...readable.flatMap(judgeRuns), ...changed],
    readable: new Set([...readable, ...snapshot.refused].map(({ source }) => source)),
    copied: complete.map(({ copied }) => copied),
  };
}

/** What the checks of the page find. */
function findConditions(snapshot: StatusSnapshot): Condition[] {
  return checkedOf(snapshot).flatMap(({ check, source, resource, what, next, command }): Condition[] => {
    const kind = KIND_BY_CHECK[check];
    const status = snapshot.sources.find((each) => each.source === source);
    const problem = status?.warehouse.problem ?? null;
    const of = status?.resources.find((each) => each.resource === resource);
    if (kind === undefined || (check === 'unreachable' && problem?.code === OPENING)) return [];
    // What an unreadable warehouse held when it was last read is out of date.
    if (resource !== null && problem !== null) return [];
    if (check === 'filesMissing' && (of?.files?.failed ?? 0) < MIN_FAILED_FILES) return [];
    const sunset = status?.api.lifetime?.sunset_at ?? null;
    const ending = sunset === null ? 'deprecated' : new Date(sunset).toISOString().slice(0, 10);
    const began = { overdue: of?.schedule.overdue_at, held_deletes: of?.suspects.held_since };
    const since = (kind === 'overdue' || kind === 'held_deletes' ? began[kind] : null) ?? snapshot.at;
    const count = kind === 'rejects' ? (of?.rejects.reduce((sum, reject) => sum + reject.count, 0) ?? 0) : 1;
    const detail = kind === 'deprecation' ? ending : '';
    return [{ kind, source, resource, what, next, command, cause: check, count, since, detail }];
  });
}

/** Alerts of kind `files` report the warnings about files. */
function withoutFiles(run: PastRun): PastRun {
  if (run.status === 'failed' || !run.warnings.some(isOfFiles)) return run;
  const warnings = run.warnings.filter((warning) => !isOfFiles(warning));
  return { ...run, warnings, status: endedStatus(run, warnings) };
}

/** What the last run of each resource says: one that was deferred or interrupted, or is in progress, says nothing new. */
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

function explainRun(
  { error, warnings, rejected, held }: PastRun,
  kind: 'failed' | 'partial',
): Pick<Condition, 'what' | 'next' | 'cause'> {
  const reason = kind === 'failed' ? error : warnings.find(({ accepted }) => accepted !== true);
  const what = kind === 'failed' ? 'The last run failed' : 'The last run was partial';
  if (reason) {
    const code = kind === 'failed' ? ` [${reason.code}]` : '';
    return { what: `${what}: ${reason.message}${code}`, next: reason.hint, cause: reason.code };
  }
  const why = rejected > 0 ? ': records were set aside' : held > 0 ? ': deletes were held back' : '';
  return { what: `${what}${kind === 'failed' ? '' : why}`, next: 'see the page or content-sync status', cause: why };
}

/** The name under which the warehouse of the source remembers a condition. */
export function alertOf({ kind, resource, detail }: Pick<Condition, 'kind' | 'resource' | 'detail'>): string {
  return [kind, resource, detail].filter((part) => part !== null && part !== '').join(' ');
}
