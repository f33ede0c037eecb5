import type { CompiledQuery } from 'kysely';
import type { PageOutcome } from '../../load/page-loader.ts';
import { shapeOf } from '../../load/prepare-page.ts';
import { SyncError } from '../../model/errors.ts';
import type { Column, TableShape } from '../../model/table.ts';
import { timeZone } from '../../model/time-zone.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { updatedColumns } from '../../rows/columns/updated-time.ts';
import { fieldAt } from '../../rows/records/field-at.ts';
import { goneStatements } from '../../database/state/stored-rows.ts';
import { forgetSuspects } from '../../database/state/suspects.ts';
import { forgetSourceTexts } from '../../database/state/versions.ts';
import { rowsOfDays, saveWindows } from '../../database/state/windows.ts';
import type { WindowRow } from '../../database/own-tables.ts';
import type { ResourceContext } from '../resource-context.ts';
import type { RunContext } from '../run-progress.ts';
import { contentsOf, type RowOfDay, type ToldTotals, whyHeldBack, type WindowContents } from './range-contents.ts';
import type { JoinedPage } from './read-range.ts';
import {
  type Day,
  dayBegin,
  dayBeginLatest,
  dayOf,
  dayOfCell,
  isFinalAt,
  type ReportWindow,
  windowAt,
} from './report-days.ts';
import type { ReportRange } from './report-ranges.ts';
import type { Reports } from './report-walk.ts';

/** An answer for a range, and what is known of it. */
export interface Replacement {
  range: ReportRange;
  page: JoinedPage;
  /** False if rows may be missing from it: nothing is deleted then. */
  isWhole: boolean;
  isCapped: boolean;
  /** Null if the totals are as counted. */
  totals: ToldTotals | null;
  /** Windows that stay as they are until a person decides, with the reason; null: then it throws `HeldBack` for them. */
  held: ReadonlyMap<Day, string> | null;
}

/** Thrown for windows that lose so much by an answer that it is asked for once more; nothing was written. */
export class HeldBack extends Error {
  /** The reason, by first day. */
  readonly windows: ReadonlyMap<Day, string>;

  constructor(windows: ReadonlyMap<Day, string>) {
    super('windows are held back');
    this.windows = windows;
  }
}

/** The counts of a replaced range. */
export interface Replaced {
  outcome: PageOutcome;
  deleted: number;
}

/**
 * Makes the windows of a range what an answer says, in one transaction: new and changed rows, tombstones for those that
 * the answer does not have, what is remembered of each window, and what `together` returns. Throws `HeldBack`, and
 * `SyncError`.
 */
export async function replaceRange(
  context: RunContext,
  reports: Reports,
  asked: Replacement,
  together: (replaced: Replaced) => CompiledQuery[],
): Promise<Replaced> {
  const { windows, reading, loader, rows } = reports;
  const startOf = (day: Day): Day => windowAt(day, windows.granularity).start;
  const isHeld = (day: Day | null): boolean => day !== null && asked.held?.has(startOf(day)) === true;
  const records =
    asked.held === null
      ? asked.page.records
      : asked.page.records.filter(({ value }) => !isHeld(dayOf(fieldAt(value, windows.field), reading)));
  const replaced: { deleted: number; rows: WindowRow[] } = { deleted: 0, rows: [] };
  const outcome = await loader.load({ ...asked.page, records }, async (facts, counted) => {
    const isWhole = asked.isWhole && facts.unkeyed === 0;
    const before = await rowsBefore(context, reports, asked);
    for (const [key, { day }] of before) if (isHeld(day)) before.delete(key);
    const taken = asked.range.windows.filter(({ start }) => !isHeld(start));
    const [now, at] = [timestampText(context.clock.now()), timestampText(asked.page.requestedAt)];
    // A row from a time that is still to come was written before our clock was put back.
    const mayGo = ({ syncedAt }: RowOfDay): boolean => syncedAt <= at || syncedAt > now;
    const contents = contentsOf(before, facts, taken, { isWhole, mayGo, reading, ...windows });
    if (asked.held === null) refuseLosses(contents, reports, context);
    await context.progress.columns.addPage(context, facts, at);
    const gone = contents.flatMap((one) => one.gone);
    const saved = [...contents.map((one) => rowOf(context, reports, asked, one)), ...heldRows(context, reports, asked)];
    Object.assign(replaced, { deleted: gone.length, rows: saved });
    return [
      ...goneIn(context, gone, before, asked.page.requestedAt),
      ...settled(context, reports, { listed: facts.keys, gone }),
      ...saveWindows(context.warehouse.own, saved),
      ...together({ outcome: counted, deleted: gone.length }),
    ];
  });
  for (const row of replaced.rows) rows.set(row.window_start, row);
  return { outcome, deleted: replaced.deleted };
}

/** The live rows of the days that were asked for, written before that. */
function rowsBefore(
  context: ResourceContext,
  reports: Reports,
  { range }: Replacement,
): Promise<Map<string, RowOfDay>> {
  const { rows: remembered, isKnown } = reports;
  // A first walk need not look: before its end there is no index on the day.
  if (isKnown && range.windows.every(({ start }) => !remembered.has(start))) return Promise.resolve(new Map());
  return rowsOfRange(context, reports, range, 'live');
}

/** The rows of some days, by their keys; deleted ones too if all are wanted. */
export async function rowsOfRange(
  { warehouse, owned, profile }: Pick<ResourceContext, 'warehouse' | 'owned' | 'profile'>,
  { windows, reading }: Pick<Reports, 'windows' | 'reading'>,
  { from, to }: Pick<ReportRange, 'from' | 'to'>,
  which: 'live' | 'all',
): Promise<Map<string, RowOfDay>> {
  const [table] = shapeOf(owned).tables;
  const column = table === undefined ? null : columnOf(table, profile.id, windows.field);
  if (table === undefined || column === null) return new Map();
  const zone = timeZone(windows.zone);
  const span = { from, to, begin: dayBegin(from, zone), end: dayBeginLatest(to, zone) };
  const rows = await rowsOfDays(warehouse, table, column, span, which);
  const found = new Map<string, RowOfDay>();
  for (const { key, syncedAt, cell } of rows) {
    const day = dayOfCell(cell, column.type, reading);
    if (day !== null && day >= from && day < to) found.set(key, { day, syncedAt });
  }
  return found;
}

/** Null for a field that never had a value. */
function columnOf(table: TableShape, id: string | readonly string[], field: string): Column | null {
  const [column] = updatedColumns(table.columns, { updated: field });
  if (column === undefined) return id === field ? { name: table.key[0] ?? '', path: [field], type: 'text' } : null;
  if (column.type !== 'json' && column.type !== 'boolean') return column;
  throw new SyncError('window_field', `the column ${column.name} is ${column.type}, so no rows can be found by day`, {
    recovery: 'stop',
    hint: `give the field its type in the profile, fields: { ${field}: { type: date } }, and make the tables anew: content-sync rebuild`,
  });
}

function refuseLosses(contents: readonly WindowContents[], { rows }: Reports, { deletes }: ResourceContext): void {
  const held = contents.flatMap((one): [Day, string][] => {
    const why = whyHeldBack(one, deletes);
    const isReleased = rows.get(one.window.start)?.released_at != null;
    return why === null || isReleased ? [] : [[one.window.start, why]];
  });
  if (held.length > 0) throw new HeldBack(new Map(held));
}

function rowOf(
  { owned: { resource } }: ResourceContext,
  { windows, rows }: Reports,
  { page: { requestedAt }, isCapped, isWhole, totals }: Replacement,
  { window, rows: count, hasChanged }: WindowContents,
): WindowRow {
  const before = rows.get(window.start);
  const at = timestampText(requestedAt);
  return {
    resource,
    window_start: window.start,
    window_end: window.end,
    fetched_at: at,
    is_final: (isWhole || isCapped) && isFinalAt(requestedAt, window, windows) ? 1 : 0,
    rows: count,
    totals: totals === null ? null : JSON.stringify(totals),
    capped: isCapped ? 1 : 0,
    changed_at: hasChanged ? at : (before?.changed_at ?? null),
    dropped_at: null,
    held_at: null,
    held: null,
    released_at: null,
  };
}

/** Windows that stay as they were, but for what a person is told of them. */
function heldRows(
  { owned: { resource } }: ResourceContext,
  { rows }: Reports,
  { range, page, held }: Replacement,
): WindowRow[] {
  const at = timestampText(page.requestedAt);
  return range.windows.flatMap((window) => {
    const why = held?.get(window.start);
    if (why === undefined) return [];
    const before = rows.get(window.start) ?? neverFetched(resource, window);
    return [{ ...before, is_final: 0, held_at: before.held_at ?? at, held: why }];
  });
}

function neverFetched(resource: string, { start, end }: ReportWindow): WindowRow {
  const none = { fetched_at: null, totals: null, changed_at: null, dropped_at: null } as const;
  const open = { held_at: null, held: null, released_at: null } as const;
  return { resource, window_start: start, window_end: end, is_final: 0, rows: 0, capped: 0, ...none, ...open };
}

/** What the answer lists, or has not, is known by that. */
function settled(
  { warehouse: { own }, owned: { resource } }: ResourceContext,
  { suspected }: Reports,
  { listed, gone }: { listed: readonly string[]; gone: readonly string[] },
): CompiledQuery[] {
  if (suspected.size === 0) return [];
  const among = (keys: readonly string[]): string[] => keys.filter((key) => suspected.has(key));
  return [...forgetSuspects(own, resource, among(listed), 'waiting'), ...forgetSuspects(own, resource, among(gone))];
}

/** Their tombstones are as old as the answer, or as the latest row that our clock, before it was put back, has stamped. */
function goneIn(
  { warehouse, owned, profile, clock }: ResourceContext,
  keys: readonly string[],
  before: ReadonlyMap<string, RowOfDay>,
  requestedAt: number,
): CompiledQuery[] {
  const [table, ...children] = shapeOf(owned).tables;
  if (table === undefined || keys.length === 0) return [];
  const now = timestampText(clock.now());
  const asked = timestampText(requestedAt);
  const stamps = keys.map((key) => before.get(key)?.syncedAt ?? '').filter((stamp) => stamp > now);
  const at = [asked, ...stamps].toSorted().at(-1) ?? asked;
  const { resource } = owned;
  const gone = { resource, history: profile.history, table, children, keys, at, deletedAt: null };
  return [
    ...goneStatements(warehouse, gone),
    ...(profile.mask === null ? [] : [forgetSourceTexts(warehouse.own, resource)]),
  ];
}
