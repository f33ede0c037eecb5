import { escapeIdentifier, type PoolClient } from 'pg';
import { messageOf } from '../../model/errors.ts';
import { columnText, INDEX, type ColumnIndex } from '../key-plan.ts';
import { nameBehind } from './widening/ddl.ts';

const AMCHECK = `SELECT pg_catalog.format('%I.%I', nspname, extname) AS name FROM pg_extension
  JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'amcheck' AND has_function_privilege(
    (SELECT oid FROM pg_proc WHERE proname = 'bt_index_check' AND pronamespace = extnamespace LIMIT 1), 'EXECUTE')`;

const INDEXES = `SELECT pg_class.relname AS name, indexrelid::bigint::text AS id, indrelid::regclass::text AS table,
    indisvalid AND indisready AS usable, amname AS method FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    JOIN pg_class AS indexed ON indexed.oid = indrelid JOIN pg_am ON pg_am.oid = pg_class.relam
  WHERE indexed.relnamespace = $1::regnamespace AND indexed.relname = ANY($2) AND amname IN ('btree', 'brin') ORDER BY 1`;

interface StandingIndex {
  name: string;
  id: string;
  table: string;
  usable: boolean;
  method: string;
}

/**
 * What Postgres finds broken in tables: by amcheck where that is installed and may be called, else by counting the rows
 * once in the table and once by its key. In the transaction of the reader: a check that fails leaves a savepoint.
 */
export async function damageIn(
  client: PoolClient,
  schema: string,
  tables: readonly string[],
): Promise<{ by: string; found: string[] }> {
  const { rows: installed } = await client.query(AMCHECK);
  const { rows: indexes } = await client.query<StandingIndex>(INDEXES, [escapeIdentifier(schema), tables]);
  const found = indexes.filter(({ usable }) => !usable).map(({ name }) => `the index ${name} cannot be used`);
  if (installed.length === 0) return { by: 'counting', found: [...found, ...(await countTables(client, tables))] };
  // It looks into trees alone.
  for (const { name, id } of indexes.filter(({ method }) => method === 'btree')) {
    await client.query('SAVEPOINT "checked"');
    try {
      await client.query('SELECT bt_index_check($1::oid::regclass, true)', [id]);
    } catch (error) {
      await client.query('ROLLBACK TO "checked"');
      found.push(`the index ${name}: ${messageOf(error)}`);
    }
    await client.query('RELEASE "checked"');
  }
  return { by: 'amcheck', found };
}

/** Each way by itself: an index that has lost rows counts fewer. */
const WAYS = { table: ['on', 'off'], index: ['off', 'on'] } as const;

async function countTables(client: PoolClient, tables: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const table of tables) {
    const counted: string[] = [];
    for (const [scan, index] of Object.values(WAYS)) {
      await client.query(
        `SET LOCAL enable_seqscan TO ${scan}; SET LOCAL enable_indexscan TO ${index}; SET LOCAL enable_indexonlyscan TO ${index}; SET LOCAL enable_bitmapscan TO off`,
      );
      const { rows } = await client.query<{ n: string }>(
        `SELECT count(*)::text AS n FROM ${escapeIdentifier(table)} ${scan === 'off' ? await ordered(client, table) : ''}`,
      );
      counted.push(rows[0]?.n ?? '');
    }
    await client.query(
      'RESET enable_seqscan; RESET enable_indexscan; RESET enable_indexonlyscan; RESET enable_bitmapscan',
    );
    if (counted[0] !== counted[1]) found.push(`${table} has ${counted[0]} rows, and ${counted[1]} by its key`);
  }
  return found;
}

/** A condition that holds for all rows, and that the key's index answers. */
async function ordered(client: PoolClient, table: string): Promise<string> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT attname AS name FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
      WHERE indrelid = $1::regclass AND indisprimary`,
    [escapeIdentifier(table)],
  );
  const key = rows[0]?.name;
  return key === undefined ? '' : `WHERE ${escapeIdentifier(key)} >= ''`;
}

export async function missingIndexes(
  client: PoolClient,
  schema: string,
  wanted: readonly ColumnIndex[],
): Promise<string[]> {
  const tables = [...new Set(wanted.map(({ table }) => table.name))];
  const { rows } = await client.query<{ name: string }>(INDEXES, [escapeIdentifier(schema), tables]);
  const standing = new Set(rows.map(({ name }) => name));
  return wanted.map((index) => nameBehind(INDEX, columnText(index))).filter((name) => !standing.has(name));
}
