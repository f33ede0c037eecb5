import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/shape/json/parse-json.ts';
import {
  addFieldKinds,
  differenceText,
  fieldKindsOf,
  recordDifferences,
  unprovedField,
} from '../../../src/shape/records/record-difference.ts';

function told(listed: string, alone: string): string {
  return differenceText(recordDifferences(parseJson(listed), parseJson(alone)));
}

describe('the differences of two readings', () => {
  it.each([
    ['the same in another order', '{"a":1,"b":[{"c":null}]}', '{"b":[{"c":null}],"a":1}', ''],
    [
      'digits that a double would lose',
      '{"a":12345678901234567890}',
      '{"a":12345678901234567891}',
      'a with another value',
    ],
    ['a field that is null and one that is not there', '{"a":null}', '{}', 'a only in the listing'],
    ['a field within an object', '{"a":{"b":1}}', '{"a":{"b":1,"c":2}}', 'a.c only when read alone'],
    [
      'an object where a number was',
      '{"a":1}',
      '{"a":{"id":1}}',
      'a is a number in the listing and an object when read alone',
    ],
    ['null where a text was', '{"a":"x"}', '{"a":null}', 'a is a text in the listing and null when read alone'],
    ['lists of other lengths', '{"a":[1]}', '{"a":[]}', 'a with another value'],
    ['an element of a list', '{"a":[1,{"b":2}]}', '{"a":[1,{"b":3}]}', 'a[].b with another value'],
    [
      'many fields',
      '{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1}',
      '{}',
      'a, b, c, d, e, f and 2 more only in the listing',
    ],
  ])('%s', (_, listed, alone, expected) => {
    expect(told(listed, alone)).toBe(expected);
  });
});

describe('a reading by what is proved of its fields', () => {
  const proved = fieldKindsOf(parseJson('{"id":1,"title":"x","author":3,"tags":[{"name":"a"}],"seo":{"image":null}}'));
  const judged = (reading: string, stored: string | null = null): string | null =>
    unprovedField(proved, fieldKindsOf(parseJson(reading)), stored === null ? null : fieldKindsOf(parseJson(stored)));

  it.each<[string, string, string | null, string | null]>([
    ['has proved fields of the same kinds', '{"id":2,"title":"y","author":4}', null, null],
    ['has null in a proved field', '{"id":2,"author":null}', null, null],
    ['has a field that is new', '{"id":2,"subtitle":"z"}', null, 'subtitle'],
    ['has a field of another kind', '{"id":2,"author":{"id":4}}', null, 'author'],
    ['has a value where only null was proved', '{"id":2,"seo":{"image":"x.png"}}', null, 'seo.image'],
    ['lacks a field that the row has, and that is proved', '{"id":2}', '{"id":2,"title":"y"}', null],
    ['lacks a field that the row has, and that no reading has brought', '{"id":2}', '{"id":2,"body":"y"}', 'body'],
    ['has an empty list', '{"id":2,"tags":[]}', '{"id":2,"tags":[{"name":"b"}]}', null],
  ])('%s', (_, reading, stored, expected) => {
    expect(judged(reading, stored)).toBe(expected);
  });

  it('is unproved where nothing is', () => {
    expect(unprovedField(new Map(), fieldKindsOf(1), null)).toBe('');
  });

  it('may have what another proof has added', () => {
    const wider = fieldKindsOf(parseJson('{"id":1}'));
    addFieldKinds(wider, fieldKindsOf(parseJson('{"id":1,"subtitle":"z"}')));
    expect(unprovedField(wider, fieldKindsOf(parseJson('{"subtitle":"y"}')), null)).toBe(null);
  });
});
