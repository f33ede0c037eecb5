import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Command } from '../support/command.ts';
import { differences } from '../support/compare-copy.ts';
import { asOtherClient, type TestDatabase } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';
import type { PostgresServer } from '../support/postgres-server.ts';

const RESOURCES = ['content', 'images', 'analytics'] as const;
const TERMINATE = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE application_name = 'content-sync' AND datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`;

/** A service that is copied in so many pages for each resource, each of which takes a moment. */
export function slowStage(database: TestDatabase, pages: number): Promise<Journey> {
  const size = 20;
  const profile = { resources: Object.fromEntries(RESOURCES.map((name) => [name, { page: { size } }])) };
  const generate = Object.fromEntries(RESOURCES.map((name) => [name, pages * size]));
  return journey({ database, sandbox: { generate, latency: 60 }, profile });
}

/** Crashes the server time and again while a command runs; the longest that the command needed to go on afterwards. */
export async function crashMeanwhile(
  command: Command,
  { sandbox }: Journey,
  server: PostgresServer,
  { times, everyMs }: { times: number; everyMs: number },
): Promise<number> {
  let longest = 0;
  for (let crash = 0; crash < times && !(await hasEnded(command, everyMs)); crash += 1) {
    await server.crash();
    await delay(300);
    const before = sandbox.requests.total;
    await server.start();
    const accepted = performance.now();
    // The page that was being written, and the one that was fetched ahead, say nothing.
    while (sandbox.requests.total < before + 2 && !(await hasEnded(command, 5)));
    longest = Math.max(longest, performance.now() - accepted);
  }
  return longest;
}

/** Ends one of the product's sessions after the other while a command runs; returns how many. */
export async function terminateMeanwhile(command: Command, { address }: Journey, times: number): Promise<number> {
  return asOtherClient(address, async (client) => {
    let ended = 0;
    while (ended < times && !(await hasEnded(command, 20))) ended += (await client.query(TERMINATE)).rowCount ?? 0;
    return ended;
  });
}

/** The command has ended well, the copy is the service, and no record was written twice. */
export async function expectWhole(stage: Journey, command: Pick<Command, 'ended'>): Promise<void> {
  expect(await command.ended).toMatchObject({ code: 0, signal: null });
  expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  const versions = await stage.read((db) => db.prepare('SELECT max(version) FROM _sync_versions').pluck().get());
  expect(versions).toBe(1);
}

async function hasEnded(command: Command, ms: number): Promise<boolean> {
  return Promise.race([delay(ms, false), command.ended.then(() => true)]);
}
