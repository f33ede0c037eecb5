import { describe, expect, it } from 'vitest';
import { COLUMN_TYPES } from '../../../src/model/vocabulary.ts';
import { parseJson } from '../../../src/shape/json/parse-json.ts';
import { typeOf, widen } from '../../../src/shape/columns/type-lattice.ts';

describe('typeOf', () => {
  it.each([
    ['null', null],
    ['true', 'boolean'],
    ['42', 'integer'],
    ['1.0', 'integer'],
    ['9007199254740993', 'integer'],
    ['-9223372036854775808', 'integer'],
    ['9223372036854775807', 'integer'],
    ['9223372036854775808', 'numeric'],
    ['1.5', 'double'],
    ['1e30', 'double'],
    ['0.12345678901234567890', 'numeric'],
    ['1e400', 'numeric'],
    ['1e100000', 'text'],
    ['"2024-02-29"', 'date'],
    ['"2024-02-29T00:00:00Z"', 'timestamp'],
    ['"2026-02-30"', 'text'],
    ['""', 'text'],
    ['"42"', 'text'],
    ['{}', 'json'],
    ['{"rawJSON":"1"}', 'json'],
    ['[]', 'json'],
  ])('takes %s for %s', (text, type) => {
    expect(typeOf(parseJson(text))).toBe(type);
  });
});

describe('widen', () => {
  it.each([
    ['integer', 'double', 'double'],
    ['integer', 'numeric', 'numeric'],
    ['double', 'numeric', 'numeric'],
    ['date', 'timestamp', 'timestamp'],
    ['timestamp', 'text', 'text'],
    ['date', 'integer', 'text'],
    ['boolean', 'integer', 'text'],
    ['boolean', 'text', 'text'],
    ['numeric', 'text', 'text'],
    ['text', 'json', 'json'],
    ['boolean', 'json', 'json'],
  ] as const)('F103 %s with %s is %s', (a, b, wider) => {
    expect(widen(a, b)).toBe(wider);
  });

  it('F103 is a lattice: order of arrival never matters, and nothing narrows', () => {
    for (const a of COLUMN_TYPES) {
      expect(widen(a, a)).toBe(a);
      for (const b of COLUMN_TYPES) {
        expect(widen(a, b)).toBe(widen(b, a));
        expect(widen(widen(a, b), a)).toBe(widen(a, b));
        for (const c of COLUMN_TYPES) expect(widen(widen(a, b), c)).toBe(widen(a, widen(b, c)));
      }
    }
  });
});
