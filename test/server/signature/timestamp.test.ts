import { describe, expect, it } from 'vitest';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';
import { checkTimestamp, timestampIn, writeTimestamp } from '../../../src/server/signature/delivery.ts';

const NOW = Date.parse('2026-11-20T08:00:00.000Z');

describe('the signed time of a delivery', () => {
  it.for(['s', 'ms', 'iso'] as const)('in the unit %s is read as it was written', (unit) => {
    const from = { from: 'header', name: 'x-time' } as const;
    expect(checkTimestamp(writeTimestamp(NOW, unit), { from, unit, past: 0, future: 0 }, NOW)).toBe(NOW);
  });

  it('counts up to both edges of the tolerance', () => {
    const time = { from: { from: 'header', name: 'x-time' }, unit: 'ms', past: 1_000, future: 500 } as const;
    const at = (ms: number) => checkTimestamp(String(NOW + ms), time, NOW);
    expect([at(-1_000), at(500)]).toEqual([NOW - 1_000, NOW + 500]);
    expect([at(-1_001), at(501)]).toEqual(['too_old', 'too_new']);
    expect(['', '-1', '1.5', ' 1', '1e3', '٣'].map((text) => checkTimestamp(text, time, NOW))).toEqual(
      Array(6).fill('bad_timestamp'),
    );
  });

  it('is read from where the scheme has it', () => {
    const body = Buffer.from('{}');
    const delivery = { method: 'POST', path: '/', headers: { 'x-slack-request-timestamp': '5' }, body };
    const [slack, stripe, github] = (['slack', 'stripe', 'github'] as const).map((name) => signatureSchema.parse(name));
    expect(
      [slack, stripe, github].map((scheme) => scheme && timestampIn(delivery, scheme, new Map([['t', '6']]))),
    ).toEqual(['5', '6', '']);
    expect(slack && timestampIn({ ...delivery, headers: {} }, slack, new Map())).toBeNull();
  });
});
