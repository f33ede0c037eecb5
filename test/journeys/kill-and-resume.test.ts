import { describe, expect, it } from 'vitest';
import { DATABASES, SQLITE, type TestDatabase } from '../support/databases.ts';
import { longOrShort } from '../support/length.ts';
import { freshSeed, type Random, randomFrom } from '../support/random.ts';
import { setTimeout as delay } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import type { Pagination } from '../sandbox/service/pages/listing-page.ts';
import type { RecordStore } from '../../src/sandbox/records/store.ts';
import type { Command } from '../support/command.ts';
import { differences, strayRows } from '../support/compare-copy.ts';
import { journey, type Journey } from '../support/journey.ts';

interface KillPlan {
  database: TestDatabase;
  kills: number;
  seed: number;
  pagination: Pagination;
  /** Records of a page, and so of all the pages; 40 where absent. */
  pageSize?: number;
}

const RESOURCES = ['content', 'images', 'analytics'] as const;
/** Pages of each resource. */
const PAGES = longOrShort({ content: 40, images: 6, analytics: 40 }, { content: 24, images: 3, analytics: 12 });
const LATENCY_MS = longOrShort(12, 20);
/** Requests under way at once: the profile's default. */
const CONCURRENCY = 8;
/** About what a walk takes on a quiet machine, the start of the process included; less where few kills are to hit it. */
const EXPECTED_MS = longOrShort(1_500, 400);

/** What a walk has asked for until now, over all the processes that worked on it. */
type Asked = Map<string, Set<string>>;

/**
 * Starts backfills, kills each with SIGKILL at a random moment and looks at the wreck; one that gets through is
 * compared with the service, a part of which then changes. Ends with a whole walk.
 */
async function killLoop({
  database,
  kills,
  seed,
  pagination,
  pageSize = 40,
}: KillPlan): Promise<{ midWalk: number; walks: number }> {
  const random = randomFrom(seed);
  const base = pagination === 'cursor' ? 'content-service' : `content-service-${pagination}`;
  const page = { size: pageSize };
  const generate = Object.fromEntries(RESOURCES.map((name) => [name, PAGES[name] * pageSize]));
  const resources = Object.fromEntries(RESOURCES.map((name) => [name, { page }]));
  const sandbox = { generate, latency: LATENCY_MS, pagination };
  const stage = await journey({ database, base, sandbox, profile: { resources } });
  let asked: Asked = new Map();
  let compared: string | null = null;
  const again = mostAgain(pagination);
  const tally = { midWalk: 0, walks: 0 };
  for (let kill = 1; ; kill += 1) {
    const told = `SEED=${seed}, kill ${kill}`;
    const { signal, code, stderr, paths } = await startAndKill(stage, kill > kills ? null : { random, number: kill });
    expect({ told, refetched: refetched(asked, paths, again) }).toEqual({ told, refetched: [] });
    expect({ told, wreckage: await stage.read(wreckage) }).toEqual({ told, wreckage: [] });
    const ended = signal === 'SIGKILL' ? { code: 0, stderr: '' } : { code, stderr };
    expect({ told, ...ended }).toEqual({ told, code: 0, stderr: '' });
    // A process may also be killed when it has said that all is done, and has only not left yet.
    const whole = await stage.read(wholeRun);
    const isWhole = whole !== null && whole !== compared;
    const found = isWhole ? await stage.read((db) => differences(db, stage.sandbox.store)) : [];
    expect({ told, found }).toEqual({ told, found: [] });
    if (isWhole) {
      tally.walks += 1;
      compared = whole;
      asked = new Map();
      changeSome(stage.sandbox.store, random);
    } else if (paths.length > 0) {
      tally.midWalk += 1;
    }
    if (kill > kills) return tally;
  }
}

/**
 * Pages of a resource that one kill may have fetched again. Where a page names the next one: the page that is
 * being written, the one that is understood meanwhile, and the one that is asked for. Where pages are numbered: the
 * requests under way and half as many answers, those two pages, and the last one that was stored, which is read again to
 * prove that the walk's place still holds.
 */
function mostAgain(pagination: Pagination): number {
  return pagination === 'cursor' ? 3 : 1.5 * CONCURRENCY + 3;
}

/** The last run, where it has ended well for every resource. */
function wholeRun(db: Database.Database): string | null {
  if (!tableNames(db).includes('_sync_runs')) return null;
  const runs = db
    .prepare<[], { run_id: string; status: string }>(
      `SELECT run_id, status FROM _sync_runs
       WHERE run_id = (SELECT run_id FROM _sync_runs ORDER BY started_at DESC LIMIT 1)`,
    )
    .all();
  const isWhole = runs.length === RESOURCES.length && runs.every(({ status }) => status === 'ok');
  return isWhole ? (runs[0]?.run_id ?? null) : null;
}

function tableNames(db: Database.Database): string[] {
  return db.prepare<[], string>('SELECT name FROM sqlite_schema').pluck().all();
}

interface Attempt {
  code: number | null;
  signal: NodeJS.Signals | null;
  stderr: string;
  /** Listing pages that were asked for, as `resource path`. */
  paths: { resource: string; path: string }[];
}

/** One process; killed after a delay that is spread evenly over the orders of magnitude. */
async function startAndKill(stage: Journey, kill: { random: Random; number: number } | null): Promise<Attempt> {
  const { requests } = stage.sandbox;
  requests.clear();
  const command = kill === null ? { ended: stage.command('backfill') } : stage.start('backfill');
  if (kill !== null && 'kill' in command) {
    const fromStart = kill.number % 3 === 0;
    const wait = kill.random.spread(fromStart ? 20 : 1, EXPECTED_MS);
    if (!fromStart) await firstRequest(stage, command);
    await Promise.race([delay(wait), command.ended]);
    command.kill('SIGKILL');
  }
  const { code, signal, stderr } = await command.ended;
  const paths = requests.entries().map(({ resource, path }) => ({ resource: resource ?? '', path }));
  return { code, signal, stderr, paths };
}

/** Until the process has asked for something, or has ended without. */
async function firstRequest({ sandbox }: Journey, command: Command): Promise<void> {
  const ended = command.ended.then(() => true);
  while (sandbox.requests.total === 0) if (await Promise.race([delay(1, false), ended])) return;
}

/** The pages that this process asked for again, where they are more than `allowed`. Adds its pages to `asked`. */
function refetched(asked: Asked, paths: Attempt['paths'], allowed: number): string[] {
  const faults: string[] = [];
  for (const [resource, pages] of Map.groupBy(paths, (entry) => entry.resource)) {
    const known = asked.get(resource) ?? new Set<string>();
    const repeated = pages.filter(({ path }) => known.has(path));
    if (repeated.length > allowed) faults.push(`${resource}: ${repeated.map(({ path }) => path).join(' ')}`);
    const own = pages.map(({ path }) => path);
    if (new Set(own).size < own.length) faults.push(`${resource}: a page twice in one process: ${own.join(' ')}`);
    asked.set(resource, known.union(new Set(own)));
  }
  return faults;
}

/** What a kill must never leave behind. */
function wreckage(db: Database.Database): string[] {
  const integrity = db.prepare<[], string>('PRAGMA integrity_check').pluck().all();
  const tables = tableNames(db);
  const there = RESOURCES.filter((resource) => tables.includes(resource));
  return [
    ...integrity.filter((line) => line !== 'ok'),
    ...there.flatMap((resource) => strayRows(db, resource)),
    ...there.flatMap((resource) => untoldRows(db, resource)),
  ];
}

/** In a first walk the checkpoint counts exactly the rows that are there: both were committed as one. */
function untoldRows(db: Database.Database, resource: string): string[] {
  const rows = db.prepare<[], number>(`SELECT count(*) FROM "${resource}"`).pluck().get();
  const first = db
    .prepare<[string], number>(
      'SELECT walk_records FROM _sync_checkpoints WHERE resource = ? AND walk_mode IS NOT NULL AND last_full_at IS NULL',
    )
    .pluck()
    .get(resource);
  return first === undefined || first === rows ? [] : [`${resource}: ${rows} rows, but the checkpoint says ${first}`];
}

function changeSome(store: RecordStore, random: Random): void {
  for (const resource of RESOURCES) {
    const records = [...store.list(resource)].filter(() => random.chance(0.3));
    for (const { text } of records) store.put(resource, changed(JSON.parse(text), random));
  }
}

/** A day later, so that the changes stay as far apart as the records were. */
function changed(record: Record<string, unknown>, random: Random): object {
  const later = new Date(Date.parse(String(record['updated_at'])) + 86_400_000).toISOString();
  const tags = Array.isArray(record['tags']) ? { tags: record['tags'].slice(0, random.whole(0, 3)) } : {};
  return { ...record, ...tags, updated_at: later, views: random.whole(1, 9_999), width: random.whole(1, 9_999) };
}

const seed = freshSeed();

describe.for(DATABASES)(`kill -9 at random moments (SEED=${seed}) on $name`, (database) => {
  it('F060 F120 F156 T19 loses nothing, writes nothing twice and fetches at most two pages again', async () => {
    const kills = longOrShort(200, database === SQLITE ? 2 : 1);
    const { midWalk } = await killLoop({ database, kills, seed, pagination: 'cursor', pageSize: 10 });
    expect(midWalk).toBeGreaterThan(longOrShort(50, 0));
  });

  it.runIf(database === SQLITE || longOrShort(true, false))(
    'F060 loses nothing in a walk by numbers, and fetches at most the pages again that were under way',
    async () => {
      const kills = longOrShort(60, 2);
      const { midWalk } = await killLoop({ database, kills, seed, pagination: 'page', pageSize: 110 });
      expect(midWalk).toBeGreaterThan(longOrShort(12, 0));
    },
  );
});
