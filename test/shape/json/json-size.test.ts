import { assert, json, nat, property } from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/model/json.ts';
import { exactSize, roughSize } from '../../../src/shape/json/json-size.ts';

/** Values on all levels, as `JSON.parse` makes them; an empty array or object counts one for what it could hold. */
function valuesIn(value: JsonValue): number {
  if (typeof value !== 'object' || value === null) return 1;
  const members = Object.values(value);
  return 1 + (members.length === 0 ? 1 : members.reduce((sum: number, each) => sum + valuesIn(each), 0));
}

/** At another place in memory than an even one. */
function shifted(text: string, by: number): Uint8Array {
  const bytes = Buffer.from(text);
  const room = new Uint8Array(bytes.length + by);
  room.set(bytes, by);
  return room.subarray(by);
}

describe('the size of a JSON text', () => {
  it('counts the values on all levels, and never less where it counts roughly', () => {
    assert(
      property(json(), nat(7), (text, by) => {
        const bytes = shifted(text, by);
        const { values } = exactSize(bytes);
        expect(values).toBe(valuesIn(JSON.parse(text)));
        expect(roughSize(bytes).values).toBeGreaterThanOrEqual(values);
      }),
    );
  });

  it.each([0, 1, 2, 3, 4, 5])(
    'is the same roughly and exactly where texts hold nothing of the kind, %i bytes on',
    (by) => {
      const bytes = shifted(JSON.stringify(Array.from({ length: 1_000 }, () => ({ id: 1, tags: [] }))), by);
      expect(roughSize(bytes)).toEqual(exactSize(bytes));
      expect(exactSize(bytes).values).toBe(4_001);
    },
  );

  it('tells the texts that only look like values from those that are', () => {
    const bytes = Buffer.from(JSON.stringify([',[{'.repeat(500), '\\",['.repeat(500), `,${'9'.repeat(5_000)},`]));
    expect(exactSize(bytes)).toEqual({ values: 4, digits: 0 });
    expect(roughSize(bytes).values).toBeGreaterThan(2_000);
  });

  it('counts the characters of numbers of sixteen digits and more', () => {
    const numbers = ['1'.repeat(15), '2'.repeat(16), `0.${'3'.repeat(40)}`, '4'.repeat(1_000)];
    const bytes = Buffer.from(`[${numbers.join(', ')}]`);
    expect(exactSize(bytes).digits).toBe(16 + 42 + 1_000);
    expect(roughSize(bytes).digits).toBe(16 + 42 + 1_000);
  });
});
