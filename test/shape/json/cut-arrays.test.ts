import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/model/json.ts';
import { type Body, cutArrays } from '../../../src/shape/json/parse-body.ts';

const read = (part: string): JsonValue => JSON.parse(part);

function bodyOf(text: string): Body {
  return { bytes: Buffer.from(text), read };
}

/** Each array as the sources of its elements, by their borders, and the text behind it. */
function cut(text: string) {
  return cutArrays(bodyOf(text)).map(({ bytes, borders, values, end }) => ({
    sources: values.map((_, at) => bytes.toString('utf8', borders[2 * at], borders[2 * at + 1])),
    rest: bytes.toString('utf8', end),
  }));
}

describe('arrays of objects in a body', () => {
  it('are cut at the borders of their elements, however these stand', () => {
    const text = '{"data": [ {"id":1} ,\n {"id":"},{"},{}, {"id":[{"id":3},{"id":4}]} ], "more":[{"a":1},{"a":2}]}';
    expect(cut(text)).toEqual([
      {
        sources: ['{"id":1}', '{"id":"},{"}', '{}', '{"id":[{"id":3},{"id":4}]}'],
        rest: ', "more":[{"a":1},{"a":2}]}',
      },
      { sources: ['{"a":1}', '{"a":2}'], rest: '}' },
    ]);
    const [first] = cutArrays(bodyOf(text));
    expect(first?.values).toEqual([{ id: 1 }, { id: '},{' }, {}, { id: [{ id: 3 }, { id: 4 }] }]);
  });

  it.each([
    ['of one object', '{"data":[{"id":1}]}'],
    ['of other values', '{"data":[1,{"id":1},{"id":2}]}'],
    ['that end with another value', '{"data":[{"id":1},{"id":2},3]}'],
    ['that do not end', '{"data":[{"id":1},{"id":2}'],
    ['in a text', '{"data":"[{\\"id\\":1},{\\"id\\":2}]"}'],
  ])('are left alone where they are some %s', (_, text) => {
    expect(cut(text)).toEqual([]);
  });

  it('behind one that is left alone are found', () => {
    expect(cut('{"one":[{"id":1}],"data":[{"id":2},{"id":3}]}')).toMatchObject([{ sources: ['{"id":2}', '{"id":3}'] }]);
  });

  it('are not guessed where an element holds what stands between elements', () => {
    const text = '[{"id":1,"c":[{"id":5},{"id":6}]},{"id":2,"c":[{"id":7},{"id":8}]},{"id":3}]';
    expect(cut(text)).toMatchObject([{ sources: { length: 3 } }]);
  });

  it('are searched for in the beginning of the body alone', () => {
    const list = '[{"id":1},{"id":2}]';
    const long = '1,'.repeat(40_000);
    expect(cut(`{"before":[${long}0],"data":${list}}`)).toEqual([]);
    expect(cut(`{"data":${list},"behind":[${long}0],"more":${list}}`)).toHaveLength(1);
    // What is cut counts for nothing.
    const wide = `[{"id":"${'x'.repeat(70_000)}"},{"id":2}]`;
    expect(cut(`{"data":${wide},"more":${list}}`)).toHaveLength(2);
  });

  it('that are not valid are an error', () => {
    expect(() => cut('[{"id":1},{"id":2,}]')).toThrow(SyntaxError);
    expect(() => cut('[{"id":01},{"id":2}]')).toThrow(SyntaxError);
  });
});
