import { expect, it } from 'vitest';
import type { JsonValue } from '../../../src/model/json.ts';
import { limitRejection } from '../../../src/rows/records/record-limits.ts';

function nested(levels: number): JsonValue {
  let value: JsonValue = 1;
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? { a: value } : [value];
  return { a: value };
}

it.each<[string, JsonValue, number, string | null]>([
  ['a list', [], 2, 'not_an_object'],
  ['null', null, 4, 'not_an_object'],
  ['an exact number', JSON.rawJSON('1e400'), 5, 'not_an_object'],
  ['an empty object', {}, 2, null],
  ['100 levels', nested(99), 10, null],
  ['101 levels', nested(100), 10, 'too_deep'],
  ['100,000 values', { a: Array.from({ length: 99_999 }, () => 0) }, 10, null],
  ['more values', { a: Array.from({ length: 100_000 }, () => 0) }, 10, 'too_wide'],
  ['a long key', { ['k'.repeat(1_025)]: 1 }, 10, 'key_too_long'],
  ['192 MiB', {}, 192 << 20, null],
  ['more bytes', {}, (192 << 20) + 1, 'too_large'],
])('%s', (_, value, bytes, reason) => {
  expect(limitRejection(value, bytes)?.reason ?? null).toBe(reason);
});
