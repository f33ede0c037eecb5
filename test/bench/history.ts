import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { openPageLoader } from '../../src/load/page-loader.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { ownResources } from '../../src/state/owned-resource.ts';
import { openWarehouse } from '../../src/warehouse/databases.ts';
import { ask } from '../support/asking.ts';
import { profilesFor, profileWith, recordsOf } from '../support/page-records.ts';
import { OPEN_DATABASE, type BenchDatabase } from './databases.ts';

/**
 * Questions about history: 5,000 records of 5 kB in four versions each, on both databases or the one named. Prints the
 * best of some runs in milliseconds, each by a program of its own that connects first.
 */
const { values: options } = parseArgs({ options: { database: { type: 'string' } } });
const [RECORDS, VERSIONS, PAGE, RUNS] = [5_000, 4, 500, 7];
const FIRST = Date.parse('2025-01-01T00:00:00Z');
const DAY = 86_400_000;
const MOMENT = '2025-01-03 12:00:00';

function post(id: number, version: number): string {
  const words = `Post ${id} is read ${version} times. `.repeat(160);
  return JSON.stringify({
    id: `p${id}`,
    slug: `post-${id}`,
    title: `Post ${id}`,
    status: (id + version) % 3 === 0 ? 'draft' : 'published',
    body: words.slice(0, 4_600),
    authors: [{ handle: `a${id % 20}` }],
    tags: ['one', 'two', `t${id % 50}`],
    seo: { description: `About ${id}`, image: { id: `i${id}` } },
    word_count: 800 + version,
    reading_minutes: 3.25,
    featured: id % 7 === 0,
    created_at: '2024-01-01T10:00:00Z',
    updated_at: `2024-02-0${version}T10:00:00Z`,
  });
}

async function fill(address: string): Promise<void> {
  const warehouse = await openWarehouse(address, systemClock);
  const owned = await ownResources(warehouse, systemClock).acquire('content');
  const profile = profileWith({ history: 'all', state: 'status' });
  const { signal } = new AbortController();
  const context = { warehouse, owned, ...profilesFor(profile), runId: 'bench', clock: systemClock, signal };
  const loader = await openPageLoader(context, { acceptsOlder: true });
  for (let version = 1; version <= VERSIONS; version += 1) {
    for (let from = 0; from < RECORDS; from += PAGE) {
      const records = recordsOf(Array.from({ length: PAGE }, (_, at) => post(from + at, version)));
      await loader.load({ records, requestedAt: FIRST + (version - 1) * DAY }, () => []);
    }
  }
  await owned.release();
  await warehouse.close();
}

function questions(name: string): Record<string, string> {
  const rows =
    name === 'postgres'
      ? `content_as_of('${MOMENT}+00')`
      : `content_history WHERE valid_from <= '${MOMENT}' AND (valid_to IS NULL OR valid_to > '${MOMENT}') AND NOT is_deleted`;
  return {
    'as of a moment: rows': `SELECT count(*) FROM ${rows}`,
    'as of a moment: words by state': `SELECT status, count(*), sum(word_count) FROM ${rows} GROUP BY status`,
    'as of a moment: all columns': `SELECT * FROM ${rows}`,
    'all versions: words by state': 'SELECT status, count(*), sum(word_count) FROM content_history GROUP BY status',
    'changes of one record': "SELECT * FROM content_changes WHERE id = 'p7'",
    'changes by field': 'SELECT field, count(*) FROM content_changes GROUP BY field',
    'states by month': 'SELECT state, count(*) FROM content_states GROUP BY state',
  };
}

async function bench(database: BenchDatabase): Promise<void> {
  const { setting } = await database.make('history');
  const address = setting.replace('{source}', 'blog');
  await fill(address);
  await database.settle();
  for (const [question, query] of Object.entries(questions(database.name))) {
    const times: number[] = [];
    for (let run = 0; run < RUNS; run += 1) {
      const started = performance.now();
      await ask(address, query);
      times.push(performance.now() - started);
    }
    console.log(
      `${database.name.padEnd(9)} ${question.padEnd(32)} ${Math.min(...times)
        .toFixed(0)
        .padStart(6)} ms`,
    );
  }
}

const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-bench-'));
for (const name of options.database === undefined ? Object.keys(OPEN_DATABASE) : [options.database]) {
  const database = await OPEN_DATABASE[name]?.(folder);
  if (database === undefined) throw new Error(`no database ${name}`);
  try {
    await bench(database);
  } finally {
    await database.close();
  }
}
rmSync(folder, { recursive: true, force: true });
