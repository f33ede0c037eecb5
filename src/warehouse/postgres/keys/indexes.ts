import { escapeIdentifier as quoted } from 'pg';
import { columnText, INDEX } from '../../key-plan.ts';
import type { KeyPlan } from '../../key-plan.ts';
import { emptiedColumns } from '../../own-columns.ts';
import type { LeaseProof } from '../../warehouse.ts';
import { execute, transact, type Database } from '../connection/transact.ts';
import { nameBehind } from '../widening/ddl.ts';
import { causeCode } from '../widening/exclusive-step.ts';
import { alone } from './one-by-one.ts';
import type { Standing, StandingIndex } from './standing-keys.ts';

/**
 * Builds the indexes that are missing, and takes away ours that nobody wants any more. While one is built its table can
 * be read, not written; and it is us who write.
 */
export async function makeIndexes(
  database: Database,
  plan: KeyPlan,
  lease: () => LeaseProof,
  { indexes: standing }: Pick<Standing, 'indexes'>,
): Promise<void> {
  const wanted = plan.indexes.map((index) => ({
    name: nameBehind(INDEX, columnText(index)),
    table: index.table.name,
    column: index.column,
    method: index.why === 'window' ? ('brin' as const) : ('btree' as const),
  }));
  for (const { name } of standing.filter((each) => !wanted.some((other) => isSame(other, each)))) {
    await alone(database, lease, `DROP INDEX IF EXISTS ${quoted(name)}`);
  }
  const missing = wanted.filter((each) => !standing.some((other) => isSame(each, other)));
  for (const { name, table, column, method } of missing) {
    await alone(
      database,
      lease,
      `CREATE INDEX ${quoted(name)} ON ${quoted(table)} USING ${method} (${quoted(column)})${METHODS[method]}`,
    );
  }
  // A table that was just filled has no statistics yet, and no index is chosen well without them. Those of the other
  // columns, and of more rows, cost several times as much: the server makes them in its own time, whatever is made here.
  for (const table of plan.tables.filter(({ name }) => missing.some((index) => index.table === name))) {
    const indexed = wanted.filter((index) => index.table === table.name).map(({ column }) => column);
    const columns = new Set([...table.key, ...emptiedColumns(table).map(({ name }) => name), ...indexed]);
    const list = [...columns].map((column) => quoted(column)).join(', ');
    await alone(database, lease, `${FEW_SAMPLES}; ANALYZE ${quoted(table.name)} (${list})`);
  }
}

/**
 * What follows the columns. Reports come window by window and lie so in the table: which days each stretch of it holds
 * takes a thousandth of an index of each row.
 */
const METHODS = { btree: '', brin: ' WITH (pages_per_range = 32, autosummarize = on)' } as const;

/** Of 300 rows each: a tenth of a table of 100,000 rows, which tells well enough which index is worth using. */
const FEW_SAMPLES = 'SET LOCAL default_statistics_target TO 30';

function isSame(one: StandingIndex, other: StandingIndex): boolean {
  return one.name === other.name && one.method === other.method;
}

/** SQLSTATE of a value that is longer than an index holds. */
const TOO_LONG = '54000';

/**
 * Runs `work`, and again without our indexes of texts if a value is longer than one holds: no index keeps a record out.
 * They are left out from then on, as long as the value is there.
 */
export async function orUnindexed<T>(database: Database, resource: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (causeCode(error) !== TOO_LONG) throw error;
    const { rows } = await execute(database)<{ statement: string }>(TEXT_INDEXES, [database.schema, resource, INDEX]);
    if (rows.length === 0) throw error;
    await transact(database, async (session) => {
      for (const { statement } of rows) await session.execute(statement);
    });
    return work();
  }
}

const TEXT_INDEXES = `SELECT DISTINCT pg_catalog.format('DROP INDEX IF EXISTS %I', pg_class.relname) AS statement
  FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_class AS indexed ON indexed.oid = indrelid
  JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey) AND atttypid = 'text'::regtype
  WHERE indexed.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND pg_catalog.starts_with(pg_class.relname, $3::text)
    AND indexed.relname IN (SELECT $2::text UNION ALL SELECT relname FROM pg_class WHERE pg_catalog.starts_with(relname, $2::text || '_'))`;
