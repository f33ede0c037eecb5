import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openWarehouseToRead } from '../../src/database/databases.ts';
import { readShapes } from '../../src/database/state/catalog.ts';
import { readViews } from '../../src/database/state/catalog.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { asOtherClient, DATABASES, type TestDatabase } from '../support/databases.ts';
import { journey } from '../support/journey.ts';
import type { Client, ReadableCopy } from './client.ts';
import { DBT } from './dbt.ts';
import { JDBC } from './jdbc.ts';
import { ODBC, SQLALCHEMY } from './python-clients.ts';

const CLIENTS: readonly Client[] = [SQLALCHEMY, DBT, JDBC, ODBC];

const PROFILE = {
  relations: { 'analytics.content_id': 'content.id', 'content.seo_image_id': 'images.id' },
  resources: { content: { history: 'all', state: 'status' } },
};

/** As those read who make dashboards. */
const READER = 'clients_reader';

/** A line per client and database, for the table at the end. */
const results: string[][] = [];

/** A copy that has all kinds of views, each with rows. */
async function copyOn(database: TestDatabase): Promise<ReadableCopy> {
  const generate = { content: 60, images: 20, analytics: 100 };
  const stage = await journey({ database, sandbox: { generate }, profile: PROFILE });
  expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
  const command = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await stage.command(...args);
    if (code !== 0) throw new Error(stderr);
    return stdout;
  };
  const at = new URL(database.name === 'sqlite' ? 'http://x' : stage.address);
  const schema = at.searchParams.get('schema') ?? 'blog';
  at.search = '';
  const ownerUrl = at.href;
  if (database.name === 'postgres') {
    await command('grants', '--role', READER);
    await asOtherClient(stage.address, (client) => client.query(`ALTER ROLE ${READER} LOGIN PASSWORD 'reader'`));
    [at.username, at.password] = [READER, 'reader'];
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-client-'));
  return {
    database: database.name,
    file: stage.file,
    url: at.href,
    ownerUrl,
    schema,
    tables: await readTables(stage.address),
    folder,
    command,
  };
}

/** Every copied table and view with the types of its columns, as content-sync has stored them. */
async function readTables(address: string): Promise<ReadableCopy['tables']> {
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

/** `table.column: what it should be, what it is read as`. */
async function misreadings(client: Client, copy: ReadableCopy): Promise<string[]> {
  const read = await client.read(copy);
  const words = client.words(copy.database);
  return copy.tables.flatMap(({ name, columns }) =>
    columns.flatMap((column) => {
      const found = read.get(name)?.get(column.name) ?? 'not there';
      return words[column.type].test(found) ? [] : [`${name}.${column.name}: ${column.type}, read as ${found}`];
    }),
  );
}

function told(client: Client, database: string, how: string): void {
  results.push([client.name, database, how]);
}

afterAll(() => {
  const lines = [['Client', 'Database', 'How it reads every table and view'], ['---', '---', '---'], ...results];
  console.log(lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n'));
});

describe.for(CLIENTS)('$name', (client) => {
  it.for(DATABASES.filter(({ name }) => client.databases.includes(name)))(
    'reads every table and view on $name with right types',
    async (database, { skip }) => {
      const missing = await client.install();
      if (missing !== null) {
        told(client, database.name, `skipped: ${missing.replaceAll('|', '/')}`);
        skip(missing);
      }
      const copy = await copyOn(database);
      const wrong = await misreadings(client, copy).catch((error: unknown) => [String(error)]);
      const count = copy.tables.reduce((sum, { columns }) => sum + columns.length, 0);
      told(
        client,
        database.name,
        wrong.length === 0
          ? `${copy.tables.length} tables and views, ${count} columns, right${client.note?.(database.name) ?? ''}`
          : `${wrong.length} of ${count} columns wrong`,
      );
      expect(wrong).toEqual([]);
    },
  );
});
