// Syncs a resource of reports, whose records are listed by day, week or month, their windows (`windows` of the profile).
//
// A report such as page views changes until some days after its window has ended, and rows can vanish from it. So a run
// requests the windows that are new or may have changed, and each response replaces the rows of its windows:
//
// | response for a range of windows                       | what is done                                           |
// |-------------------------------------------------------|--------------------------------------------------------|
// | is complete                                           | its rows replace those of the windows                  |
// | does not fit into one response, or times out          | the range is requested in two halves                   |
// | refuses a range with the current day or a later one   | it is requested again without those days               |
// | refuses any other range                               | halves; a single window is left to the next run        |
// | comes while records move between its pages            | it is requested again, at most three times             |
// | states larger totals than its rows have               | halves; a single window is requested once more         |
// | lacks too many of the stored rows                     | it is requested once more; then an operator decides    |
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
import { endWarnings, judgeScan } from '../scan/judge-scan.ts';
import {
  compareTotals,
  createTask,
  type FullAnswer,
  hasMissingRows,
  type RangeAnswer,
  type RangeOptions,
  RangeQueue,
  type RangeTask,
  refuseOutside,
  selectDistinctRecords,
} from './read-range.ts';
import { findExcessiveLosses, readRowsOfRange, replaceRange, type StoredReports } from './replace-range.ts';
import {
  addDays,
  type Day,
  dayReading,
  dueWindows,
  endRangeAt,
  firstRetainedDay,
  localDay,
  type ReportRange,
  type ReportWindow,
  splitRange,
} from './report-windows.ts';

interface ReportScan extends StoredReports {
  /** How further ranges are requested. */
  options: RangeOptions;
  today: Day;
  /** The checkpoint after the last replaced range. */
  checkpoint: CheckpointRow;
  /** False once totals have counted records that are never listed: smaller ranges would not help. */
  splitsByTotals: boolean;
  /** False once records may be missing that no later range brings. */
  isComplete: boolean;
  /** First days of the refused windows, the error of the first one, and whether the service has accepted any range. */
  refusals: { days: Day[]; error: SyncError | null; inARow: number; isAnyRead: boolean };
  /** Reported at the end, one of each code. */
  warnings: Map<Warning['code'], Warning>;
}

/**
 * Scans the windows of reports, the newest first. One transaction replaces the windows of a range and the checkpoint. Adds
 * its warnings to those of the run. Throws `SyncError`; the ranges until then are stored.
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
  // The response for a window replaces its rows, even those with a later time of change.
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

/** True if every live row belongs to a stored window. */
async function areRowsInWindows(
  { warehouse, owned, profile }: RunContext,
  rows: Iterable<WindowRow>,
): Promise<boolean> {
  // A record that was fetched individually may have a row before its window is stored.
  if (profile.item !== null) return false;
  const present = [...rows].filter(({ dropped_at }) => dropped_at === null);
  return (await warehouse.rows.count(owned.resource)) === present.reduce((sum, row) => sum + row.rows, 0);
}

/** Max scans of one range, if records move between its pages. */
const MAX_SCANS_PER_RANGE = 3;
/** Refused windows in a row after which the run fails: the profile, the credential or the service is at fault. */
const MAX_REFUSALS_IN_A_ROW = 10;

/**
 * Replaces the windows of a range by its response. Returns the ranges to request next: none if that succeeded, else its halves,
 * or the range itself. Throws `SyncError`.
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
    // Only a 400 may be about the current day, the other refusals only about later days.
    const isUnfinished = range.to > addDays(scan.today, error.code === 'bad_request' ? 0 : 1);
    return isUnfinished ? withoutUnfinished(scan, range, error) : (halves ?? deferWindow(context, scan, range, error));
  }
  Object.assign(scan.refusals, { inARow: 0, isAnyRead: true });
  if ('error' in answer) {
    halveFurtherRanges(scan, range);
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
  return splitRange(range)?.map(createTask) ?? null;
}

/** Further ranges get half as many windows, because as many would be too large again. */
function halveFurtherRanges({ options }: ReportScan, { windows }: ReportRange): void {
  options.maxWindows = Math.max(1, Math.floor(windows.length / 2));
}

/** Leaves the rows of a refused window as they are. The next run requests the window again. */
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

/** Returns a refused range without its future days, or without the current day if it has none. */
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
      message: `the service refuses the day that is not over (${today}), so it is requested from tomorrow on: ${message}`,
      hint: 'nothing is to be done if its reports are of whole days; else see windows.zone: by it that day has begun',
    });
  }
  const ended = endRangeAt(range, addDays(options.until, -1));
  return ended === range ? [] : [createTask(ended)];
}

/** Writes a response, unless the range has to be requested again. Returns the ranges to request next. */
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
    const repeated = { ...task, responses, former: { end, endedAt: clock.now() } };
    await clock.sleep(end.cacheWaitMs ?? 0, signal);
    return [repeated];
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

/** Returns the halves of a range; null if a single window shows that the totals count records that are never listed. */
function splitByTotals(scan: ReportScan, range: ReportRange): RangeTask[] | null {
  const halves = halve(range);
  if (halves !== null) halveFurtherRanges(scan, range);
  else {
    scan.splitsByTotals = false;
    scan.options.maxWindows = Infinity;
  }
  return halves;
}

/** Rows per transaction, so that readers and other writers are not delayed. */
const ROWS_PER_STEP = 200;

/**
 * Removes the windows that are older than `keep` from the copy, the oldest first, with all versions of their rows. They are
 * not requested again. After a kill, the next run removes the rest of a window.
 */
async function dropOldWindows(context: RunContext, stored: StoredReports): Promise<void> {
  const { clock, signal } = context;
  const { windows, rows } = stored;
  const kept = firstRetainedDay(windows.keep, localDay(clock.now(), timeZone(windows.zone)));
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
  // Until the last step the window is not final, so that it is fetched again if `keep` is raised meanwhile.
  if (removals.length > 0) await save(saveWindows(own, [{ ...row, is_final: 0 }]));
  for (const removal of removals) {
    await save(removal);
    await nextTurn();
  }
  const dropped = { ...row, held_at: null, held: null, released_at: null, dropped_at: timestampText(clock.now()) };
  await save([...last, ...saveWindows(own, [dropped])]);
  stored.rows.set(row.window_start, dropped);
}

/** Returns the warnings about stored windows, which every run repeats while their reason exists. */
function windowWarnings(rows: readonly WindowRow[], resource: string, { most }: ReportWindows): Warning[] {
  const present = rows.filter(({ dropped_at }) => dropped_at === null);
  const held = present.filter(({ held_at }) => held_at !== null);
  const capped = present.filter(({ capped: isCapped }) => isCapped === 1);
  const differing = present.filter(({ totals }) => totals !== null);
  const warnings: (Warning & { windows: WindowRow[] })[] = [
    {
      windows: held,
      code: 'window_held',
      message: `unchanged, because the response of the service would delete too much: ${held[0]?.held ?? ''}`,
      hint: `look at the service; then content-sync deletes confirm ${resource} accepts its next response, whatever it deletes`,
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
      message: `different from the totals that the service states: ${differing[0]?.totals ?? ''}`,
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
