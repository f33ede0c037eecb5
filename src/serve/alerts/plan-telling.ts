import { ALERT_KINDS, type AlertKind, type ChannelSettings } from '../../settings/alerts-schema.ts';
import type { ToldAlert } from '../../state/alerts-told.ts';
import { alertOf, type Condition, type Judgement } from './conditions.ts';

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
