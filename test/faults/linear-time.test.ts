import { describe, expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { longOrShort, sampled } from '../support/length.ts';
import { ownService } from '../support/own-service.ts';
import { servingStage } from '../support/serving.ts';

/** What is repeated to make a text that somebody would send to keep us busy. */
const MARKS = String.raw`\ % " ' , ; : = < > { } [ ] ( ) / ? & # @ + - _ . 0 1 a A`.split(' ');
const PIECES =
  '1, |, |; | ;|<a>,|;a|aA|a1|1.|1h|""|{"a":|[[|],[|1e|0,|-1|//|/ping/4711-ab|AAAA=|L3Bpbmcv|2f,47,|%25|%2|\\u00|\\"|\\\\n'.split(
    '|',
  );
const OTHERS = ['\t', '\n', '\r\n', '…', 'é', '\u{1f600}', '\ud83d', '\u0301\u0316', '\u202e'];
/** What may stand in a header. */
const IN_HEADERS = [...MARKS, ...PIECES];
/** In so long a text what is quadratic takes minutes; in a header, which may not be longer, a quarter of a second. */
const TEXT = longOrShort(1_000_000, 100_000);
const HEADER = 12_000;
const HEADERS = ['link', 'ratelimit', 'etag', 'content-type', 'ratelimit-policy', 'x-ratelimit-reset', 'x-request-id'];
/** Seconds of CPU for all texts together, many times what they take. */
const MOST_S = 60;

const repeated = (unit: string, size: number): string => unit.repeat(Math.ceil(size / unit.length));

/** Seconds of CPU that this process, in which the commands run, spends on it. */
async function secondsOf(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  return process.cpuUsage(before).user / 1e6;
}

describe('a text that repeats itself costs no more than its length', { timeout: 300_000 }, () => {
  it('in records: as a value, in a list, as a name and as an id', async () => {
    const units = [...IN_HEADERS, ...OTHERS];
    const stage = await ownService(SQLITE, { incremental: null, updated: null }, ({ searchParams }) => {
      const at = Number(searchParams.get('cursor') ?? 0);
      const unit = units[at] ?? '';
      const text = repeated(unit, TEXT);
      const data = [
        { id: `r${at}`, text, list: [text] },
        { id: `n${at}`, [text.slice(0, HEADER)]: 1 },
        { id: text.slice(0, 900) + at, text: 'an id' },
      ];
      return { body: { data, next_cursor: at + 1 < units.length ? String(at + 1) : null } };
    });
    const seconds = await secondsOf(async () => {
      const { resources } = await stage.run('backfill');
      expect(resources[0]?.pages).toBeGreaterThanOrEqual(units.length);
    });
    expect(seconds).toBeLessThan(MOST_S);
    const kept = await stage.value("SELECT count(*) FROM report WHERE id LIKE 'r%'");
    expect(kept).toBe(units.length);
  });

  it.each(sampled(HEADERS, 2))('in the header %s', async (header) => {
    const stage = await ownService(SQLITE, { incremental: null, updated: null }, ({ searchParams }) => {
      const at = Number(searchParams.get('cursor') ?? 0);
      const value = repeated(IN_HEADERS[at] ?? '', HEADER).trim();
      const headers = { [header]: header === 'content-type' ? `application/json;a=${value}` : value };
      const next_cursor = at + 1 < IN_HEADERS.length ? String(at + 1) : null;
      return { headers, body: { data: [{ id: `r${at}` }], next_cursor } };
    });
    expect(await secondsOf(async () => void (await stage.run('backfill')))).toBeLessThan(MOST_S / 4);
  });

  it('in a refusal, as body and as the address of a redirect', async () => {
    const answers = [...IN_HEADERS, ...OTHERS].map((unit) => ({ status: 400, body: repeated(unit, TEXT) }));
    const moved = IN_HEADERS.map((unit) => ({ status: 302, headers: { location: repeated(unit, HEADER).trim() } }));
    for (const answer of [...answers.filter((_, at) => at % longOrShort(1, 6) === 0), ...moved.slice(0, 8)]) {
      const stage = await ownService(SQLITE, { incremental: null, updated: null }, () => ({ ...answer }));
      expect(await secondsOf(async () => void (await stage.run('backfill')))).toBeLessThan(MOST_S / 10);
    }
  });

  it('in a delivery: its body, its signature and its address', async () => {
    const stage = await servingStage({ isInside: true });
    const serving = await stage.serve();
    await stage.fresh(serving);
    const seconds = await secondsOf(async () => {
      for (const unit of [...IN_HEADERS, ...OTHERS]) {
        const body = JSON.stringify({
          type: 'content.updated',
          data: { resource: 'content', id: repeated(unit, TEXT) },
        });
        expect([202, 400, 413]).toContain(await serving.deliver({ id: `msg_${unit.length}`, body }));
        const value = IN_HEADERS.includes(unit) ? repeated(unit, HEADER).trim() : '-';
        const headers = {
          'webhook-signature': value,
          'webhook-id': 'm',
          'webhook-timestamp': value,
          authorization: value,
        };
        const target = `${serving.url}/webhooks/blog?token=${encodeURIComponent(value).slice(0, HEADER / 2)}`;
        await fetch(target, { method: 'POST', headers, body: '{}' });
      }
    });
    expect(seconds).toBeLessThan(MOST_S);
    await serving.stop();
  });
});
