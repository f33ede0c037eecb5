import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/rows/json/parse-json.ts';
import { keyFingerprints, recordKey } from '../../../src/rows/records/record-key.ts';

describe('recordKey', () => {
  it.each([
    ['a text as it is', '{"id":" A-1 "}', 'id', ' A-1 '],
    ['an integer', '{"id":42}', 'id', '42'],
    ['a 20-digit integer', '{"id":12345678901234567890}', 'id', '12345678901234567890'],
    ['a nested field', '{"meta":{"id":"x"}}', 'meta.id', 'x'],
    ['a text of 1,000 bytes', `{"id":"${'é'.repeat(500)}"}`, 'id', 'é'.repeat(500)],
    ['an emoji', '{"id":"🙂"}', 'id', '🙂'],
    ['a field named __proto__', '{"__proto__":"x"}', '__proto__', 'x'],
  ])('F092 takes %s', (_, text, id, key) => {
    expect(recordKey(parseJson(text), id)).toEqual({ key });
  });

  it.each([
    ['missing', '{}', 'id_missing'],
    ['missing from a record that is a text', '"x"', 'id_missing'],
    ['null', '{"id":null}', 'id_null'],
    ['empty', '{"id":""}', 'id_empty'],
    ['a boolean', '{"id":true}', 'id_type'],
    ['an object', '{"id":{"rawJSON":"1"}}', 'id_type'],
    ['an array', '{"id":[1]}', 'id_type'],
    ['a fraction', '{"id":1.5}', 'id_type'],
    ['beyond every double', '{"id":1e400}', 'id_type'],
    ['an integer by exponent only', '{"id":1e30}', 'id_type'],
    ['50 kB', `{"id":"${'x'.repeat(50_000)}"}`, 'id_too_long'],
    ['a number of 2,000 digits', `{"id":${'9'.repeat(2000)}}`, 'id_too_long'],
    ['one byte too long', `{"id":"x${'é'.repeat(500)}"}`, 'id_too_long'],
    ['with a NUL', '{"id":"a\\u0000b"}', 'id_characters'],
    ['with half a surrogate pair', '{"id":"a\\ud800"}', 'id_characters'],
  ])('F104 refuses an id that is %s', (_, text, reason) => {
    expect(recordKey(parseJson(text), 'id')).toEqual({ reject: { reason, detail: expect.stringContaining('id') } });
  });

  it('makes one key of several fields, which no other parts give', () => {
    const [plain, ...quoted] = [
      '{"page":"a","at":{"day":20240101}}',
      '{"page":"a\\",\\"b","at":{"day":"c"}}',
      '{"page":"a","at":{"day":"b\\",\\"c"}}',
    ].map((text) => recordKey(parseJson(text), ['page', 'at.day']));
    expect(plain).toEqual({ key: '["a","20240101"]' });
    expect(quoted[0]).not.toEqual(quoted[1]);
  });

  it.each([
    ['null', '{"page":"a","day":null}', '["a",null]'],
    ['null first', '{"page":null,"day":5}', '[null,"5"]'],
    ['the empty text', '{"page":"a","day":""}', '["a",""]'],
    ['the word null', '{"page":"a","day":"null"}', '["a","null"]'],
    ['nothing but null', '{"page":null,"day":null}', '[null,null]'],
    ['an integer', '{"page":"a","day":5}', '["a","5"]'],
    ['the same integer as a text', '{"page":"a","day":"5"}', '["a","5"]'],
  ])('keeps a part of several that is %s apart from all others but the same digits', (_, text, key) => {
    expect(recordKey(parseJson(text), ['page', 'day'])).toEqual({ key });
  });

  it.each([
    ['one of them is missing', '{"page":"a"}', 'id_missing'],
    ['one of them holds a NUL', '{"page":"\\u0000","day":1}', 'id_characters'],
    ['they are too long together', `{"page":"${'x'.repeat(600)}","day":"${'y'.repeat(600)}"}`, 'id_too_long'],
  ])('F104 refuses several fields where %s', (_, text, reason) => {
    expect(recordKey(parseJson(text), ['page', 'day'])).toMatchObject({ reject: { reason } });
  });
});

it('the fingerprints of keys stay as earlier versions have stored them', () => {
  expect(keyFingerprints(['1', 'post-7']).toString('hex')).toBe('8f751f5545b2ccd7575501caaec657a6');
});
