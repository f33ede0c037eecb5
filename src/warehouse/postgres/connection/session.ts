import { finished } from 'node:stream/promises';
import type { PoolClient, QueryConfig } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import type { ExecuteSql, SqlResult } from '../../database.ts';
import { Batch, type Answer, type Step } from './batch.ts';

/** One transaction's connection. */
export interface Session {
  /** Nothing is prepared beyond a statement, as poolers in transaction mode ask for. */
  execute: ExecuteSql;
  /** Sends `data` to a `COPY ... FROM STDIN` statement. */
  copyIn(statement: string, data: Buffer): Promise<void>;
  /** Several statements in one round trip. */
  runAll(steps: readonly Step[]): Promise<Answer[]>;
}

/** `answerMs` bounds the wait for each answer. */
export function sessionOf(client: PoolClient, answerMs: number): Session {
  return {
    execute: (text, values) => client.query(queryOf(text, values, answerMs)),
    copyIn: async (statement, data) => {
      const stream = client.query(copyFrom(statement));
      stream.end(data);
      const tooLong = AbortSignal.timeout(answerMs);
      await finished(stream, { signal: tooLong }).catch((error: unknown) => {
        throw tooLong.aborted ? new Error('query read timeout', { cause: error }) : error;
      });
    },
    runAll: (steps) => (steps.length === 0 ? Promise.resolve([]) : client.query(new Batch(steps, answerMs)).done),
  };
}

/** The row of a statement that always has one. */
export function onlyRow<Row>({ rows: [row] }: SqlResult<Row>): Row {
  if (row === undefined) throw new Error('a statement without its row');
  return row;
}

/** One statement, with a bound on the wait for its answer: a network that is cut without a word never gives one. */
export function queryOf(text: string, values: readonly unknown[] | undefined, answerMs: number): QueryConfig {
  const query = { text, ...(values === undefined ? {} : { values: [...values] }) };
  // Not in the types of `pg`, which takes it per statement as it does for a whole connection.
  return Object.assign(query, { query_timeout: answerMs });
}
