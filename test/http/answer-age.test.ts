import { describe, expect, it } from 'vitest';
import { readAnswerAge } from '../../src/http/client.ts';

const NOTHING = { ageMs: 0, lifetimeMs: null, isStated: false };

describe('the age of an answer', () => {
  it.each<[string, Record<string, string | string[]>, ReturnType<typeof readAnswerAge>]>([
    ['no header', {}, NOTHING],
    ['a lifetime alone', { 'cache-control': 'max-age=60' }, NOTHING],
    ['an age of nothing', { age: '0' }, { ageMs: 0, lifetimeMs: null, isStated: true }],
    ['an age', { age: '7' }, { ageMs: 8_000, lifetimeMs: null, isStated: true }],
    [
      'an age and a lifetime',
      { age: '7', 'cache-control': 'public, max-age=60' },
      { ageMs: 8_000, lifetimeMs: 60_000, isStated: true },
    ],
    [
      'a lifetime for shared caches',
      { age: '7', 'cache-control': 'max-age=5, S-MaxAge="300"' },
      { ageMs: 8_000, lifetimeMs: 300_000, isStated: true },
    ],
    [
      'a lifetime that is over',
      { age: '90', 'cache-control': 'max-age=60' },
      { ageMs: 91_000, lifetimeMs: 60_000, isStated: true },
    ],
    ['several ages', { age: ['3', '9'] }, { ageMs: 4_000, lifetimeMs: null, isStated: true }],
    ['an age that is none', { age: '-4' }, NOTHING],
    ['an age in words', { age: 'old' }, NOTHING],
  ])('is read from %s', (_, headers, expected) => {
    expect(readAnswerAge(headers)).toEqual(expected);
  });
});
