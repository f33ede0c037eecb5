import { describe, expect, it } from 'vitest';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';
import { signDelivery } from '../../support/sign-delivery.ts';
import { createVerifier } from '../../../src/server/signature/create-verifier.ts';

const NOW = 1_760_000_000_000;
const SECRET = { value: `whsec_${Buffer.alloc(32, 4).toString('base64')}` };
const STANDARD = signatureSchema.parse('standard-webhooks');
const SAMPLES = 10_000;
const PER_SAMPLE = 20;

const body = Buffer.from(JSON.stringify({ type: 'content.updated', text: 'x'.repeat(980) }));
const draft = { body, id: 'msg_1', at: NOW, method: 'POST', path: '/webhooks/blog', publicUrl: null };
const good = signDelivery(STANDARD, SECRET, draft);
const old = signDelivery(STANDARD, SECRET, { ...draft, at: NOW - 3_600_000 });
const bad = { ...good, headers: { ...good.headers, 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}` } };
const verify = createVerifier(STANDARD, [SECRET], null);

/** Microseconds of each of the ways, measured in turn so that what else the machine does falls on all of them. */
function measure(ways: readonly (() => void)[]): number[][] {
  const taken = ways.map((): number[] => []);
  for (let sample = 0; sample < SAMPLES; sample++) {
    ways.forEach((way, at) => {
      const start = performance.now();
      for (let count = 0; count < PER_SAMPLE; count++) way();
      taken[at]?.push(((performance.now() - start) * 1_000) / PER_SAMPLE);
    });
  }
  return taken.map(withoutOutliers);
}

/** Pauses of the garbage collector say nothing about what was compared. */
function withoutOutliers(samples: readonly number[]): number[] {
  return samples.toSorted((a, b) => a - b).slice(0, Math.floor(samples.length * 0.9));
}

function welch(a: readonly number[], b: readonly number[]): number {
  return (mean(a) - mean(b)) / Math.sqrt(variance(a) / a.length + variance(b) / b.length);
}

function mean(samples: readonly number[]): number {
  return samples.reduce((sum, one) => sum + one, 0) / samples.length;
}

function variance(samples: readonly number[]): number {
  const middle = mean(samples);
  return samples.reduce((sum, one) => sum + (one - middle) ** 2, 0) / (samples.length - 1);
}

function perSecond(way: () => void): number {
  const start = performance.now();
  for (let count = 0; count < 50_000; count++) way();
  return Math.round(50_000_000 / (performance.now() - start));
}

describe('the time that a refusal takes', () => {
  it('F186 is the same for a bad signature at its first and at its last byte', () => {
    const signature = good.headers['webhook-signature'] ?? '';
    const first = { ...good, headers: { ...good.headers, 'webhook-signature': `v1,A${signature.slice(4)}` } };
    const last = { ...good, headers: { ...good.headers, 'webhook-signature': `${signature.slice(0, -3)}AA=` } };
    const ways = [() => verify(first, NOW), () => verify(last, NOW), () => verify(old, NOW)];
    measure(ways);
    const [atFirst = [], atLast = [], tooOld = []] = measure(ways);
    const figures = { bytes: welch(atFirst, atLast), old: welch(atFirst, tooOld) };
    console.log('Welch t:', figures, 'µs:', [atFirst, atLast, tooOld].map(mean));
    // Where two bytes differ is what a comparison could give away.
    expect(Math.abs(figures.bytes)).toBeLessThan(4.5);
    // The others run other code: what remains is far below what a network hides.
    expect(Math.abs(mean(atFirst) - mean(tooOld))).toBeLessThan(2);
  });

  it('is short enough for more than 20,000 of either kind in a second', () => {
    const figures = { good: perSecond(() => verify(good, NOW)), bad: perSecond(() => verify(bad, NOW)) };
    console.log('per second, 1 KB:', figures);
    expect(Math.min(figures.good, figures.bad)).toBeGreaterThan(20_000);
  });
});
