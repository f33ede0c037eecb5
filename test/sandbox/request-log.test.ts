import { expect, it } from 'vitest';
import { RequestLog, type RequestEntry } from '../../src/sandbox/request-log.ts';

function entry(at: number, notBefore: number | null = null): RequestEntry {
  return { at, method: 'GET', path: `/v1/content?at=${at}`, resource: 'content', status: 0, notBefore };
}

it('counts requests in all, at once and by status', () => {
  const log = new RequestLog();
  const [first, second] = [entry(1), entry(2)];
  log.arrived(first);
  log.arrived(second);
  log.answered(first, 200);
  log.ended();
  expect(log).toMatchObject({ total: 2, inFlight: 1, peakInFlight: 2, byStatus: { 200: 1 } });
  expect(log.entries().map(({ at, status }) => [at, status])).toEqual([
    [1, 200],
    [2, 0],
  ]);
});

it('counts requests that come back before the time that a 429 named', () => {
  const log = new RequestLog();
  log.arrived(entry(1));
  log.answered(entry(1, 100), 429);
  for (const at of [50, 99, 100]) log.arrived(entry(at));
  expect(log.early).toBe(2);
});

it('keeps the newest 100,000 requests, oldest first', () => {
  const log = new RequestLog();
  for (let at = 0; at < 100_010; at += 1) log.arrived(entry(at));
  const entries = log.entries();
  expect([entries.length, entries[0]?.at, entries.at(-1)?.at]).toEqual([100_000, 10, 100_009]);
  log.clear();
  expect([log.total, log.entries()]).toEqual([0, []]);
});
