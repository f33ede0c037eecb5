// Replaces the rows of report windows by a response, in one transaction.
//
// A response for January replaces all rows of January: new and changed ones are written, and rows that it lacks are marked
// as deleted. Two guards precede that: nothing is deleted by a response that may lack rows, and a window that would lose
// too many rows stays as it is (held) until an operator confirms.
import type { CompiledQuery } from 'kysely';
import type { ReportWindows } from '../../config/profile/incremental.ts';
import type { CheckpointRow, WindowRow } from '../../database/own-tables.ts';
import { saveCheckpoint } from '../../database/state/checkpoints.ts';
import { saveCounters } from '../../database/state/runs.ts';
import { softDeleteStatements } from '../../database/state/stored-rows.ts';
import { forgetDeleteCandidates } from '../../database/state/suspects.ts';
import { forgetSourceTexts } from '../../database/state/versions.ts';
import { readRowsOfDays, saveWindows } from '../../database/state/windows.ts';
import { keyRecords } from '../../load/key-records.ts';
import type { PageLoader, PageOutcome } from '../../load/page-loader.ts';
import { shapeOf } from '../../load/prepare-page.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import type { Column, TableShape } from '../../model/table.ts';
import { timeZone } from '../../model/time-zone.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { tombstoneOf, updatedColumns } from '../../rows/columns/updated-time.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { checkpointAfter } from '../advance-checkpoint.ts';
import { describeExcess } from '../deletes/detect-deletes.ts';
import { isWrittenAfter } from '../deletes/soft-delete.ts';
import type { ResourceContext } from '../resource-context.ts';
import { countPage, type RunContext, withPage } from '../run-progress.ts';
import type { JoinedPage, StatedTotals } from './read-range.ts';
import {
  cellToDay,
  type Day,
  dayBegin,
  dayBeginLatest,
  type DayReading,
  isFinalAt,
  type ReportRange,
  type ReportWindow,
  toDay,
  windowAt,
} from './report-windows.ts';

/** The stored windows of a resource, and what a run needs to replace their rows. */
export interface StoredReports {
  windows: ReportWindows;
  reading: DayReading;
  loader: PageLoader;
  /** The stored state of each window, by its first day; updated with each range. */
  rows: Map<Day, WindowRow>;
  /** True if no window other than the stored ones has rows. */
  areAllRowsInWindows: boolean;
  /** Keys of the delete candidates. */
  candidateKeys: ReadonlySet<string>;
}

export interface RangeResponse {
  range: ReportRange;
  page: JoinedPage;
  /** False if rows may be missing from it: then nothing is deleted. */
  isComplete: boolean;
  /** True if it holds as many rows as the service lists for one query. */
  isCapped: boolean;
  /** Totals of the service that differ from those of the rows; null if none do. */
  totals: StatedTotals | null;
}

/** Windows that stay as they are until an operator decides, by their first day, with the reason. */
export type HeldWindows = ReadonlyMap<Day, string>;

/** A window may always lose this many rows if it retains others: a part of a small number is meaningless. */
const MAX_FREE_LOSSES = 10;

/** Finds the windows of which a response would delete too many rows, unless an operator has released them. */
export async function findExcessiveLosses(
  context: ResourceContext,
  stored: StoredReports,
  { range, page, isComplete }: RangeResponse,
): Promise<HeldWindows> {
  const { profile, deletes } = context;
  const { keyed, rejects } = keyRecords(page.records, profile);
  // Such a response deletes nothing: a rejected record may be that of any row.
  if (!isComplete || rejects.length > 0) return new Map();
  const before = await readRowsBefore(context, stored, range);
  const listed = keyed.filter(({ value }) => tombstoneOf(value, profile) === null);
  const response = { keys: new Set(listed.map(({ key }) => key)), written: listed };
  const isDeleted = (row: RowOfDay): boolean => mustBeListed(context, page, row);
  const held = new Map<Day, string>();
  for (const { window, deleted, ...rows } of compareWindows(stored, range.windows, before, response, isDeleted)) {
    const losses = deleted.length;
    const isReleased = stored.rows.get(window.start)?.released_at != null;
    if (isReleased || losses === 0) continue;
    let why: string | null = null;
    if (rows.after === 0) {
      why = rows.before === 1 ? 'its only row would be deleted' : `all of its ${rows.before} rows would be deleted`;
    } else if (losses > MAX_FREE_LOSSES) {
      why = describeExcess(deletes, { requested: losses, live: rows.before, recent: 0 });
    }
    if (why !== null) held.set(window.start, why);
  }
  return held;
}

/** True for a row that a complete response would list if its record existed: it was not written after the request. */
function mustBeListed({ clock }: ResourceContext, { requestedAt }: JoinedPage, row: RowOfDay): boolean {
  return !isWrittenAfter(row, requestedAt, clock.now());
}

/**
 * Replaces the windows of a range by a response, except for those in `held`. One transaction writes new and changed rows,
 * deletes the rows that the response lacks, and stores the state of each window, the checkpoint and the counters of the
 * run. Returns the checkpoint. Throws `SyncError`.
 */
export async function replaceRange(
  context: RunContext,
  stored: StoredReports,
  response: RangeResponse,
  held: HeldWindows,
  checkpoint: CheckpointRow,
): Promise<CheckpointRow> {
  const { warehouse, clock, owned, progress, run, watcher } = context;
  const { own } = warehouse;
  const { range, page, isComplete } = response;
  const isHeld = (day: Day | null): boolean =>
    day !== null && held.has(windowAt(day, stored.windows.granularity).start);
  const records = page.records.filter(({ value }) => held.size === 0 || !isHeld(dayIn(stored, value)));
  let committed = { checkpoint, deleted: 0, windows: [] as WindowRow[] };
  const outcome = await stored.loader.load({ ...page, records }, async (facts, counted) => {
    const before = await readRowsBefore(context, stored, range);
    for (const [key, { day }] of before) if (isHeld(day)) before.delete(key);
    const replacedWindows = range.windows.filter(({ start }) => !isHeld(start));
    const keys = new Set(facts.keys);
    for (const { key } of facts.tombstoned) keys.delete(key);
    // A record without a usable key may be that of any row.
    const mayDelete = isComplete && facts.unkeyed === 0;
    const isDeleted = (row: RowOfDay): boolean => mayDelete && mustBeListed(context, page, row);
    const compared = compareWindows(stored, replacedWindows, before, { keys, written: facts.written }, isDeleted);
    await progress.columns.addPage(context, facts, timestampText(page.requestedAt));
    const deleted = compared.flatMap((window) => window.deleted);
    const windows = [
      ...compared.map((window) => fetchedRow(owned.resource, stored, response, window)),
      ...heldRows(owned.resource, stored.rows, response, held),
    ];
    committed = {
      checkpoint: checkpointAfterRange(checkpoint, response, counted, clock.now()),
      deleted: deleted.length,
      windows,
    };
    const figures = withPage(progress.figures, counted, progress.meter, page.parts.length);
    figures.deleted += deleted.length;
    return [
      ...deleteStatements(context, deleted, before, page.requestedAt),
      ...decidedCandidates(context, stored, facts.keys, deleted),
      ...saveWindows(own, windows),
      saveCheckpoint(own, committed.checkpoint),
      saveCounters(own, run, figures),
    ];
  });
  for (const row of committed.windows) stored.rows.set(row.window_start, row);
  countPage(progress, outcome, page.parts.length);
  progress.figures.deleted += committed.deleted;
  watcher.page(owned.resource, page, progress.figures);
  return committed.checkpoint;
}

/** The checkpoint after a range. Its position only shows how far the scan is: the stored windows say what is still due. */
function checkpointAfterRange(
  checkpoint: CheckpointRow,
  { range, page }: RangeResponse,
  { records }: PageOutcome,
  now: number,
): CheckpointRow {
  const { serverDate, fullPageSize, parts } = page;
  const next = JSON.stringify({ url: `/~reports/${range.from}` });
  const read = { next, isLast: false, pages: parts.length, records, serverDate, fullPageSize, updated: [] };
  return checkpointAfter(checkpoint, read, now);
}

/** The day of a record. */
function dayIn({ windows, reading }: StoredReports, value: JsonValue): Day | null {
  return toDay(fieldAt(value, windows.field), reading);
}

/** A row of the copy, and the day that it belongs to. */
interface RowOfDay {
  day: Day;
  syncedAt: string;
}

/** Reads the live rows of a range as they are before the response. */
function readRowsBefore(
  context: ResourceContext,
  stored: StoredReports,
  range: ReportRange,
): Promise<Map<string, RowOfDay>> {
  // Windows that were never stored have no rows. A first scan must not search for them: the day has no index until it ends.
  const isNew = stored.areAllRowsInWindows && range.windows.every(({ start }) => !stored.rows.has(start));
  return isNew ? Promise.resolve(new Map()) : readRowsOfRange(context, stored, range, 'live');
}

/** Reads the rows of some days, by their keys; `which` is `all` to include deleted rows. */
export async function readRowsOfRange(
  { warehouse, owned, profile }: ResourceContext,
  { windows, reading }: { windows: ReportWindows; reading: DayReading },
  { from, to }: { from: Day; to: Day },
  which: 'live' | 'all',
): Promise<Map<string, RowOfDay>> {
  const [table] = shapeOf(owned).tables;
  const column = table === undefined ? null : findDayColumn(table, profile.id, windows.field);
  if (table === undefined || column === null) return new Map();
  const zone = timeZone(windows.zone);
  const span = { from, to, begin: dayBegin(from, zone), end: dayBeginLatest(to, zone) };
  const found = new Map<string, RowOfDay>();
  for (const { key, syncedAt, cell } of await readRowsOfDays(warehouse, table, column, span, which)) {
    const day = cellToDay(cell, column.type, reading);
    if (day !== null && day >= from && day < to) found.set(key, { day, syncedAt });
  }
  return found;
}

/** Finds the column of the field that dates a row; null if the field never had a value. */
function findDayColumn(table: TableShape, id: string | readonly string[], field: string): Column | null {
  const [column] = updatedColumns(table.columns, { updated: field });
  if (column === undefined) return id === field ? { name: table.key[0] ?? '', path: [field], type: 'text' } : null;
  if (column.type !== 'json' && column.type !== 'boolean') return column;
  throw new SyncError('window_outside', `the column ${column.name} is ${column.type}, so no rows can be found by day`, {
    recovery: 'stop',
    hint: `give the field its type in the profile, fields: { ${field}: { type: date } }, and make the tables anew: content-sync warehouse rebuild`,
  });
}

/** A window before and after a response. */
interface ComparedWindow {
  window: ReportWindow;
  /** Live rows. */
  before: number;
  after: number;
  /** Keys of the rows that are deleted. */
  deleted: string[];
  hasChanged: boolean;
}

/**
 * Compares the live rows of some windows with a response. `keys` are those of its live records, `written` the new and
 * changed ones; `isDeleted` decides about a row that the response lacks.
 */
function compareWindows(
  stored: StoredReports,
  windows: readonly ReportWindow[],
  rowsBefore: ReadonlyMap<string, RowOfDay>,
  { keys, written }: { keys: ReadonlySet<string>; written: readonly { key: string; value: JsonValue }[] },
  isDeleted: (row: RowOfDay) => boolean,
): ComparedWindow[] {
  const compared = new Map<Day, ComparedWindow>();
  for (const window of windows) {
    compared.set(window.start, { window, before: 0, after: 0, deleted: [], hasChanged: false });
  }
  const findWindow = (day: Day): ComparedWindow | undefined =>
    compared.get(windowAt(day, stored.windows.granularity).start);
  const windowAfter = new Map<string, ComparedWindow | undefined>();
  for (const [key, row] of rowsBefore) {
    const window = findWindow(row.day);
    if (window !== undefined) window.before += 1;
    if (keys.has(key) || !isDeleted(row)) windowAfter.set(key, window);
    else if (window !== undefined) {
      window.deleted.push(key);
      window.hasChanged = true;
    }
  }
  for (const { key, value } of written) {
    const day = dayIn(stored, value);
    if (day === null) continue;
    // A record may have moved to another day: then both windows have changed.
    const window = findWindow(day);
    for (const changed of [window, windowAfter.get(key)]) if (changed !== undefined) changed.hasChanged = true;
    windowAfter.set(key, window);
  }
  for (const window of windowAfter.values()) if (window !== undefined) window.after += 1;
  return [...compared.values()];
}

const NEVER_FETCHED = { fetched_at: null, is_final: 0, rows: 0, capped: 0, totals: null, changed_at: null } as const;
const NOT_HELD = { dropped_at: null, held_at: null, held: null, released_at: null } as const;

/** The state of a window whose rows were replaced. */
function fetchedRow(
  resource: string,
  { windows, rows }: StoredReports,
  { page: { requestedAt }, isCapped, isComplete, totals }: RangeResponse,
  { window, after, hasChanged }: ComparedWindow,
): WindowRow {
  const at = timestampText(requestedAt);
  return {
    resource,
    window_start: window.start,
    window_end: window.end,
    fetched_at: at,
    is_final: (isComplete || isCapped) && isFinalAt(requestedAt, window, windows) ? 1 : 0,
    rows: after,
    totals: totals === null ? null : JSON.stringify(totals),
    capped: isCapped ? 1 : 0,
    changed_at: hasChanged ? at : (rows.get(window.start)?.changed_at ?? null),
    ...NOT_HELD,
  };
}

/** The held windows: as they were before, with the reason for the operator. */
function heldRows(
  resource: string,
  rows: ReadonlyMap<Day, WindowRow>,
  { range, page }: RangeResponse,
  held: HeldWindows,
): WindowRow[] {
  const at = timestampText(page.requestedAt);
  return range.windows.flatMap(({ start, end }) => {
    const why = held.get(start);
    if (why === undefined) return [];
    const empty = { resource, window_start: start, window_end: end, ...NEVER_FETCHED, ...NOT_HELD };
    const before = rows.get(start) ?? empty;
    return [{ ...before, is_final: 0, held_at: before.held_at ?? at, held: why }];
  });
}

/** Returns the statements that forget delete candidates: the response lists them, or their rows are deleted now. */
function decidedCandidates(
  { warehouse: { own }, owned: { resource } }: ResourceContext,
  { candidateKeys }: StoredReports,
  listed: readonly string[],
  deleted: readonly string[],
): CompiledQuery[] {
  if (candidateKeys.size === 0) return [];
  const isCandidate = (key: string): boolean => candidateKeys.has(key);
  return [
    ...forgetDeleteCandidates(own, resource, listed.filter(isCandidate), 'not_settled'),
    ...forgetDeleteCandidates(own, resource, deleted.filter(isCandidate)),
  ];
}

/** The rows count as deleted at the time of the request, or of their latest write if the clock was put back since then. */
function deleteStatements(
  { warehouse, owned, profile, clock }: ResourceContext,
  keys: readonly string[],
  before: ReadonlyMap<string, RowOfDay>,
  requestedAt: number,
): CompiledQuery[] {
  const [table, ...children] = shapeOf(owned).tables;
  if (table === undefined || keys.length === 0) return [];
  const now = timestampText(clock.now());
  const futureTimes = keys.map((key) => before.get(key)?.syncedAt ?? '').filter((time) => time > now);
  const at = [timestampText(requestedAt), ...futureTimes].toSorted().at(-1) ?? now;
  const { resource } = owned;
  const deleted = { resource, history: profile.history, table, children, keys, at, deletedAt: null };
  return [
    ...softDeleteStatements(warehouse, deleted),
    ...(profile.mask === null ? [] : [forgetSourceTexts(warehouse.own, resource)]),
  ];
}
