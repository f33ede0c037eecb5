import { expect, it } from 'vitest';
import { differenceText, isOfValues, recordDifferences } from '../../../src/shape/records/record-difference.ts';

it.each([
  [{ a: 1, b: [1] }, { b: [1], a: 1 }, [], ''],
  [{ a: 1 }, {}, ['a'], 'a only in the listing'],
  [{}, { a: { b: 1 } }, ['a'], 'a only when read alone'],
  [{ a: { b: 1 } }, { a: { b: 2 } }, ['a.b'], 'a.b with another value'],
  [{ a: [{ b: 1 }] }, { a: [{ b: '1' }] }, ['a[].b'], 'a[].b is a number in the listing and a text when read alone'],
  [{ a: [1] }, { a: [1, 2] }, ['a'], 'a with another value'],
])('%j and %j', (listed, alone, paths, text) => {
  const differences = recordDifferences(listed, alone);
  expect(differences.map(({ path }) => path)).toEqual(paths);
  expect(differenceText(differences)).toBe(text);
});

it('values alone are told from fields and kinds', () => {
  expect(isOfValues(recordDifferences({ a: 1 }, { a: 2 }))).toBe(true);
  expect(isOfValues(recordDifferences({ a: 1 }, { a: null }))).toBe(false);
});

it('a sentence names a few fields only', () => {
  const many = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`f${at}`, at]));
  expect(differenceText(recordDifferences(many, {}))).toBe('f0, f1, f2, f3, f4, f5 and 3 more only in the listing');
});
