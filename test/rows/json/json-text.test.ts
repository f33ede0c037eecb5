import { describe, expect, it } from 'vitest';
import { jsonText, parseJson } from '../../../src/rows/json/parse-json.ts';

const HUGE: readonly [title: string, source: string][] = [
  ['131,073 digits', '9'.repeat(131_073)],
  ['a power of ten beyond', '1e131072'],
  ['a negative one beyond', '-1.5E-16383'],
  ['16,384 decimals', `0.${'123456789'.repeat(1_821)}`],
  ['16,384 decimals by an exponent', `0.${'1'.repeat(6_385)}e-9999`],
];

const HELD: readonly string[] = [
  '9'.repeat(131_072),
  '1e131071',
  '1e-16383',
  '12345678901234567890',
  '1e400',
  `"${'9'.repeat(140_000)}"`,
  '"1e400000"',
];

describe('jsonText', () => {
  it.each(HUGE)('F092 writes %s as a text, wherever it stands', (_title, source) => {
    const value = parseJson(`{"a":[{"b":${source}}],"c":5}`);
    expect(jsonText(value)).toBe(`{"a":[{"b":"${source}"}],"c":5}`);
  });

  it('F092 leaves all others as JSON.stringify writes them', () => {
    for (const source of HELD) {
      const text = `{"a":[${source}]}`;
      expect(jsonText(parseJson(text)) === text).toBe(true);
    }
  });
});
