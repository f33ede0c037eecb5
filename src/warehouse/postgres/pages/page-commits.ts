import type { CompiledQuery } from 'kysely';
import type { PageCommit, PageRows, PreparedRows, Warehouse } from '../../warehouse.ts';
import type { Step } from '../connection/batch.ts';
import type { PageShaper, ShapedBody } from '../../page-shaper.ts';
import { CopyMemory } from '../connection/copy-data.ts';
import { commitSteps, type CommitUnderWay, type SentCommit } from '../connection/commit-steps.ts';
import type { Database } from '../connection/transact.ts';
import { OtherTypes } from './copy-steps.ts';
import { threadedShaper } from './page-shaper.ts';
import { createPageWriter } from './row-writer.ts';

/** A page with the steps that write it, encoded once. */
interface PreparedSteps extends PreparedRows {
  steps: readonly Step[];
}

/** Runs what writes rows of a resource, once more if something could be done about its error. */
type Retried = (resource: string, write: () => Promise<void>) => Promise<void>;

/** The part of a warehouse that encodes pages and commits them; to be closed before the database. */
export interface PageCommits extends Pick<Warehouse, 'prepare' | 'commit'> {
  shaper: PageShaper;
  closeShaper: () => Promise<void>;
}

export function pageCommits(database: Database, retried: Retried): PageCommits {
  const memory = new CopyMemory();
  const shaper = threadedShaper(memory);
  const { stepsOf, stepsOfEncoded } = createPageWriter(memory);
  const underWay = new WeakMap<Promise<void>, CommitUnderWay>();

  async function write(
    { page: { rows, steps }, lease, statements, behind }: PageCommit<PreparedSteps>,
    told: (attempt: SentCommit) => void,
  ): Promise<void> {
    const before = behind === undefined ? undefined : (underWay.get(behind) ?? { sent: NOT_SENT, whole: behind });
    let attempts = 0;
    let sent: readonly Step[] = [];
    const commit = (): Promise<void> =>
      commitSteps(
        database,
        () => {
          sent = (attempts += 1) === 1 ? steps : stepsOf(rows, true);
          return [...sent, ...statements.map(asStep)];
        },
        { lease, sent: told, ...(before === undefined ? {} : { behind: before }) },
      );
    const orAsText = (): Promise<void> =>
      commit().catch((error: unknown) => (error instanceof OtherTypes ? commit() : Promise.reject(error)));
    await retried(rows.resource, orAsText);
    // Not of what failed: a connection that is ended may still read from there.
    for (const { data } of sent) if (data !== undefined) memory.giveBack(data.memory);
  }

  function commit(page: PageCommit<PreparedSteps>): Promise<void> {
    const { promise: sent, resolve } = Promise.withResolvers<SentCommit | null>();
    const whole = write(page, resolve).finally(() => resolve(null));
    underWay.set(whole, { sent, whole });
    return whole;
  }

  function prepare(rows: PageRows, bodies: readonly ShapedBody[] = []): PreparedSteps {
    const steps = bodies.length === 0 ? stepsOf(rows, false) : stepsOfEncoded(shaper.encoded(bodies));
    return { rows, steps };
  }

  return { prepare, commit, shaper, closeShaper: () => shaper.close() };
}

const NOT_SENT = Promise.resolve(null);

export function asStep({ sql: text, parameters: values }: CompiledQuery): Step {
  return { text, values };
}
