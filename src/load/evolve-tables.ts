import type { CompiledQuery } from 'kysely';
import { readGrowths, readShapes } from '../database/state/catalog.ts';
import type { HeldView } from '../database/state/owned-resource.ts';
import { type DroppedView, GROWTH_OUTDATED, InUse } from '../database/warehouse.ts';
import { SyncError } from '../model/errors.ts';
import type { ResourceShape, ShapeChange } from '../model/table.ts';
import { planKeys } from '../views/key-plan.ts';
import { type ViewGrowth, viewGrowth } from './grow-views.ts';
import type { LoadContext } from './load-context.ts';

// Changes the tables of a resource, and with them the views of the source.

/** A change of a resource's tables. */
export interface TableGrowth {
  before: ResourceShape | null;
  after: ResourceShape;
  changes: readonly ShapeChange[];
  /** True if external views that cannot follow are dropped. */
  dropsOthers?: boolean;
}

/**
 * Changes tables, and with them the views, which show those of all resources; `remembered` are the statements on own
 * tables that belong to it. It is planned again where another resource has changed its own tables meanwhile.
 *
 * A view that cannot get a wider type, because external objects that depend on it cannot follow, keeps its type, and
 * `owned.heldViews` names it. Throws `InUse` if a column of a table cannot widen for that reason. Returns the external
 * views that were dropped.
 */
export async function evolveTables(
  context: LoadContext,
  growth: TableGrowth,
  remembered: readonly CompiledQuery[],
): Promise<readonly DroppedView[]> {
  const { warehouse, owned, whole } = context;
  const references = new Set(Object.keys(whole.relations));
  const held = new Map<string, string>();
  const wide = new Map<string, string>();
  for (;;) {
    const mayNarrow = growth.dropsOthers === true;
    const planned = await viewGrowth(context, growth.after, { held: new Set(held.keys()), mayNarrow });
    const { views, comments, claim, growths } = planned;
    if (held.size === 0) for (const { name, query } of planned.plan) wide.set(name, query);
    const statements = [...planned.statements, ...remembered];
    const blocked = heldViews(planned, held, wide);
    owned.heldViews = blocked;
    if (statements.length === 0 && growth.changes.length === 0) {
      const until = blocked.length === 0 ? Infinity : context.clock.now() + HELD_MS;
      owned.sourceViews.upToDate = { whole, growths, names: views.map(({ name }) => name), heldViews: blocked, until };
      return [];
    }
    try {
      const change = { ...growth, views, comments, references, statements, claim };
      return await warehouse.evolve({ ...change, lease: owned.lease() });
    } catch (error) {
      if (error instanceof SyncError && error.code === GROWTH_OUTDATED) {
        held.clear();
        continue;
      }
      const inUse = error instanceof InUse && error.columns.length === 0 ? error.views : [];
      const more = inUse.filter(({ view }) => !held.has(view));
      if (more.length === 0) throw error;
      for (const { view, by } of more) held.set(view, by);
    }
  }
}

/** `held` has the names of external objects, `wide` the queries with the wider types, by view. */
function heldViews(
  { plan }: ViewGrowth,
  held: ReadonlyMap<string, string>,
  wide: ReadonlyMap<string, string>,
): HeldView[] {
  return plan.flatMap(({ name, resource, columns: all }) => {
    const [by, query] = [held.get(name), wide.get(name)];
    const columns = all.flatMap((column) => {
      return column.needs === undefined ? [] : [{ name: column.name, type: column.type, needs: column.needs }];
    });
    return by === undefined || query === undefined ? [] : [{ view: name, resource, by, query, columns }];
  });
}

/** Each attempt at a change that external objects prevent locks readers out briefly, so it is retried rarely. */
const HELD_MS = 600_000;

/**
 * Brings the views up to date with the tables and the profile as they are now: another version of this program or of
 * the profile may have made them. Plans nothing where nothing has changed since this process has looked.
 */
export async function refreshViews(context: LoadContext, dropsOthers = false): Promise<readonly DroppedView[]> {
  const { sourceViews } = context.owned;
  // A plan has the tables of all resources: those of a run, which begin together, share one.
  const refreshed = sourceViews.refreshed.then(() => refreshNow(context, dropsOthers));
  sourceViews.refreshed = refreshed.catch(() => undefined);
  return refreshed;
}

async function refreshNow(context: LoadContext, dropsOthers: boolean): Promise<readonly DroppedView[]> {
  const { shape } = context.owned;
  if (shape === null || (!dropsOthers && (await areUpToDate(context)))) return [];
  return evolveTables(context, { before: shape, after: shape, changes: [], dropsOthers }, []);
}

/** Another session may have dropped a view. */
async function areUpToDate({ warehouse, whole, owned, clock }: LoadContext): Promise<boolean> {
  const known = owned.sourceViews.upToDate;
  if (known === null || known.whole !== whole || known.until < clock.now()) return false;
  if (known.growths !== (await readGrowths(warehouse.own))) return false;
  const names = await warehouse.rows.tableNames();
  owned.heldViews = known.heldViews;
  return known.names.every((name) => names.has(name.toLowerCase()));
}

/**
 * Makes the keys and indexes that a resource's tables lack. It runs after a scan, so that none slows a backfill down; what
 * was interrupted, or would have blocked other sessions, is made after the next scan.
 */
export async function maintainKeys(context: LoadContext): Promise<void> {
  const { warehouse, owned, profile, whole } = context;
  const { shape } = owned;
  if (shape === null) return;
  const stored = await readShapes(warehouse.own);
  const shapes = [...stored.filter(({ resource }) => resource !== shape.resource), shape];
  await warehouse.maintainKeys(planKeys(shape, profile, whole.relations, shapes), () => owned.lease());
}
