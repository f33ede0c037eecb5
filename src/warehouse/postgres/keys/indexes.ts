import { escapeIdentifier as quoted } from 'pg';
import { columnText, INDEX } from '../../key-plan.ts';
import type { KeyPlan } from '../../key-plan.ts';
import type { LeaseProof } from '../../warehouse.ts';
import { execute, type Database } from '../connection/transact.ts';
import { nameBehind } from '../widening/ddl.ts';
import { alone } from './one-by-one.ts';

/**
 * Builds the indexes that are missing, and takes away ours that nobody wants any more. While one is built its table can
 * be read, not written; and it is us who write.
 */
export async function makeIndexes(database: Database, plan: KeyPlan, lease: () => LeaseProof): Promise<void> {
  const standing = await standingIndexes(database, plan);
  const wanted = plan.indexes.map((index) => ({
    name: nameBehind(INDEX, columnText(index)),
    table: index.table.name,
    column: index.column,
  }));
  for (const name of standing.filter((each) => !wanted.some((other) => other.name === each))) {
    await alone(database, lease, `DROP INDEX IF EXISTS ${quoted(name)}`);
  }
  const missing = wanted.filter(({ name }) => !standing.includes(name));
  for (const { name, table, column } of missing) {
    await alone(database, lease, `CREATE INDEX ${quoted(name)} ON ${quoted(table)} (${quoted(column)})`);
  }
  // A table that was just filled has no statistics yet, and no index is chosen well without them.
  for (const table of new Set(missing.map((index) => index.table))) {
    await alone(database, lease, `ANALYZE ${quoted(table)}`);
  }
}

/** Names of those of ours that can be used; one that somebody has left half built goes with the rest. */
async function standingIndexes(database: Database, { tables }: KeyPlan): Promise<string[]> {
  const { rows } = await execute(database)<{ name: string }>(
    `SELECT pg_class.relname AS name FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
      JOIN pg_class AS indexed ON indexed.oid = indrelid
      WHERE indexed.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND indexed.relname = ANY($2)
        AND starts_with(pg_class.relname, $3) AND indisvalid`,
    [database.schema, tables.map(({ name }) => name), INDEX],
  );
  return rows.map(({ name }) => name);
}
