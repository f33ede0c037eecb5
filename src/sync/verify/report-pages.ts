// Reads a report for `verify`: the windows (days, weeks or months) that the copy has and that can no longer change, again
// from the service. Windows that may still change are not compared.
import type { ReportWindows } from '../../config/profile/incremental.ts';
import { sendsRangeEnd } from '../../config/profile/resource.ts';
import type { WindowRow } from '../../database/own-tables.ts';
import { readWindows } from '../../database/state/windows.ts';
import type { Page } from '../../pagination/page.ts';
import { compareTotals, type FullAnswer, hasMissingRows, createTask, RangeQueue } from '../reports/read-range.ts';
import { readRowsOfRange } from '../reports/replace-range.ts';
import { dayReading, splitRange } from '../reports/report-windows.ts';
import type { RunContext } from '../run-progress.ts';

/** Returns the number of windows that may still change, the day of the first, and the keys of their live rows. */
export async function readOpenWindows(
  context: RunContext,
  windows: ReportWindows,
): Promise<{ count: number; from: string; keys: Set<string> }> {
  const rows = await readWindows(context.warehouse.own, context.owned.resource);
  const open = rows.filter((row) => isCopied(row) && !isFinal(row));
  const keys = new Set<string>();
  const reading = dayReading(context.profile, windows);
  for (const { window_start: from, window_end: to } of open) {
    for (const key of (await readRowsOfRange(context, { windows, reading }, { from, to }, 'live')).keys())
      keys.add(key);
  }
  return { count: open.length, from: open[0]?.window_start ?? '', keys };
}

function isCopied({ fetched_at: fetchedAt, dropped_at: droppedAt }: WindowRow): boolean {
  return fetchedAt !== null && droppedAt === null;
}

/** True for a window that was copied when it could no longer change. */
function isFinal(row: WindowRow): boolean {
  return isCopied(row) && row.is_final === 1 && row.held_at === null;
}

/** Requests the windows that can no longer change. A range whose response is cut short or refused is requested in halves. */
export async function* readFinalWindows(context: RunContext, windows: ReportWindows): AsyncGenerator<Page> {
  const rows = (await readWindows(context.warehouse.own, context.owned.resource)).filter(isFinal);
  // If the totals were right when the rows were copied, a wrong total shows that the response is cut short.
  const comparesTotals = rows.every(({ totals }) => totals === null);
  const isCutShort = ({ body, page }: FullAnswer): boolean =>
    comparesTotals && hasMissingRows(compareTotals(windows.totals, body, page.records));
  const until = rows.at(-1)?.window_end ?? '';
  const hasEnd = sendsRangeEnd(context.profile);
  const options = { windows, hasEnd, lane: 'backfill', fullPageSize: null, maxWindows: Infinity, until } as const;
  const newestFirst = rows.map((row) => ({ start: row.window_start, end: row.window_end })).toReversed();
  const queue = new RangeQueue(context, options, newestFirst);
  try {
    for (let next = await queue.next(); next !== null; next = await queue.next()) {
      const { task, answer } = next;
      const halves = splitRange(task.range);
      if ('error' in answer && halves === null) throw answer.error ?? new Error('a single window is too large');
      if ('page' in answer && (halves === null || !isCutShort(answer))) {
        yield answer.page;
        continue;
      }
      if ('page' in answer) answer.page.release();
      queue.putBack((halves ?? []).map(createTask));
    }
  } finally {
    await queue.abort();
  }
}
