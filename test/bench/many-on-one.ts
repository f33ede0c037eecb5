import { setTimeout as delay } from 'node:timers/promises';

/**
 * Records of the one resource, how many are on a page, how late each answer is in milliseconds, and how many requests
 * each worker may have under way: `http.concurrency` counts those of all.
 */
export const ONE = { records: 8_000, page: 10, latency: 100, atOnce: 2 };

export interface OneWalk {
  workers: number;
  seconds: number;
  requests: number;
}

/** What one line of the bench says. */
export function factorText(walks: readonly OneWalk[]): string {
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
export const settled = (): Promise<void> => delay(6_000);
