import type { Page } from '../../extract/page.ts';
import { asksForEnd, type ReportWindows } from '../../source/report-windows.ts';
import { readWindows } from '../../state/windows.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import type { WindowRow } from '../../warehouse/window-row.ts';
import type { WalkProof } from '../prove-walk.ts';
import { compareTotals, isShort } from '../reports/compare-totals.ts';
import { readRange } from '../reports/read-range.ts';
import { dayReading } from '../reports/record-day.ts';
import { rowsOfRange } from '../reports/replace-range.ts';
import { halvesOf, nextRange, type ReportRange } from '../reports/report-ranges.ts';
import type { ReportWindow } from '../reports/report-days.ts';
import type { RunContext } from '../run-progress.ts';
import { pagesOf } from '../walk/load-pages.ts';
import { windowsOf } from '../walk/windows.ts';

/** What a resource is compared with. */
export interface ListedPages {
  /** The last one of each listing has an `end`. The caller releases them. Throws what walking throws. */
  pages: AsyncIterable<Page>;
  /** Keys of rows that are not to be found on them, and say nothing: they may have changed since they were copied. */
  unread: ReadonlySet<string>;
  /** What is not compared, as a sentence; null if all is. */
  notCompared: string | null;
}

/** All pages of a resource; of reports those windows that could not change any more when they were copied. */
export async function listedPages(context: RunContext, start: CheckpointRow): Promise<ListedPages> {
  const { warehouse, owned, profile } = context;
  if (profile.windows === null) {
    const pages = await pagesOf(context, { windows: await windowsOf(context, start) }, start, {});
    return { pages, unread: new Set(), notCompared: null };
  }
  const rows = (await readWindows(warehouse.own, owned.resource)).filter(isHere);
  const open = rows.filter((row) => !isSettled(row));
  const [first] = open;
  return {
    pages: reportPages(context, profile.windows, rows.filter(isSettled)),
    unread: await keysOf(context, profile.windows, open),
    notCompared:
      first === undefined ? null : `${open.length} windows, from ${first.window_start} on, that may still change`,
  };
}

/** The pages of each window that could not change any more when it was copied, in any order, by its first day. */
export async function settledWindows(
  context: RunContext,
  windows: ReportWindows,
): Promise<Map<string, () => AsyncIterable<Page>>> {
  const rows = (await readWindows(context.warehouse.own, context.owned.resource)).filter(isHere).filter(isSettled);
  return new Map(rows.map((row) => [row.window_start, () => reportPages(context, windows, [row])]));
}

function isHere({ fetched_at: fetched, dropped_at: dropped }: WindowRow): boolean {
  return fetched !== null && dropped === null;
}

function isSettled({ is_final: isFinal, held_at: held }: WindowRow): boolean {
  return isFinal === 1 && held === null;
}

const DAY_MS = 86_400_000;

async function* reportPages(
  context: RunContext,
  windows: ReportWindows,
  rows: readonly WindowRow[],
): AsyncGenerator<Page> {
  const counts = new Map(rows.map((row) => [row.window_start, row.rows]));
  const hasEnd = asksForEnd(context.profile);
  // Totals that were right when the rows were copied show an answer that is cut short.
  const mayTell = rows.every(({ totals }) => totals === null);
  const bounds = {
    largest: windows.largest / DAY_MS,
    windows: hasEnd ? Infinity : 1,
    until: rows.at(-1)?.window_end ?? '',
    rows: windows.most,
    rowsOf: ({ start }: ReportWindow) => counts.get(start) ?? null,
  };
  for (let left: readonly ReportWindow[] = rows.map(asWindow).toReversed(); left.length > 0;) {
    const next = nextRange(left, bounds);
    left = next.left;
    yield* pagesOfRange(context, windows, next.range, { hasEnd, mayTell });
  }
}

async function* pagesOfRange(
  context: RunContext,
  windows: ReportWindows,
  range: ReportRange,
  { hasEnd, mayTell }: { hasEnd: boolean; mayTell: boolean },
): AsyncGenerator<Page> {
  const answer = await readRange(context, { range, windows, hasEnd, lane: 'backfill', kept: null });
  const halves = halvesOf(range);
  if (!('tooMuch' in answer)) {
    const isCutShort =
      halves !== null && mayTell && isShort(compareTotals(windows.totals, answer.body, answer.page.records));
    if (!isCutShort) {
      yield answer.page;
      return;
    }
    answer.page.release();
  } else if (halves === null) throw answer.error ?? new Error('nothing to cut');
  for (const half of halves ?? []) yield* pagesOfRange(context, windows, half, { hasEnd, mayTell });
}

async function keysOf(context: RunContext, windows: ReportWindows, rows: readonly WindowRow[]): Promise<Set<string>> {
  const keys = new Set<string>();
  const reading = dayReading(context.profile, windows);
  for (const { window_start: from, window_end: to } of rows) {
    const found = await rowsOfRange(context, { windows, reading }, { from, to }, 'live');
    for (const key of found.keys()) keys.add(key);
  }
  return keys;
}

function asWindow({ window_start: start, window_end: end }: WindowRow): ReportWindow {
  return { start, end };
}

/** Nothing was listed, and nothing is missing. */
export const NOTHING_LISTED: WalkProof = {
  isProved: true,
  maySweep: true,
  doubts: [],
  needsCatchUp: false,
  isKept: false,
  mayRepeat: false,
};

/** What several listings prove together. */
export function bothProved(one: WalkProof | null, other: WalkProof): WalkProof {
  if (one === null) return other;
  return {
    isProved: one.isProved && other.isProved,
    maySweep: one.maySweep && other.maySweep,
    doubts: [...one.doubts, ...other.doubts],
    needsCatchUp: one.needsCatchUp || other.needsCatchUp,
    isKept: one.isKept || other.isKept,
    mayRepeat: one.mayRepeat || other.mayRepeat,
  };
}
