import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/shape/json/parse-json.ts';
import { mergeParts } from '../../../src/shape/records/merge-parts.ts';

function part(text: string) {
  return { value: parseJson(text), bytes: Buffer.from(text) };
}

describe('the parts of a record', () => {
  it.each([
    [['{"id":1,"a":{"x":1}}', '{"id":1,"a":{"y":{"z":2}},"b":3}'], '{"id":1,"a":{"x":1,"y":{"z":2}},"b":3}'],
    [['{"l":[1,2]}', '{"l":[3]}', '{"l":[]}'], '{"l":[1,2,3]}'],
    [['{"a":1,"b":null}', '{"a":null,"b":2}'], '{"a":1,"b":2}'],
    [['{"a":"old"}', '{"a":"new"}'], '{"a":"new"}'],
    [
      ['{"n":12345678901234567890}', '{"m":0.12345678901234567890}'],
      '{"n":12345678901234567890,"m":0.12345678901234567890}',
    ],
  ])('%j are one', (texts, expected) => {
    const [first = part('{}'), ...others] = texts.map(part);
    const { value, bytes } = mergeParts([first, ...others]);
    expect(bytes.toString()).toBe(expected);
    expect(JSON.stringify(value)).toBe(expected);
  });

  it('is a single one to the byte', () => {
    const only = part('{ "n": 1.10 }');
    expect(mergeParts([only])).toBe(only);
  });

  it('passes what is nested too deeply', () => {
    const deep = part('{"a":'.repeat(20_000) + '1' + '}'.repeat(20_000));
    expect(() => mergeParts([deep, deep])).not.toThrow();
  });
});
