import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { inject } from 'vitest';
import { openCoordination, openWarehouse } from '../../src/database/databases.ts';
import { addYears } from '../../src/load/grow-views.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { leave } from './postgres-clients.ts';

const server = inject('postgres');
/** What every test calls its source that has no reason for another name. */
const SOURCE = 'blog';

/** Of the times in the records of tests, mostly; a run adds others. */
const CALENDAR_YEARS = [2015, new Date().getUTCFullYear() + 2] as const;

let made = 0;
let preparedFile: Promise<Buffer> | null = null;
let template: Promise<string> | null = null;

/** Makes an empty database on the server that all tests share; its address. */
export function emptyDatabase(): Promise<string> {
  return copyOf('template0');
}

/**
 * The same with what the program makes in its first moments, for a source `blog`: its own tables, without a row but those
 * of the calendar, and what processes share. To make them takes a server and a process a quarter of a second together, to
 * copy them a tenth of that. How they are made is tried on empty ones.
 */
export async function preparedDatabase(): Promise<string> {
  return copyOf(await (template ??= prepare()));
}

/** Makes a file with the tables that the program makes in a warehouse when it first opens it, and with its calendar. */
export async function copyPrepared(file: string): Promise<void> {
  await writeFile(file, await (preparedFile ??= prepareFile()), { mode: 0o600 });
}

async function prepareFile(): Promise<Buffer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'content-sync-prepared-'));
  const file = path.join(folder, `${SOURCE}.db`);
  await prepareWarehouse(`sqlite:${file}`);
  const bytes = await readFile(file);
  await rm(folder, { recursive: true });
  return bytes;
}

export async function dropDatabase(address: string): Promise<void> {
  await leave(address);
  await asAdmin(`DROP DATABASE IF EXISTS ${nameIn(address)} WITH (FORCE)`);
}

/** Another name for each schema that tests make in a database that they share. */
export function schemaNumber(): number {
  return (made += 1);
}

async function copyOf(whole: string): Promise<string> {
  const name = `test_${process.pid}_${Date.now().toString(36)}_${(made += 1)}`;
  // Files are in memory mostly: to copy them is less work than to copy them page by page through the log.
  await asAdmin(`CREATE DATABASE ${name} TEMPLATE ${whole} STRATEGY file_copy`);
  return server.replace(/postgres$/, name);
}

/** The calendar is a tenth of a small first backfill. */
async function prepareWarehouse(address: string): Promise<void> {
  const warehouse = await openWarehouse(address, systemClock);
  await warehouse.apply(addYears(warehouse.own, null, CALENDAR_YEARS));
  await warehouse.close();
}

/** The name of a database that nobody is connected to; it goes with the server. */
async function prepare(): Promise<string> {
  const address = await emptyDatabase();
  await prepareWarehouse(`${address}?schema=${SOURCE}`);
  await (await openCoordination(address, systemClock))?.close();
  // Only where it is needed: hardly a file of tests loads what is behind it.
  const { WorkQueue } = await import('../../src/server/work-items/work-queue.ts');
  const queue = new WorkQueue({ address, clock: systemClock, failed: () => undefined });
  await queue.opened;
  await queue.close();
  return nameIn(address);
}

function nameIn(address: string): string {
  return new URL(address).pathname.slice(1);
}

async function asAdmin(statement: string): Promise<void> {
  const client = new Client({ connectionString: server });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
