import { describe, expect, it } from 'vitest';
import { lanes } from './serve-lanes.ts';

const percent = (part: number): string => `${Math.round(part * 100)} %`;

describe('serve at 2 requests/s', () => {
  it('F041 webhooks become rows with a p95 of at most 15 s while a backfill of 500 pages runs', async () => {
    const { p50, p95, alone, pouring, limited } = await lanes({
      rate: 2,
      pages: 500,
      webhooks: 20,
      everyMs: 3_000,
      pourMs: 60_000,
    });
    console.log(
      `webhook to row: p50 ${p50.toFixed(2)} s, p95 ${p95.toFixed(2)} s; part of the backfill in the requests: ` +
        `${percent(alone)}, while webhooks pour in ${percent(pouring)}; ${limited} answers of 429`,
    );
    expect(p95).toBeLessThanOrEqual(15);
    expect(pouring).toBeGreaterThan(0.05);
  });

  it('F041 also where 20 of them come at once', async () => {
    const { p50, p95 } = await lanes({ rate: 2, pages: 200, webhooks: 20, everyMs: 0, pourMs: 10_000 });
    console.log(`20 at once: p50 ${p50.toFixed(2)} s, p95 ${p95.toFixed(2)} s`);
    expect(p95).toBeLessThanOrEqual(15);
  });
});
