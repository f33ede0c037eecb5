import type { CompiledQuery } from 'kysely';
import { SyncError } from '../model/errors.ts';
import type { ResourceShape, ShapeChange } from '../model/table.ts';
import { GROWTH_OUTDATED } from '../warehouse/warehouse.ts';
import { viewGrowth } from './grow-views.ts';
import type { LoadContext } from './load-context.ts';

/** A change of a resource's tables. */
export interface TableGrowth {
  before: ResourceShape | null;
  after: ResourceShape;
  changes: readonly ShapeChange[];
  /** Statements on own tables that remember it. */
  statements: readonly CompiledQuery[];
}

/**
 * Changes tables, and with them the views, which show those of all resources. They are planned again where another
 * resource has changed its own meanwhile, in this process or another: the last of all plans knows of all tables.
 */
export async function evolveTables(context: LoadContext, growth: TableGrowth): Promise<void> {
  const { warehouse, owned, whole } = context;
  const references = new Set(Object.keys(whole.relations));
  for (;;) {
    const { views, comments, statements, claim } = await viewGrowth(context, growth.after);
    const all = [...statements, ...growth.statements];
    if (all.length === 0 && growth.changes.length === 0) return;
    try {
      await warehouse.evolve({ ...growth, lease: owned.lease(), views, comments, references, statements: all, claim });
      return;
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== GROWTH_OUTDATED) throw error;
    }
  }
}

/**
 * Brings the views up to date with the tables and the profile as they are now: another version of this program or of
 * the profile may have made them.
 */
export async function refreshViews(context: LoadContext): Promise<void> {
  const { shape } = context.owned;
  if (shape === null) return;
  await evolveTables(context, { before: shape, after: shape, changes: [], statements: [] });
}
