import type { KeyPlan } from '../../key-plan.ts';
import type { LeaseProof } from '../../warehouse.ts';
import type { Database } from '../connection/transact.ts';
import { collateReferences } from './collate-references.ts';
import { makeForeignKeys } from './foreign-keys.ts';
import { makeIndexes } from './indexes.ts';
import { orLeft } from './one-by-one.ts';
import { readStanding } from './standing-keys.ts';

/** See `Warehouse.tendKeys`. Each step is a transaction of its own, and is found done the next time. */
export async function tendKeys(database: Database, plan: KeyPlan, lease: () => LeaseProof): Promise<void> {
  const found = await readStanding(database, plan);
  if (found.collated.length > 0) await orLeft(collateReferences(database, plan, lease, found));
  // What stood on a column goes with its collation.
  const standing = found.collated.length > 0 ? await readStanding(database, plan) : found;
  await makeForeignKeys(database, plan, lease, standing);
  await makeIndexes(database, plan, lease, standing);
}
