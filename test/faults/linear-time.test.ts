import { describe, expect, it } from 'vitest';
import { tooMuchGrowth } from '../support/linear-time.ts';
import { sampled } from '../support/length.ts';
import { TEXT_WORKS } from './foreign-text.ts';
import { VALUE_WORKS } from './foreign-values.ts';

/** What is repeated to make a text that somebody would send to keep us busy. */
const MARKS = String.raw`\ % " ' , ; : = < > { } [ ] ( ) / ? & # @ + - _ . 0 1 a A`.split(' ');
const BLANKS_AND_OTHERS = [' ', '\t', '\n', '\r\n', '…', 'é', '\u{1f600}', '\ud83d', '\u0301\u0316', '\u202e'];
const ESCAPES = ['%25', '%2', '%5C', '\\u', '\\u00', '\\"', '\\\\n', '\\ud83d'];
const PIECES =
  '1, |, |; | ;|<a>,|;a|aA|a1|1.|1h|""|{"a":|[[|],[|1e|0,|-1|//|/ping/4711-ab|----…|AAAA=|L3Bpbmcv|2f,47,'.split('|');
const REPEATED = [...MARKS, ...BLANKS_AND_OTHERS, ...ESCAPES, ...PIECES, '\\\\\\"\\\\n toke'];

/** Pairs of which the one ends where the other begins. */
const ALTERNATED = [
  ['\\', '"'],
  ['a', ' '],
  ['%', '\\'],
] as const;

const TEXTS: readonly ((size: number) => string)[] = [
  ...REPEATED.map((unit) => (size: number) => unit.repeat(Math.ceil(size / unit.length))),
  ...ALTERNATED.map(
    ([one, other]) =>
      (size: number) =>
        one.repeat(size / 2) + other.repeat(size / 2),
  ),
];

describe('twice the text takes at most two and a half times as long', () => {
  // In the short form each does a part of the texts, and all together do all of them.
  const works = [...TEXT_WORKS, ...VALUE_WORKS].map(({ name, work, frames }, at) => ({
    name,
    work,
    frames,
    texts: sampled(TEXTS, 8, at),
  }));
  it.each(works)('$name', ({ work, texts, frames = [['', '']] }) => {
    const slow = texts.flatMap((text) =>
      frames.flatMap(([before, after]) => {
        const growth = tooMuchGrowth(work, (size) => before + text(size) + after);
        const shown = JSON.stringify(before + text(8).slice(0, 24) + after);
        return growth === null ? [] : [`${shown}: ${growth.factor} times at ${growth.size}`];
      }),
    );
    expect(slow).toEqual([]);
  });
});
