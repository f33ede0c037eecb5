import { describe, expect, it } from 'vitest';
import type { Store } from '../../src/sandbox/records/store.ts';
import type { SyncCommand } from '../../src/sync/plan.ts';
import { startScript } from '../support/child-script.ts';
import { differences } from '../support/compare-copy.ts';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';
import { longOrShort } from '../support/length.ts';

interface ReadersPlan {
  database: TestDatabase;
  /** How many walks there are at least after the first, and how often each reader looks at least. */
  rounds: number;
  reads: number;
  readers: number;
  records: { content: number; images: number; analytics: number };
  pageSize: number;
}

/** What one reader found. */
interface Found {
  reads: number;
  /** Looks at a resource in the middle of a walk. */
  midWalk: number;
  /** Different states of a resource that were seen. */
  states: number;
  /** Rows in the smallest table that was ever seen after the first walk. */
  fewest: number;
  violations: string[];
}

const READER = new URL('readers-invariants.ts', import.meta.url);
const RESOURCES = ['content', 'images', 'analytics'] as const;
/** Apart by more than the look-back with which an incremental walk looks back. */
const GENERATION_MS = 3_600_000;
const TAGS = ['a', 'b', 'c', 'd'] as const;
/** A full refresh of everything, and the changes alone, in turn. */
const ROUNDS: readonly SyncCommand[] = ['sync', 'backfill'];

/**
 * Readers in processes of their own look for anything that is not whole, while a backfill fills the warehouse and then
 * walks of both kinds bring in new generations of all records.
 */
async function watchedSyncs(plan: ReadersPlan): Promise<{ found: Found[]; rounds: number; unlike: string[] }> {
  const page = { size: plan.pageSize };
  const resources = Object.fromEntries(RESOURCES.map((name) => [name, { page }]));
  const stage = await journey({
    database: plan.database,
    sandbox: { generate: plan.records },
    profile: { resources },
  });
  nextGeneration(stage.sandbox.store, 1);
  // Makes the file, and nothing in it: the readers see the first row come.
  await (await stage.open()).close();
  const readers = Array.from({ length: plan.readers }, () => startScript(READER, [stage.address, String(plan.reads)]));
  await Promise.all(readers.map((reader) => reader.ready));
  const state = { areReading: true };
  const ended = Promise.all(readers.map((reader) => reader.ended)).finally(() => (state.areReading = false));
  let rounds = 0;
  await whole(stage, 'backfill');
  for (; state.areReading; rounds += 1) {
    if (rounds === plan.rounds) for (const { child } of readers) child.kill('SIGUSR2');
    nextGeneration(stage.sandbox.store, rounds + 2);
    await whole(stage, ROUNDS[rounds % ROUNDS.length] ?? 'sync');
  }
  const found = (await ended).map(({ stdout, stderr }) => foundIn(stdout, stderr));
  return { found, rounds, unlike: await stage.read((db) => differences(db, stage.sandbox.store)) };
}

async function whole(stage: Journey, command: SyncCommand): Promise<void> {
  const { status, resources } = await stage.run(command);
  if (status !== 'ok') throw new Error(`${command}: ${JSON.stringify(resources)}`);
}

/** Every record changes, its lists grow or shrink, and some are new. */
function nextGeneration(store: Store, generation: number): void {
  for (const resource of RESOURCES) {
    const records = [...store.list(resource)].map(({ text }): Record<string, unknown> => JSON.parse(text));
    const [first] = records;
    if (first !== undefined) records.push({ ...first, id: `new_${String(generation).padStart(5, '0')}` });
    for (const [index, record] of records.entries()) store.put(resource, changed(record, generation, index));
  }
}

function changed(record: Record<string, unknown>, generation: number, index: number): object {
  const updated_at = new Date(Date.UTC(2026, 0, 1) + generation * GENERATION_MS + index * 100).toISOString();
  const change = generation + index;
  const tags = Array.isArray(record['tags']) ? { tags: TAGS.slice(0, change % (TAGS.length + 1)) } : {};
  const authors = Array.isArray(record['authors'])
    ? { authors: TAGS.slice(change % TAGS.length).map((handle) => ({ handle })) }
    : {};
  return { ...record, ...tags, ...authors, generation, updated_at };
}

function foundIn(stdout: string, stderr: string): Found {
  const line = stdout.trim().split('\n').at(-1) ?? '';
  if (!line.startsWith('{')) throw new Error(`the reader said ${stdout} ${stderr}`);
  return JSON.parse(line);
}

/** On Postgres each look brings all rows over. */
const PLANS = {
  sqlite: longOrShort({ rounds: 30, reads: 1_250, least: 1_000 }, { rounds: 2, reads: 150, least: 20 }),
  postgres: longOrShort({ rounds: 30, reads: 1_250, least: 1_000 }, { rounds: 2, reads: 20, least: 5 }),
} as const;
const READERS = longOrShort(8, 1);
const RECORDS = longOrShort({ content: 800, images: 120, analytics: 800 }, { content: 60, images: 40, analytics: 50 });

describe.for(DATABASES)('a reader in another process, during syncs of every kind, on $name', (database) => {
  it('F228 F230 G24 never sees half a page, a record without its parts, or an emptied table', async () => {
    const { least, ...plan } = PLANS[database.name];
    const pageSize = longOrShort(20, 10);
    const { found, unlike } = await watchedSyncs({ database, ...plan, readers: READERS, records: RECORDS, pageSize });
    expect(found.flatMap(({ violations }) => violations)).toEqual([]);
    // It did look in the middle of walks, and saw the tables change under its eyes.
    const sum = (of: 'midWalk' | 'states'): number => found.reduce((all, each) => all + each[of], 0);
    expect(sum('midWalk')).toBeGreaterThan(least);
    expect(sum('states')).toBeGreaterThan(longOrShort(0, least));
    expect(found[0]?.fewest).toBeGreaterThan(40);
    expect(unlike).toEqual([]);
  });
});
