import { escapeIdentifier as quoted } from 'pg';
import { INDEX } from '../../key-plan.ts';
import type { KeyPlan } from '../../key-plan.ts';
import type { LeaseProof } from '../../warehouse.ts';
import type { Database } from '../connection/transact.ts';
import { attachViews, dropViews, viewPlan, type TableColumns } from '../views/attach-views.ts';
import { nameBehind } from '../widening/ddl.ts';
import { dependentsOf, refuseOthersViews } from '../widening/dependents.ts';
import { claimStep } from '../widening/grow-tables.ts';
import { exclusively, isLocked, type ExclusiveStep } from '../widening/exclusive-step.ts';
import { REFERENCE_KEY } from './foreign-keys.ts';
import type { Standing } from './standing-keys.ts';

/** So often others may be in the way; then it is left for the next time. */
const TRIES = 3;

/**
 * Gives columns that hold keys the collation of the keys, without which no index can serve a join. No row is written
 * for it, but a view does not change the collation of its columns: those that stand on them are made again.
 */
export async function collateReferences(
  database: Database,
  plan: KeyPlan,
  lease: () => LeaseProof,
  { collated: found }: Pick<Standing, 'collated'>,
): Promise<void> {
  const uses = [...Map.groupBy(found, ({ table }) => table)].map(([table, columns]) => ({
    table,
    columns: columns.map(({ column }) => column),
  }));
  const { views, claim } = await plan.views();
  let tries = 0;
  const passes = (error: unknown): boolean => isLocked(error) && (tries += 1) < TRIES;
  const work = async (step: ExclusiveStep): Promise<void> => {
    const { session } = step;
    if (claim !== null) await session.runAll([claimStep(claim)]);
    const change = await viewPlan(session, views, uses, true);
    const dependents = await dependentsOf(session, uses, change);
    refuseOthersViews(dependents);
    const drops = dropViews(change, dependents);
    await step.lock(
      uses.map(({ table }) => table),
      [...drops, ...change.detached.values()],
    );
    await step.run(uses.flatMap(collated));
    const dropped = new Map(dependents.map(({ view, statements }) => [view ?? '', statements.slice(1)]));
    await step.run(attachViews(change, dropped));
    for (const { view, statements } of dependents) if (view === null) await step.run(statements);
  };
  await exclusively(database, lease(), work, passes);
}

/** The index and the key of ours on a column are made again, in their time: now readers wait. */
function collated({ table, columns }: TableColumns): string[] {
  return columns.flatMap((column) => [
    `DROP INDEX IF EXISTS ${quoted(nameBehind(INDEX, `${table}.${column}`))}`,
    `ALTER TABLE ${quoted(table)} DROP CONSTRAINT IF EXISTS ${quoted(nameBehind(REFERENCE_KEY, `${table}.${column}`))}`,
    `ALTER TABLE ${quoted(table)} ALTER COLUMN ${quoted(column)} TYPE text COLLATE pg_catalog."C"`,
  ]);
}
