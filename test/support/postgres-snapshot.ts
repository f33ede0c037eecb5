import Database from 'better-sqlite3';
import type { Client, QueryArrayResult } from 'pg';

interface ColumnFact {
  table: string;
  name: string;
  type: string;
  isKey: boolean;
}

/** How a column is declared in SQLite, and what its cells are there, as an expression of Postgres. */
interface Form {
  declared: string;
  cell: (column: string) => string;
}

const asIs = (column: string): string => column;
const asText = (column: string): string => `${column}::text`;
const asUtc = (column: string): string => `to_char(${column}, 'YYYY-MM-DD HH24:MI:SS.MS')`;

const FORMS: Readonly<Record<string, Form>> = {
  boolean: { declared: 'BOOLEAN', cell: (column) => `${column}::int` },
  bigint: { declared: 'BIGINT', cell: asText },
  integer: { declared: 'BIGINT', cell: asText },
  'double precision': { declared: 'DOUBLE', cell: asIs },
  numeric: { declared: 'TEXT', cell: asText },
  date: { declared: 'DATE', cell: asText },
  'timestamp with time zone': { declared: 'TIMESTAMP', cell: asUtc },
  'timestamp without time zone': { declared: 'TIMESTAMP', cell: asUtc },
  text: { declared: 'TEXT', cell: asIs },
  'character varying': { declared: 'TEXT', cell: asIs },
  jsonb: { declared: 'TEXT', cell: asText },
  bytea: { declared: 'BLOB', cell: asIs },
};

const COLUMNS = `SELECT c.relname AS table, a.attname AS name, format_type(a.atttypid, NULL) AS type,
  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)) AS "isKey"
  FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r'
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE n.nspname = $1 ORDER BY c.relname, a.attnum`;

/**
 * The tables of a schema as one transaction sees them, as a SQLite database in memory that holds what a SQLite warehouse
 * would: so the same checks read both. Nothing of the product is used. The caller closes it.
 */
export async function snapshotOf(client: Client, schema: string): Promise<Database.Database> {
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone TO 'UTC'");
  const { rows } = await client.query<ColumnFact>(COLUMNS, [schema]);
  const tables = [...Map.groupBy(rows, (column) => column.table)];
  const selects = tables.map(([table, columns]) => selectText(schema, table, columns));
  const cells = await answersTo(client, [...selects, 'COMMIT']);
  const db = new Database(':memory:');
  for (const [at, [table, columns]] of tables.entries()) store(db, table, columns, cells[at] ?? []);
  return db;
}

/** The rows that each of several statements finds, in one trip. */
async function answersTo(client: Client, statements: readonly string[]): Promise<(readonly (readonly unknown[])[])[]> {
  const answers: QueryArrayResult | QueryArrayResult[] = await client.query({
    text: statements.join(';\n'),
    rowMode: 'array',
  });
  return [answers].flat().map(({ rows }) => rows);
}

function selectText(schema: string, table: string, columns: readonly ColumnFact[]): string {
  const cells = columns.map(({ name, type }) => {
    const cell = formOf(type).cell(quoted(name));
    // Where a source's time has no milliseconds, SQLite shows none; ours always have them.
    return type.startsWith('timestamp') && !isOurs(table, name) ? `replace(${cell}, '.000', '')` : cell;
  });
  return `SELECT ${cells.join(', ')} FROM ${quoted(schema)}.${quoted(table)}`;
}

function store(
  db: Database.Database,
  table: string,
  columns: readonly ColumnFact[],
  rows: readonly (readonly unknown[])[],
): void {
  const declared = columns.map(({ name, type }) => `${quoted(name)} ${formOf(type).declared}`);
  const keys = columns.filter(({ isKey }) => isKey).map(({ name }) => quoted(name));
  const primary = keys.length === 0 ? [] : [`PRIMARY KEY (${keys.join(', ')})`];
  db.exec(`CREATE TABLE ${quoted(table)} (${[...declared, ...primary].join(', ')})`);
  const insert = db.prepare(`INSERT INTO ${quoted(table)} VALUES (${columns.map(() => '?').join(', ')})`);
  db.transaction(() => rows.forEach((row) => insert.run(...row)))();
}

function formOf(type: string): Form {
  const form = FORMS[type];
  if (form === undefined) throw new Error(`no warehouse of ours has a column of type ${type}`);
  return form;
}

function isOurs(table: string, column: string): boolean {
  return table.startsWith('_sync_') || column.startsWith('_');
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
