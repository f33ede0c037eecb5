import { existsSync } from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import Database from 'better-sqlite3';
import { inject, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { openWarehouse } from '../../src/database/databases.ts';
import type { Warehouse } from '../../src/database/warehouse.ts';
import { onFileFinished } from './file-finished.ts';
import { IS_LONG } from './length.ts';
import { copyPrepared, dropDatabase, emptyDatabase, preparedDatabase, schemaNumber } from './made-databases.ts';
import { asOtherClient, asReader, schemaOf } from './postgres-clients.ts';
import { lookAt } from './postgres-snapshot.ts';
import { asOther, tempFolder } from './temp-warehouse.ts';

export { asOtherClient } from './postgres-clients.ts';

/** Short ways to look into a warehouse by a query in SQLite's words. */
export interface Looks {
  all<T = unknown>(query: string, ...values: unknown[]): Promise<T[]>;
  one<T = unknown>(query: string, ...values: unknown[]): Promise<T | undefined>;
  /** The first value of each row. */
  column<T = unknown>(query: string, ...values: unknown[]): Promise<T[]>;
  value<T = unknown>(query: string, ...values: unknown[]): Promise<T | undefined>;
}

export function looksOf(read: <T>(look: (db: Database.Database) => T) => Promise<T>): Looks {
  return {
    all: <T>(query: string, ...values: unknown[]) => read((db) => db.prepare<unknown[], T>(query).all(...values)),
    one: <T>(query: string, ...values: unknown[]) => read((db) => db.prepare<unknown[], T>(query).get(...values)),
    column: <T>(query: string, ...values: unknown[]) =>
      read((db) =>
        db
          .prepare<unknown[], T>(query)
          .pluck()
          .all(...values),
      ),
    value: <T>(query: string, ...values: unknown[]) =>
      read((db) =>
        db
          .prepare<unknown[], T>(query)
          .pluck()
          .get(...values),
      ),
  };
}

/** A kind of database that tests run on. */
export interface TestDatabase {
  name: 'sqlite' | 'postgres';
  /** Null where tests can run on it here, else why not. */
  missing: string | null;
  /** The address of an empty warehouse of its own, gone when the test is over. */
  address(): Promise<string>;
  /**
   * The setting of an empty warehouse for several sources, with `{source}` in it, gone with the test file at the latest.
   * On SQLite their files lie in `folder`. On Postgres its schemas are its own, the database is that of the test file.
   */
  setting(folder: string): Promise<string>;
  /**
   * The same with a database of its own, as those need who would share with others who leads them, and with all that the
   * program makes there in its first moments: whoever opens it closes it, when nobody uses it any more.
   */
  open(folder: string): Promise<{ setting: string; close: () => Promise<void> }>;
  /**
   * Gives what stands in a warehouse to `look` as a SQLite database, so that the same checks read both: the file itself,
   * or a snapshot of the schema. It has no tables where nothing is there yet. `look` changes nothing of its own: on
   * Postgres it begins again once the tables are there that it names.
   */
  read<T>(address: string, look: (db: Database.Database) => T): Promise<T>;
  /** Runs a statement on it as any other program would; a value for each `?`. Returns how many rows it changed. */
  write(address: string, statement: string, ...values: unknown[]): Promise<number>;
}

const server = inject('postgres');
const TESTS = path.join(import.meta.dirname, '..');
/** The bit of a name's checksum that chooses: one by which each folder has files of both. */
const DECIDING_BIT = 6;

export const SQLITE: TestDatabase = {
  name: 'sqlite',
  missing: null,
  address: () => Promise.resolve(`sqlite:${path.join(tempFolder(), 'blog.db')}`),
  setting: (folder) => Promise.resolve(settingIn(folder)),
  open: (folder) => Promise.resolve({ setting: settingIn(folder), close: () => Promise.resolve() }),
  read: (address, look) => Promise.resolve(readFile(fileOf(address), look)),
  write: (address, statement, ...values) =>
    Promise.resolve(asOther(fileOf(address), (db) => db.prepare(statement).run(...values).changes)),
};

export const POSTGRES: TestDatabase = {
  name: 'postgres',
  missing: server === '' ? 'there is no Postgres for this machine' : null,
  address: async () => `${await postgresDatabase()}?schema=blog`,
  setting: async () => `${await fileDatabase()}?schema={source}_${schemaNumber()}`,
  open: async () => {
    const address = await preparedDatabase();
    return { setting: `${address}?schema={source}`, close: () => dropDatabase(address) };
  },
  read: (address, look) => asReader(address, (client) => lookAt(client, schemaOf(address), look)),
  write: async (address, statement, ...values) => {
    let place = 0;
    const text = statement.replaceAll('?', () => `$${(place += 1)}`);
    return asOtherClient(address, async (client) => (await client.query(text, values)).rowCount ?? 0);
  },
};

/** A server of the test's own as the database; the product goes `through` something to it, the tests go straight. */
export function postgresAt(url: string, through: (address: string) => string = (address) => address): TestDatabase {
  const straight = (address: string): string => `${url}${new URL(address).search}`;
  const setting = `${through(url)}?schema={source}`;
  return {
    ...POSTGRES,
    setting: () => Promise.resolve(setting),
    open: () => Promise.resolve({ setting, close: () => Promise.resolve() }),
    read: (address, look) => POSTGRES.read(straight(address), look),
    write: (address, statement, ...values) => POSTGRES.write(straight(address), statement, ...values),
  };
}

/** What tests run on that do not choose: SQLite, or Postgres where `TEST_DATABASE=postgres` asks for all of them there. */
export const USUAL = process.env['TEST_DATABASE'] === 'postgres' ? POSTGRES : SQLITE;

/** For `describe.for(DATABASES)`: those that are here. */
export const DATABASES: readonly TestDatabase[] = [SQLITE, POSTGRES].filter(({ missing }) => missing === null);

/**
 * For `describe.for(eitherDatabase(import.meta.filename))`: Postgres for a quarter of the files, or of the names of cases,
 * and SQLite for the others; all that are here in the long form. It is for stories above the warehouse: HTTP, the queue, webhooks,
 * pages, commands, schedules. What SQL, types, transactions, locks or a crash could make differ is tried on `DATABASES`.
 */
export function eitherDatabase(file: string): readonly TestDatabase[] {
  if (IS_LONG || DATABASES.length < 2) return DATABASES;
  const name = path.isAbsolute(file) ? path.relative(TESTS, file) : file;
  return [(crc32(name) >>> DECIDING_BIT) % 4 === 1 ? POSTGRES : SQLITE];
}

/**
 * The setting of a warehouse of its own with what the program makes when it first opens one, for a source `blog`: its own
 * tables without a row. Gone when the test is over. To make them takes half of what many a test takes; how they are made
 * is tried on empty ones. A database that a test has made itself stays as it is.
 */
export async function preparedSetting(database: TestDatabase, folder: string): Promise<string> {
  if (database === SQLITE) await copyPrepared(path.join(folder, 'blog.db'));
  return database === POSTGRES ? `${await preparedPostgres()}?schema={source}` : database.setting(folder);
}

/** The address of such a warehouse. */
export async function preparedAddress(database: TestDatabase): Promise<string> {
  return (await preparedSetting(database, tempFolder())).replace('{source}', 'blog');
}

/** An open warehouse of its own, closed and gone when the test is over, and what stands in it. */
export interface OpenWarehouse {
  warehouse: Warehouse;
  address: string;
  /** Rows of a query in SQLite's words, integers as bigint. */
  rows: (query: string, ...values: unknown[]) => Promise<Record<string, unknown>[]>;
  /** Runs a statement on it as any other program would. */
  write: (statement: string, ...values: unknown[]) => Promise<number>;
}

/** Opens an empty warehouse, or the one at `address`. */
export async function warehouseOn(database: TestDatabase, address?: string): Promise<OpenWarehouse> {
  const at = address ?? (await preparedAddress(database));
  const warehouse = await openWarehouse(at, systemClock);
  onTestFinished(() => warehouse.close());
  return { warehouse, address: at, ...readerOf(database, at) };
}

/** The same of a warehouse that other processes write. */
export function readerOf(database: TestDatabase, address: string): Pick<OpenWarehouse, 'rows' | 'write'> {
  return {
    rows: (query, ...values) =>
      database.read(address, (db) =>
        db
          .prepare<unknown[], Record<string, unknown>>(query)
          .safeIntegers()
          .all(...values),
      ),
    write: (statement, ...values) => database.write(address, statement, ...values),
  };
}

let ofThisFile: Promise<string> | null = null;

/** A database that the tests of a file share, each with schemas of its own: one of its own takes a tenth of a second. */
function fileDatabase(): Promise<string> {
  if (ofThisFile === null) {
    const address = emptyDatabase();
    ofThisFile = address;
    onFileFinished(async () => {
      ofThisFile = null;
      await dropDatabase(await address);
    });
  }
  return ofThisFile;
}

/** The address of a Postgres database of its own with what the program makes in it first; gone when the test is over. */
export async function preparedPostgres(): Promise<string> {
  const address = await preparedDatabase();
  onTestFinished(() => dropDatabase(address));
  return address;
}

/** The address of an empty Postgres database of its own, without a schema; gone when the test is over. */
export async function postgresDatabase(): Promise<string> {
  const address = await emptyDatabase();
  onTestFinished(() => dropDatabase(address));
  return address;
}

function settingIn(folder: string): string {
  return `sqlite:${path.join(folder, '{source}.db')}`;
}

function fileOf(address: string): string {
  return address.slice('sqlite:'.length);
}

function readFile<T>(file: string, look: (db: Database.Database) => T): T {
  const db = existsSync(file) ? new Database(file, { readonly: true, timeout: 5_000 }) : new Database(':memory:');
  try {
    return look(db);
  } finally {
    db.close();
  }
}
