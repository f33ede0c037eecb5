import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { longOrShort } from '../support/length.ts';
import { resourceIn, servingStage, type ServingStage, sourceIn, until } from '../support/serving.ts';

interface LanesPlan {
  /** Requests per second that the service allows. */
  rate: number;
  /** Pages of the backfill. */
  pages: number;
  /** Webhooks that are timed, and how long after each other they come. */
  webhooks: number;
  everyMs: number;
  /** How long as many webhooks pour in as could never be read. */
  pourMs: number;
}

interface LanesTally {
  /** Seconds from a change to its row, while the backfill uses the whole budget. */
  p50: number;
  p95: number;
  /** Parts of the requests that were pages of the backfill: without webhooks, and while they poured in. */
  alone: number;
  pouring: number;
  /** Answers of 429. */
  limited: number;
}

const PAGE_SIZE = 10;

/** A backfill that takes all that the service allows, and webhooks that come meanwhile. */
async function lanes(plan: LanesPlan): Promise<LanesTally> {
  const generate = { content: plan.pages * PAGE_SIZE, images: 10, analytics: 10 };
  const page = { size: PAGE_SIZE };
  const stage = await servingStage({
    isInside: true,
    sandbox: { generate, rate: plan.rate },
    profile: { resources: { content: { page }, images: { page }, analytics: { page } } },
  });
  const serving = await stage.serve();
  const { requests } = stage.sandbox;
  await until('under way', () => pagesAsked(stage) >= 4 || requests.total);
  // One request of our own: it counts against the limit as well.
  await stage.subscribe(serving);
  const ids = [...stage.sandbox.store.list('content')].map(({ id }) => id);
  const begun = { all: requests.total, pages: pagesAsked(stage) };
  const delays = await timeWebhooks(stage, ids, plan);
  const timed = { all: requests.total, pages: pagesAsked(stage) };
  await pour(stage, ids, plan.pourMs);
  const poured = { all: requests.total, pages: pagesAsked(stage) };
  const limited = requests.byStatus[429] ?? 0;
  stage.sandbox.setRate({ rate: 500, burst: 500 });
  await serving.stop();
  const sorted = delays.toSorted((a, b) => a - b);
  const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
  return {
    p50: at(0.5),
    p95: at(0.95),
    alone: part(begun, timed),
    pouring: part(timed, poured),
    limited,
  };
}

interface Asked {
  all: number;
  pages: number;
}

function part(from: Asked, to: Asked): number {
  return (to.pages - from.pages) / Math.max(1, to.all - from.all);
}

function pagesAsked({ sandbox }: ServingStage): number {
  return sandbox.requests.entries().filter(({ path }) => path.startsWith('/v1/content?')).length;
}

/** Seconds from each change until a reader sees it. */
async function timeWebhooks(stage: ServingStage, ids: readonly string[], plan: LanesPlan): Promise<number[]> {
  const timed = Array.from({ length: plan.webhooks }, async (_, n) => {
    await delay(n * plan.everyMs);
    // From the end: the backfill comes there last.
    const id = ids.at(-1 - n) ?? '';
    const title = `changed ${n}`;
    const began = performance.now();
    stage.write('content', id, { title });
    const isThere = async (): Promise<boolean> =>
      (await stage.one('SELECT 1 FROM content WHERE id = ? AND title = ?', id, title)) !== undefined;
    await until('there', isThere, 600_000);
    return (performance.now() - began) / 1_000;
  });
  return Promise.all(timed);
}

/** Many changes of many records, each told by a webhook. */
async function pour(stage: ServingStage, ids: readonly string[], ms: number): Promise<void> {
  const until = performance.now() + ms;
  for (let n = 0; performance.now() < until; n += 1) {
    stage.write('content', ids[n % ids.length] ?? '', { title: `poured ${n}` });
    await delay(10);
  }
}

const FEW = { generate: { content: 80, images: 20, analytics: 40 } };

/** How long the service wants to be left alone, in seconds. */
const WAIT_S = longOrShort(8, 5);

describe('serve, within the limits of others', { timeout: 120_000 }, () => {
  it('F041 webhooks overtake a backfill that uses the whole limit, which still gets its part while they pour in', async () => {
    const { p95, pouring } = await lanes(
      longOrShort(
        { rate: 2, pages: 500, webhooks: 20, everyMs: 3_000, pourMs: 60_000 },
        { rate: 20, pages: 160, webhooks: 8, everyMs: 150, pourMs: 2_000 },
      ),
    );
    expect(p95).toBeLessThan(longOrShort(15, 8));
    expect(pouring).toBeGreaterThan(0.05);
  });

  it('F042 parked by the service for longer than max_wait, it waits until then, also over a restart', async () => {
    const stage = await servingStage({ sandbox: { ...FEW, rate: 50 }, source: { max_wait: '2s' } });
    stage.sandbox.faults.add({ fault: 'status', status: 429, 'retry-after': String(WAIT_S) });
    const { requests } = stage.sandbox;
    const first = await stage.serve();
    const parked = async (): Promise<unknown> => {
      const { resources } = sourceIn(await first.status());
      return resources.every(({ parked_until }) => parked_until !== null) || resources;
    };
    await until('parked', parked);
    expect((await first.status()).attention.map(({ what }) => what).join()).toContain('asked to be left alone');
    expect(await first.page('/readyz')).toMatchObject({ status: 200 });
    first.command.kill('SIGKILL');
    await first.command.ended;
    const [before, last] = [requests.total, requests.entries().at(-1)?.at ?? 0];
    stage.sandbox.faults.clear();
    const second = await stage.serve({ isInside: true });
    await until('asked again', () => requests.total > before);
    const next = requests.entries()[before]?.at ?? 0;
    expect(next - last).toBeGreaterThan(WAIT_S * 1_000 - 100);
    await stage.fresh(second);
    expect(resourceIn(await second.status(), 'content').parked_until).toBeNull();
    expect(await second.stop()).toMatchObject({ code: 0 });
  });
});
