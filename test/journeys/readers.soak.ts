import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { startScript } from '../support/child-script.ts';
import { DATABASES, SQLITE } from '../support/databases.ts';
import { journey, type Journey } from '../support/journey.ts';
import { whileLocked } from './readers-locked.ts';
import { nextGeneration, watchedSyncs } from './readers-story.ts';

const QUERIES = new URL('readers-queries.ts', import.meta.url);

describe('readers and writers on one warehouse, for long', () => {
  it.each(DATABASES)(
    'F228 F230 G24 eight readers find nothing that is not whole in 10,000 looks on $name',
    async (database) => {
      const records = { content: 800, images: 120, analytics: 800 };
      const { found, unlike } = await watchedSyncs({
        database,
        rounds: 30,
        reads: 1_250,
        readers: 8,
        records,
        pageSize: 20,
      });
      console.log(found);
      expect(found.flatMap(({ violations }) => violations)).toEqual([]);
      expect(found.reduce((sum, { midWalk }) => sum + midWalk, 0)).toBeGreaterThan(1_000);
      expect(unlike).toEqual([]);
    },
  );

  it('F128 T2 another process holds the write lock for ten seconds', async () => {
    const figures = await whileLocked(10_000);
    console.log(figures);
    expect(figures.busy).toBeLessThan(0.5);
    expect(figures.stored).toBe(figures.loaded);
  });

  it('F229 the 95th percentile of eight queries, idle and during a backfill that rewrites all', async () => {
    const sandbox = { generate: { content: 20_000, images: 2_000, analytics: 20_000 } };
    const stage = await journey({ database: SQLITE, sandbox });
    await stage.run('backfill');
    const idle = await asked(stage, () => sleep(10_000));
    nextGeneration(stage.sandbox.store, 1);
    const during = await asked(stage, () => stage.start('backfill').ended);
    const after = await asked(stage, () => sleep(5_000));
    const rows = idle.map(({ name, clock, cpu }, place) => {
      const [before, most] = [Math.max(clock, after[place]?.clock ?? 0), during[place]?.clock ?? 0];
      return { name, idle: before, during: most, times: most / before, cpuTimes: (during[place]?.cpu ?? 0) / cpu };
    });
    console.table(rows);
    expect(rows).toHaveLength(8);
  });
});

interface Took<T> {
  name: string;
  /** Milliseconds of the clock, and of the processor. */
  clock: T;
  cpu: T;
}

/** How long each query took at most, but for the slowest twentieth, while that went on. */
async function asked(stage: Journey, meanwhile: () => Promise<unknown>): Promise<Took<number>[]> {
  const reader = startScript(QUERIES, [stage.file]);
  await reader.ready;
  await meanwhile();
  reader.child.kill('SIGUSR2');
  const { stdout } = await reader.ended;
  const all: Took<number[]>[] = JSON.parse(stdout.trim().split('\n').at(-1) ?? '[]');
  return all.map(({ name, clock, cpu }) => ({ name, clock: percentile(clock, 0.95), cpu: percentile(cpu, 0.95) }));
}

function percentile(values: readonly number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? Number.NaN;
}
