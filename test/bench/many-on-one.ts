import { setTimeout as delay } from 'node:timers/promises';
import type { PostgresServer } from '../support/postgres-server.ts';
import { nameOf, staged, startSandboxes, tell, type AccountFigures } from './many-stage.ts';

/**
 * Records of the one resource, how many are on a page, how late each answer is in milliseconds, `http.concurrency`, and
 * how many workers walk it.
 */
const ONE = { records: 8_000, page: 10, latency: 100, atOnce: 2, workers: [1, 2, 4] };

interface OneWalk {
  workers: number;
  seconds: number;
  requests: number;
}

/** What one line of the bench says. */
function factorText(walks: readonly OneWalk[]): string {
  const [one, ...more] = walks;
  if (one === undefined) return '';
  const texts = more.map(({ workers, seconds, requests }) => {
    const factor = (one.seconds / seconds).toFixed(2);
    return `${workers} workers ${seconds.toFixed(1)} s (${factor} x, ${requests} requests)`;
  });
  return (
    `one resource of ${ONE.records} records, pages of ${ONE.page}, ${ONE.latency} ms, ${ONE.atOnce} requests under way for each worker, no limit: ` +
    `1 worker ${one.seconds.toFixed(1)} s (${one.requests} requests), ${texts.join(', ')}`
  );
}

/** Until the workers have said that they are there. */
const settled = (): Promise<void> => delay(6_000);

/** One resource, walked by one worker and by several: no limit, and every answer takes its time. */
export async function oneResource(server: PostgresServer): Promise<void> {
  const walks: OneWalk[] = [];
  const page = { style: 'page', size: ONE.page, total: 'total' };
  for (const workers of ONE.workers) {
    const pages = { page, concurrency: ONE.atOnce };
    const sandboxes = await startSandboxes({
      accounts: 1,
      generate: { content: ONE.records },
      latency: ONE.latency,
      pagination: 'page',
    });
    await staged(
      server,
      sandboxes,
      ['content'],
      async (stage) => {
        await stage.startWorkers(workers, 1);
        await settled();
        const began = performance.now();
        const { queue } = stage;
        const { id } = await queue.put({ kind: 'walk', source: nameOf(0), resource: 'content', command: 'backfill' });
        const end = JSON.stringify(await queue.outcome(id, new AbortController().signal));
        if (!end.includes('"status":"ok"')) tell(end);
        const seconds = (performance.now() - began) / 1_000;
        const [figures] = await sandboxes.ask<AccountFigures[]>('figures');
        walks.push({ workers, seconds, requests: figures?.requests ?? 0 });
      },
      pages,
    );
    sandboxes.close();
  }
  console.log(factorText(walks));
}
