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
import { compareTotals, distinctRecords, isShort, newTask, type RangeAnswer, type RangeOptions, RangeQueue, type RangeTask, refuseOutside, type TooMuch } from './read-range.ts';
import { findExcessiveLosses, type HeldWindows, type RangeResponse, readRowsOfRange, replaceRange, type Reports } from './replace-range.ts';
import { addDays, type Day, dayReading, dueWindows, endingWith, halvesOf, keptFrom, localDay, type ReportRange, type ReportWindow } from './report-windows.ts';

// Syncs a resource of reports, whose records are listed by day, week or month (`windows` of the profile).

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
 * Scans the windows of reports, the newest first: each range is requested whole, split in two if that is too much, and
 * replaces what the tables hold of it in one transaction together with the checkpoint. The next ranges are prefetched
 * meanwhile. Adds its warnings to the run's. Throws `SyncError` with everything up to the last range in place.
 */
export async function syncReports(context: RunContext, plan: ScanPlan, windows: ReportWindows): Promise<void> {
  const { warehouse, owned, clock, progress } = context;
  const { scan, due } = await beginScan(context, plan, windows);
  const { reports, refusals, warnings } = scan;
  await syncRanges(context, scan, due);
  if (refusals.error !== null && !refusals.isAnyRead) throw refusals.error;
  const ended = {
    next: null,
    isLast: true,
    pages: 0,
    records: 0,
    serverDate: null,
    isComplete: scan.isComplete,
    updated: [],
  };
  const checkpoint = checkpointAfter(scan.checkpoint, ended, clock.now());
  await owned.runAlone(() => owned.commit([saveCheckpoint(warehouse.own, checkpoint)]));
  const dropped = await dropOldWindows(context, reports);
  const current = windowWarnings([...reports.rows.values()], owned.resource, windows);
  progress.warnings.push(...warnings.values(), ...current, ...dropped);
}

async function syncRanges(context: RunContext, scan: ReportScan, due: readonly ReportWindow[]): Promise<void> {
  const queue = new RangeQueue(context, scan.options, due);
  try {
    for (let next = queue.next(); next !== null; next = queue.next()) {
      context.signal.throwIfAborted();
      queue.putBack(await syncRange(context, scan, next.task, next.answer));
    }
  } finally {
    await queue.abort();
  }
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
  if ('tooMuch' in answer) {
    requestHalf(scan, range);
    const halves = halve(range);
    if (halves !== null) return halves;
    if (answer.tooMuch !== 'refused' || answer.error === null) throw answer.error ?? new Error('nothing to split');
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
  // A response that deletes too much is requested again; then an operator has to accept it.
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
  let next = scan.checkpoint;
  const { outcome, deleted } = await replaceRange(context, scan.reports, response, held, (replaced) => {
    const { records } = replaced.outcome;
    const position = JSON.stringify({ url: `/~reports/${range.from}` });
    const passed = {
      next: position,
      isLast: false,
      pages: parts.length,
      records,
      serverDate,
      fullPageSize,
      updated: [],
    };
    next = checkpointAfter(scan.checkpoint, passed, clock.now());
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
async function dropOldWindows(context: RunContext, reports: Reports): Promise<Warning[]> {
  const { clock, signal } = context;
  const { windows, rows } = reports;
  const kept = keptFrom(windows.keep, localDay(clock.now(), timeZone(windows.zone)));
  if (kept === null) return [];
  const old = [...rows.values()]
    .filter((row) => row.window_end <= kept && row.dropped_at === null)
    .toSorted((a, b) => (a.window_start < b.window_start ? -1 : 1));
  const [first] = old;
  if (first === undefined) return [];
  let dropped = 0;
  for (const row of old) {
    signal.throwIfAborted();
    dropped += await dropWindow(context, reports, row);
  }
  const { keep } = windows;
  const age = keep === null || keep.months === 0 ? `${keep?.days ?? 0} days` : `${keep.months} months`;
  const message = `${old.length} window${old.length === 1 ? '' : 's'} from ${first.window_start} on, older than ${age}, left the copy with ${dropped} row${dropped === 1 ? '' : 's'}`;
  const hint =
    'nothing is to be done: `windows.keep` says so; _sync_windows remembers when, and how many rows there were';
  return [{ code: 'windows_dropped', message, hint }];
}

/**
 * Only the last step stores that the window is dropped. The first of several stores that it may change: if `keep` is
 * raised before the last one, the window is fetched again.
 */
async function dropWindow(context: RunContext, reports: Reports, row: WindowRow): Promise<number> {
  const { warehouse, owned, clock } = context;
  const [table, ...children] = shapeOf(owned).tables;
  const range = { from: row.window_start, to: row.window_end };
  const found = table === undefined ? [] : [...(await readRowsOfRange(context, reports, range, 'all')).keys()];
  const dropped = { ...row, held_at: null, held: null, released_at: null, dropped_at: timestampText(clock.now()) };
  const steps = inParts(found, ROWS_PER_STEP);
  for (const [index, keys] of (steps.length === 0 ? [[]] : steps).entries()) {
    const isLast = index >= steps.length - 1;
    const saved = isLast ? [dropped] : index === 0 ? [{ ...row, is_final: 0 } as const] : [];
    const statements = [
      ...(table === undefined ? [] : dropStatements(warehouse, { resource: owned.resource, table, children, keys })),
      ...saveWindows(warehouse.own, saved),
    ];
    await owned.runAlone(() => owned.commit(statements));
    await nextTurn();
  }
  reports.rows.set(row.window_start, dropped);
  return found.length;
}

/** What an operator has to know of the stored windows; reported by every run as long as it is so. Pure. */
function windowWarnings(rows: readonly WindowRow[], resource: string, { most }: ReportWindows): Warning[] {
  const warn = (
    code: Warning['code'],
    found: (row: WindowRow) => boolean,
    describe: (first: WindowRow, isOne: boolean) => string,
    hint: string,
  ): Warning[] => {
    const days = rows.filter((row) => row.dropped_at === null && found(row));
    const [first] = days;
    if (first === undefined) return [];
    const isOne = days.length === 1;
    const name = nameWindows(days.map(({ window_start }) => window_start));
    return [{ code, message: `${name} ${isOne ? 'is' : 'are'} ${describe(first, isOne)}`, hint }];
  };
  return [
    ...warn(
      'window_held',
      ({ held_at }) => held_at !== null,
      ({ held }, isOne) =>
        `kept as ${isOne ? 'it was' : 'they were'}, because by the service's answer too much would be deleted: ${held ?? ''}`,
      `look at the service; then content-sync deletes confirm ${resource} takes its next answer over, whatever it deletes`,
    ),
    ...warn(
      'window_capped',
      ({ capped }) => capped === 1,
      () => `as large as the service lists at most (windows.most: ${most ?? '–'}): rows may be missing`,
      'set a finer windows.granularity, or fewer dimensions; windows.most only if the service lists more than that',
    ),
    ...warn(
      'window_total_differs',
      ({ totals }) => totals !== null,
      ({ totals }) => `counted otherwise than the service tells: ${totals ?? ''}`,
      'see _sync_windows; if totals count what is not listed, take them out of windows.totals, or accept: [totals]',
    ),
  ];
}

/** As in `3 windows (...)` and `the window of 2026-01-31`. */
function nameWindows(days: readonly string[]): string {
  if (days.length === 1) return `the window of ${days[0] ?? ''}`;
  return `${days.length} windows (${days.slice(0, 3).join(', ')}${days.length > 3 ? ', ...' : ''})`;
}
