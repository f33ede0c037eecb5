import path from 'node:path';
import { z } from 'zod';
import type { Client, ReadableCopy, ReadTypes } from './client.ts';
import { pythonWith, reasonOf, runProgram } from './installing.ts';

const PROGRAMS = path.join(import.meta.dirname, 'programs');
const printed = z.record(z.string(), z.record(z.string(), z.string()));

function readTypes(text: string): ReadTypes {
  return new Map(
    Object.entries(printed.parse(JSON.parse(text))).map(([table, columns]) => [
      table,
      new Map(Object.entries(columns)),
    ]),
  );
}

function names({ tables }: ReadableCopy): string {
  return JSON.stringify(tables.map(({ name }) => name));
}

let sqlalchemy = 'python3';
let odbc = 'python3';

export const SQLALCHEMY: Client = {
  name: 'SQLAlchemy and pandas',
  databases: ['sqlite', 'postgres'],
  install: () =>
    reasonOf(async () => {
      const packages = ['sqlalchemy', 'pandas', 'psycopg2-binary'];
      sqlalchemy = await pythonWith('python', ['sqlalchemy', 'pandas', 'psycopg2'], packages);
    }),
  read: async (copy) => {
    const isFile = copy.database === 'sqlite';
    const url = isFile ? `sqlite:///${copy.file}` : copy.url.replace(/^postgres:/, 'postgresql:');
    const args = [path.join(PROGRAMS, 'read_sqlalchemy.py'), url, isFile ? '' : copy.schema, names(copy)];
    return readTypes(await runProgram(sqlalchemy, args));
  },
  words: (database) => ({
    boolean: /^BOOLEAN (bool|empty) /,
    // A view's column that is an expression has no declared type on SQLite: its values are right all the same.
    integer: /^(BIGINT|INTEGER|NullType) (int|empty) /,
    double: /^(DOUBLE|FLOAT|REAL|DOUBLE_PRECISION|NullType) (float|empty) /,
    numeric:
      database === 'sqlite' ? /^(DOUBLE|FLOAT|REAL|NUMERIC|NullType) (float|empty) / : /^NUMERIC (Decimal|empty) /,
    date: /^DATE (date|empty) /,
    timestamp: /^TIMESTAMP (datetime|empty) (datetime64|object)/,
    text: /^(TEXT|VARCHAR|NullType) (str|empty) /,
    json: database === 'sqlite' ? /^(TEXT|NullType) (str|empty) / : /^JSONB /,
  }),
};

export const ODBC: Client = {
  name: 'ODBC',
  databases: ['sqlite', 'postgres'],
  install: () =>
    reasonOf(async () => {
      odbc = await pythonWith('python', ['pyodbc'], ['pyodbc']);
      await runProgram('odbcinst', ['-q', '-d', '-n', 'SQLite3']);
      await runProgram('odbcinst', ['-q', '-d', '-n', 'PostgreSQL Unicode']);
    }),
  read: async (copy) => {
    const isFile = copy.database === 'sqlite';
    const { hostname, port, username, password, pathname } = new URL(isFile ? 'http://x' : copy.url);
    const server = `Driver=PostgreSQL Unicode;Server=${hostname};Port=${port};Uid=${username};Pwd=${password};Database=${pathname.slice(1)}`;
    // As analysts set it: else texts of any length come as long memos, and booleans as texts.
    const at = isFile ? `Driver=SQLite3;Database=${copy.file};LongNames=0` : `${server};BoolsAsChar=0`;
    return readTypes(
      await runProgram(odbc, [path.join(PROGRAMS, 'read_odbc.py'), at, isFile ? '' : copy.schema, names(copy)]),
    );
  },
  words: (database) => ({
    boolean: /^bool (bool|empty)/,
    integer: /^int (int|empty)/,
    double: /^float (float|empty)/,
    numeric: database === 'sqlite' ? /^float (float|empty)/ : /^Decimal (Decimal|empty)/,
    date: /^date (date|empty)/,
    timestamp: /^datetime (datetime|empty)/,
    text: /^str (str|empty)/,
    json: /^str (str|empty)/,
  }),
};
