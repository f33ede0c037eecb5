import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { queueName } from '../../src/server/work-items/work-items.ts';
import { WorkQueue } from '../../src/server/work-items/work-queue.ts';
import type { Command } from '../support/command.ts';
import { differences } from '../support/compare-copy.ts';
import { POSTGRES } from '../support/databases.ts';
import { resourceIn, servingStage, type ServingStage, until } from '../support/serving.ts';
import { isWhole, ownersIn, startWorker, walksOf } from './workers-story.ts';

/** A walk of content of most of a minute. */
const SLOW = { generate: { content: 2_400 }, latency: 1_000 };
const PATIENCE_MS = 240_000;

interface Walking {
  stage: ServingStage;
  /** The one that walks. */
  walker: Command;
  /** Pages that were asked for by now. */
  pages: () => number;
}

/** Two workers, of which one is in the middle of a long walk. */
async function walking(): Promise<Walking> {
  const stage = await servingStage({ sandbox: SLOW, database: POSTGRES });
  const queue = queueOf(stage);
  await queue.put({ kind: 'walk', source: queueName(warehouseOf(stage)), resource: 'content', command: 'backfill' });
  const workers = await Promise.all([startWorker(stage), startWorker(stage)]);
  const pages = (): number => stage.sandbox.requests.total;
  await until('under way', () => pages() > 5);
  const [owner = ''] = await ownersIn(stage);
  const walker = workers.find(({ pid }) => owner.startsWith(`pid ${pid} `));
  if (walker === undefined) throw new Error(`none of the workers walks, but ${owner}`);
  return { stage, walker, pages };
}

const tell = (error: unknown): void => console.error(error);

function queueOf(stage: ServingStage): WorkQueue {
  const queue = new WorkQueue({ address: warehouseOf(stage), clock: systemClock, failed: tell });
  onTestFinished(() => queue.close());
  return queue;
}

async function isCopied(stage: ServingStage): Promise<unknown> {
  const different = await stage.read((db) => differences(db, stage.sandbox.store, { resources: ['content'] }));
  return different.length === 0 || different.length;
}

async function secondsUntilMore({ pages }: Walking): Promise<number> {
  const [began, before] = [performance.now(), pages()];
  await until('taken over', () => pages() > before, PATIENCE_MS);
  return (performance.now() - began) / 1_000;
}

function warehouseOf(stage: ServingStage): string {
  const settings: { warehouse: string } = JSON.parse(readFileSync(`${stage.folder}/content-sync.yaml`, 'utf8'));
  return settings.warehouse.replace('{source}', 'blog');
}

describe('workers on one Postgres, in real time', { timeout: PATIENCE_MS }, () => {
  it('F146 one that is frozen for 60 s is replaced, and writes nothing when it wakes up', async () => {
    const all = await walking();
    all.walker.kill('SIGSTOP');
    // What was on its way to it is answered.
    await delay(1_500);
    const seconds = await secondsUntilMore(all);
    console.log(`taken over after ${seconds.toFixed(1)} s`);
    expect(seconds).toBeLessThan(60);
    await delay(5_000);
    all.walker.kill('SIGCONT');
    const walksOfContent = async () => (await walksOf(all.stage)).filter(({ resource }) => resource === 'content');
    // Behind the last page the walk still tries its filter.
    await until('whole', async () => (await walksOfContent()).some(isWhole), PATIENCE_MS);
    expect(await isCopied(all.stage)).toBe(true);
    const walks = await walksOfContent();
    expect(walks.filter(isWhole)).toHaveLength(1);
    expect(walks).toHaveLength(2);
    expect(all.walker.logged()).toContain('lease_lost');
  });

  it('F133 another serve takes the schedule over within 30 s', async () => {
    const stage = await servingStage({ sandbox: { ...SLOW, latency: 0 }, database: POSTGRES });
    const first = await stage.serve();
    await stage.fresh(first);
    const second = await stage.serve();
    const isLeader = async (): Promise<boolean> =>
      resourceIn(await second.status(), 'content').schedule.next_at !== null;
    await delay(6_000);
    expect(await isLeader()).toBe(false);
    first.command.kill('SIGKILL');
    const began = performance.now();
    await until('led', isLeader);
    const seconds = (performance.now() - began) / 1_000;
    console.log(`led by the other one after ${seconds.toFixed(1)} s`);
    expect(seconds).toBeLessThan(30);
  });
});
