import { escapeIdentifier as quoted, escapeLiteral } from 'pg';
import { textHash } from '../../../shape/records/fingerprint.ts';
import type { LeaseProof } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import { transact, type Database } from '../connection/transact.ts';
import { exclusively } from './exclusive-step.ts';
import {
  dropNumberText,
  IS_SHADOW_COLUMN,
  makeNumberText,
  shadowColumn,
  widerType,
  widerValue,
  type Widening,
} from './widening.ts';

/** Rows in the first batch, and the time that one may take: nobody waits for a row that long. */
const FIRST_BATCH = 2_000;
const BATCH_MS = 300;
const BATCH_ROWS = { least: 100, most: 50_000 } as const;

/**
 * Makes and fills, beside columns of a big table, wider ones that may then take their place at once. Readers and the
 * rows that they read are left alone. Stopped in between, it goes on with what is there: a row whose second column
 * says something else than its first is filled again, so nothing need be believed of an earlier try.
 */
export async function fillShadowColumns(database: Database, lease: LeaseProof, widening: Widening): Promise<void> {
  await addShadowColumns(database, lease, widening);
  let size = FIRST_BATCH;
  for (let after: string | null = ''; after !== null;) {
    const started = performance.now();
    after = await fillBatch(database, lease, widening, after, size);
    const tookMs = Math.max(1, performance.now() - started);
    size = Math.round(size * Math.min(2, Math.max(0.5, BATCH_MS / tookMs)));
    size = Math.min(BATCH_ROWS.most, Math.max(BATCH_ROWS.least, size));
  }
  // What stands on the columns that stay need not follow.
  if (!widening.isBeside) await buildShadowIndexes(database, widening);
}

function addShadowColumns(database: Database, lease: LeaseProof, widening: Widening): Promise<void> {
  const table = quoted(widening.table.name);
  const actions = widening.columns.map(
    (wider) => `ADD COLUMN IF NOT EXISTS ${quoted(shadowColumn(wider))} ${widerType(wider)}`,
  );
  return exclusively(database, lease, async ({ lock, run }) => {
    await lock([widening.table.name]);
    await run([`ALTER TABLE ${table} ${actions.join(', ')}`]);
  });
}

/** Fills the rows behind the key `after`. Returns the last key that is filled, null if it was the last of all. */
function fillBatch(
  database: Database,
  lease: LeaseProof,
  { table, columns }: Widening,
  after: string,
  rows: number,
): Promise<string | null> {
  const name = quoted(table.name);
  const key = quoted(table.key[0] ?? '');
  const pairs = columns.map((wider) => ({ second: quoted(shadowColumn(wider)), value: widerValue(wider) }));
  const isStale = pairs.map(
    ({ second, value }) =>
      `CASE WHEN ${second} IS NULL THEN ${value} IS NOT NULL ELSE ${second}::text IS DISTINCT FROM (${value})::text END`,
  );
  const assignments = pairs.map(({ second, value }) => `${second} = ${value}`);
  const work = async (session: Session): Promise<string | null> => {
    await makeNumberText(session, [{ columns }]);
    const end = await session.execute<{ key: string }>(
      `SELECT ${key} AS key FROM ${name} WHERE ${key} > $1 ORDER BY ${key} OFFSET $2 LIMIT 1`,
      [after, rows - 1],
    );
    const last = end.rows[0]?.key ?? null;
    await session.execute(
      `UPDATE ${name} SET ${assignments.join(', ')}
       WHERE ${key} > $1 AND ($2::text IS NULL OR ${key} <= $2) AND (${isStale.join(' OR ')})`,
      [after, last],
    );
    await dropNumberText(session, [{ columns }]);
    return last;
  };
  return transact(database, work, { lease });
}

/**
 * Statements that put the filled columns in the place of the narrower ones, or beside them, with all that was said of
 * those.
 */
export async function swapStatements({ execute }: Session, { table, columns, isBeside }: Widening): Promise<string[]> {
  const name = quoted(table.name);
  const statements: string[] = [];
  for (const wider of columns) {
    const second = shadowColumn(wider);
    const marks = await execute<{ statement: string }>(MARKS, [table.name, wider.source, second]);
    statements.push(
      ...marks.rows.map(({ statement }) => statement),
      // A column that stays is empty where nothing fits it.
      `ALTER TABLE ${name} ${isBeside ? 'ALTER' : 'DROP'} COLUMN ${quoted(wider.source)}${isBeside ? ' DROP NOT NULL' : ''}`,
      `ALTER TABLE ${name} RENAME COLUMN ${quoted(second)} TO ${quoted(wider.column.name)}`,
    );
  }
  return statements;
}

/** Columns that an earlier try began and nobody wants any more. */
export async function abandonedColumns({ execute }: Session, table: string): Promise<string[]> {
  const { rows } = await execute<{ name: string }>(
    `SELECT attname AS name FROM pg_attribute
     WHERE attrelid = to_regclass(quote_ident($1)) AND ${IS_SHADOW_COLUMN} AND NOT attisdropped`,
    [table],
  );
  return rows.map(({ name }) => name);
}

/** Comment and grants of a column, as statements for another. */
const MARKS = `
  WITH old AS (SELECT * FROM pg_attribute WHERE attrelid = to_regclass(quote_ident($1)) AND attname = $2)
  SELECT format('COMMENT ON COLUMN %I.%I IS %L', $1::text, $3::text, col_description(attrelid, attnum)) AS statement
  FROM old WHERE col_description(attrelid, attnum) IS NOT NULL
  UNION ALL
  SELECT format('GRANT %s (%I) ON %I TO %s%s', privilege_type, $3::text, $1::text,
    CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
    CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
  FROM (SELECT (aclexplode(attacl)).* FROM old) AS granted`;

/** A big index takes its time; nobody who reads waits for it. */
const BUILD_MS = 6 * 3_600_000;

interface UserIndex {
  name: string;
  definition: string;
  comment: string | null;
}

/**
 * Builds, on columns that are to take the place of others, the indexes that people made on those. While one is built
 * the table can be read, not written; and it is us who write.
 */
async function buildShadowIndexes(database: Database, widening: Widening): Promise<void> {
  await transact(
    database,
    async ({ execute }) => {
      for (const index of await indexesOn(execute, widening)) {
        await execute(`DROP INDEX IF EXISTS ${quoted(shadowName(index))}`);
        await execute(onShadowColumns(index, widening));
      }
    },
    { statementMs: BUILD_MS },
  );
}

/** Statements that give the new indexes, once the old ones are gone with their columns, the names of those. */
export async function renameIndexes(execute: Session['execute'], widening: Widening): Promise<string[]> {
  const indexes = await indexesOn(execute, widening);
  return indexes.flatMap((index) => {
    const rename = `ALTER INDEX ${quoted(shadowName(index))} RENAME TO ${quoted(index.name)}`;
    if (index.comment === null) return [rename];
    return [rename, `COMMENT ON INDEX ${quoted(index.name)} IS ${escapeLiteral(index.comment)}`];
  });
}

/** Indexes that name one of the columns that widen, in their columns, expressions or condition; no constraint's. */
async function indexesOn(execute: Session['execute'], { table, columns }: Widening): Promise<UserIndex[]> {
  const { rows } = await execute<UserIndex & Record<string, unknown>>(
    `SELECT relname AS name, pg_get_indexdef(c.oid) AS definition, obj_description(c.oid, 'pg_class') AS comment
     FROM pg_index JOIN pg_class c ON c.oid = indexrelid
     WHERE indrelid = to_regclass(quote_ident($1))
       AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = c.oid)
       AND EXISTS (
         SELECT 1 FROM pg_depend d JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
         WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND refobjid = indrelid AND attname = ANY($2)
           AND NOT starts_with(relname, '_sync_wider_')
       ) ORDER BY c.oid`,
    [table.name, columns.map(({ column }) => column.name)],
  );
  return rows;
}

function shadowName({ name }: UserIndex): string {
  return `_sync_wider_${textHash(name)}`;
}

/** The definition with other columns: Postgres writes it, so what stands where is known. */
function onShadowColumns(index: UserIndex, { table, columns }: Widening): string {
  const [head = '', ...tail] = index.definition.split(' USING ');
  const unique = head.startsWith('CREATE UNIQUE') ? 'UNIQUE ' : '';
  const second = new Map(columns.map((wider) => [wider.column.name, shadowColumn(wider)]));
  const [method = '', ...parts] = tail.join(' USING ').split('(');
  const on = parts.join('(').replaceAll(TOKEN, (token, name: string | undefined, bare: string | undefined) => {
    const to = second.get(name?.slice(1, -1).replaceAll('""', '"') ?? bare ?? '');
    return to === undefined ? token : quoted(to);
  });
  return `CREATE ${unique}INDEX ${quoted(shadowName(index))} ON ${quoted(table.name)} USING ${method}(${on}`;
}

/** A text, which stays; or a quoted or a bare name that is neither a type behind `::` nor a function. */
const TOKEN =
  /'(?:[^']|'')*'|("(?:[^"]|"")*")|(?<!::)(?<![\p{L}\p{N}_$])([\p{L}_][\p{L}\p{N}_$]*)(?![\p{L}\p{N}_$(])/gu;
