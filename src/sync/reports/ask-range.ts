import type { WalkEnd } from '../../pagination/page.ts';
import { isUnitRefusal } from '../../pagination/requests/ask.ts';
import type { SyncError } from '../../model/errors.ts';
import { saveCheckpoint } from '../../database/state/checkpoints.ts';
import { saveFigures } from '../../database/state/runs.ts';
import { saveWindows } from '../../database/state/windows.ts';
import { checkpointAfter } from '../cursor/move-cursor.ts';
import { endWarnings, proveWalk } from '../prove-walk.ts';
import { countPage, type RunContext, withPage } from '../run-progress.ts';
import { compareTotals, distinctRecords, isShort, refuseOutside, type TotalDifference } from './range-contents.ts';
import { type BegunRange, type RangeAnswer, readRange, type TooMuch } from './read-range.ts';
import { HeldBack, type Replaced, type Replacement, replaceRange } from './replace-range.ts';
import { addDays } from './report-days.ts';
import { endingWith, halvesOf, type ReportRange } from './report-ranges.ts';
import type { ReportWalk } from './report-walk.ts';

/** So often a range is asked for in all while records move between its pages. */
const MOST_PASSES = 3;

/**
 * Asks for a range and takes its answer over; `begun` is that answer where it was asked for already. Returns what is still
 * to be asked for in its place, in order: its halves if it is too much at once, else nothing. Throws `SyncError`.
 */
export async function askRange(
  context: RunContext,
  walk: ReportWalk,
  range: ReportRange,
  begun: BegunRange['answer'] | null = null,
): Promise<ReportRange[]> {
  const doubted: Doubted = { former: null, formerEndedAt: null, passes: 0, held: null };
  const { reports, hasEnd, lane, kept } = walk;
  const asked = (): Promise<RangeAnswer | TooMuch> =>
    readRange(context, { range, windows: reports.windows, hasEnd, lane, kept, formerEndedAt: doubted.formerEndedAt });
  for (let ask = begun ?? asked; ; ask = asked) {
    const answer = await answerFor(context, walk, range, ask);
    if (Array.isArray(answer)) return answer;
    try {
      const left = await takeOver(context, walk, { range, answer, doubted });
      if (left !== null) return left;
    } finally {
      answer.page.release();
    }
  }
}

/** What made a range be asked for again. */
interface Doubted {
  former: WalkEnd | null;
  /** When that had ended, in local epoch milliseconds. */
  formerEndedAt: number | null;
  passes: number;
  held: ReadonlyMap<string, string> | null;
}

/** The answer, or the ranges to ask for in its place. */
async function answerFor(
  context: RunContext,
  walk: ReportWalk,
  range: ReportRange,
  ask: BegunRange['answer'],
): Promise<RangeAnswer | ReportRange[]> {
  try {
    const answer = await ask();
    Object.assign(walk.refusals, { inARow: 0, isAnyRead: true });
    if (!('tooMuch' in answer)) return answer;
    const halves = halvesOf(range);
    askForHalf(walk, range);
    if (halves !== null) return halves;
    if (answer.tooMuch !== 'refused' || answer.error === null) throw answer.error ?? new Error('nothing to cut');
    walk.isProved = false;
    return deferWindow(context, walk, range, answer.error);
  } catch (error) {
    if (!isUnitRefusal(error)) throw error;
    const isAhead = range.to > addDays(walk.today, error.code === 'bad_request' ? 0 : 1);
    if (isAhead) return withoutUnfinished(walk, range, error);
    return halvesOf(range) ?? deferWindow(context, walk, range, error);
  }
}

/** What was too much for one answer is so for those to come. */
function askForHalf(walk: ReportWalk, { windows }: ReportRange): void {
  walk.most = Math.max(1, Math.floor(windows.length / 2));
}

/** Refused windows in a row after which the run fails: the profile, the credential or the service is at fault. */
const MAX_REFUSALS_IN_A_ROW = 10;

/** Leaves a window that the service refuses as it is, to be requested again by the next run. */
async function deferWindow(
  { warehouse, owned }: RunContext,
  walk: ReportWalk,
  { from }: ReportRange,
  error: SyncError,
): Promise<ReportRange[]> {
  const { refusals } = walk;
  refusals.inARow += 1;
  refusals.error ??= error;
  if (refusals.inARow >= MAX_REFUSALS_IN_A_ROW) throw refusals.error;
  refusals.days.push(from);
  const [{ length: count }, { message, hint }] = [refusals.days, error];
  const what =
    count === 1 ? `the window of ${from} was` : `${count} windows (${refusals.days.slice(0, 3).join(', ')}) were`;
  const told = `${what} not read, and the rows stay as they were: ${message}`;
  const code = error.code === 'window_too_large' ? error.code : 'window_unread';
  walk.warnings.set(code, { code, message: told, hint: `${hint ?? ''} The next run requests it again.`.trimStart() });
  const row = walk.reports.rows.get(from);
  if (row?.is_final !== 1) return [];
  const due = { ...row, is_final: 0 } as const;
  await owned.takeTurn(() => warehouse.apply(saveWindows(warehouse.own, [due]), owned.lease()));
  walk.reports.rows.set(from, due);
  return [];
}

/** Many services refuse days to come, and some the one that is not over. */
function withoutUnfinished(walk: ReportWalk, range: ReportRange, { message }: SyncError): ReportRange[] {
  const { today } = walk;
  const isTomorrow = range.to > addDays(today, 1);
  walk.until = isTomorrow ? addDays(today, 1) : today;
  if (!isTomorrow) {
    const told = `the service refuses the day that is not over (${today}), so it is asked for from tomorrow on: ${message}`;
    const hint =
      'nothing is to be done if its reports are of whole days; else see windows.zone: by it that day has begun';
    walk.warnings.set('window_unfinished', { code: 'window_unfinished', message: told, hint });
  }
  const begun = endingWith(range, addDays(walk.until, -1));
  return begun === range ? [] : [begun];
}

/** Returns what is still to be asked for in place of the range; null if it is to be asked for once more. */
async function takeOver(
  context: RunContext,
  walk: ReportWalk,
  { range, answer, doubted }: { range: ReportRange; answer: RangeAnswer; doubted: Doubted },
): Promise<ReportRange[] | null> {
  const { reports } = walk;
  const { page, end, body, isFull } = answer;
  const records = distinctRecords(page.records, context.profile);
  refuseOutside(records, range, reports);
  const proof = proveWalk(end, context.profile, doubted.former);
  doubted.passes += 1;
  if (!proof.isProved && proof.mayRepeat && doubted.passes < MOST_PASSES) {
    doubted.former = end;
    doubted.formerEndedAt = context.clock.now();
    await context.clock.sleep(end.settleMs ?? 0, context.signal);
    return null;
  }
  const differs = compareTotals(reports.windows.totals, body, records);
  if (differs.length > 0 && !context.profile.accept.includes('totals')) {
    const halves = halvesByTotals(walk, range, differs);
    if (halves !== null) return halves;
    if (doubted.passes < 2) return null;
  }
  const totals = differs.length === 0 ? null : { from: range.from, to: range.to, differs };
  const isWhole = proof.isProved && proof.maySweep && !isFull;
  const known = { range, page, isWhole, isCapped: isFull, totals };
  const isTaken = await replaceUnlessHeld(context, walk, known, doubted);
  if (!isTaken) return null;
  if (!proof.isProved) walk.isProved = false;
  for (const warning of endWarnings(proof)) walk.warnings.set(warning.code, warning);
  if (page.kept > 0) walk.kept = Math.max(walk.kept ?? 0, page.kept);
  return [];
}

/**
 * Null if a range whose totals differ is not cut for that: where nothing is missing, or once a single window has shown
 * that the totals count what is never listed.
 */
function halvesByTotals(
  walk: ReportWalk,
  range: ReportRange,
  differs: readonly TotalDifference[],
): ReportRange[] | null {
  if (!isShort(differs) || !walk.cutsByTotals) return null;
  const halves = halvesOf(range);
  if (halves === null) Object.assign(walk, { cutsByTotals: false, most: Infinity });
  else askForHalf(walk, range);
  return halves;
}

/** What takes away too much is asked for once more; then a person has to say that it counts. */
async function replaceUnlessHeld(
  context: RunContext,
  walk: ReportWalk,
  known: Omit<Replacement, 'held'>,
  doubted: Doubted,
): Promise<boolean> {
  try {
    await replace(context, walk, { ...known, held: null });
    return true;
  } catch (error) {
    if (!(error instanceof HeldBack)) throw error;
    const isSecond = doubted.held !== null;
    doubted.held = error.windows;
    if (!isSecond) return false;
    await replace(context, walk, { ...known, held: error.windows });
    return true;
  }
}

async function replace(context: RunContext, walk: ReportWalk, replacement: Replacement): Promise<void> {
  const { warehouse, clock, owned, progress, run, watcher } = context;
  const { page, range } = replacement;
  const { serverDate, kept } = page;
  let next = walk.checkpoint;
  const figuresAfter = ({ outcome, deleted }: Replaced) => {
    const figures = withPage(progress.figures, outcome, progress.meter, page.parts.length);
    return { ...figures, deleted: figures.deleted + deleted };
  };
  const { outcome, deleted } = await replaceRange(context, walk.reports, replacement, (replaced) => {
    const { records } = replaced.outcome;
    const passed = {
      next: `/~reports/${range.from}`,
      pages: page.parts.length,
      records,
      serverDate,
      kept,
      updated: [],
    };
    next = checkpointAfter(walk.checkpoint, passed, clock.now());
    return [saveCheckpoint(warehouse.own, next), saveFigures(warehouse.own, run, figuresAfter(replaced))];
  });
  walk.checkpoint = next;
  countPage(progress, outcome, page.parts.length);
  progress.figures.deleted += deleted;
  watcher.page(owned.resource, page, progress.figures);
}
