import { expect, it } from 'vitest';
import { suggestion } from '../../../src/settings/file/fault.ts';

const KNOWN = ['share', 'requests_per_second', 'rate'];

it.each([
  ['shar', 'share'],
  ['SHARE', 'share'],
  ['hsare', 'share'],
  ['request_per_second', 'requests_per_second'],
  ['rat', 'rate'],
])('%s is probably %s', (word, meant) => {
  expect(suggestion(word, KNOWN)).toBe(`; did you mean "${meant}"?`);
});

it.each(['', 'webhook', 'x'.repeat(100)])('nothing is suggested for "%s"', (word) => {
  expect(suggestion(word, KNOWN)).toBe('');
});

it('nothing is suggested if nothing is known', () => {
  expect(suggestion('share', [])).toBe('');
});
