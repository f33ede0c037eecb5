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
import { rowsOfDays, saveWindows } from '../../database/state/windows.ts';
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
  type Day,
  dayBegin,
  dayBeginLatest,
  dayOf,
  dayOfCell,
  type DayReading,
  isFinalAt,
  type ReportRange,
  type ReportWindow,
  windowAt,
} from './report-windows.ts';

/** The windows of a resource, and what is known of their rows. */
export interface StoredReports {
  windows: ReportWindows;
  reading: DayReading;
  loader: PageLoader;
  /** The stored state of each window, by its first day; updated with each range. */
  rows: Map<Day, WindowRow>;
  /** True if all rows are in windows that are stored as fetched. */
  areAllRowsInWindows: boolean;
  candidateKeys: ReadonlySet<string>;
}

export interface RangeResponse {
  range: ReportRange;
  page: JoinedPage;
  /** False if rows may be missing from it: then nothing is deleted. */
  isComplete: boolean;
  /** True if it holds as many rows as the service lists for one query. */
  isCapped: boolean;
  /** Null if the totals are as counted. */
  totals: StatedTotals | null;
}

/** Windows that stay as they are until an operator decides, by their first day, with the reason. */
export type HeldWindows = ReadonlyMap<Day, string>;

/** Rows that may always vanish from a window that keeps others, because a part of a small number is meaningless. */
const MAX_FREE_LOSSES = 10;

/** The windows of which a response would delete too many rows, unless an operator has released them. */
export async function findExcessiveLosses(
  context: ResourceContext,
  stored: StoredReports,
  { range, page, isComplete }: RangeResponse,
): Promise<HeldWindows> {
  const { profile, deletes } = context;
  const { keyed, rejects } = keyRecords(page.records, profile);
  // A rejected record may be that of a row.
  if (!isComplete || rejects.length > 0) return new Map();
  const before = await readRowsBefore(context, stored, range);
  const listed = keyed.filter(({ value }) => tombstoneOf(value, profile) === null);
  const response = { keys: new Set(listed.map(({ key }) => key)), written: listed };
  const held = new Map<Day, string>();
  for (const window of compareWindows(stored, range.windows, before, response, (row) => isLoss(context, page, row))) {
    const { start } = window.window;
    const gone = window.gone.length;
    const isReleased = stored.rows.get(start)?.released_at != null;
    if (isReleased || gone === 0) continue;
    let why: string | null = null;
    if (window.rows === 0) {
      why = window.before === 1 ? 'its only row would be deleted' : `all of its ${window.before} rows would be deleted`;
    } else if (gone > MAX_FREE_LOSSES) {
      why = describeExcess(deletes, { requested: gone, live: window.before, recent: 0 });
    }
    if (why !== null) held.set(start, why);
  }
  return held;
}

/** True for a row that a complete response would have if it still existed: none that was written after the request. */
function isLoss({ clock }: ResourceContext, { requestedAt }: JoinedPage, row: RowOfDay): boolean {
  return !isWrittenAfter(row, requestedAt, clock.now());
}

/**
 * Replaces the windows of a range by a response, in one transaction: new and changed rows, tombstones for rows that the
 * response does not have, the state of each window, the checkpoint and the counters of the run. Returns the checkpoint.
 * Throws `SyncError`.
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
  let replaced = { checkpoint, deleted: 0, rows: [] as WindowRow[] };
  const outcome = await stored.loader.load({ ...page, records }, async (facts, counted) => {
    const before = await readRowsBefore(context, stored, range);
    for (const [key, { day }] of before) if (isHeld(day)) before.delete(key);
    const open = range.windows.filter(({ start }) => !isHeld(start));
    const keys = new Set(facts.keys);
    for (const { key } of facts.tombstoned) keys.delete(key);
    // A record without a usable key may be that of a row.
    const mayDelete = isComplete && facts.unkeyed === 0;
    const isGone = (row: RowOfDay): boolean => mayDelete && isLoss(context, page, row);
    const contents = compareWindows(stored, open, before, { keys, written: facts.written }, isGone);
    await progress.columns.addPage(context, facts, timestampText(page.requestedAt));
    const gone = contents.flatMap((one) => one.gone);
    const rows = [
      ...contents.map((one) => fetchedRow(owned.resource, stored, response, one)),
      ...heldRows(owned.resource, stored.rows, response, held),
    ];
    replaced = { checkpoint: afterRange(checkpoint, response, counted, clock.now()), deleted: gone.length, rows };
    const figures = withPage(progress.figures, counted, progress.meter, page.parts.length);
    figures.deleted += gone.length;
    return [
      ...deleteStatements(context, gone, before, page.requestedAt),
      ...decidedCandidates(context, stored, facts.keys, gone),
      ...saveWindows(own, rows),
      saveCheckpoint(own, replaced.checkpoint),
      saveCounters(own, run, figures),
    ];
  });
  for (const row of replaced.rows) stored.rows.set(row.window_start, row);
  countPage(progress, outcome, page.parts.length);
  progress.figures.deleted += replaced.deleted;
  watcher.page(owned.resource, page, progress.figures);
  return replaced.checkpoint;
}

function afterRange(
  checkpoint: CheckpointRow,
  { range, page }: RangeResponse,
  { records }: PageOutcome,
  now: number,
): CheckpointRow {
  const { serverDate, fullPageSize, parts } = page;
  const next = JSON.stringify({ url: `/~reports/${range.from}` });
  return checkpointAfter(
    checkpoint,
    { next, isLast: false, pages: parts.length, records, serverDate, fullPageSize, updated: [] },
    now,
  );
}

function dayIn({ windows, reading }: StoredReports, value: JsonValue): Day | null {
  return dayOf(fieldAt(value, windows.field), reading);
}

interface RowOfDay {
  day: Day;
  syncedAt: string;
}

function readRowsBefore(
  context: ResourceContext,
  stored: StoredReports,
  range: ReportRange,
): Promise<Map<string, RowOfDay>> {
  // A first scan need not look: before its end there is no index on the day.
  const isNew = stored.areAllRowsInWindows && range.windows.every(({ start }) => !stored.rows.has(start));
  return isNew ? Promise.resolve(new Map()) : readRowsOfRange(context, stored, range, 'live');
}

/** The rows of some days, by their keys; deleted ones too if all are requested. */
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
  for (const { key, syncedAt, cell } of await rowsOfDays(warehouse, table, column, span, which)) {
    const day = dayOfCell(cell, column.type, reading);
    if (day !== null && day >= from && day < to) found.set(key, { day, syncedAt });
  }
  return found;
}

/** Null for a field that never had a value. */
function findDayColumn(table: TableShape, id: string | readonly string[], field: string): Column | null {
  const [column] = updatedColumns(table.columns, { updated: field });
  if (column === undefined) return id === field ? { name: table.key[0] ?? '', path: [field], type: 'text' } : null;
  if (column.type !== 'json' && column.type !== 'boolean') return column;
  throw new SyncError('window_outside', `the column ${column.name} is ${column.type}, so no rows can be found by day`, {
    recovery: 'stop',
    hint: `give the field its type in the profile, fields: { ${field}: { type: date } }, and make the tables anew: content-sync rebuild`,
  });
}

/** A window before and after a response. */
interface ComparedWindow {
  window: ReportWindow;
  /** Live rows before, and the keys of those that the response does not have. */
  before: number;
  gone: string[];
  /** Live rows afterwards. */
  rows: number;
  hasChanged: boolean;
}

/**
 * Compares the live rows of some windows with a response. `keys` are those of its live records, `written` the new and
 * changed ones; `isGone` decides whether a row that it lacks is deleted. A record may move to another day.
 */
function compareWindows(
  stored: StoredReports,
  windows: readonly ReportWindow[],
  before: ReadonlyMap<string, RowOfDay>,
  { keys, written }: { keys: ReadonlySet<string>; written: readonly { key: string; value: JsonValue }[] },
  isGone: (row: RowOfDay) => boolean,
): ComparedWindow[] {
  const startOf = (day: Day): Day => windowAt(day, stored.windows.granularity).start;
  const compared = new Map<Day, ComparedWindow>();
  for (const window of windows) compared.set(window.start, { window, before: 0, gone: [], rows: 0, hasChanged: false });
  const windowOf = new Map<string, ComparedWindow | undefined>();
  for (const [key, row] of before) {
    const window = compared.get(startOf(row.day));
    if (window !== undefined) window.before += 1;
    if (keys.has(key) || !isGone(row)) windowOf.set(key, window);
    else if (window !== undefined) {
      window.gone.push(key);
      window.hasChanged = true;
    }
  }
  for (const { key, value } of written) {
    const day = dayIn(stored, value);
    if (day === null) continue;
    const window = compared.get(startOf(day));
    for (const changed of [window, windowOf.get(key)]) if (changed !== undefined) changed.hasChanged = true;
    windowOf.set(key, window);
  }
  for (const window of windowOf.values()) if (window !== undefined) window.rows += 1;
  return [...compared.values()];
}

const NEVER_FETCHED = { fetched_at: null, is_final: 0, rows: 0, capped: 0, totals: null, changed_at: null } as const;
const NOT_HELD = { dropped_at: null, held_at: null, held: null, released_at: null } as const;

function fetchedRow(
  resource: string,
  { windows, rows }: StoredReports,
  { page: { requestedAt }, isCapped, isComplete, totals }: RangeResponse,
  { window, rows: count, hasChanged }: ComparedWindow,
): WindowRow {
  const at = timestampText(requestedAt);
  return {
    resource,
    window_start: window.start,
    window_end: window.end,
    fetched_at: at,
    is_final: (isComplete || isCapped) && isFinalAt(requestedAt, window, windows) ? 1 : 0,
    rows: count,
    totals: totals === null ? null : JSON.stringify(totals),
    capped: isCapped ? 1 : 0,
    changed_at: hasChanged ? at : (rows.get(window.start)?.changed_at ?? null),
    ...NOT_HELD,
  };
}

/** Windows that stay as they were, with the reason for an operator. */
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

/** A delete candidate is decided by a response that lists it, or that does not have it. */
function decidedCandidates(
  { warehouse: { own }, owned: { resource } }: ResourceContext,
  { candidateKeys }: StoredReports,
  listed: readonly string[],
  gone: readonly string[],
): CompiledQuery[] {
  if (candidateKeys.size === 0) return [];
  const among = (keys: readonly string[]): string[] => keys.filter((key) => candidateKeys.has(key));
  return [
    ...forgetDeleteCandidates(own, resource, among(listed), 'waiting'),
    ...forgetDeleteCandidates(own, resource, among(gone)),
  ];
}

/** The tombstones have the time of the response, or of the latest row that was written before our clock was put back. */
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
  const gone = { resource, history: profile.history, table, children, keys, at, deletedAt: null };
  return [
    ...softDeleteStatements(warehouse, gone),
    ...(profile.mask === null ? [] : [forgetSourceTexts(warehouse.own, resource)]),
  ];
}
