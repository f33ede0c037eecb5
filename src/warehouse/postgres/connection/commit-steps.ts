import { DatabaseError } from 'pg';
import type { LeaseProof } from '../../warehouse.ts';
import { Batch, type Step } from './batch.ts';
import { keepMark, newMark } from './commit-marks.ts';
import {
  ANSWER_MS,
  beginning,
  orDecided,
  RETRY_FOR_MS,
  retryWhileLocked,
  rolledBack,
  type Database,
} from './transact.ts';

const COMMIT = { text: 'COMMIT' } as const satisfies Step;

/**
 * One transaction of steps that are all known beforehand, in one round trip. `steps` is called again for each attempt.
 * Throws `SyncError`.
 */
export async function commitSteps(database: Database, steps: () => readonly Step[], lease?: LeaseProof): Promise<void> {
  const under = lease === undefined ? {} : { lease };
  await retryWhileLocked(database, RETRY_FOR_MS, async () => {
    const wanted = steps();
    const client = await database.pool.connect();
    const mark = newMark(client);
    const batch = new Batch([...beginning(database, mark, under), ...wanted, COMMIT], ANSWER_MS);
    const send = async (): Promise<void> => {
      let failure: unknown = null;
      try {
        await client.query(batch).done;
        keepMark(client, mark);
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        client.release(failure !== null && !(await rolledBack(client, failure)));
      }
    };
    // What the server itself refuses before the COMMIT is not committed.
    const isRefused = (error: unknown): boolean => error instanceof DatabaseError && !batch.isAtLast;
    await orDecided(database, { mark, isRefused, ...under }, send);
  });
}
