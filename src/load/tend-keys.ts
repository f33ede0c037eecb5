import { readShapes } from '../database/state/column-catalog.ts';
import { planKeys } from '../views/key-plan.ts';
import type { LoadContext } from './load-context.ts';

/**
 * Makes the keys and indexes that a resource's tables lack. It runs after a scan, so that none slows a backfill down; what
 * was interrupted, or would have blocked other sessions, is made after the next scan.
 */
export async function tendKeys(context: LoadContext): Promise<void> {
  const { warehouse, owned, profile, whole } = context;
  const { shape } = owned;
  if (shape === null) return;
  const stored = await readShapes(warehouse.own);
  const shapes = [...stored.filter(({ resource }) => resource !== shape.resource), shape];
  await warehouse.tendKeys(planKeys(shape, profile, whole.relations, shapes), () => owned.lease());
}
