import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Client, ReadTypes } from './client.ts';
import { CACHE, reasonOf, runProgram } from './installing.ts';

/** As Debian names them, or as they are downloaded into the cache by hand. */
const JARS = ['postgresql.jar', 'sqlite-jdbc.jar'];
const FOLDERS = [path.join(CACHE, 'jars'), '/usr/share/java'];

function classPath(): string {
  return JARS.map((jar) => {
    const found = FOLDERS.map((folder) => path.join(folder, jar)).find((file) => existsSync(file));
    if (found === undefined) throw new Error(`${jar} is in neither of ${FOLDERS.join(', ')}`);
    return found;
  }).join(':');
}

export const JDBC: Client = {
  name: 'JDBC',
  databases: ['sqlite', 'postgres'],
  install: () =>
    reasonOf(async () => {
      await runProgram('java', ['--version']);
      classPath();
    }),
  read: async ({ database, file, url, schema, tables }) => {
    const { host, username, password, pathname } = new URL(database === 'sqlite' ? 'http://x' : url);
    const at =
      database === 'sqlite'
        ? `jdbc:sqlite:${file}`
        : `jdbc:postgresql://${host}${pathname}?user=${username}&password=${password}`;
    const program = path.join(import.meta.dirname, 'programs/ReadJdbc.java');
    const names = tables.map(({ name }) => name);
    const text = await runProgram('java', [
      '-cp',
      classPath(),
      program,
      at,
      database === 'sqlite' ? '' : schema,
      ...names,
    ]);
    const found: ReadTypes = new Map(names.map((name) => [name, new Map()]));
    for (const line of text.trimEnd().split('\n')) {
      const [table = '', column = '', words = ''] = line.split('\t');
      found.get(table)?.set(column, words);
    }
    return found;
  },
  words: (database) => ({
    boolean: database === 'sqlite' ? /^BOOLEAN (Integer|Boolean|empty)/ : /^(BIT|BOOLEAN) (Boolean|empty)/,
    integer: /^(BIGINT|INTEGER) (Integer|Long|Integer\/Long|empty)/,
    double: /^(DOUBLE|FLOAT|REAL) (Double|empty)/,
    numeric: database === 'sqlite' ? /^(DOUBLE|FLOAT|REAL|NUMERIC) (Double|empty)/ : /^NUMERIC (BigDecimal|empty)/,
    // Its getDate wants a time as well; getObject and getString give the day.
    date: database === 'sqlite' ? /^DATE (String|empty)/ : /^DATE (Date|empty)/,
    timestamp: /^TIMESTAMP(_WITH_TIMEZONE)? (Timestamp|empty)/,
    // The type of an expression is that of its values: without any it has none.
    text: database === 'sqlite' ? /^(VARCHAR (String|empty)|NUMERIC empty)/ : /^VARCHAR (String|empty)/,
    json: database === 'sqlite' ? /^VARCHAR (String|empty)/ : /^OTHER (PGobject|empty)/,
  }),
};
