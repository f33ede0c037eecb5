import { assert, json, property } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonSize } from '../../../src/http/outcome/read-answer.ts';
import type { JsonValue } from '../../../src/model/json.ts';

/** Values on all levels, as `JSON.parse` makes them; an empty array or object counts one for what it could hold. */
function valuesIn(value: JsonValue): number {
  if (typeof value !== 'object' || value === null) return 1;
  const members = Object.values(value);
  return 1 + (members.length === 0 ? 1 : members.reduce((sum: number, each) => sum + valuesIn(each), 0));
}

describe('the size of a JSON text', () => {
  it('counts the values on all levels', () => {
    assert(
      property(json(), (text) => {
        expect(jsonSize(Buffer.from(text)).values).toBe(valuesIn(JSON.parse(text)));
      }),
    );
  });

  it('tells the texts that only look like values from those that are', () => {
    const bytes = Buffer.from(JSON.stringify([',[{'.repeat(500), '\\",['.repeat(500), `,${'9'.repeat(5_000)},`]));
    expect(jsonSize(bytes)).toEqual({ values: 4, digits: 0 });
  });

  it('counts the characters of numbers of sixteen digits and more', () => {
    const numbers = ['1'.repeat(15), '2'.repeat(16), `0.${'3'.repeat(40)}`, '4'.repeat(1_000)];
    expect(jsonSize(Buffer.from(`[${numbers.join(', ')}]`)).digits).toBe(16 + 42 + 1_000);
  });
});
