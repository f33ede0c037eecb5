import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { openWarehouseToRead } from '../../src/database/databases.ts';
import { readShapes, readViews } from '../../src/database/state/catalog.ts';
import type { ColumnType } from '../../src/model/vocabulary.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { asOtherClient, DATABASES, type TestDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

const run = promisify(execFile);

/** Where SQLAlchemy is installed, and found again the next time. */
const CACHE = process.env['CLIENTS_CACHE'] ?? path.join(tmpdir(), 'content-sync-clients');

/** As those read who make dashboards. */
const READER = 'clients_reader';

const PROFILE = {
  relations: { 'analytics.content_id': 'content.id', 'content.seo_image_id': 'images.id' },
  resources: { content: { history: 'all', state: 'status' } },
};

type Table = { name: string; columns: readonly { name: string; type: ColumnType }[] };

/** What SQLAlchemy and pandas make of each type: declared type, type of its values, type in a data frame. */
function words(database: TestDatabase['name']): Readonly<Record<ColumnType, RegExp>> {
  return {
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
  };
}

/** A Python that has SQLAlchemy and pandas. */
async function installedPython(): Promise<string> {
  const python = path.join(CACHE, 'python/bin/python');
  if (!existsSync(python)) {
    mkdirSync(CACHE, { recursive: true });
    await run('python3', ['-m', 'venv', path.join(CACHE, 'python')]);
    await run(python, ['-m', 'pip', 'install', '--quiet', 'sqlalchemy', 'pandas', 'psycopg2-binary']);
  }
  return python;
}

/** A copy that has all kinds of views, each with rows: where a client finds it, and what is in it. */
async function copyOn(database: TestDatabase): Promise<{ url: string; schema: string; tables: readonly Table[] }> {
  const generate = { content: 60, images: 20, analytics: 100 };
  const stage = await journey({ database, sandbox: { generate }, profile: PROFILE });
  expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
  const tables = await readTables(stage.address);
  if (database.name === 'sqlite') return { url: `sqlite:///${stage.file}`, schema: '', tables };
  expect(await stage.command('grants', '--role', READER)).toMatchObject({ code: 0 });
  await asOtherClient(stage.address, (client) => client.query(`ALTER ROLE ${READER} LOGIN PASSWORD 'reader'`));
  const url = new URL(stage.address);
  const schema = url.searchParams.get('schema') ?? 'blog';
  [url.search, url.username, url.password] = ['', READER, 'reader'];
  return { url: url.href.replace(/^postgres:/, 'postgresql:'), schema, tables };
}

/** Every copied table and view with the types of its columns, as content-sync has stored them. */
async function readTables(address: string): Promise<readonly Table[]> {
  const warehouse = await openWarehouseToRead(address, systemClock);
  const views = [...(await readViews(warehouse.own)).values()];
  const tables = (await readShapes(warehouse.own)).flatMap((shape) => shape.tables);
  await warehouse.close();
  return [
    ...views.map(({ view, columns }) => ({
      name: view.view_name,
      columns: columns.map(({ column_name: name, type }) => ({ name, type })),
    })),
    ...tables.map(({ name, key, columns }) => ({
      name,
      columns: [...key.map((each, at) => ({ name: each, type: at === 0 ? 'text' : 'integer' }) as const), ...columns],
    })),
  ];
}

it.for(DATABASES)('SQLAlchemy and pandas read every table and view on $name with right types', async (database) => {
  const { url, schema, tables } = await copyOn(database);
  const program = path.join(import.meta.dirname, 'programs/read_sqlalchemy.py');
  const names = JSON.stringify(tables.map(({ name }) => name));
  const { stdout } = await run(await installedPython(), [program, url, schema, names], { maxBuffer: 2 ** 28 });
  const read = z.record(z.string(), z.record(z.string(), z.string())).parse(JSON.parse(stdout));
  const wrong = tables.flatMap(({ name, columns }) =>
    columns.flatMap((column) => {
      const found = read[name]?.[column.name] ?? 'not there';
      return words(database.name)[column.type].test(found)
        ? []
        : [`${name}.${column.name}: ${column.type}, read as ${found}`];
    }),
  );
  expect(wrong).toEqual([]);
});
