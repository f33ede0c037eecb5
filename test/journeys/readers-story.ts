import type { SyncCommand } from '../../src/sync/plan.ts';
import type { Store } from '../../src/sandbox/records/store.ts';
import { startScript } from '../support/child-script.ts';
import { differences } from '../support/compare-copy.ts';
import type { TestDatabase } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';

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
export interface Found {
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
/** Apart by more than the overlap with which an incremental walk looks back. */
const GENERATION_MS = 3_600_000;
const TAGS = ['a', 'b', 'c', 'd'] as const;
/** A full refresh of everything, and the changes alone, in turn. */
const ROUNDS: readonly SyncCommand[] = ['sync', 'backfill'];

/**
 * Readers in processes of their own look for anything that is not whole, while a backfill fills the warehouse and then
 * walks of both kinds bring in new generations of all records.
 */
export async function watchedSyncs(plan: ReadersPlan): Promise<{ found: Found[]; rounds: number; unlike: string[] }> {
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
export function nextGeneration(store: Store, generation: number): void {
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
