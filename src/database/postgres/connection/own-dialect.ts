import {
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type CompiledQuery,
  sql as query,
  type DatabaseConnection,
  type Dialect,
  type Kysely,
  type QueryResult,
  type TableMetadata,
} from 'kysely';
import type { SqlResult } from '../../database.ts';
import type { Session } from './session.ts';
import { execute, executeInUtc, type Database } from './transact.ts';

/**
 * Kysely's Postgres for single statements, which wait for the server as our transactions do. One with a time gets
 * a transaction, because only that is sure to be in UTC: a session outside of it may be in any zone.
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
 * Kysely's Postgres within a transaction that somebody else begins and ends. Every statement behind one that has failed
 * fails as well, for no reason of its own: a later statement reports that first failure again.
 */
export function sessionDialect(session: Session): Dialect {
  const asked = firstFailure();
  return statementDialect((text, values) => asked(() => session.execute(text, values)));
}

/** Runs what it is given, and reports the first failure again for whatever fails behind it. */
function firstFailure(): <T>(ask: () => Promise<T>) => Promise<T> {
  let first: { error: unknown } | null = null;
  return async (ask) => {
    try {
      return await ask();
    } catch (error) {
      first ??= { error };
      throw first.error;
    }
  };
}

type RunStatement = (text: string, values?: readonly unknown[]) => Promise<SqlResult<object>>;

/** One statement after the other. No connection is held between two of them; a transaction is `transact`'s. */
function statementDialect(run: RunStatement): Dialect {
  const connection: DatabaseConnection = {
    executeQuery: async <Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> => {
      const { rows, rowCount } = await run(sql, parameters);
      // The query says what a row is.
      // oxlint-disable-next-line no-unsafe-type-assertion
      return { rows: rows as Row[], numAffectedRows: BigInt(rowCount ?? 0) };
    },
    streamQuery: () => {
      throw new Error('nothing of ours is read as a stream');
    },
  };
  return {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => ({
      init: nothing,
      acquireConnection: () => Promise.resolve(connection),
      releaseConnection: nothing,
      beginTransaction: none,
      commitTransaction: none,
      rollbackTransaction: none,
      destroy: nothing,
    }),
    createIntrospector: (own) => new TableNames(own),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  };
}

/**
 * The migrator asks which tables there are, and Kysely reads every column of every schema of the database
 * for it, which takes longer with each source. Only names are looked at, and only those of the transaction's own schema.
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

function none(): Promise<never> {
  return Promise.reject(new Error('single statements only: use transact'));
}

function nothing(): Promise<void> {
  return Promise.resolve();
}
