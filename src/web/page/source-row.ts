import type { Attention } from '../../serve/status/attention.ts';
import type { RefusedStatus, ResourceStatus, SourceStatus, StatusSnapshot } from '../../serve/status/snapshot.ts';
import type { Tone } from './icon.ts';
import type { OverviewChoice, Sort } from './overview-choice.ts';

/** A source in one row of many. */
export interface SourceRow {
  source: string;
  /** Null if its settings cannot be used. */
  status: SourceStatus | null;
  tone: Tone;
  /** What needs attention, the worst first. */
  found: readonly Attention[];
  /** The oldest success among its resources; null if one of them has none. */
  freshAt: number | null;
  nextAt: number | null;
  /** Null until all were counted. */
  rows: number | null;
  changes: number;
  requests: number;
  running: readonly ResourceStatus[];
}

/** All sources, in the order of the settings. */
export function sourceRows({ sources, refused }: StatusSnapshot, found: readonly Attention[]): SourceRow[] {
  const bySource = Map.groupBy(found, ({ source }) => source);
  return [
    ...sources.map((status) => rowOf(status, bySource.get(status.source) ?? [])),
    ...refused.map((one) => refusedRow(one, bySource.get(one.source) ?? [])),
  ];
}

function rowOf(status: SourceStatus, found: readonly Attention[]): SourceRow {
  const { resources, changes, limit } = status;
  const successes = resources.map(({ last_success_at }) => last_success_at);
  const isKnown = resources.length > 0 && !successes.includes(null);
  const freshAt = isKnown ? Math.min(...successes.filter((at) => at !== null)) : null;
  const nexts = resources.map(({ schedule }) => schedule.next_at).filter((at) => at !== null);
  const counts = resources.map(({ rows }) => rows?.live ?? null);
  return {
    source: status.source,
    status,
    found,
    tone: found[0]?.severity ?? (freshAt === null ? 'quiet' : 'fine'),
    freshAt,
    nextAt: nexts.length === 0 ? null : Math.min(...nexts),
    rows: counts.includes(null) ? null : counts.reduce<number>((sum, count) => sum + (count ?? 0), 0),
    changes: changes.by_webhook + changes.by_schedule,
    requests: limit.requests,
    running: resources.filter(({ running }) => running !== null),
  };
}

function refusedRow({ source }: RefusedStatus, found: readonly Attention[]): SourceRow {
  const nothing = { freshAt: null, nextAt: null, rows: null, changes: 0, requests: 0, running: [] };
  return { source, status: null, tone: 'down', found, ...nothing };
}

const TONES: readonly Tone[] = ['down', 'late', 'look', 'quiet', 'fine'];

/** By what each column is sorted, the first at the top; names decide where it is the same. */
const KEYS: Readonly<Record<Sort, (row: SourceRow) => number>> = {
  state: ({ tone, found }) => TONES.indexOf(tone) * 1_000 - Math.min(999, found.length),
  name: () => 0,
  // The oldest first, and before all who has none.
  fresh: ({ freshAt }) => freshAt ?? -Infinity,
  rows: ({ rows }) => -(rows ?? -1),
  changes: ({ changes }) => -changes,
  requests: ({ requests }) => -requests,
  next: ({ nextAt }) => nextAt ?? Infinity,
};

/** Those that the reader wants to see, in the order that he wants. */
export function chosenRows(rows: readonly SourceRow[], choice: OverviewChoice): SourceRow[] {
  const wanted = choice.find.toLowerCase();
  const keyOf = KEYS[choice.sort];
  const chosen = rows.filter((row) => (!choice.trouble || row.found.length > 0) && isFound(row, wanted));
  const sorted = chosen
    .map((row) => ({ row, key: keyOf(row) }))
    .toSorted((a, b) => (a.key === b.key ? (a.row.source < b.row.source ? -1 : 1) : a.key < b.key ? -1 : 1))
    .map(({ row }) => row);
  return choice.isReversed ? sorted.toReversed() : sorted;
}

function isFound({ source, status }: SourceRow, wanted: string): boolean {
  if (wanted === '' || source.includes(wanted)) return true;
  return status?.resources.some(({ resource }) => resource.includes(wanted)) ?? false;
}
