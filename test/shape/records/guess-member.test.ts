import { describe, expect, it } from 'vitest';
import { memberGuess } from '../../../src/shape/records/guess-member.ts';

function guessed(name: string, example: string, record: string) {
  return memberGuess(Buffer.from(example), name)?.(Buffer.from(record));
}

describe('memberGuess', () => {
  it.each([
    ['the first member', '{"id":"a","x":1}', '{"id":"b","x":2}', 'b'],
    ['a number', '{"id":1}', '{"id":-42}', -42],
    ['white space', '{ "id" : 1 }', '{\n\t"id"\r :\n "b"}', 'b'],
    ['one behind that of another object', '{"by":{"id":1},"id":2}', '{"by":{"id":3},"id":4}', 4],
    ['one behind a text that is its name', '{"kind":"id","id":2}', '{"kind":"id","id":4}', 4],
    ['the last one, if the name comes twice', '{"id":1,"id":2}', '{"id":3,"id":4}', 4],
    ['a text of several bytes', '{"id":"a"}', '{"id":"é🙂"}', 'é🙂'],
    ['the empty text', '{"id":"a"}', '{"id":""}', ''],
  ])('finds %s', (_, example, record, value) => {
    expect(guessed('id', example, record)).toBe(value);
  });

  it.each([
    ['the example has none', '{"x":1}', '{"id":1}'],
    ['the example has one within only', '{"x":{"id":1}}', '{"x":{"id":1}}'],
    ['the record has none', '{"id":1}', '{"x":1}'],
    ['the name is a value', '{"id":1}', '{"x":"id","y":2}'],
    ['a text has escapes', '{"id":"a"}', '{"id":"\\u0061"}'],
    ['a number is not an integer', '{"id":1}', '{"id":1.5}'],
    ['a number has more digits than are exact', '{"id":1}', '{"id":12345678901234567}'],
    ['it is something else', '{"id":1}', '{"id":null}'],
    ['it is an object', '{"id":1}', '{"id":{"id":1}}'],
    ['it is cut off', '{"id":1}', '{"id"'],
  ])('finds none if %s', (_, example, record) => {
    expect(guessed('id', example, record)).toBeUndefined();
  });

  it('finds a name that has to be escaped', () => {
    expect(guessed('a"b', '{"a\\"b":1}', '{"a\\"b":2}')).toBe(2);
  });
});
