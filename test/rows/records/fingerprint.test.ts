import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/model/json.ts';
import { parseJson } from '../../../src/rows/json/parse-json.ts';
import { canonicalHash, sameJson, textHash } from '../../../src/rows/records/record-key.ts';

function reversed(value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value;
  if (Array.isArray(value)) return value.map(reversed);
  const fields = Object.entries(value).map(([key, field]): [string, JsonValue] => [key, reversed(field)]);
  return Object.fromEntries(fields.toReversed());
}

describe('sameJson and canonicalHash', () => {
  it.each([
    ['{"a":1,"b":[1,2]}', '{ "b": [1, 2], "a": 1.0 }'],
    ['{"a":{"x":12345678901234567890,"y":null}}', '{"a":{"y":null,"x":12345678901234567890}}'],
    ['{"a":"\\u00e9"}', '{"a":"é"}'],
  ])('F107 hold %s and %s equal', (a, b) => {
    expect(sameJson(parseJson(a), parseJson(b))).toBe(true);
    expect(canonicalHash(parseJson(a))).toBe(canonicalHash(parseJson(b)));
    expect(textHash(a)).not.toBe(textHash(b));
  });

  it.each([
    ['[1,2]', '[2,1]'],
    ['{"a":1}', '{"a":1,"b":null}'],
    ['{"a":1}', '{"a":"1"}'],
    ['{"a":null}', '{"a":"null"}'],
    ['[12345678901234567890]', '[12345678901234567891]'],
    ['[12345678901234567890]', '[{"rawJSON":"12345678901234567890"}]'],
    ['[12345678901234567890]', '["12345678901234567890"]'],
    ['{"__proto__":1}', '{}'],
    ['{"__proto__":{"a":1}}', '{"__proto__":{"a":2}}'],
    ['{}', '[]'],
    ['["a","b"]', '["a,\\"1:b"]'],
    ['{"a":"x","b":"y"}', '{"a":"x,1:b=\\"1:y"}'],
  ])('F107 tell %s from %s', (a, b) => {
    expect(sameJson(parseJson(a), parseJson(b))).toBe(false);
    expect(canonicalHash(parseJson(a))).not.toBe(canonicalHash(parseJson(b)));
  });

  it('F107 hold a record equal to itself however it is written, with texts of any length', () => {
    const texts = fc.oneof(fc.string({ maxLength: 60 }), fc.string({ unit: 'binary', maxLength: 60 }));
    const members = fc.dictionary(texts, fc.oneof(texts, fc.double(), fc.array(texts), fc.dictionary(texts, texts)));
    fc.assert(
      fc.property(members, members, (a, b) => {
        const [one, other] = [parseJson(JSON.stringify(a)), parseJson(JSON.stringify(b))];
        const turned = parseJson(JSON.stringify(reversed(one), null, 3));
        // A record in between has its keys in another order, or has others.
        expect([one, other, turned, one].map(canonicalHash)).toEqual([turned, other, one, one].map(canonicalHash));
        expect(canonicalHash(one) === canonicalHash(other)).toBe(sameJson(one, other));
      }),
    );
  });

  it.each([
    [
      '{"b":[1,-0,1.5e3,null,true,12345678901234567890,[],{}],"a":"x","é":{"🙂":"\\ud800\\u0000","":""}}',
      '6cb9ea5d3018a53f44a958eeca07bb02',
    ],
    [JSON.stringify({ text: 'é🙂"'.repeat(5_000) }), 'd9b54304f73880335d8e2caa7d3b6cf6'],
  ])('stay what is stored in warehouses', (text, stored) => {
    expect(canonicalHash(parseJson(text))).toBe(stored);
  });

  it('F096 do not overflow on a million levels', () => {
    const deep = parseJson('['.repeat(1_000_000) + ']'.repeat(1_000_000));
    expect(canonicalHash(deep)).toHaveLength(32);
  });
});
