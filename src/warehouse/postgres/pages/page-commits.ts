import type { CompiledQuery } from 'kysely';
import type { PageCommit, PreparedRows, Warehouse } from '../../warehouse.ts';
import type { Step } from '../connection/batch.ts';
import { CopyMemory } from '../connection/copy-data.ts';
import { commitSteps, type Database } from '../connection/transact.ts';
import { OtherTypes } from './copy-steps.ts';
import { currentSteps } from './current-steps.ts';
import { createPageWriter } from './row-writer.ts';

/** A page with the steps that write it, encoded once. */
interface PreparedSteps extends PreparedRows {
  steps: readonly Step[];
}

/** Runs what writes rows of a resource, once more if something could be done about its error. */
type Retried = (resource: string, write: () => Promise<void>) => Promise<void>;

/** The part of a warehouse that encodes pages and commits them. */
export function pageCommits(database: Database, retried: Retried): Pick<Warehouse, 'prepare' | 'commit'> {
  const memory = new CopyMemory();
  const stepsOf = createPageWriter(memory);

  async function commit({ page: { rows, steps }, lease, statements, growths }: PageCommit<PreparedSteps>) {
    let attempts = 0;
    let sent: readonly Step[] = [];
    const write = (): Promise<void> =>
      commitSteps(
        database,
        () => {
          sent = (attempts += 1) === 1 ? steps : stepsOf(rows, true);
          return [currentSteps(rows, growths), sent, statements.map(asStep)].flat();
        },
        { lease },
      );
    const orAsText = (): Promise<void> =>
      write().catch((error: unknown) => (error instanceof OtherTypes ? write() : Promise.reject(error)));
    await retried(rows.resource, orAsText);
    // Not of what failed: a connection that is ended may still read from there.
    for (const { data } of sent) if (data !== undefined) memory.giveBack(data.memory);
  }

  return { prepare: (rows): PreparedSteps => ({ rows, steps: stepsOf(rows, false) }), commit };
}

export function asStep({ sql: text, parameters: values }: CompiledQuery): Step {
  return { text, values };
}
