// Statements within one transaction: one by one, or several in one round trip.
import type { CompiledQuery } from 'kysely';
import type { PoolClient, QueryConfig } from 'pg';
import type { ExecuteSql, SqlResult } from '../../database.ts';

/** The connection of one transaction. */
export interface Session {
  /** No statement stays prepared, because poolers in transaction mode do not allow it. */
  execute: ExecuteSql;
  /** Sends all steps without waiting for responses in between. Throws the error of the first step that fails. */
  runAll(steps: readonly Step[]): Promise<void>;
}

/** One statement of several that are sent together. */
export interface Step {
  text: string;
  values?: readonly unknown[];
  /**
   * The error if the statement affects no row. As with `errorOfRow`, later steps have run by then, so that a COMMIT must not
   * be sent with them.
   */
  errorIfNoRow?: () => Error;
  /** Returns the error that the first row means; null if there is none. */
  errorOfRow?: (row: Readonly<Record<string, unknown>>) => Error | null;
}

/** `timeoutMs` is the timeout of each response. */
export function createSession(client: PoolClient, timeoutMs: number): Session {
  return {
    execute: (text, values) => client.query(toQuery(text, values, timeoutMs)),
    runAll: async (steps) => {
      // The pool's connections are in pipeline mode: each statement is sent at once. After a failed one, the server
      // refuses the others, because the transaction is aborted.
      const sent = steps.map(({ text, values }) => client.query(toQuery(text, values, timeoutMs)));
      for (const [at, outcome] of (await Promise.allSettled(sent)).entries()) {
        if (outcome.status === 'rejected') throw outcome.reason;
        const error = stepError(steps[at], outcome.value);
        if (error !== null) throw error;
      }
    },
  };
}

function stepError(step: Step | undefined, { rows: [row], rowCount }: SqlResult<Record<string, unknown>>) {
  if (rowCount === 0 && step?.errorIfNoRow !== undefined) return step.errorIfNoRow();
  return row === undefined ? null : (step?.errorOfRow?.(row) ?? null);
}

/** The row of a statement that always has one. */
export function onlyRow<Row>({ rows: [row] }: SqlResult<Row>): Row {
  if (row === undefined) throw new Error('a statement without its row');
  return row;
}

/** One statement with a timeout: a broken network may never deliver a response. */
export function toQuery(text: string, values: readonly unknown[] | undefined, timeoutMs: number): QueryConfig {
  const query = { text, ...(values === undefined ? {} : { values: [...values] }) };
  // The types of `pg` only have it for a whole connection.
  return Object.assign(query, { query_timeout: timeoutMs });
}

/** The step that runs a statement of Kysely. */
export function asStep({ sql: text, parameters: values }: CompiledQuery): Step {
  return { text, values };
}
