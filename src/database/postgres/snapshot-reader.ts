// Reads views and tables in one REPEATABLE READ transaction, for exports and for `verify`.
import { Kysely } from 'kysely';
import { escapeIdentifier as quoted, type PoolClient } from 'pg';
import type { ColumnType } from '../../model/vocabulary.ts';
import type { OwnTables } from '../own-tables.ts';
import {
  type DecimalSpan,
  type ReadColumn,
  selectText,
  type SnapshotReader,
  type ViewCell,
  type ViewQuery,
} from '../snapshot-reader.ts';
import { databaseError } from './connection/errors.ts';
import { sessionDialect } from './connection/own-dialect.ts';
import { createSession } from './connection/session.ts';
import type { PostgresSchema } from './connection/transact.ts';
import { VIEW_DIALECT } from './views/dialect.ts';

/** Long enough to sort a large table before the first row. */
const QUERY_TIMEOUT_MS = 3_600_000;
const FIRST_BATCH_ROWS = 100;
const MAX_BATCH_ROWS = 5_000;
const BATCH_CHARACTERS = 2 * 1_048_576;

/** Runs work on the connection. After an error the connection is not used again. */
type Guarded = <T>(work: () => Promise<T>) => Promise<T>;

/** Reads a snapshot of a schema; `release` is called when it is closed. */
export async function snapshotReader(database: PostgresSchema, release: () => Promise<void>): Promise<SnapshotReader> {
  const { pool, schema, shown } = database;
  const client = await pool.connect().catch(async (error: unknown) => {
    await release();
    throw databaseError(error, shown);
  });
  let hasFailed = false;
  const guarded: Guarded = async (work) => {
    try {
      return await work();
    } catch (error) {
      hasFailed = true;
      throw databaseError(error, shown);
    }
  };
  const close = async (): Promise<void> => {
    if (!hasFailed) await client.query('ROLLBACK').catch(() => (hasFailed = true));
    client.release(hasFailed);
    await release();
  };
  try {
    await guarded(() => beginSnapshot(client, schema));
  } catch (error) {
    await close();
    throw error;
  }
  return {
    own: new Kysely<OwnTables>({ dialect: sessionDialect(createSession(client, QUERY_TIMEOUT_MS)) }).withSchema(schema),
    rows: (query) => readBatches(client, query, guarded),
    decimalSpan: (view, column) => guarded(() => measureDecimals(client, view, column)),
    close,
  };
}

/** Locks the tables before the first query takes the snapshot: a table rewritten later looks empty to older snapshots. */
async function beginSnapshot(client: PoolClient, schema: string): Promise<void> {
  const inSchema = quoted(schema);
  const { rows } = await client.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'v')
      AND has_table_privilege(oid, 'SELECT') AND (relkind = 'r' OR EXISTS (SELECT FROM ${inSchema}."_sync_views" WHERE view_name = relname))
      AND (relname NOT LIKE '\\_sync\\_%' OR relname IN ('_sync_views', '_sync_view_columns')) ORDER BY relname`,
    [inSchema],
  );
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  // SET and LOCK take no snapshot.
  await client.query(
    `SET LOCAL search_path = ${inSchema}; SET LOCAL timezone = 'UTC'; SET LOCAL extra_float_digits = 1;
      SET LOCAL quote_all_identifiers = off; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = 60000`,
  );
  if (rows.length === 0) return;
  const names = rows.map(({ name }) => `${inSchema}.${quoted(name)}`);
  await client.query(`LOCK TABLE ${names.join(', ')} IN ACCESS SHARE MODE`);
}

/** Has `pg` return the text of each value, as the server writes it. */
const AS_TEXT = { getTypeParser: () => String };

async function* readBatches(client: PoolClient, query: ViewQuery, guarded: Guarded): AsyncGenerator<ViewCell[][]> {
  const select = selectText(query, VIEW_DIALECT, orderedColumn);
  await guarded(() => client.query(`DECLARE "viewed" NO SCROLL CURSOR FOR ${select}`));
  for (let count = FIRST_BATCH_ROWS; ;) {
    const text = `FETCH FORWARD ${count} FROM "viewed"`;
    const { rows } = await guarded(() => client.query<(string | null)[]>({ text, rowMode: 'array', types: AS_TEXT }));
    if (rows.length > 0) yield rows.map((row) => query.columns.map(({ type }, at) => toCell(row[at] ?? null, type)));
    if (rows.length < count) break;
    const characters = rows.reduce((sum, row) => sum + row.reduce((all, cell) => all + (cell?.length ?? 0), 1), 0);
    count = Math.min(MAX_BATCH_ROWS, Math.max(1, Math.floor((BATCH_CHARACTERS * count) / characters)));
  }
  await guarded(() => client.query('CLOSE "viewed"'));
}

function orderedColumn({ name, type }: ReadColumn): string {
  return type === 'text' ? `${quoted(name)} COLLATE "C"` : quoted(name);
}

function toCell(text: string | null, type: ColumnType): ViewCell {
  return text === null ? null : (CELLS[type]?.(text) ?? text);
}

const CELLS: Partial<Record<ColumnType, (text: string) => ViewCell>> = {
  boolean: (text) => text === 't',
  integer: BigInt,
  double: Number,
  timestamp: (text) => text.replace(/\+00$/, ''),
};

/** Counts the digits of a numeric column; null if a value is `odd`: it has none, such as NaN. */
async function measureDecimals(
  client: PoolClient,
  view: string,
  { name: shown, digits = shown }: ReadColumn,
): Promise<DecimalSpan | null> {
  const name = `${quoted(digits)}::numeric`;
  const { rows } = await client.query<{ whole: number | null; scale: number | null; odd: boolean | null }>(
    `SELECT max(length(trunc(abs(${name}))::text)) AS whole, max(scale(${name})) AS scale,
      bool_or(scale(${name}) IS NULL) AS odd FROM ${quoted(view)} WHERE ${name} IS NOT NULL`,
  );
  const { whole = null, scale = null, odd = null } = rows[0] ?? {};
  return whole === null || scale === null || odd === true ? null : { whole, scale };
}
