import type { CompiledQuery } from 'kysely';
import { SyncError } from '../model/errors.ts';
import type { ResourceShape, ShapeChange } from '../model/table.ts';
import { besideColumns } from '../shape/beside-column.ts';
import { InUse } from '../warehouse/in-use.ts';
import { readGrowths } from '../state/view-catalog.ts';
import { GROWTH_OUTDATED, type Warehouse } from '../warehouse/warehouse.ts';
import { viewGrowth } from './grow-views.ts';
import type { LoadContext } from './load-context.ts';

/** A change of a resource's tables. */
export interface TableGrowth {
  before: ResourceShape | null;
  after: ResourceShape;
  changes: readonly ShapeChange[];
}

/** What is remembered of a change, as statements on own tables. */
type Remembered = (growth: TableGrowth) => readonly CompiledQuery[];

/**
 * Changes tables, and with them the views, which show those of all resources. They are planned again where another
 * resource has changed its own meanwhile, in this process or another: the last of all plans knows of all tables.
 *
 * Nothing that others made on tables or views stops it: where a column cannot widen, a wider one comes beside it, and
 * where a view cannot show another type it keeps the one that it shows. Returns the shape as it is then.
 */
export async function evolveTables(
  context: LoadContext,
  growth: TableGrowth,
  remembered: Remembered,
): Promise<ResourceShape> {
  const { warehouse, owned, whole } = context;
  const references = new Set(Object.keys(whole.relations));
  const held = new Set<string>();
  const inUse: InUse[] = [];
  for (let current = growth; ;) {
    const { views, comments, statements, claim, growths } = await viewGrowth(context, current.after, held);
    const all = [...statements, ...remembered(current)];
    const isNothing = all.length === 0 && current.changes.length === 0;
    // What somebody's things stand in the way of is tried again.
    if (isNothing && held.size === 0) upToDate.set(warehouse, { whole, growths, views });
    if (isNothing) return current.after;
    try {
      await warehouse.evolve({ ...current, lease: owned.lease(), views, comments, references, statements: all, claim });
      for (const { columns } of inUse) owned.besides.push(...columns);
      return current.after;
    } catch (error) {
      if (error instanceof SyncError && error.code === GROWTH_OUTDATED) continue;
      if (!(error instanceof InUse)) throw error;
      current = aroundUse(current, held, error);
      inUse.push(error);
    }
  }
}

/** The growth without what is in use. Throws the error if that cannot be. */
function aroundUse(growth: TableGrowth, held: Set<string>, error: InUse): TableGrowth {
  const views = error.views.filter(({ view }) => !held.has(view));
  for (const { view } of views) held.add(view);
  const beside = besideColumns(growth, error.columns);
  if (beside === null && views.length === 0) throw error;
  return { ...growth, ...beside };
}

/** The views of a warehouse that were found to be as they should be, of which profile, and when. */
const upToDate = new WeakMap<
  Warehouse,
  Pick<LoadContext, 'whole'> & { growths: number; views: readonly { name: string }[] }
>();

/**
 * Brings the views up to date with the tables and the profile as they are now: another version of this program or of
 * the profile may have made them. Plans nothing where nothing has changed since this process has looked.
 */
export async function refreshViews(context: LoadContext): Promise<void> {
  const { warehouse } = context;
  // What is planned shows the tables of all resources: those of a run, which begin together, plan it once.
  const refreshed = (refreshing.get(warehouse) ?? Promise.resolve()).then(() => refreshNow(context));
  refreshing.set(
    warehouse,
    refreshed.catch(() => undefined),
  );
  await refreshed;
}

/** By warehouse: resolves once the latest of them is done. */
const refreshing = new WeakMap<Warehouse, Promise<void>>();

async function refreshNow(context: LoadContext): Promise<void> {
  const { shape } = context.owned;
  if (shape === null || (await areUpToDate(context))) return;
  await evolveTables(context, { before: shape, after: shape, changes: [] }, () => []);
}

/** Somebody may have dropped one. */
async function areUpToDate({ warehouse, whole }: LoadContext): Promise<boolean> {
  const known = upToDate.get(warehouse);
  if (known === undefined || known.whole !== whole || known.growths !== (await readGrowths(warehouse.own)))
    return false;
  const names = await warehouse.tableNames();
  return known.views.every(({ name }) => names.has(name.toLowerCase()));
}
