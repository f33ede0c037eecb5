import { array, assert, property, string } from 'fast-check';
import { expect, it } from 'vitest';
import { advance, KINDS, patternTree } from '../../../src/observe/scrub/pattern-tree.ts';

/** The ends of all matches of the longest pattern at each place. */
function endsIn(text: string, patterns: readonly string[]): number[] {
  const tree = patternTree(
    patterns.map((each) => ({ symbols: Buffer.from(each), kind: KINDS.whole, cutFrom: Infinity })),
  );
  const ends: number[] = [];
  let state = 0;
  for (const [at, symbol] of Buffer.from(text).entries()) {
    state = advance(tree, state, symbol);
    if ((tree.found[state] ?? 0) !== 0) ends.push(at + 1);
  }
  return ends;
}

it.each([
  ['ushers', ['he', 'she', 'his', 'hers'], [4, 6]],
  ['aaaa', ['aa'], [2, 3, 4]],
  ['abcab', ['abcabc'], []],
  ['x', [], []],
])('in %s are found %j', (text, patterns, ends) => {
  expect(endsIn(text, patterns)).toEqual(ends);
});

it('finds what a plain search finds', () => {
  const word = string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 3 });
  assert(
    property(string({ unit: 'grapheme-ascii', maxLength: 60 }), array(word, { maxLength: 5 }), (text, patterns) => {
      const plain = Array.from({ length: text.length }, (_, at) => at + 1).filter((end) =>
        patterns.some((each) => text.slice(0, end).endsWith(each)),
      );
      expect(endsIn(text, patterns)).toEqual(plain);
    }),
  );
});
