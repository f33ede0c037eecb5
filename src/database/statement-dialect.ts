// Lets Kysely build statements that this project runs in its own way: each waits for locks or for the server by itself.
import type { CompiledQuery, Dialect, DialectAdapter, QueryCompiler, QueryResult } from 'kysely';

/** Runs one statement, with the retries of its database. */
export type RunStatement = (query: CompiledQuery) => Promise<QueryResult<object>>;

/**
 * A dialect for single statements, between which no connection is held. Transactions are the business of each database's
 * own functions, because they verify the lease of a resource.
 */
export function statementDialect(adapter: DialectAdapter, compiler: QueryCompiler, run: RunStatement): Dialect {
  const connection = {
    executeQuery: async <Row>(query: CompiledQuery): Promise<QueryResult<Row>> => {
      const result = await run(query);
      // The query declares the type of its rows.
      // oxlint-disable-next-line no-unsafe-type-assertion
      return result as QueryResult<Row>;
    },
    streamQuery: () => unsupported('streaming'),
  };
  return {
    createAdapter: () => adapter,
    createQueryCompiler: () => compiler,
    createIntrospector: () => unsupported('introspection'),
    createDriver: () => ({
      init: doNothing,
      acquireConnection: () => Promise.resolve(connection),
      releaseConnection: doNothing,
      beginTransaction: () => unsupported('a transaction'),
      commitTransaction: () => unsupported('a transaction'),
      rollbackTransaction: () => unsupported('a transaction'),
      destroy: doNothing,
    }),
  };
}

function unsupported(what: string): never {
  throw new Error(`${what} is not supported: single statements only`);
}

function doNothing(): Promise<void> {
  return Promise.resolve();
}
