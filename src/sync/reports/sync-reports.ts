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
import type { CompiledQuery } from 'kysely';
import type { ReportWindows } from '../../config/profile/incremental.ts';
import { sendsRangeEnd } from '../../config/profile/resource.ts';
import type { CheckpointRow, WindowRow } from '../../database/own-tables.ts';
import { saveCheckpoint } from '../../database/state/checkpoints.ts';
import { inParts } from '../../database/state/in-parts.ts';
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
import type { RunContext } from '../run-progress.ts';
import { endWarnings, judgeScan } from '../scan/load-pages.ts';
import {
  compareTotals,
  selectDistinctRecords,
  hasMissingRows,
  createTask,
  type FullAnswer,
  type RangeAnswer,
  type RangeOptions,
  RangeQueue,
  type RangeTask,
  refuseOutside,
} from './read-range.ts';
import { findExcessiveLosses, readRowsOfRange, replaceRange, type StoredReports } from './replace-range.ts';
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

interface ReportScan extends StoredReports {
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
  const { owned, progress } = context;
  const { scan, due } = await beginScan(context, plan, windows);
  const { rows, refusals, warnings } = scan;
  const queue = new RangeQueue(context, scan.options, due);
  try {
    for (let next = await queue.next(); next !== null; next = await queue.next()) {
      queue.putBack(await syncRange(context, scan, next.task, next.answer));
    }
  } finally {
    await queue.abort();
  }
  if (refusals.error !== null && !refusals.isAnyRead) throw refusals.error;
  await endScan(context, scan);
  await dropOldWindows(context, scan);
  progress.warnings.push(...warnings.values(), ...windowWarnings([...rows.values()], owned.resource, windows));
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
  const areAllRowsInWindows = mode === 'full' && (await areRowsInWindows(context, rows.values()));
  const hasEnd = sendsRangeEnd(profile);
  const now = clock.now();
  const begun = checkpoint.walk_started_at;
  const scanStartedAt = begun === null ? now : timestampMs(begun);
  const { windows: due, today, until } = dueWindows({ windows, rows, mode, scanStartedAt, now, hasEnd });
  const lane = mode === 'full' ? 'backfill' : 'incremental';
  const scan: ReportScan = {
    windows,
    reading: dayReading(profile, windows),
    loader,
    rows,
    candidateKeys,
    areAllRowsInWindows,
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
async function areRowsInWindows(
  { warehouse, owned, profile }: RunContext,
  rows: Iterable<WindowRow>,
): Promise<boolean> {
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
  answer: RangeAnswer,
): Promise<RangeTask[]> {
  const { range } = task;
  const halves = halve(range);
  if ('error' in answer && isUnitRefusal(answer.error)) {
    const { error } = answer;
    const isFuture = range.to > addDays(scan.today, error.code === 'bad_request' ? 0 : 1);
    return isFuture ? withoutUnfinished(scan, range, error) : (halves ?? deferWindow(context, scan, range, error));
  }
  Object.assign(scan.refusals, { inARow: 0, isAnyRead: true });
  if ('error' in answer) {
    requestHalf(scan, range);
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
  return halvesOf(range)?.map(createTask) ?? null;
}

/** What was too much for one response will be so for the next ones. */
function requestHalf({ options }: ReportScan, { windows }: ReportRange): void {
  options.maxWindows = Math.max(1, Math.floor(windows.length / 2));
}

/** Leaves a window that the service refuses as it is, to be requested again by the next run. */
async function deferWindow(
  { warehouse, owned }: RunContext,
  { refusals, warnings, rows }: ReportScan,
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
  const row = rows.get(from);
  if (row?.is_final !== 1) return [];
  const due = { ...row, is_final: 0 } as const;
  await owned.runAlone(() => owned.commit(saveWindows(warehouse.own, [due])));
  rows.set(from, due);
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
  return ended === range ? [] : [createTask(ended)];
}

/** Writes a response, unless the range has to be requested again: returns what to process in its place. */
async function applyAnswer(
  context: RunContext,
  scan: ReportScan,
  task: RangeTask,
  { page, end, body, isFull }: FullAnswer,
): Promise<RangeTask[]> {
  const { profile, clock, signal } = context;
  const { windows, reading } = scan;
  const { range, former } = task;
  const responses = task.responses + 1;
  const records = selectDistinctRecords(page.records, profile);
  refuseOutside(records, range, windows, reading);

  const verdict = judgeScan(end, profile, former?.end ?? null);
  if (!verdict.isComplete && verdict.mayRepeat && responses < MAX_SCANS_PER_RANGE) {
    const again = { ...task, responses, former: { end, endedAt: clock.now() } };
    await clock.sleep(end.cacheWaitMs ?? 0, signal);
    return [again];
  }
  const differs = compareTotals(windows.totals, body, records);
  if (differs.length > 0 && !profile.accept.includes('totals')) {
    const halves = hasMissingRows(differs) && scan.splitsByTotals ? splitByTotals(scan, range) : null;
    if (halves !== null) return halves;
    if (responses < 2) return [{ ...task, responses }];
  }
  const response = {
    range,
    page,
    isComplete: verdict.isComplete && verdict.allowsDeletes && !isFull,
    isCapped: isFull,
    totals: differs.length === 0 ? null : { from: range.from, to: range.to, differs },
  };
  const losses = await findExcessiveLosses(context, scan, response);
  if (losses.size > 0 && !task.wasExcessive) return [{ ...task, responses, wasExcessive: true }];

  scan.checkpoint = await replaceRange(context, scan, response, losses, scan.checkpoint);
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

/** Rows per transaction, so that readers and other writers are not delayed. */
const ROWS_PER_STEP = 200;

/**
 * Removes the windows that are older than `keep` from the copy, the oldest first, with all versions of their rows, and
 * stores when: they are not requested again. The next run continues a window that was half removed when the process was
 * killed.
 */
async function dropOldWindows(context: RunContext, stored: StoredReports): Promise<void> {
  const { clock, signal } = context;
  const { windows, rows } = stored;
  const kept = keptFrom(windows.keep, localDay(clock.now(), timeZone(windows.zone)));
  if (kept === null) return;
  const old = [...rows.values()].filter((row) => row.window_end <= kept && row.dropped_at === null);
  for (const row of old.toSorted((a, b) => (a.window_start < b.window_start ? -1 : 1))) {
    signal.throwIfAborted();
    await dropWindow(context, stored, row);
  }
}

async function dropWindow(context: RunContext, stored: StoredReports, row: WindowRow): Promise<void> {
  const { warehouse, owned, clock } = context;
  const { own } = warehouse;
  const { resource } = owned;
  const [table, ...children] = shapeOf(owned).tables;
  const save = (statements: CompiledQuery[]): Promise<void> => owned.runAlone(() => owned.commit(statements));
  const range = { from: row.window_start, to: row.window_end };
  const keys = table === undefined ? [] : [...(await readRowsOfRange(context, stored, range, 'all')).keys()];
  const removals = inParts(keys, ROWS_PER_STEP).map((step) =>
    table === undefined ? [] : dropStatements(warehouse, { resource, table, children, keys: step }),
  );
  const last = removals.pop() ?? [];
  // If `keep` is raised before the last step, the window is fetched again.
  if (removals.length > 0) await save(saveWindows(own, [{ ...row, is_final: 0 }]));
  for (const removal of removals) {
    await save(removal);
    await nextTurn();
  }
  const dropped = { ...row, held_at: null, held: null, released_at: null, dropped_at: timestampText(clock.now()) };
  await save([...last, ...saveWindows(own, [dropped])]);
  stored.rows.set(row.window_start, dropped);
}

/** What an operator has to know of the stored windows; reported by every run as long as it is so. Pure. */
function windowWarnings(rows: readonly WindowRow[], resource: string, { most }: ReportWindows): Warning[] {
  const present = rows.filter(({ dropped_at }) => dropped_at === null);
  const held = present.filter(({ held_at }) => held_at !== null);
  const capped = present.filter(({ capped: isCapped }) => isCapped === 1);
  const differing = present.filter(({ totals }) => totals !== null);
  const warnings: (Warning & { windows: WindowRow[] })[] = [
    {
      windows: held,
      code: 'window_held',
      message: `kept as before, because by the service's answer too much would be deleted: ${held[0]?.held ?? ''}`,
      hint: `look at the service; then content-sync deletes confirm ${resource} takes its next answer over, whatever it deletes`,
    },
    {
      windows: capped,
      code: 'window_capped',
      message: `as large as the service lists at most (windows.most: ${most ?? '–'}): rows may be missing`,
      hint: 'set a finer windows.granularity, or fewer dimensions; windows.most only if the service lists more than that',
    },
    {
      windows: differing,
      code: 'window_total_differs',
      message: `counted otherwise than the service tells: ${differing[0]?.totals ?? ''}`,
      hint: 'see _sync_windows; if totals count what is not listed, take them out of windows.totals, or accept: [totals]',
    },
  ];
  return warnings.flatMap(({ windows, code, message, hint }) =>
    windows.length === 0 ? [] : [{ code, message: `${nameRows(windows)} ${message}`, hint }],
  );
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
