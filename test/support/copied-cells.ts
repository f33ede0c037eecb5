import type { JsonValue } from '../../src/model/json.ts';
import { COLUMN_TYPES, type ColumnType } from '../../src/model/vocabulary.ts';
import { asReader } from './postgres-clients.ts';
import { rowsIn } from './temp-warehouse.ts';

/** A column of a copied table. */
export interface CopiedColumn {
  name: string;
  type: ColumnType;
}

/** How each type is asked for in Postgres, so that it is read as SQLite holds it. */
const AS_TEXT: Readonly<Record<ColumnType, (name: string) => string>> = {
  boolean: (name) => `${name}::int`,
  integer: (name) => `${name}::text`,
  double: (name) => name,
  numeric: (name) => `${name}::text`,
  date: (name) => `${name}::text`,
  timestamp: (name) => `to_char(${name} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')`,
  text: (name) => name,
  json: (name) => `${name}::text`,
};

/** One text for all ways in which the databases write one value. */
const NORMAL: Readonly<Record<ColumnType, (text: string) => string>> = {
  boolean: String,
  integer: String,
  double: (text) => String(Number(text)),
  numeric: decimal,
  date: String,
  timestamp: (text) => text.replace(/\.000$/, ''),
  text: String,
  json: (text) => JSON.stringify(sorted(JSON.parse(text, byDigits))),
};

/** The columns of a table as the catalog of a warehouse at `address` remembers them. */
export async function copiedColumns(address: string, table: string): Promise<CopiedColumn[]> {
  const rows = await rowsOf(
    address,
    `SELECT column_name, type FROM _sync_columns WHERE table_name = '${table}' AND role = 'source' ORDER BY position`,
  );
  return rows.map(({ column_name, type }) => ({ name: String(column_name), type: typeNamed(String(type)) }));
}

/** Every value of a table, by key and column, as one text that is the same in both databases; null stays null. */
export async function copiedCells(
  address: string,
  table: string,
  key: readonly string[] = ['id'],
): Promise<Record<string, Record<string, string | null>>> {
  const columns = await copiedColumns(address, table);
  const asked = columns.map(({ name, type }) => {
    const quoted = `"${name.replaceAll('"', '""')}"`;
    return `${isPostgres(address) ? AS_TEXT[type](quoted) : quoted} AS ${quoted}`;
  });
  const keys = key.map((name) => `"${name}"`);
  const rows = await rowsOf(address, `SELECT ${[...keys, ...asked].join(', ')} FROM "${table}"`);
  return Object.fromEntries(
    rows.map((row) => [
      key.map((name) => String(row[name])).join(' '),
      Object.fromEntries(columns.map(({ name, type }) => [name, normal(type, row[name])])),
    ]),
  );
}

/** All rows that a query finds, as another program reads them. */
export async function rowsOf(address: string, query: string): Promise<Record<string, unknown>[]> {
  if (!isPostgres(address)) return rowsIn(address.slice('sqlite:'.length), query);
  return asReader(address, async (client) => (await client.query<Record<string, unknown>>(query)).rows);
}

export function isPostgres(address: string): boolean {
  return address.startsWith('postgres:');
}

function normal(type: ColumnType, value: unknown): string | null {
  if (value === null) return null;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint') {
    return NORMAL[type](String(value));
  }
  throw new Error(`a ${type} is read as ${typeof value}`);
}

export function typeNamed(name: string): ColumnType {
  const type = COLUMN_TYPES.find((candidate) => candidate === name);
  if (type === undefined) throw new Error(`no column type: ${name}`);
  return type;
}

/** A number's digits without zeros around them, and their power of ten: one text for all ways to write it. */
export function decimal(text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  const digits = (whole + fraction).replace(/^0+/, '');
  const kept = digits.replace(/0+$/, '');
  const power = Number(exponent) - fraction.length + digits.length - kept.length;
  return kept === '' ? '0' : `${mantissa.startsWith('-') ? '-' : ''}${kept}e${power}`;
}

function byDigits(_key: string, value: JsonValue, { source }: { source?: string }): JsonValue {
  return typeof value === 'number' ? `number ${decimal(source ?? '')}` : value;
}

/** jsonb keeps keys in an order of its own. */
function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(sorted);
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => [key, sorted(member)]),
  );
}
