import { readFileSync } from 'node:fs';
import path from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import type { Manifest, ManifestTable } from '../../src/export/manifest.ts';
import { asOtherClient, type TestDatabase } from '../support/databases.ts';

/** A row in texts that both sides can be compared by; null for NULL. */
export type TextRow = (string | null)[];

export function manifestIn(folder: string): Manifest {
  return JSON.parse(readFileSync(path.join(folder, 'manifest.json'), 'utf8'));
}

export function tableIn(folder: string, name: string): ManifestTable {
  const table = manifestIn(folder).tables.find((each) => each.name === name);
  if (table === undefined) throw new Error(`no ${name} in ${folder}`);
  return table;
}

/** Runs a query in a DuckDB of its own. */
export async function inDuckDb(text: string): Promise<{ types: string[]; rows: unknown[][] }> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    const answer = await connection.runAndReadAll(text);
    return { types: answer.columnTypes().map(String), rows: answer.getRows() };
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** What DuckDB reads of a table as the manifest lists it, sorted. */
export async function parquetRows(folder: string, name: string): Promise<TextRow[]> {
  const { columns, files } = tableIn(folder, name);
  const list = columns.map(({ name: column, type }) =>
    type === 'timestamp'
      ? `epoch_us(${quoted(column)})::VARCHAR`
      : type === 'double'
        ? quoted(column)
        : `${quoted(column)}::VARCHAR`,
  );
  const { rows } = await inDuckDb(`SELECT ${list.join(', ')} FROM ${source(folder, files)}`);
  return sorted(
    rows.map((row) => row.map((cell, at) => (cell === null ? null : plain(textOf(cell), columns[at]?.stored ?? '')))),
  );
}

/** Types as DuckDB sees them, by column. */
export async function parquetTypes(folder: string, name: string): Promise<Record<string, string>> {
  const { files } = tableIn(folder, name);
  const { rows } = await inDuckDb(`DESCRIBE SELECT * FROM ${source(folder, files)}`);
  return Object.fromEntries(rows.map(([column, type]) => [String(column), String(type)]));
}

function source(folder: string, files: ManifestTable['files']): string {
  const list = files.map(({ path: file }) => `'${path.join(folder, file).replaceAll("'", "''")}'`);
  return `read_parquet([${list.join(', ')}], hive_partitioning = false)`;
}

/** The same rows as the warehouse itself gives them to any other program. */
export async function viewRows(
  database: TestDatabase,
  address: string,
  { name, columns }: Pick<ManifestTable, 'name' | 'columns'>,
): Promise<TextRow[]> {
  // SQLite shows the nearest double of a decimal, with its digits beside it.
  const shown = columns.map(({ name: column, type }) =>
    quoted(database.name === 'sqlite' && type === 'numeric' ? `${column}_text` : column),
  );
  const text = `SELECT ${shown.join(', ')} FROM ${quoted(name)}`;
  const rows = database.name === 'sqlite' ? await ofSqlite(database, address, text) : await ofPostgres(address, text);
  return sorted(
    rows.map((row) =>
      row.map((cell, at) => (cell === null ? null : known(cell, columns[at] ?? { type: '', stored: '' }))),
    ),
  );
}

function ofSqlite(database: TestDatabase, address: string, text: string): Promise<TextRow[]> {
  return database.read(address, (db) =>
    db
      .prepare<[], unknown[]>(text)
      .raw()
      .safeIntegers()
      .all()
      .map((row) => row.map((cell) => (cell === null ? null : textOf(cell)))),
  );
}

function ofPostgres(address: string, text: string): Promise<TextRow[]> {
  return asOtherClient(address, async (client) => {
    await client.query("SET timezone = 'UTC'");
    const types = { getTypeParser: () => String };
    return (await client.query<TextRow>({ text, rowMode: 'array', types })).rows;
  });
}

/** Of a text or a number. */
function textOf(cell: unknown): string {
  return typeof cell === 'string' ? cell : String(Object(cell).valueOf());
}

/** A text of the warehouse as the one that is compared. */
function known(cell: string, { type, stored }: { type: string; stored: string }): string {
  if (type === 'boolean') return String(['1', 't', 'true'].includes(cell));
  if (type === 'double') return String(Number(cell));
  if (type !== 'timestamp') return plain(cell, stored);
  const [, moment = '', fraction = ''] = /^([^.+]*)(?:\.(\d+))?/.exec(cell) ?? [];
  return String(BigInt(Date.parse(`${moment.replace(' ', 'T')}Z`)) * 1_000n + BigInt(fraction.padEnd(6, '0')));
}

/** A decimal without the zeros behind it. */
function plain(text: string, stored: string): string {
  return stored.startsWith('DECIMAL') && text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

function sorted(rows: TextRow[]): TextRow[] {
  const keyed = rows.map((row) => ({ key: JSON.stringify(row), row }));
  return keyed.toSorted((a, b) => (a.key < b.key ? -1 : 1)).map(({ row }) => row);
}
