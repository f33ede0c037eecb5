import { Kysely } from 'kysely';
import { escapeIdentifier, type PoolClient } from 'pg';
import type { ColumnType } from '../../model/vocabulary.ts';
import type { OwnTables } from '../own-tables.ts';
import {
  selectText,
  type DecimalSpan,
  type ReadColumn,
  type SnapshotReader,
  type ViewCell,
  type ViewQuery,
} from '../snapshot-reader.ts';
import { databaseError } from './connection/errors.ts';
import { sessionDialect } from './connection/own-dialect.ts';
import { sessionOf } from './connection/session.ts';
import type { Database } from './connection/transact.ts';
import { VIEW_DIALECT } from './views/dialect.ts';
import { messageOf } from '../../model/errors.ts';
import { columnText, INDEX, type ColumnIndex } from '../key-plan.ts';
import { nameBehind } from './widening/ddl.ts';

/** A first row may have to wait for a table to be sorted. */
const ANSWER_MS = 3_600_000;
const FIRST_ROWS = 100;
const MOST_ROWS = 5_000;
const BATCH_CHARACTERS = 2 * 1_048_576;

/**
 * Reads a schema as it stands now. Tables that are rewritten look empty to older snapshots, so none may change its columns
 * from here on: the locks come before the snapshot, which is taken by the first query.
 */
export async function snapshotReader(database: Database, release: () => Promise<void>): Promise<SnapshotReader> {
  const { pool, schema, shown } = database;
  const client = await pool.connect().catch(async (error: unknown) => {
    await release();
    throw databaseError(error, shown);
  });
  let trouble = false;
  const told = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      trouble = true;
      throw databaseError(error, shown);
    }
  };
  const close = async (): Promise<void> => {
    if (!trouble) await client.query('ROLLBACK').catch(() => (trouble = true));
    client.release(trouble);
    await release();
  };
  try {
    await told(() => begin(client, schema));
  } catch (error) {
    await close();
    throw error;
  }
  return {
    own: new Kysely<OwnTables>({ dialect: sessionDialect(sessionOf(client, ANSWER_MS)) }).withSchema(schema),
    columns: (view) => told(() => declaredColumns(client, schema, view)),
    rows: (query) => batches(client, query, told),
    decimalSpan: (view, column) => told(() => decimalSpan(client, view, column)),
    damage: (tables) => told(() => damageIn(client, schema, tables)),
    missingIndexes: (wanted) => told(() => missingIndexes(client, schema, wanted)),
    close,
  };
}

async function begin(client: PoolClient, schema: string): Promise<void> {
  const inSchema = escapeIdentifier(schema);
  const { rows } = await client.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'v')
      AND has_table_privilege(oid, 'SELECT') AND (relkind = 'r' OR EXISTS (SELECT FROM ${inSchema}."_sync_views" WHERE view_name = relname))
      AND (relname NOT LIKE '\\_sync\\_%' OR relname IN ('_sync_views', '_sync_view_columns')) ORDER BY relname`,
    [inSchema],
  );
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  // None of these is a query: no snapshot is taken yet.
  await client.query(
    `SET LOCAL search_path = ${inSchema}; SET LOCAL timezone = 'UTC'; SET LOCAL extra_float_digits = 1;
      SET LOCAL quote_all_identifiers = off; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = 60000`,
  );
  if (rows.length === 0) return;
  const names = rows.map(({ name }) => `${inSchema}.${escapeIdentifier(name)}`);
  await client.query(`LOCK TABLE ${names.join(', ')} IN ACCESS SHARE MODE`);
}

/** Texts as the server writes them. */
const AS_TEXT = { getTypeParser: () => String };

async function* batches(
  client: PoolClient,
  query: ViewQuery,
  told: <T>(work: () => Promise<T>) => Promise<T>,
): AsyncGenerator<ViewCell[][]> {
  await told(() => client.query(`DECLARE "viewed" NO SCROLL CURSOR FOR ${selectText(query, VIEW_DIALECT, ordered)}`));
  for (let count = FIRST_ROWS; ;) {
    const text = `FETCH FORWARD ${count} FROM "viewed"`;
    const { rows } = await told(() => client.query<(string | null)[]>({ text, rowMode: 'array', types: AS_TEXT }));
    if (rows.length > 0) yield rows.map((row) => query.columns.map(({ type }, at) => cellOf(row[at] ?? null, type)));
    if (rows.length < count) break;
    const characters = rows.reduce((sum, row) => sum + row.reduce((all, cell) => all + (cell?.length ?? 0), 1), 0);
    count = Math.min(MOST_ROWS, Math.max(1, Math.floor((BATCH_CHARACTERS * count) / characters)));
  }
  await told(() => client.query('CLOSE "viewed"'));
}

function ordered({ name, type }: ReadColumn): string {
  return type === 'text' ? `${escapeIdentifier(name)} COLLATE "C"` : escapeIdentifier(name);
}

function cellOf(text: string | null, type: ColumnType): ViewCell {
  return text === null ? null : (CELLS[type]?.(text) ?? text);
}

const CELLS: Partial<Record<ColumnType, (text: string) => ViewCell>> = {
  boolean: (text) => text === 't',
  integer: BigInt,
  double: Number,
  timestamp: (text) => text.replace(/\+00$/, ''),
};

/** By the words of Postgres. */
const DECLARED: Readonly<Record<string, ColumnType>> = {
  boolean: 'boolean',
  smallint: 'integer',
  integer: 'integer',
  bigint: 'integer',
  real: 'double',
  'double precision': 'double',
  numeric: 'numeric',
  date: 'date',
  'timestamp without time zone': 'timestamp',
  'timestamp with time zone': 'timestamp',
  json: 'json',
  jsonb: 'json',
};

async function declaredColumns(client: PoolClient, schema: string, view: string): Promise<ReadColumn[] | null> {
  const { rows } = await client.query<{ name: string; declared: string }>(
    `SELECT attname AS name, format_type(atttypid, NULL) AS declared FROM pg_attribute
      JOIN pg_class ON pg_class.oid = attrelid WHERE relname = $1 AND relnamespace = $2::regnamespace
        AND relkind IN ('r', 'v') AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    [view, escapeIdentifier(schema)],
  );
  if (rows.length === 0) return null;
  return rows.map(({ name, declared }) => ({ name, type: DECLARED[declared] ?? 'text' }));
}

async function decimalSpan(
  client: PoolClient,
  view: string,
  { name: shown, digits = shown }: ReadColumn,
): Promise<DecimalSpan | null> {
  const name = `${escapeIdentifier(digits)}::numeric`;
  const { rows } = await client.query<{ whole: number | null; scale: number | null; odd: boolean | null }>(
    `SELECT max(length(trunc(abs(${name}))::text)) AS whole, max(scale(${name})) AS scale,
      bool_or(scale(${name}) IS NULL) AS odd FROM ${escapeIdentifier(view)} WHERE ${name} IS NOT NULL`,
  );
  const { whole = null, scale = null, odd = null } = rows[0] ?? {};
  return whole === null || scale === null || odd === true ? null : { whole, scale };
}

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
 * What Postgres finds broken in tables: by amcheck where that is installed and may be called, else by what its catalog says
 * of indexes. In the transaction of the reader: a check that fails leaves a savepoint.
 */
async function damageIn(client: PoolClient, schema: string, tables: readonly string[]): Promise<string[]> {
  const { rows: installed } = await client.query(AMCHECK);
  const { rows: indexes } = await client.query<StandingIndex>(INDEXES, [escapeIdentifier(schema), tables]);
  const found = indexes.filter(({ usable }) => !usable).map(({ name }) => `the index ${name} cannot be used`);
  if (installed.length === 0) return found;
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
  return found;
}

async function missingIndexes(client: PoolClient, schema: string, wanted: readonly ColumnIndex[]): Promise<string[]> {
  const tables = [...new Set(wanted.map(({ table }) => table.name))];
  const { rows } = await client.query<{ name: string }>(INDEXES, [escapeIdentifier(schema), tables]);
  const standing = new Set(rows.map(({ name }) => name));
  return wanted.map((index) => nameBehind(INDEX, columnText(index))).filter((name) => !standing.has(name));
}
