import type { KeyPlan } from '../../key-plan.ts';
import type { LeaseProof } from '../../warehouse.ts';
import type { Database } from '../connection/transact.ts';
import { collateReferences } from './collate-references.ts';
import { makeForeignKeys } from './foreign-keys.ts';
import { makeIndexes } from './indexes.ts';
import { orLeft } from './one-by-one.ts';

/** See `Warehouse.tendKeys`. Each step is a transaction of its own, and is found done the next time. */
export async function tendKeys(database: Database, plan: KeyPlan, lease: () => LeaseProof): Promise<void> {
  await orLeft(collateReferences(database, plan, lease));
  await makeForeignKeys(database, plan, lease);
  await makeIndexes(database, plan, lease);
}
