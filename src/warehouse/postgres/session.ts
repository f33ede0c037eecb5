import type { PoolClient, QueryResult, QueryResultRow } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { finished } from 'node:stream/promises';

/** A value as `pg` binds it; arrays become Postgres arrays. */
export type Bound = string | number | bigint | boolean | null | Uint8Array | readonly Bound[];

/** Runs one statement; values are bound, and nothing is prepared beyond it, as poolers in transaction mode ask for. */
export type ExecuteSql = <Row extends QueryResultRow = QueryResultRow>(
  text: string,
  values?: readonly unknown[],
) => Promise<QueryResult<Row>>;

/** One transaction's connection. */
export interface Session {
  execute: ExecuteSql;
  /** Sends `data` to a `COPY ... FROM STDIN` statement. */
  copyIn(statement: string, data: Buffer): Promise<void>;
}

export function sessionOf(client: PoolClient): Session {
  return {
    execute: (text, values) => client.query(text, values === undefined ? undefined : [...values]),
    copyIn: async (statement, data) => {
      const stream = client.query(copyFrom(statement));
      stream.end(data);
      await finished(stream);
    },
  };
}
