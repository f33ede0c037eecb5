import { readShapes } from '../database/state/column-catalog.ts';
import { planKeys } from '../views/key-plan.ts';
import type { LoadContext } from './load-context.ts';

/**
 * Makes the keys and indexes that a resource's tables lack, behind a walk: a backfill is not slowed down by any, and what
 * was cut off, or stood in the way of others, is made after the next one.
 */
export async function tendKeys(context: LoadContext): Promise<void> {
  const { warehouse, owned, profile, whole } = context;
  const { shape } = owned;
  if (shape === null) return;
  const stored = await readShapes(warehouse.own);
  const shapes = [...stored.filter(({ resource }) => resource !== shape.resource), shape];
  await warehouse.tendKeys(planKeys(shape, profile, whole.relations, shapes), () => owned.lease());
}
