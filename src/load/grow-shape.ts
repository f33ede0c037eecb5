// Fits the tables of a resource to its records. Example: all values of `size` were numbers, and a record has the text `9 MB`.
// `shapeAndGrow` makes `size` a column of texts, in the views too, and `finishReshape` rewrites the rows whose values the new
// type stores differently. After a scan, `maintainKeys` creates missing indexes.
import { setImmediate } from 'node:timers/promises';
import type { CompiledQuery } from 'kysely';
import type { Relations, ResourceProfile } from '../config/profile/profile.ts';
import { readGrowths, rememberShape } from '../database/state/catalog.ts';
import { readRewrittenUpTo, requestRewrite, saveRewrittenUpTo } from '../database/state/checkpoints.ts';
import type { FixedColumn, HeldView } from '../database/state/owned-resource.ts';
import { rewriteRows } from '../database/state/stored-rows.ts';
import { bodiesAfter, type StoredBody } from '../database/state/versions.ts';
import type { ColumnIndex, KeyPlan } from '../database/table-layout.ts';
import { type DroppedView, GROWTH_OUTDATED, TableInUseError, type Warehouse } from '../database/warehouse.ts';
import { SyncError } from '../model/errors.ts';
import type { ResourceShape, ShapeChange, TableShape } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import type { ColumnType } from '../model/vocabulary.ts';
import { pathText } from '../rows/columns/column-name.ts';
import { updatedColumns } from '../rows/columns/updated-time.ts';
import { changesStoredRows, changeTypes, shapeChanges } from '../rows/evolve-shape.ts';
import { storedValue } from '../rows/records/as-record.ts';
import { type ShapedPage, type ShapeInput, shapeRecords } from '../rows/shape-page.ts';
import type { ShapeProfile } from '../rows/shape-tree.ts';
import { growCalendarForRows, planViewGrowth, type ViewGrowth } from './grow-views.ts';
import type { LoadContext } from './load-context.ts';
import { shapeOf } from './prepare-page.ts';

/**
 * Shapes records into rows and widens the tables to hold them. If an external object, such as a user's view, keeps a column
 * from widening, the records that need the wider type are among the rejects.
 */
export async function shapeAndGrow(
  context: LoadContext,
  records: ShapeInput['records'],
): Promise<ShapedPage & { grown: boolean }> {
  const { owned } = context;
  for (;;) {
    const before = shapeOf(owned);
    const profile = withFixedColumns(context.profile, owned.fixedColumns);
    const shaped = await shapeForWarehouse(context, { shape: before, profile, records });
    if (shaped.shape === before) return { ...shaped, grown: false };
    try {
      await growTables(context, before, shaped.shape, shaped.changes);
      return { ...shaped, grown: true };
    } catch (error) {
      fixColumns(context, before, error);
    }
  }
}

/**
 * Shapes records into rows. If the tables must grow, shapes them again without the names that are taken, and with numeric
 * instead of double for integer columns whose values would lose digits.
 */
async function shapeForWarehouse(context: LoadContext, input: ShapeInput): Promise<ShapedPage> {
  const shaped = shapeRecords(input);
  if (shaped.shape === input.shape) return shaped;
  const tableNames = await takenNames(context, input.shape);
  const start = withNumeric(input.shape, await numericColumns(context.warehouse, shaped.changes));
  const again = shapeRecords({ ...input, shape: start, tableNames });
  return { ...again, changes: shapeChanges(input.shape, again.shape) };
}

/**
 * Changes the warehouse's tables from `before` to `after`. If the stored bodies would give other rows now, the same
 * transaction notes that the rows must be rewritten, which `finishReshape` does. Throws `TableInUseError`.
 */
export async function growTables(
  context: LoadContext,
  before: ResourceShape | null,
  after: ResourceShape,
  changes: readonly ShapeChange[],
): Promise<void> {
  const { warehouse, owned, profile } = context;
  const at = timestampText(context.clock.now());
  const needsRewrite =
    before !== null &&
    profile.history !== 'none' &&
    changes.some((change) => changesStoredRows(before, change, profile));
  await evolveTables(context, { before, after, changes }, [
    ...rememberShape(warehouse.own, before, after, changes, { at, runId: context.runId, descriptions: profile }),
    ...(needsRewrite ? [requestRewrite(warehouse.own, owned.resource, at)] : []),
  ]);
  owned.shape = after;
}

/** Keeps the types of the columns that the error names, for the rest of the run. Throws the error if it names none. */
export function fixColumns({ owned }: LoadContext, { tables }: ResourceShape, error: unknown): void {
  if (!(error instanceof TableInUseError)) throw error;
  const fixed = error.columns.flatMap(({ table, column: name, by }) => {
    const column = tables.find((each) => each.name === table)?.columns.find((each) => each.name === name);
    return column === undefined ? [] : [{ path: column.path, type: column.type, by }];
  });
  if (fixed.length === 0) throw error;
  owned.fixedColumns = [...owned.fixedColumns, ...fixed];
}

/** Returns the profile as if it set the types of these columns. */
function withFixedColumns<P extends ShapeProfile>(profile: P, columns: readonly FixedColumn[]): P {
  if (columns.length === 0) return profile;
  const fields = columns.map(({ path, type, by }) => {
    return [pathText(path), { ...profile.fields?.[pathText(path)], type, fixedBy: by }] as const;
  });
  return { ...profile, fields: { ...profile.fields, ...Object.fromEntries(fields) } };
}

/** Returns the names of existing tables and views, and names that are reserved for other resources. */
export async function takenNames({ warehouse, owned, whole }: LoadContext, shape: ResourceShape): Promise<Set<string>> {
  const taken = await warehouse.rows.tableNames();
  for (const { name } of shape.tables) taken.delete(name);
  const others = Object.keys(whole.resources).filter((other) => other !== owned.resource);
  for (const other of others) for (const name of [other, `${other}_live`, `${other}_history`]) taken.add(name);
  return taken;
}

/** Returns the integer columns that become double although a double would lose digits of their values: `table column`. */
async function numericColumns(warehouse: Warehouse, changes: readonly ShapeChange[]): Promise<Set<string>> {
  const numeric = new Set<string>();
  for (const { table, column, from } of changes) {
    if (from !== 'integer' || column.type !== 'double') continue;
    if (await warehouse.rows.holdsBeyondDouble(table, column.name)) numeric.add(`${table} ${column.name}`);
  }
  return numeric;
}

/** Makes these columns numeric; they are named as `table column`. */
export function withNumeric(shape: ResourceShape, numeric: ReadonlySet<string>): ResourceShape {
  return changeTypes(shape, ({ name, type }, table) => (numeric.has(`${table.name} ${name}`) ? 'numeric' : type));
}

/** Stored bodies that are rewritten in one transaction. */
const RECORDS_PER_PAGE = 500;

/**
 * Rewrites a resource's rows from the stored bodies if a widening has made that necessary, a page per transaction. An
 * interrupted rewrite resumes where it stopped. Records whose body is not stored stay as the widening converted them.
 * The bodies may make the tables grow.
 */
export async function finishReshape(context: LoadContext): Promise<void> {
  const { warehouse, owned, profile, signal } = context;
  const { resource } = owned;
  const lenient = { ...context, profile: lenientProfile(profile) };
  for (;;) {
    const doneUpTo = await readRewrittenUpTo(warehouse.own, resource);
    if (doneUpTo === null) return;
    const bodies = await bodiesAfter(warehouse.own, resource, doneUpTo, RECORDS_PER_PAGE);
    await rewritePage(lenient, bodies);
    // SQLite does not yield: without this, requests and signals would wait for the last page.
    await setImmediate();
    signal.throwIfAborted();
  }
}

/** Returns the profile for stored bodies: values that its contract discards stay discarded, and no body is rejected. */
export function lenientProfile(profile: ResourceProfile): ResourceProfile {
  return { ...profile, contract: profile.contract === 'evolve' ? 'evolve' : 'discard_value' };
}

/** Rewrites the rows of a page of bodies; if the page makes the tables grow, the rewrite begins again. */
async function rewritePage(context: LoadContext, bodies: readonly StoredBody[]): Promise<void> {
  const { warehouse, owned, profile } = context;
  const records = bodies.map(({ id, body }) => ({
    key: id,
    value: storedValue(body, profile),
    bytes: Buffer.from(body),
  }));
  const shaped = await shapeAndGrow(context, records);
  if (shaped.grown) return;
  const last = bodies.length < RECORDS_PER_PAGE ? null : (bodies.at(-1)?.id ?? null);
  await growCalendarForRows(context, shaped.rows);
  await rewriteRows(warehouse, {
    lease: owned.lease(),
    resource: owned.resource,
    rows: shaped.rows,
    versions: new Map(bodies.map(({ id, version }) => [id, version])),
    children: shaped.shape.tables.slice(1),
    statements: [saveRewrittenUpTo(warehouse.own, owned.resource, last)],
  });
}

interface TableGrowth {
  before: ResourceShape | null;
  after: ResourceShape;
  changes: readonly ShapeChange[];
  /** True if external views that do not fit the new types are dropped. */
  dropsOthers?: boolean;
}

/**
 * Changes tables and all views in one transaction, with these statements on internal tables. Plans again if another
 * resource has changed its tables meanwhile.
 *
 * If an external object prevents a view from getting a wider type, the view keeps its type and is listed in
 * `owned.heldViews`. Throws `TableInUseError` if a column of a table cannot widen for that reason. Returns the external
 * views that were dropped.
 */
async function evolveTables(
  context: LoadContext,
  growth: TableGrowth,
  catalogStatements: readonly CompiledQuery[],
): Promise<readonly DroppedView[]> {
  const { warehouse, owned, whole } = context;
  const references = new Set(Object.keys(whole.relations));
  // The external object that keeps a view from changing, by the name of the view.
  const blockers = new Map<string, string>();
  // The query of each view as it would be with all wider types.
  const wideQueries = new Map<string, string>();
  for (;;) {
    const options = { held: new Set(blockers.keys()), mayNarrow: growth.dropsOthers === true };
    const planned = await planViewGrowth(context, growth.after, options);
    const { views, comments, claim } = planned;
    if (blockers.size === 0) for (const { name, query } of planned.plan) wideQueries.set(name, query);
    const statements = [...planned.statements, ...catalogStatements];
    owned.heldViews = findHeldViews(planned, blockers, wideQueries);
    if (statements.length === 0 && growth.changes.length === 0) {
      noteUpToDate(context, planned);
      return [];
    }
    try {
      const change = { ...growth, views, comments, references, statements, claim };
      return await warehouse.evolve({ ...change, lease: owned.lease() });
    } catch (error) {
      if (error instanceof SyncError && error.code === GROWTH_OUTDATED) blockers.clear();
      else addBlockers(blockers, error);
    }
  }
}

/** Adds the views that cannot change, which keep their types in the next attempt. Throws any other error. */
function addBlockers(blockers: Map<string, string>, error: unknown): void {
  const blocked = error instanceof TableInUseError && error.columns.length === 0 ? error.views : [];
  const added = blocked.filter(({ view }) => !blockers.has(view));
  if (added.length === 0) throw error;
  for (const { view, by } of added) blockers.set(view, by);
}

function findHeldViews(
  { plan }: ViewGrowth,
  blockers: ReadonlyMap<string, string>,
  wideQueries: ReadonlyMap<string, string>,
): HeldView[] {
  return plan.flatMap(({ name: view, resource, columns: all }) => {
    const [by, query] = [blockers.get(view), wideQueries.get(view)];
    const columns = all.flatMap(({ name, type, needs }) => (needs === undefined ? [] : [{ name, type, needs }]));
    return by === undefined || query === undefined ? [] : [{ view, resource, by, query, columns }];
  });
}

/** Each attempt at a change that external objects prevent locks readers out briefly, so it is retried rarely. */
const HELD_RETRY_MS = 600_000;

/** Notes that nothing has to change until tables or views change, or until held views are tried again. */
function noteUpToDate({ owned, whole, clock }: LoadContext, { views, growths }: ViewGrowth): void {
  const { heldViews, sourceViews } = owned;
  const until = heldViews.length === 0 ? Infinity : clock.now() + HELD_RETRY_MS;
  sourceViews.upToDate = { whole, growths, names: views.map(({ name }) => name), heldViews, until };
}

/**
 * Brings the views up to date with the tables and the profile: an earlier version of the program or of the profile may
 * have created them. Skips the plan if nothing has changed since the last one of this process.
 */
export async function refreshViews(context: LoadContext, dropsOthers = false): Promise<readonly DroppedView[]> {
  const { sourceViews } = context.owned;
  // One plan covers all resources, so those that begin together share it.
  const refreshed = sourceViews.refreshed.then(async () => {
    const { shape } = context.owned;
    if (shape === null || (!dropsOthers && (await areUpToDate(context)))) return [];
    return evolveTables(context, { before: shape, after: shape, changes: [], dropsOthers }, []);
  });
  sourceViews.refreshed = refreshed.catch(() => undefined);
  return refreshed;
}

/** True if nothing has changed since the last plan that found nothing to do. Another session may have dropped a view. */
async function areUpToDate({ warehouse, whole, owned, clock }: LoadContext): Promise<boolean> {
  const known = owned.sourceViews.upToDate;
  if (known === null || known.whole !== whole || known.until < clock.now()) return false;
  if (known.growths !== (await readGrowths(warehouse.own))) return false;
  const names = await warehouse.rows.tableNames();
  owned.heldViews = known.heldViews;
  return known.names.every((name) => names.has(name.toLowerCase()));
}

/**
 * Creates missing indexes of a resource's tables. It runs after a scan, so that no index slows a backfill down;
 * one that was interrupted, or would have blocked other sessions, is created after the next scan.
 */
export async function maintainKeys(context: LoadContext): Promise<void> {
  const { warehouse, owned, profile, whole } = context;
  const { shape } = owned;
  if (shape === null) return;
  await warehouse.maintainKeys(planKeys(shape, profile, whole.relations), () => owned.lease());
}

/** Plans the indexes of a resource's tables, by `indexes` of its profile. */
function planKeys({ tables }: ResourceShape, profile: ResourceProfile, relations: Relations): KeyPlan {
  const { indexes } = profile;
  if (indexes === 'none') return { tables, indexes: [] };
  if (indexes === 'auto') return { tables, indexes: planAutomaticIndexes(tables, profile, relations) };
  return { tables, indexes: indexes.flatMap((text) => parseIndex(text, tables) ?? []) };
}

/** Types for range queries; a text may be too long for an index. */
const ORDERED: ReadonlySet<ColumnType> = new Set(['date', 'timestamp', 'integer']);
/** Names of columns with the time of publishing. */
const PUBLISHED = /(^|_)published(_|$)/;

/** Plans at most one index per column: for a window of reports, a time of change or of publishing, or a reference. */
function planAutomaticIndexes(
  tables: readonly TableShape[],
  { updated, windows }: ResourceProfile,
  relations: Relations,
): ColumnIndex[] {
  const [main] = tables;
  if (main === undefined) return [];
  const days = windows === null ? [] : updatedColumns(main.columns, { updated: windows.field });
  const published = main.columns.find(
    ({ name, type }) => (type === 'date' || type === 'timestamp') && PUBLISHED.test(name),
  );
  const times = [...updatedColumns(main.columns, { updated }), ...(published === undefined ? [] : [published])];
  const indexes = [
    // Windows are selected by day, also if days are texts.
    ...days
      .filter(({ type }) => ORDERED.has(type) || type === 'text')
      .map(({ name }): ColumnIndex => ({ table: main, column: name, why: 'window' })),
    ...times
      .filter(({ type }) => ORDERED.has(type))
      .map(({ name }): ColumnIndex => ({ table: main, column: name, why: 'filter' })),
    ...findReferences(tables, relations),
  ];
  return indexes.filter(
    ({ table, column }, at) => indexes.findIndex((each) => each.table === table && each.column === column) === at,
  );
}

/** Finds the columns that hold the key of a resource, also of one that has no table yet. Keys have an index already. */
function findReferences(tables: readonly TableShape[], relations: Relations): ColumnIndex[] {
  return Object.keys(relations).flatMap((source): ColumnIndex[] => {
    const [from = '', column = ''] = source.split('.');
    const table = tables.find(({ name }) => name === from);
    const names = table === undefined ? [] : [...table.key.slice(1), ...table.columns.map(({ name }) => name)];
    return table === undefined || !names.includes(column) ? [] : [{ table, column, why: 'reference' }];
  });
}

/** Parses `published_at`, a column of the main table, or `content_tags.value`; null if the column does not exist yet. */
function parseIndex(text: string, tables: readonly TableShape[]): ColumnIndex | null {
  const [first = '', second] = text.split('.');
  const table = second === undefined ? tables[0] : tables.find(({ name }) => name === first);
  const column = table?.columns.find(({ name, type }) => name === (second ?? first) && type !== 'json');
  return table === undefined || column === undefined ? null : { table, column: column.name, why: 'chosen' };
}
