// A dialect of Kysely that passes each statement to a function. Kysely's own drivers hold a connection and fail at once if
// the database is locked or unreachable; here, each statement is retried by itself.
import type { CompiledQuery, Dialect, DialectAdapter, QueryCompiler, QueryResult } from 'kysely';

/** Runs one statement, with the retries of its database. */
export type RunStatement = (query: CompiledQuery) => Promise<QueryResult<object>>;

/**
 * Creates a dialect for single statements. It supports no transactions, because the functions of each database that run
 * them also verify the lease of a resource.
 */
export function createStatementDialect(adapter: DialectAdapter, compiler: QueryCompiler, run: RunStatement): Dialect {
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

async function doNothing(): Promise<void> {}
