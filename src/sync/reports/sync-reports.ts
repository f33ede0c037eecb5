// Syncs a resource of reports, whose records are listed by day, week or month (`windows` of the profile).
//
// A report such as page views changes until some days after its window has ended, and rows can vanish from it. So a run
// requests the windows that are new or may have changed, and each response replaces the rows of its windows:
//
// | response for a range of windows                    | what is done                                              |
// |----------------------------------------------------|-----------------------------------------------------------|
// | complete                                           | its rows replace those of the windows                     |
// | more than fits into one response, or times out     | the range is requested in two halves                      |
// | refused, and it has the current day or a later one | requested again without those days                        |
// | refused                                            | halves; one window stays as it is for the next run        |
// | records moved between its pages                    | requested again, at most three times                      |
// | states larger totals than its rows have            | halves, down to one window; then requested once more      |
// | lacks too many rows of before                      | requested once more; then an operator has to confirm      |
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ReportWindows } from '../../config/profile/incremental.ts';
import { asksForEnd } from '../../config/profile/resource.ts';
import type { CheckpointRow, WindowRow } from '../../database/own-tables.ts';
import { saveCheckpoint } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
import { saveCounters } from '../../database/state/runs.ts';
import { dropStatements } from '../../database/state/stored-rows.ts';
import { readDeleteCandidates } from '../../database/state/suspects.ts';
import { readWindows, saveWindows } from '../../database/state/windows.ts';
import { openPageLoader } from '../../load/page-loader.ts';
import { shapeOf } from '../../load/prepare-page.ts';
import type { SyncError } from '../../model/errors.ts';
import { timeZone } from '../../model/time-zone.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { isUnitRefusal } from '../../pagination/requests/read-page.ts';
import { checkpointAfter } from '../advance-checkpoint.ts';
import type { ScanPlan } from '../plan.ts';
import type { Warning } from '../report.ts';
import { countPage, type RunContext, withPage } from '../run-progress.ts';
import { endWarnings, judgeScan } from '../scan/load-pages.ts';
import {
  compareTotals,
  distinctRecords,
  isShort,
  newTask,
  type RangeAnswer,
  type RangeOptions,
  RangeQueue,
  type RangeTask,
  refuseOutside,
  type TooMuch,
} from './read-range.ts';
import {
  findExcessiveLosses,
  type HeldWindows,
  type RangeResponse,
  readRowsOfRange,
  replaceRange,
  type Reports,
} from './replace-range.ts';
import {
  addDays,
  type Day,
  dayReading,
  dueWindows,
  endingWith,
  halvesOf,
  keptFrom,
  localDay,
  type ReportRange,
  type ReportWindow,
} from './report-windows.ts';

interface ReportScan {
  reports: Reports;
  /** How further ranges are requested. */
  options: RangeOptions;
  today: Day;
  /** After the last replaced range. */
  checkpoint: CheckpointRow;
  /** False once totals were seen to count what is never listed: then a range that lacks some is not split for it. */
  splitsByTotals: boolean;
  /** False once something may be missing that no later range brings. */
  isComplete: boolean;
  /** The windows that the service refused, by their first days, and the error of the first one. */
  refusals: { days: Day[]; error: SyncError | null; inARow: number; isAnyRead: boolean };
  /** Reported at the end, one of each kind. */
  warnings: Map<Warning['code'], Warning>;
}

/**
 * Scans the windows of reports, the newest first. Each range replaces its windows in one transaction together with the
 * checkpoint. Adds its warnings to the run's. Throws `SyncError` with everything up to the last range in place.
 */
export async function syncReports(context: RunContext, plan: ScanPlan, windows: ReportWindows): Promise<void> {
  const { owned, progress, signal } = context;
  const { scan, due } = await beginScan(context, plan, windows);
  const { reports, refusals, warnings } = scan;
  const queue = new RangeQueue(context, scan.options, due);
  try {
    for (let next = queue.next(); next !== null; next = queue.next()) {
      signal.throwIfAborted();
      queue.putBack(await syncRange(context, scan, next.task, next.answer));
    }
  } finally {
    await queue.abort();
  }
  if (refusals.error !== null && !refusals.isAnyRead) throw refusals.error;
  await endScan(context, scan);
  await dropOldWindows(context, reports);
  progress.warnings.push(...warnings.values(), ...windowWarnings([...reports.rows.values()], owned.resource, windows));
}

async function endScan({ owned, warehouse, clock }: RunContext, { checkpoint, isComplete }: ReportScan): Promise<void> {
  const end = { next: null, isLast: true, pages: 0, records: 0, serverDate: null, updated: [], isComplete };
  const ended = checkpointAfter(checkpoint, end, clock.now());
  await owned.runAlone(() => owned.commit([saveCheckpoint(warehouse.own, ended)]));
}

async function beginScan(
  context: RunContext,
  { mode, checkpoint }: ScanPlan,
  windows: ReportWindows,
): Promise<{ scan: ReportScan; due: readonly ReportWindow[] }> {
  const { profile, clock, warehouse, owned } = context;
  // The response for a window counts, also where a record has an older time of change than its row.
  const loader = await openPageLoader(context, { acceptsOlder: true });
  const stored = await readWindows(warehouse.own, owned.resource);
  const rows = new Map(stored.map((row) => [row.window_start, row]));
  const candidates = await readDeleteCandidates(warehouse.own, owned.resource, ['open', 'held', 'released']);
  const candidateKeys = new Set(candidates.map(({ record_id }) => record_id));
  const isKnown = mode === 'full' && (await areAllKnown(context, rows.values()));
  const hasEnd = asksForEnd(profile);
  const now = clock.now();
  const begun = checkpoint.walk_started_at;
  const scanStartedAt = begun === null ? now : timestampMs(begun);
  const { windows: due, today, until } = dueWindows({ windows, rows, mode, scanStartedAt, now, hasEnd });
  const lane = mode === 'full' ? 'backfill' : 'incremental';
  const scan: ReportScan = {
    reports: { windows, reading: dayReading(profile, windows), loader, rows, candidateKeys, isKnown },
    options: { windows, hasEnd, lane, fullPageSize: checkpoint.kept_size, maxWindows: Infinity, until },
    today,
    checkpoint,
    splitsByTotals: true,
    isComplete: true,
    refusals: { days: [], error: null, inARow: 0, isAnyRead: false },
    warnings: new Map(),
  };
  return { scan, due };
}

/** True if every live row came with a stored window, so that there are none in others. */
async function areAllKnown({ warehouse, owned, profile }: RunContext, rows: Iterable<WindowRow>): Promise<boolean> {
  // A record that is fetched individually has a row before its window is fetched.
  if (profile.item !== null) return false;
  const present = [...rows].filter(({ dropped_at }) => dropped_at === null);
  return (await warehouse.rows.count(owned.resource)) === present.reduce((sum, row) => sum + row.rows, 0);
}

/** Scans of one range in all, if records move between its pages. */
const MAX_SCANS_PER_RANGE = 3;
/** Refused windows in a row after which the run fails: the profile, the credential or the service is at fault. */
const MAX_REFUSALS_IN_A_ROW = 10;

/**
 * Replaces the windows of a range by its response. Returns the ranges to process in its place, in order: its halves if it
 * is too much at once, itself if it has to be requested again. Throws `SyncError`.
 */
async function syncRange(
  context: RunContext,
  scan: ReportScan,
  task: RangeTask,
  read: () => Promise<RangeAnswer | TooMuch>,
): Promise<RangeTask[]> {
  const { range } = task;
  let answer: RangeAnswer | TooMuch;
  try {
    answer = await read();
  } catch (error) {
    if (!isUnitRefusal(error)) throw error;
    const isFuture = range.to > addDays(scan.today, error.code === 'bad_request' ? 0 : 1);
    if (isFuture) return withoutUnfinished(scan, range, error);
    return halve(range) ?? deferWindow(context, scan, range, error);
  }
  Object.assign(scan.refusals, { inARow: 0, isAnyRead: true });
  if ('error' in answer) {
    requestHalf(scan, range);
    const halves = halve(range);
    if (halves !== null) return halves;
    if (answer.error?.code !== 'window_too_large') throw answer.error ?? new Error('nothing to split');
    scan.isComplete = false;
    return deferWindow(context, scan, range, answer.error);
  }
  try {
    return await applyAnswer(context, scan, task, answer);
  } finally {
    answer.page.release();
  }
}

/** Splits a range into two tasks; null if it is one window. */
function halve(range: ReportRange): RangeTask[] | null {
  return halvesOf(range)?.map(newTask) ?? null;
}

/** What was too much for one response will be so for the next ones. */
function requestHalf({ options }: ReportScan, { windows }: ReportRange): void {
  options.maxWindows = Math.max(1, Math.floor(windows.length / 2));
}

/** Leaves a window that the service refuses as it is, to be requested again by the next run. */
async function deferWindow(
  { warehouse, owned }: RunContext,
  { refusals, warnings, reports }: ReportScan,
  { from }: ReportRange,
  error: SyncError,
): Promise<RangeTask[]> {
  refusals.inARow += 1;
  refusals.error ??= error;
  if (refusals.inARow >= MAX_REFUSALS_IN_A_ROW) throw refusals.error;
  refusals.days.push(from);
  const { days } = refusals;
  const code = error.code === 'window_too_large' ? error.code : 'window_unread';
  const message = `${nameWindows(days)} ${days.length === 1 ? 'was' : 'were'} not read, and the rows stay as they were: ${error.message}`;
  warnings.set(code, { code, message, hint: `${error.hint ?? ''} The next run requests it again.`.trimStart() });
  const row = reports.rows.get(from);
  if (row?.is_final !== 1) return [];
  const due = { ...row, is_final: 0 } as const;
  await owned.runAlone(() => owned.commit(saveWindows(warehouse.own, [due])));
  reports.rows.set(from, due);
  return [];
}

/** Many services refuse future days, and some the day that has not ended. */
function withoutUnfinished(
  { today, options, warnings }: ReportScan,
  range: ReportRange,
  { message }: SyncError,
): RangeTask[] {
  const hasTomorrow = range.to > addDays(today, 1);
  options.until = hasTomorrow ? addDays(today, 1) : today;
  if (!hasTomorrow) {
    warnings.set('window_unfinished', {
      code: 'window_unfinished',
      message: `the service refuses the day that is not over (${today}), so it is asked for from tomorrow on: ${message}`,
      hint: 'nothing is to be done if its reports are of whole days; else see windows.zone: by it that day has begun',
    });
  }
  const ended = endingWith(range, addDays(options.until, -1));
  return ended === range ? [] : [newTask(ended)];
}

/** Writes a response, unless the range has to be requested again: returns what to process in its place. */
async function applyAnswer(
  context: RunContext,
  scan: ReportScan,
  task: RangeTask,
  { page, end, body, isFull }: RangeAnswer,
): Promise<RangeTask[]> {
  const { profile, clock, signal } = context;
  const { windows, reading } = scan.reports;
  const { range, former } = task;
  const responses = task.responses + 1;
  const records = distinctRecords(page.records, profile);
  refuseOutside(records, range, windows, reading);

  const verdict = judgeScan(end, profile, former?.end ?? null);
  if (!verdict.isComplete && verdict.mayRepeat && responses < MAX_SCANS_PER_RANGE) {
    const again = { ...task, responses, former: { end, endedAt: clock.now() } };
    await clock.sleep(end.cacheWaitMs ?? 0, signal);
    return [again];
  }
  const differs = compareTotals(windows.totals, body, records);
  if (differs.length > 0 && !profile.accept.includes('totals')) {
    const halves = isShort(differs) && scan.splitsByTotals ? splitByTotals(scan, range) : null;
    if (halves !== null) return halves;
    if (responses < 2) return [{ ...task, responses }];
  }
  const response = {
    range,
    page,
    isWhole: verdict.isComplete && verdict.allowsDeletes && !isFull,
    isCapped: isFull,
    totals: differs.length === 0 ? null : { from: range.from, to: range.to, differs },
  };
  const losses = await findExcessiveLosses(context, scan.reports, response);
  if (losses.size > 0 && !task.wasExcessive) return [{ ...task, responses, wasExcessive: true }];

  await replaceWindows(context, scan, response, losses);
  if (!verdict.isComplete) scan.isComplete = false;
  for (const warning of endWarnings(verdict)) scan.warnings.set(warning.code, warning);
  if (page.fullPageSize > 0) scan.options.fullPageSize = Math.max(scan.options.fullPageSize ?? 0, page.fullPageSize);
  return [];
}

/** Null once a single window has shown that the totals count what is never listed. */
function splitByTotals(scan: ReportScan, range: ReportRange): RangeTask[] | null {
  const halves = halve(range);
  if (halves !== null) requestHalf(scan, range);
  else {
    scan.splitsByTotals = false;
    scan.options.maxWindows = Infinity;
  }
  return halves;
}

async function replaceWindows(
  context: RunContext,
  scan: ReportScan,
  response: RangeResponse,
  held: HeldWindows,
): Promise<void> {
  const { warehouse, clock, owned, progress, run, watcher } = context;
  const { page, range } = response;
  const { serverDate, fullPageSize, parts } = page;
  const position = JSON.stringify({ url: `/~reports/${range.from}` });
  const passed = { next: position, isLast: false, pages: parts.length, serverDate, fullPageSize, updated: [] };
  let next = scan.checkpoint;
  const { outcome, deleted } = await replaceRange(context, scan.reports, response, held, (replaced) => {
    next = checkpointAfter(scan.checkpoint, { ...passed, records: replaced.outcome.records }, clock.now());
    const figures = withPage(progress.figures, replaced.outcome, progress.meter, parts.length);
    figures.deleted += replaced.deleted;
    return [saveCheckpoint(warehouse.own, next), saveCounters(warehouse.own, run, figures)];
  });
  scan.checkpoint = next;
  countPage(progress, outcome, parts.length);
  progress.figures.deleted += deleted;
  watcher.page(owned.resource, page, progress.figures);
}

/** Rows per transaction, so that readers and other writers are not delayed. */
const ROWS_PER_STEP = 200;

/**
 * Removes the windows that are older than `keep` from the copy, the oldest first, with all versions of their rows, and
 * stores when: they are not requested again. The next run continues a window that was half removed when the process was
 * killed.
 */
async function dropOldWindows(context: RunContext, reports: Reports): Promise<void> {
  const { clock, signal } = context;
  const { windows, rows } = reports;
  const kept = keptFrom(windows.keep, localDay(clock.now(), timeZone(windows.zone)));
  if (kept === null) return;
  const old = [...rows.values()].filter((row) => row.window_end <= kept && row.dropped_at === null);
  for (const row of old.toSorted((a, b) => (a.window_start < b.window_start ? -1 : 1))) {
    signal.throwIfAborted();
    await dropWindow(context, reports, row);
  }
}

/**
 * Only the last step stores that the window is dropped. The first of several stores that it may change: if `keep` is
 * raised before the last one, the window is fetched again.
 */
async function dropWindow(context: RunContext, reports: Reports, row: WindowRow): Promise<void> {
  const { warehouse, owned, clock } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const [table, ...children] = shapeOf(owned).tables;
  const range = { from: row.window_start, to: row.window_end };
  const keys = table === undefined ? [] : [...(await readRowsOfRange(context, reports, range, 'all')).keys()];
  const dropped = { ...row, held_at: null, held: null, released_at: null, dropped_at: timestampText(clock.now()) };
  const steps = inParts(keys, ROWS_PER_STEP);
  for (const [index, step] of steps.entries()) {
    const removal = table === undefined ? [] : dropStatements(warehouse, { resource, table, children, keys: step });
    const isFirstOfSeveral = index === 0 && steps.length > 1;
    const mayChange = isFirstOfSeveral ? saveWindows(own, [{ ...row, is_final: 0 }]) : [];
    const ended = index === steps.length - 1 ? saveWindows(own, [dropped]) : [];
    await owned.runAlone(() => owned.commit([...removal, ...mayChange, ...ended]));
    await nextTurn();
  }
  if (steps.length === 0) await owned.runAlone(() => owned.commit(saveWindows(own, [dropped])));
  reports.rows.set(row.window_start, dropped);
}

/** What an operator has to know of the stored windows; reported by every run as long as it is so. Pure. */
function windowWarnings(rows: readonly WindowRow[], resource: string, { most }: ReportWindows): Warning[] {
  const present = rows.filter(({ dropped_at }) => dropped_at === null);
  const held = present.filter(({ held_at }) => held_at !== null);
  const capped = present.filter(({ capped: isCapped }) => isCapped === 1);
  const differing = present.filter(({ totals }) => totals !== null);
  const warnings: Warning[] = [];
  if (held.length > 0) {
    const message = `${nameRows(held)} kept as before, because by the service's answer too much would be deleted: ${held[0]?.held ?? ''}`;
    const hint = `look at the service; then content-sync deletes confirm ${resource} takes its next answer over, whatever it deletes`;
    warnings.push({ code: 'window_held', message, hint });
  }
  if (capped.length > 0) {
    const message = `${nameRows(capped)} as large as the service lists at most (windows.most: ${most ?? '–'}): rows may be missing`;
    const hint =
      'set a finer windows.granularity, or fewer dimensions; windows.most only if the service lists more than that';
    warnings.push({ code: 'window_capped', message, hint });
  }
  if (differing.length > 0) {
    const message = `${nameRows(differing)} counted otherwise than the service tells: ${differing[0]?.totals ?? ''}`;
    const hint =
      'see _sync_windows; if totals count what is not listed, take them out of windows.totals, or accept: [totals]';
    warnings.push({ code: 'window_total_differs', message, hint });
  }
  return warnings;
}

/** As in `3 windows (...) are` and `the window of 2026-01-31 is`. */
function nameRows(rows: readonly WindowRow[]): string {
  return `${nameWindows(rows.map(({ window_start }) => window_start))} ${rows.length === 1 ? 'is' : 'are'}`;
}

/** As in `3 windows (...)` and `the window of 2026-01-31`. */
function nameWindows(days: readonly string[]): string {
  if (days.length === 1) return `the window of ${days[0] ?? ''}`;
  return `${days.length} windows (${days.slice(0, 3).join(', ')}${days.length > 3 ? ', ...' : ''})`;
}
