// Keeps the views right while tables grow. If a table gets a column, the views that show it must be created again, in the
// same transaction (`planViewGrowth`). If a row has a time of a year that the view `calendar` lacks, the days of that year
// are added before the row is written (`growCalendarForRows`), so that a join with the calendar loses no row.
import { isDeepStrictEqual } from 'node:util';
import { type CompiledQuery, type Kysely, sql } from 'kysely';
import type { Relations } from '../config/profile/profile.ts';
import type { OwnTables } from '../database/own-tables.ts';
import {
  claimGrowth,
  columnKey,
  describeColumns,
  type MadeView,
  readComments,
  readGrowths,
  readShapes,
  readViews,
  rememberViews,
  renameView,
  saveComments,
  type StoredView,
} from '../database/state/catalog.ts';
import { resourcesCopyingFiles } from '../database/state/files.ts';
import { inParts } from '../database/state/in-parts.ts';
import type { ViewChange } from '../database/view-dialect.ts';
import type { ColumnComment, Warehouse } from '../database/warehouse.ts';
import type { Column, ResourceShape, TableRows, TableShape } from '../model/table.ts';
import { type CalendarDay, daysOfYears, timestampText, type Years } from '../model/timestamp-text.ts';
import { type ExistingViews, planViews, toViewChange } from '../views/plan-views.ts';
import type { ExistingColumn, PlannedView, Relation, ViewedResource, ViewModel } from '../views/view.ts';
import type { CopiedProfile, LoadContext } from './load-context.ts';

/** The planned views, and the statements that store their definitions. */
export interface ViewGrowth {
  plan: readonly PlannedView[];
  /** All views, and which of them must be created again. */
  views: readonly ViewChange[];
  /** The comments of all tables that may change, by the present profile. */
  comments: readonly ColumnComment[];
  statements: readonly CompiledQuery[];
  /** Fails if another process has changed tables or views since this was planned. */
  claim: CompiledQuery;
  /** How many times tables and views had changed before. */
  growths: number;
}

/** The parts of the context that planning needs. */
type ViewContext = Pick<LoadContext, 'warehouse' | 'whole' | 'clock'>;

/**
 * Plans the views as they must be if the resource has the tables of `after`. Changes nothing. The views in `held` keep the
 * types of their columns, because external objects depend on them.
 */
export async function planViewGrowth(
  context: ViewContext,
  after: ResourceShape,
  { held = new Set(), mayNarrow = false }: { held?: ReadonlySet<string>; mayNarrow?: boolean } = {},
): Promise<ViewGrowth> {
  const { warehouse, whole, clock } = context;
  const { own } = warehouse;
  const growths = await readGrowths(own);
  const stored = await readViews(own);
  const names = await warehouse.rows.tableNames();
  const others = (await readShapes(own)).filter(({ resource }) => resource !== after.resource);
  const shapes = [...others, after];
  const { model, comments } = createModel(context, shapes, await resourcesCopyingFiles(own, whole.resources));
  const planned = planViews(model, {
    ...describeExistingViews(whole, stored, names, shapes),
    typesFixed: held,
    mayNarrow,
  });
  // Another session may have dropped a view, with a table or by itself.
  const isThere = ({ name }: PlannedView): boolean => names.has(name.toLowerCase());
  const changed = new Set(planned.filter((view) => !isThere(view) || !isUpToDate(view, stored.get(view.name))));
  const affected = new Set([...changed].map(({ resource }) => resource)).add(after.resource);
  const tables = model.resources.flatMap((each) => (affected.has(each.resource) ? each.tables : []));
  return {
    plan: planned,
    views: planned.map((view) => toViewChange(view, changed.has(view))),
    comments: comments.filter(({ table }) => tables.some(({ name }) => name === table)),
    statements: [
      ...planned.flatMap(({ name, former }) => (former === undefined ? [] : renameView(own, former, name))),
      ...rememberViews(own, [...changed].map(toCatalogRow), timestampText(clock.now())),
      ...saveChangedComments(own, comments, await readComments(own)),
    ],
    claim: claimGrowth(own, growths),
    growths,
  };
}

/** Returns the columns of the views in the database, and the names that managed views must not use. */
function describeExistingViews(
  whole: CopiedProfile,
  stored: ReadonlyMap<string, StoredView>,
  names: ReadonlySet<string>,
  shapes: readonly ResourceShape[],
): Pick<ExistingViews, 'columns' | 'taken'> {
  // Migrations create this view, which is not among the stored ones.
  const columns = new Map<string, ExistingColumn[]>(names.has('sync_freshness') ? [['sync_freshness', []]] : []);
  for (const [name, { columns: rows }] of stored) {
    const existing = rows.map(({ column_name, type, source_path, is_computed }) => {
      return { name: column_name, type, source: is_computed === 1 ? null : source_path };
    });
    columns.set(name, existing);
  }
  // The name of a resource without a table is taken too, unless a managed view has it until the table is created.
  const taken = new Set([...names, ...Object.keys(whole.resources).map((name) => name.toLowerCase())]);
  for (const name of columns.keys()) taken.delete(name.toLowerCase());
  for (const { tables } of shapes) for (const { name } of tables) taken.add(name.toLowerCase());
  return { columns, taken };
}

/** Returns the input for planning the views, and the comments on all tables and columns. */
function createModel(
  { warehouse, whole }: ViewContext,
  shapes: readonly ResourceShape[],
  withFiles: ReadonlySet<string>,
): { model: Omit<ViewModel, 'existing'>; comments: ColumnComment[] } {
  const all: ColumnComment[] = [];
  const resources = Object.entries(whole.resources).flatMap(([resource, profile]): ViewedResource[] => {
    const shape = shapes.find((each) => each.resource === resource);
    if (shape === undefined) return [];
    const ofResource = describeColumns(shape, profile);
    all.push(...ofResource);
    const comments = new Map<string, Map<string, string>>();
    for (const { table, column, comment } of ofResource) {
      const ofTable = comments.get(table) ?? new Map<string, string>();
      comments.set(table, column === null ? ofTable : ofTable.set(column, comment));
    }
    return [{ ...shape, profile, comments, hasFiles: withFiles.has(resource) }];
  });
  const relations = resolveRelations(whole.relations, resources);
  const { copied = Object.keys(whole.resources) } = whole;
  return { model: { resources, relations, copied, dialect: warehouse.dialect }, comments: all };
}

/** Stores comments that have changed. The comment of a new column is stored with the column. */
function saveChangedComments(
  own: LoadContext['warehouse']['own'],
  comments: readonly ColumnComment[],
  stored: ReadonlyMap<string, string | null>,
): CompiledQuery[] {
  const changed = comments.flatMap(({ table, column, comment }) => {
    const before = column === null ? undefined : stored.get(columnKey(table, column));
    return column === null || before === undefined || before === comment ? [] : [{ table, column, text: comment }];
  });
  return saveComments(own, changed);
}

function toCatalogRow({ name, resource, query, description, columns }: PlannedView): MadeView {
  return {
    view_name: name,
    resource,
    query,
    description,
    columns: columns.map((column) => ({
      column_name: column.name,
      type: column.type,
      source_path: column.source,
      description: column.description,
      refers_to: column.references,
      is_computed: column.isComputed === true ? 1 : 0,
    })),
  };
}

/** True if the catalog has the view as it is planned. */
function isUpToDate(view: PlannedView, stored: StoredView | undefined): boolean {
  if (stored === undefined) return false;
  const { made_at: _, ...known } = stored.view;
  const columns = stored.columns.map(({ view_name: _name, position: _at, first_seen: _since, ...column }) => column);
  return isDeepStrictEqual(toCatalogRow(view), { ...known, columns });
}

/**
 * Returns the relations of a profile whose columns exist: from a column of any table to the key of a resource's own
 * table.
 */
function resolveRelations(declared: Relations, shapes: readonly ResourceShape[]): Relation[] {
  const tables = shapes.flatMap(({ resource, tables: each }) => each.map((table) => ({ resource, table })));
  const findColumn = (text: string): Relation['from'] | null => {
    const [name, column = ''] = text.split('.');
    const found = tables.find(({ table }) => table.name === name);
    return found === undefined || !hasColumn(found.table, column) ? null : { ...found, column };
  };
  return Object.entries(declared).flatMap(([source, target]) => {
    const [from, to] = [findColumn(source), findColumn(target)];
    const isKey = to !== null && to.table.path.length === 0 && to.table.key[0] === to.column;
    return from === null || to === null || !isKey ? [] : [{ from, to }];
  });
}

function hasColumn(table: TableShape, name: string): boolean {
  return table.key.includes(name) || table.columns.some((column) => column.name === name);
}

/** Years after the current one that the calendar has, because users plan ahead. */
const YEARS_AHEAD = 2;
/** Times before this year, or too many years ahead, are typing errors or placeholders. */
const FIRST_YEAR = 1970;
const MAX_YEARS_AHEAD = 10;

/**
 * Adds the days that the calendar lacks, up to two years ahead, when a run begins. The tables are searched for times only
 * if there is no calendar yet, as after an upgrade.
 */
export async function growCalendar({ warehouse, owned, clock }: LoadContext): Promise<void> {
  const year = yearOf(clock.now());
  const stored = await readCalendarYears(warehouse.own);
  const found = stored === null ? await readTableYears(warehouse, year) : null;
  owned.years = await extendCalendar(warehouse, stored, found, year);
}

/** Adds the days of rows before the rows are written, so that no row is without its day after a kill. */
export async function growCalendarForRows(
  { warehouse, owned, clock }: LoadContext,
  rows: readonly TableRows[],
): Promise<void> {
  if (rows.length === 0) return;
  const year = yearOf(clock.now());
  const found = findYears(rows, year);
  owned.years ??= await readCalendarYears(warehouse.own);
  if (owned.years !== null && (found === null || (found[0] >= owned.years[0] && found[1] <= owned.years[1]))) return;
  owned.years = await extendCalendar(warehouse, owned.years, found, year);
}

/** Adds missing years. Returns the first and the last year of the calendar. */
async function extendCalendar(
  warehouse: Warehouse,
  stored: Years | null,
  found: Years | null,
  year: number,
): Promise<Years> {
  const [from, to] = stored ?? [year, year];
  const [first, last] = found ?? [year, year];
  const wanted: Years = [Math.min(first, from, year), Math.max(last, to, year + YEARS_AHEAD)];
  const days = addYears(warehouse.own, stored, wanted);
  if (days.length > 0) await warehouse.apply(days);
  return wanted;
}

function yearOf(ms: number): number {
  return new Date(ms).getUTCFullYear();
}

/** Reads the first and the last year of all stored times; null if there are none. */
async function readTableYears(warehouse: Warehouse, year: number): Promise<Years | null> {
  const years: number[] = [];
  for (const table of (await readShapes(warehouse.own)).flatMap(({ tables }) => tables)) {
    const span = await warehouse.rows.timeSpan(table, table.columns.filter(isTime), plausibleTimes(year));
    years.push(...(span ?? []).map((time) => Number(time.slice(0, 4))));
  }
  return years.length === 0 ? null : [Math.min(...years), Math.max(...years)];
}

/** Returns the first and the last year of the plausible times in the rows; null if there are none. Called for every page. */
function findYears(rows: readonly TableRows[], now: number): Years | null {
  const [min, max] = plausibleTimes(now);
  let [first, last] = [max, min];
  for (const { table, width, cells } of rows) {
    for (const [index, column] of table.columns.entries()) {
      if (!isTime(column)) continue;
      for (let cell = table.key.length + index; cell < cells.length; cell += width) {
        const time = cells[cell];
        if (typeof time !== 'string' || time < min || time >= max) continue;
        if (time < first) first = time;
        if (time > last) last = time;
      }
    }
  }
  return first === max ? null : [Number(first.slice(0, 4)), Number(last.slice(0, 4))];
}

/** Returns the range of times that are plausible in the year `now`. */
function plausibleTimes(now: number): [from: string, before: string] {
  return [`${FIRST_YEAR}-01-01`, `${now + MAX_YEARS_AHEAD}-01-01`];
}

function isTime({ type }: Column): boolean {
  return type === 'date' || type === 'timestamp';
}

/** A statement then has about 60 kB of text. */
const YEARS_PER_STATEMENT = 3;
const COLUMNS = ['date', 'month', 'quarter', 'year', 'iso_week', 'weekday', 'is_weekend'] as const;

/** Reads the first and the last year of the calendar; null if it is empty. */
export async function readCalendarYears(own: Kysely<OwnTables>): Promise<Years | null> {
  // Two subqueries, because only single ones use the index.
  const days = own.selectFrom('_sync_calendar').select('date').limit(1);
  const ends = [days.orderBy('date').as('first'), days.orderBy('date', 'desc').as('last')] as const;
  const { first, last } = await own.selectNoFrom(ends).executeTakeFirstOrThrow();
  return first === null || last === null ? null : [Number(first.slice(0, 4)), Number(last.slice(0, 4))];
}

/** Returns the statements that add the missing days. Two processes may add the same days at the same time. */
export function addYears(own: Kysely<OwnTables>, stored: Years | null, [first, last]: Years): CompiledQuery[] {
  const years = Array.from({ length: last + 1 - first }, (_, at) => first + at);
  const missing = years.filter((year) => stored === null || year < stored[0] || year > stored[1]);
  return inParts(missing, YEARS_PER_STATEMENT).map((part) => {
    const days = part.flatMap((year) => daysOfYears(year, year).map(toLiterals)).join(', ');
    const insert = own.insertInto('_sync_calendar').columns(COLUMNS);
    const onlyNew = insert.expression(sql`VALUES ${sql.raw(days)}`).onConflict((on) => on.column('date').doNothing());
    return onlyNew.compile();
  });
}

/** Returns the values as SQL literals, because binding thousands of values is slower. All values are our own. */
function toLiterals(day: CalendarDay): string {
  const values = COLUMNS.map((column) => (typeof day[column] === 'string' ? `'${day[column]}'` : String(day[column])));
  return `(${values.join(',')})`;
}
