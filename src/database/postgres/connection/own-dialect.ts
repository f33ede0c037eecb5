// Lets Kysely run its statements through the retries and transactions of this folder.
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  sql as query,
  type TableMetadata,
} from 'kysely';
import type { SqlResult } from '../../database.ts';
import type { Session } from './session.ts';
import { type Database, execute, executeInUtc } from './transact.ts';

/**
 * Kysely's Postgres dialect for single statements, which wait for the server. A statement with a time runs in a
 * transaction, because only there the time zone is certain to be UTC.
 */
export function ownDialect(database: Database): Dialect {
  const run = execute(database);
  const runInUtc = executeInUtc(database);
  return statementDialect((text, values) => (values?.some(isTime) === true ? runInUtc : run)(text, values));
}

const TIME = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?$/;

function isTime(value: unknown): boolean {
  return typeof value === 'string' && TIME.test(value);
}

/**
 * Kysely's Postgres dialect within the caller's transaction. After a failed statement all later ones fail as well: they
 * report the first error again.
 */
export function sessionDialect(session: Session): Dialect {
  let first: { error: unknown } | null = null;
  return statementDialect(async (text, values) => {
    try {
      return await session.execute(text, values);
    } catch (error) {
      first ??= { error };
      throw first.error;
    }
  });
}

type RunStatement = (text: string, values?: readonly unknown[]) => Promise<SqlResult<object>>;

/** Single statements, between which no connection is held. */
function statementDialect(run: RunStatement): Dialect {
  const connection: DatabaseConnection = {
    executeQuery: async <Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> => {
      const { rows, rowCount } = await run(sql, parameters);
      // The query declares the type of its rows.
      // oxlint-disable-next-line no-unsafe-type-assertion
      return { rows: rows as Row[], numAffectedRows: BigInt(rowCount ?? 0) };
    },
    streamQuery: () => {
      throw new Error('streaming is not supported');
    },
  };
  return {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => ({
      init: doNothing,
      acquireConnection: () => Promise.resolve(connection),
      releaseConnection: doNothing,
      beginTransaction: refuseTransaction,
      commitTransaction: refuseTransaction,
      rollbackTransaction: refuseTransaction,
      destroy: doNothing,
    }),
    createIntrospector: (own) => new TableNames(own),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  };
}

/**
 * Lists the tables of the current schema, which is all that the migrator needs. Kysely's own introspector reads every
 * column of every schema, which takes longer with each source.
 */
class TableNames extends PostgresIntrospector {
  readonly #own: Kysely<unknown>;

  constructor(own: Kysely<unknown>) {
    super(own);
    this.#own = own;
  }

  override async getTables(): Promise<TableMetadata[]> {
    const tables = query<{ name: string; schema: string }>`SELECT relname AS name, nspname AS schema
      FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE nspname = current_schema() AND relkind IN ('r', 'p')`;
    const { rows } = await tables.execute(this.#own);
    return rows.map(({ name, schema }) => ({ name, schema, isView: false, isForeign: false, columns: [] }));
  }
}

function refuseTransaction(): Promise<never> {
  return Promise.reject(new Error('single statements only: use transact'));
}

function doNothing(): Promise<void> {
  return Promise.resolve();
}
