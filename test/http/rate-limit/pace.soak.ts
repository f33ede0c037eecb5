import { describe, it } from 'vitest';
import { keepsPace, pacedCases } from './pacing.ts';

describe('with headers: no 429, and at least 95 % of the rate over 30 s', () => {
  const all = ['ietf', 'legacy', 'github'].flatMap((headers) => [20, 200].map((rate) => [headers, rate] as const));
  it.each(all.flatMap(([headers, rate]) => pacedCases(headers, rate)))('$name, $headers, $rate/s', keepsPace);
});
