import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ColumnType } from '../../src/model/vocabulary.ts';
import type { Client, ReadableCopy, ReadTypes } from './client.ts';
import { npmFolder, reasonOf, runProgram } from './installing.ts';

let codegen = '';
let drizzle = '';

/** The columns of an interface, or the tables of `DB`. */
function fields(body: string): Map<string, string> {
  const lines = body.matchAll(/^ {2}"?([^":*\n]+)"?: (.*);$/gm);
  return new Map(Array.from(lines, ([, name = '', type = '']): [string, string] => [name, type]));
}

/** Interfaces of TypeScript: names of the tables in `DB`, and the columns of each. */
function interfaces(text: string): ReadTypes {
  const bodies = new Map(
    Array.from(
      text.matchAll(/export interface (\w+) \{\n([^]*?)\n\}/g),
      ([, name = '', body = '']) => [name, body] as const,
    ),
  );
  const tables = fields(bodies.get('DB') ?? '');
  return new Map(
    Array.from(tables, ([table, name]) => [table.replace(/^[^.]*\./, ''), fields(bodies.get(name) ?? '')] as const),
  );
}

const NUMBER = /number|Int8|Numeric/;

/** It knows neither BIGINT nor DOUBLE and takes them for texts: the dictionary says which columns those are. */
function overrides(tables: ReadableCopy['tables']): string {
  const columns = tables.flatMap(({ name, columns: of }) =>
    of.filter(({ type }) => NUMBERS.has(type)).map((column) => [`${name}.${column.name}`, 'number | null']),
  );
  return JSON.stringify({ columns: Object.fromEntries(columns) });
}

const NUMBERS: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'numeric']);

export const KYSELY_CODEGEN: Client = {
  name: 'kysely-codegen',
  note: (database) => (database === 'sqlite' ? ', numbers by overrides from the dictionary' : ''),
  databases: ['sqlite', 'postgres'],
  install: () =>
    reasonOf(async () => {
      codegen = await npmFolder('kysely-codegen', [
        'kysely-codegen@0.20.0',
        'kysely@0.28.8',
        'better-sqlite3@13.2.0',
        'pg@8.16.3',
        'typescript@5.9.3',
      ]);
    }),
  read: async ({ database, file, url, schema, folder, tables }) => {
    const out = path.join(folder, 'kysely.d.ts');
    const at =
      database === 'sqlite'
        ? ['--dialect', 'sqlite', '--url', file, '--overrides', overrides(tables)]
        : ['--dialect', 'postgres', '--url', url, '--default-schema', schema, '--include-pattern', `${schema}.*`];
    await runProgram(path.join(codegen, 'node_modules/.bin/kysely-codegen'), [...at, '--out-file', out], {
      cwd: codegen,
    });
    return interfaces(readFileSync(out, 'utf8'));
  },
  words: (database) => ({
    boolean: database === 'sqlite' ? NUMBER : /boolean/,
    integer: NUMBER,
    double: NUMBER,
    numeric: NUMBER,
    date: database === 'sqlite' ? /string/ : /Timestamp/,
    timestamp: database === 'sqlite' ? /string/ : /Timestamp/,
    text: /string/,
    json: database === 'sqlite' ? /string/ : /Json/,
  }),
};

/** Tables and views of a schema that drizzle has pulled: the function that makes each column. */
function pulled(text: string): ReadTypes {
  const parts = text.split(/^export const /m).slice(1);
  return new Map(
    parts.flatMap((part) => {
      const [, name] = /(?:Table|View|table|view)\("([^"]+)"/.exec(part) ?? [];
      if (name === undefined) return [];
      const columns = Array.from(
        part.matchAll(/(?:^|\{)\t(?:"([^"]+)"|(\w+)): (\w+)\((?:"([^"]+)")?(.*)$/gm),
        ([, quoted, bare, type = '', own, rest = '']): [string, string] => [
          own ?? quoted ?? bare ?? '',
          `${type} ${rest}`,
        ],
      );
      return [[name, new Map(columns)] as const];
    }),
  );
}

export const DRIZZLE_KIT: Client = {
  name: 'drizzle-kit pull',
  databases: ['sqlite', 'postgres'],
  install: () =>
    reasonOf(async () => {
      drizzle = await npmFolder('drizzle-kit', [
        'drizzle-kit@0.31.11',
        'drizzle-orm@0.44.7',
        'better-sqlite3@13.2.0',
        'pg@8.16.3',
      ]);
    }),
  read: async ({ database, file, url, schema, folder }) => {
    const out = path.join(folder, 'drizzle');
    const config = path.join(drizzle, `${database}.config.json`);
    const about =
      database === 'sqlite'
        ? { dialect: 'sqlite', dbCredentials: { url: file } }
        : { dialect: 'postgresql', dbCredentials: { url }, schemaFilter: [schema] };
    writeFileSync(
      config,
      JSON.stringify({ ...about, out: path.relative(drizzle, out), introspect: { casing: 'preserve' } }),
    );
    await runProgram(path.join(drizzle, 'node_modules/.bin/drizzle-kit'), ['pull', '--config', config], {
      cwd: drizzle,
    });
    const files = readdirSync(out).filter((name) => name === 'schema.ts');
    return pulled(files.map((name) => readFileSync(path.join(out, name), 'utf8')).join('\n'));
  },
  words: (database) => ({
    boolean: database === 'sqlite' ? /numeric|integer/ : /boolean/,
    integer: /^(integer|bigint)/,
    double: database === 'sqlite' ? /^(real|numeric)/ : /^doublePrecision/,
    numeric: database === 'sqlite' ? /^(real|numeric)/ : /^numeric/,
    date: database === 'sqlite' ? /^(numeric|text)/ : /^date/,
    timestamp: database === 'sqlite' ? /^(numeric|text)/ : /^timestamp/,
    text: /^text/,
    json: database === 'sqlite' ? /^text/ : /^jsonb/,
  }),
};
