import Database from 'better-sqlite3';
import { escapeLiteral, type Client, type QueryArrayResult, type QueryResult } from 'pg';

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
  WHERE n.nspname = `;

const BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone TO 'UTC'";

/** Columns by their table, of tables that are not fetched yet. */
type Unfetched = Map<string, ColumnFact[]>;

/**
 * The tables of a schema as one transaction sees them, as a SQLite database in memory that holds what a SQLite warehouse
 * would: so the same checks read both. Nothing of the product is used. The caller closes it.
 */
export async function snapshotOf(client: Client, schema: string): Promise<Database.Database> {
  const left = await tablesOf(client, schema);
  const db = new Database(':memory:');
  db.exec(declared(left));
  await fetchInto(db, client, schema, left, left.keys());
  await client.query('COMMIT');
  return db;
}

/** What the looks before it have left for the next one on the same connection: tables without a row. */
interface Kept {
  declared: string;
  db: Database.Database;
}

/** By connection, because a test looks again and again: to declare forty tables takes longer than to look at one. */
const kept = new WeakMap<Client, Kept>();

/**
 * Gives such a database to `look`, and resolves with what that returns. Most looks are at one table of forty, and tests
 * look again and again until something is there: what `look` names is fetched when it does, and `look`, which changes
 * nothing, begins again; from the third time on all is there.
 */
export async function lookAt<T>(client: Client, schema: string, look: (db: Database.Database) => T): Promise<T> {
  const left = await tablesOf(client, schema);
  const tables = [...left.keys()];
  const empty = emptied(client, declared(left));
  const { db } = empty;
  const named = new Set<string>();
  const noting = notingNames(db, left, named);
  for (let round = 1; ; round += 1) {
    const answer = tried(() => look(noting));
    if (named.size === 0) {
      await client.query('COMMIT');
      for (const table of tables) if (!left.has(table)) db.exec(`DELETE FROM ${quoted(table)}`);
      kept.set(client, empty);
      return answer();
    }
    await fetchInto(db, client, schema, left, round === 1 ? named : left.keys());
    named.clear();
  }
}

/** The kept tables, where they are the same; nobody else has them until they are kept again. */
function emptied(client: Client, text: string): Kept {
  const before = kept.get(client);
  kept.delete(client);
  if (before?.declared === text) return before;
  before?.db.close();
  const db = new Database(':memory:');
  db.exec(text);
  return { declared: text, db };
}

/** Its outcome, to be had later: returned or thrown. */
function tried<T>(work: () => T): () => T {
  try {
    const answer = work();
    return () => answer;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** The same database, where a statement about tables that are not fetched yet throws, and their names are in the set. */
function notingNames(db: Database.Database, left: Unfetched, named: Set<string>): Database.Database {
  const prepare = (text: string): unknown => {
    // Names in SQL are the same in capitals and small letters.
    const lower = text.toLowerCase();
    for (const table of left.keys()) {
      const name = table.toLowerCase();
      if (lower.includes(name) || lower.includes(quoted(name))) named.add(table);
    }
    if (named.size > 0) throw new Error('these tables have not been fetched yet');
    return db.prepare(text);
  };
  return Object.create(db, { prepare: { value: prepare } });
}

/** Begins a transaction, and tells the tables that it sees. */
async function tablesOf(client: Client, schema: string): Promise<Unfetched> {
  const order = 'ORDER BY c.relname, a.attnum';
  const answers: QueryResult<ColumnFact> | QueryResult<ColumnFact>[] = await client.query<ColumnFact>(
    `${BEGIN}; ${COLUMNS}${escapeLiteral(schema)} ${order}`,
  );
  return Map.groupBy([answers].flat().at(-1)?.rows ?? [], (column) => column.table);
}

function declared(tables: Unfetched): string {
  return [...tables].map(([table, columns]) => tableText(table, columns)).join(';\n');
}

async function fetchInto(
  db: Database.Database,
  client: Client,
  schema: string,
  left: Unfetched,
  names: Iterable<string>,
): Promise<void> {
  const tables = [...names].map((table) => ({ table, columns: left.get(table) ?? [] }));
  const selects = tables.map(({ table, columns }) => selectText(schema, table, columns));
  const cells = await answersTo(client, selects);
  for (const [at, { table, columns }] of tables.entries()) {
    left.delete(table);
    store(db, table, columns, cells[at] ?? []);
  }
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

function tableText(table: string, columns: readonly ColumnFact[]): string {
  const declared = columns.map(({ name, type }) => `${quoted(name)} ${formOf(type).declared}`);
  const keys = columns.filter(({ isKey }) => isKey).map(({ name }) => quoted(name));
  const primary = keys.length === 0 ? [] : [`PRIMARY KEY (${keys.join(', ')})`];
  return `CREATE TABLE ${quoted(table)} (${[...declared, ...primary].join(', ')})`;
}

function store(
  db: Database.Database,
  table: string,
  columns: readonly ColumnFact[],
  rows: readonly (readonly unknown[])[],
): void {
  if (rows.length === 0) return;
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
