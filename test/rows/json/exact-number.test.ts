import { expect, it } from 'vitest';
import { fitsDouble, hasInexactNumber, keepsDigits } from '../../../src/rows/json/parse-json.ts';

it.each([
  ['9007199254740991', true, true],
  ['9007199254740993', false, false],
  ['0.1', true, true],
  ['1.50', true, true],
  ['1E2', true, true],
  ['-0', true, true],
  ['98331783783160.625', false, true],
  ['0.1000000000000000055511151231257829', false, false],
  ['1e400', false, false],
])('the double of %s keeps its digits: %s, and holds it: %s', (source, keeps, fits) => {
  expect([keepsDigits(source), fitsDouble(source)]).toEqual([keeps, fits]);
});

it.each([
  ['{"id":9007199254740993}', true],
  ['[1e400]', true],
  ['{"id":9007199254740991}', false],
  ['{"id":"9007199254740993"}', false],
  ['{"at":"2026-11-20T14:05:09.123456789Z"}', false],
])('%s holds an inexact number: %s', (text, holds) => {
  expect(hasInexactNumber(text)).toBe(holds);
});

it('a number is found wherever it is', () => {
  for (let before = 0; before < 40; before += 1) {
    expect(hasInexactNumber(`${' '.repeat(before)}9007199254740993`)).toBe(true);
  }
});
