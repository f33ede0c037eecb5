import { escapeLiteral } from 'pg';
import { textHash } from '../../../shape/records/fingerprint.ts';
import { quoted } from './ddl.ts';
import type { Session } from '../connection/session.ts';
import { transact, type Database } from '../connection/transact.ts';
import { shadowColumn, type Widening } from './widening.ts';

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
export async function buildShadowIndexes(database: Database, widening: Widening): Promise<void> {
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
           AND NOT starts_with(relname, '_sync_')
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
