import { ALERT_KINDS, type AlertKind, type ChannelSettings } from '../../settings/alerts-schema.ts';
import type { ToldAlert } from '../../state/alerts-told.ts';
import { alertOf, isConsequence, type Condition, type Judgement } from './conditions.ts';

/** Something that a channel was told, with the source that it is about. */
export interface ToldOf extends ToldAlert {
  source: string;
}

/** What is known of a channel between two looks; times in epoch milliseconds. */
export interface ChannelNotes {
  /** When what is not told yet was first seen, by `keyOf`. */
  seen: ReadonlyMap<string, number>;
  /** When it was last told that something has begun, and that something is over. */
  begunAt: number;
  overAt: number;
}

export const NO_NOTES: ChannelNotes = { seen: new Map(), begunAt: -Infinity, overAt: -Infinity };

export interface TellingInput {
  channel: string;
  settings: ChannelSettings;
  judgement: Judgement;
  /** Of this channel. */
  told: readonly ToldOf[];
  notes: ChannelNotes;
  now: number;
  /** True for a process that looks once and ends: it waits for nothing. */
  isOnce: boolean;
}

/** What to do now. */
export interface Telling {
  /** To tell as begun, with what goes on and is told again. */
  begun: Condition[];
  /** To tell as over. */
  over: ToldOf[];
  /** To remember and to forget, without a word. */
  keep: ToldOf[];
  forget: ToldOf[];
  seen: ReadonlyMap<string, number>;
}

const DAY_MS = 86_400_000;
const LONGEST_SETTLE_MS = 6 * 3_600_000;
/** So many times `group_wait` nothing waits longer. */
const MOST_WAITS = 10;

/** Told once, without an end: they happen, or go on for months. */
const ENDLESS: ReadonlySet<string> = new Set<AlertKind>(['schema_change', 'deprecation']);

/** A condition's name among those of all sources. */
export function keyOf(source: string, alert: string): string {
  return `${source}\n${alert}`;
}

/** Decides what a channel is told now: together, once, and that it is over once it stays away. Pure. */
export function planTelling(input: TellingInput): Telling {
  const { settings, judgement, told, notes, now, isOnce } = input;
  const present = judgement.conditions.filter((condition) => covers(settings, condition, judgement.conditions));
  const rows = new Map(told.map((row) => [keyOf(row.source, row.alert), row]));
  const fresh = present.filter((condition) => isNews(condition, rows.get(keyOfCondition(condition))));
  const seen = new Map(fresh.map(keyOfCondition).map((key) => [key, notes.seen.get(key) ?? now]));
  const isReady = isOnce || (hasGathered([...seen.values()], settings, now) && isDue(notes.begunAt, input));
  const again = isReady || isDue(notes.begunAt, input) ? present.filter((each) => isToRepeat(each, rows, input)) : [];
  const keys = new Set(present.map(keyOfCondition));
  const watched = told.map((row) => watch(row, keys.has(keyOf(row.source, row.alert)), input));
  return {
    begun: [...(isReady ? fresh : []), ...again],
    over: overNow(watched, input),
    keep: [...watched.flatMap(({ keep }) => keep ?? []), ...marksOf(input, rows)],
    forget: watched.flatMap(({ forget }) => forget ?? []),
    seen,
  };
}

function keyOfCondition(condition: Condition): string {
  return keyOf(condition.source, alertOf(condition));
}

function covers(settings: ChannelSettings, condition: Condition, all: readonly Condition[]): boolean {
  const { on = ALERT_KINDS, sources, rejects_above } = settings;
  if (!on.includes(condition.kind) || sources?.includes(condition.source) === false) return false;
  if (condition.kind === 'rejects' && condition.count <= rejects_above) return false;
  return !(on.includes('failed') && isConsequence(condition, all));
}

/** A change of a table is news if it came after the last one that was told; before there is a mark, none is. */
function isNews(condition: Condition, row: ToldOf | undefined): boolean {
  if (condition.kind === 'schema_change') return row !== undefined && condition.since > row.since;
  return row === undefined || row.over_at !== null;
}

function isToRepeat(condition: Condition, rows: ReadonlyMap<string, ToldOf>, input: TellingInput): boolean {
  const { repeat } = input.settings;
  const row = rows.get(keyOfCondition(condition));
  if (repeat === null || row === undefined || row.over_at !== null || ENDLESS.has(condition.kind)) return false;
  return input.now - row.told_at >= repeat;
}

function hasGathered(seen: readonly number[], { group_wait }: ChannelSettings, now: number): boolean {
  if (seen.length === 0) return false;
  return now - Math.max(...seen) >= group_wait || now - Math.min(...seen) >= MOST_WAITS * group_wait;
}

function isDue(lastAt: number, { settings, now }: TellingInput): boolean {
  return now - lastAt >= settings.group_interval;
}

interface Watched {
  keep?: ToldOf;
  forget?: ToldOf;
  /** Over, and how long ago it could have been told. */
  over?: { row: ToldOf; settledFor: number };
  /** Gone, and not for long enough. */
  isSettling?: true;
}

/** What became of something that was told. */
function watch(row: ToldOf, isPresent: boolean, { settings, judgement, now, isOnce }: TellingInput): Watched {
  const [kind = ''] = row.alert.split(' ', 1);
  if (kind === 'schema_change') return {};
  if (isPresent) return row.over_at === null && row.gone_at !== null ? { keep: { ...row, gone_at: null } } : {};
  if (row.over_at !== null) return now - row.over_at > DAY_MS ? { forget: row } : {};
  if (!isCovered(settings, kind, row.source)) return { forget: row };
  if (!judgement.readable.has(row.source)) return {};
  if (ENDLESS.has(kind)) return { forget: row };
  const gone = { ...row, gone_at: row.gone_at ?? now };
  const settle = isOnce && row.returns === 0 ? 0 : Math.min(LONGEST_SETTLE_MS, settings.settle * 2 ** row.returns);
  const settledFor = now - gone.gone_at - settle;
  const keep = row.gone_at === null ? { keep: gone } : {};
  return settledFor >= 0 ? { ...keep, over: { row: gone, settledFor } } : { ...keep, isSettling: true };
}

function isCovered({ on, sources }: ChannelSettings, kind: string, source: string): boolean {
  return (on ?? ALERT_KINDS).some((each) => each === kind) && sources?.includes(source) !== false;
}

/** What is over is told together, too: while more is about to be, it waits. */
function overNow(watched: readonly Watched[], input: TellingInput): ToldOf[] {
  const over = watched.flatMap(({ over: each }) => each ?? []);
  const longest = Math.max(...over.map(({ settledFor }) => settledFor));
  const waits = watched.some(({ isSettling }) => isSettling === true);
  const isReady = !waits || longest >= MOST_WAITS * input.settings.group_wait;
  return input.isOnce || (isReady && isDue(input.notes.overAt, input)) ? over.map(({ row }) => row) : [];
}

/** From where on changes of tables are news, for resources that were just copied whole for the first time. */
function marksOf({ channel, settings, judgement, now }: TellingInput, rows: ReadonlyMap<string, ToldOf>): ToldOf[] {
  return judgement.copied.flatMap(({ source, resource, lastChangeAt }) => {
    const alert = alertOf({ kind: 'schema_change', resource, detail: '' });
    if (rows.has(keyOf(source, alert)) || !isCovered(settings, 'schema_change', source)) return [];
    return [markOf({ channel, source, alert, since: lastChangeAt, now })];
  });
}

function markOf({ now, ...mark }: Pick<ToldOf, 'channel' | 'source' | 'alert' | 'since'> & { now: number }): ToldOf {
  return { ...mark, what: '', told_at: now, gone_at: null, over_at: null, returns: 0 };
}

/** Conditions as they are remembered once they were told. */
export function rememberBegun(
  begun: readonly Condition[],
  { channel, told, now }: Pick<TellingInput, 'channel' | 'told' | 'now'>,
): ToldOf[] {
  const rows = new Map(told.map((row) => [keyOf(row.source, row.alert), row]));
  const kept = new Map<string, ToldOf>();
  for (const condition of begun) {
    const key = keyOfCondition(condition);
    kept.set(key, { ...begunRow(condition, rows.get(key), { channel, now }), ...sinceLast(condition, kept.get(key)) });
  }
  return [...kept.values()];
}

function begunRow(
  condition: Condition,
  before: ToldOf | undefined,
  { channel, now }: Pick<TellingInput, 'channel' | 'now'>,
): ToldOf {
  const { source, what, since } = condition;
  const rest = { channel, source, alert: alertOf(condition), what, told_at: now, gone_at: null, over_at: null };
  if (before === undefined) return { ...rest, since, returns: 0 };
  if (before.over_at === null) return { ...rest, since: before.since, returns: before.returns };
  return { ...rest, since, returns: now - before.over_at <= DAY_MS ? before.returns + 1 : 0 };
}

/** Of several changes of a table, the last one is the mark. */
function sinceLast({ kind, since }: Condition, told: ToldOf | undefined): Partial<ToldOf> {
  return kind === 'schema_change' ? { since: Math.max(since, told?.since ?? 0) } : {};
}
