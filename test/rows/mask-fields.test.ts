import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../src/rows/json/parse-json.ts';
import { fieldMask, hashKeyMark } from '../../src/rows/mask-fields.ts';
import { asRecord, storedValue } from '../../src/rows/records/as-record.ts';
import { canonicalHash } from '../../src/rows/records/record-key.ts';

const KEY = 'a key of the source';
const hash = (text: string): string => createHmac('sha256', KEY).update(text).digest('hex').slice(0, 32);
const HASH = { exclude: false, hash: true };
const EXCLUDE = { exclude: true, hash: false };

function source(text: string) {
  return { value: parseJson(text), bytes: Buffer.from(text) };
}

function masked(text: string, fields: Parameters<typeof fieldMask>[0]): string {
  const mask = fieldMask(fields, KEY);
  const record = mask(source(text));
  expect(parseJson(record.bytes.toString())).toEqual(record.value);
  return record.bytes.toString();
}

describe('a record with hidden fields', () => {
  it.each([
    ['texts', '{"a":"x"}', { a: HASH }, { a: hash('x') }],
    ['numbers as texts of the same digits', '{"a":5,"b":"5"}', { a: HASH, b: HASH }, { a: hash('5'), b: hash('5') }],
    ['long numbers', '{"a":12345678901234567890}', { a: HASH }, { a: hash('12345678901234567890') }],
    ['no null', '{"a":null,"b":[null]}', { a: HASH, b: HASH }, { a: null, b: [null] }],
    ['each value within', '{"a":{"b":[1,{"c":true}]}}', { a: HASH }, { a: { b: [hash('1'), { c: hash('true') }] } }],
    [
      'fields in lists',
      '{"a":[{"b":"x","c":1},[{"b":"x"}]]}',
      { 'a.b': HASH },
      { a: [{ b: hash('x'), c: 1 }, [{ b: hash('x') }]] },
    ],
    ['keys with dots', '{"a.b":"x","a":{"b":"y"}}', { '["a.b"]': HASH }, { 'a.b': hash('x'), a: { b: 'y' } }],
    ['nothing where there is no such field', '{"c":1}', { a: HASH, 'c.d': EXCLUDE }, { c: 1 }],
    [
      'what is left out, with all in it',
      '{"a":{"b":1},"c":[{"d":1,"e":2}]}',
      { a: EXCLUDE, 'c.d': EXCLUDE },
      { c: [{ e: 2 }] },
    ],
    ['both', '{"a":{"b":1,"c":2}}', { a: HASH, 'a.b': EXCLUDE }, { a: { c: hash('2') } }],
  ])('hashes %s', (_, text, fields, expected) => expect(JSON.parse(masked(text, fields))).toEqual(expected));

  it('names no field that an object has from elsewhere', () => {
    expect(masked('{"__proto__":{"a":1},"a":1}', { constructor: HASH, '__proto__.a': EXCLUDE })).toBe(
      '{"__proto__":{},"a":1}',
    );
  });

  it('is stored as it is seen: other fields change nothing, and the body gives the same value again', () => {
    const mask = fieldMask({ mail: HASH, note: EXCLUDE }, KEY);
    const unwrap = [{ only: 'value' }];
    const sight = { mask, unwrap, filter: [{ field: 'note', in: ['public'] }] };
    const seen = asRecord(source('{"id":1,"mail":{"value":"x"},"note":"public"}'), sight);
    expect(seen).toMatchObject({ value: { id: 1, mail: hash('x') } });
    expect(seen.isLeftOut).toBeUndefined();
    expect(storedValue(seen.bytes.toString(), sight)).toEqual(seen.value);
    const other = asRecord(source('{"id":1,"mail":{"value":"x"},"note":"private"}'), sight);
    expect(other.isLeftOut).toBe(true);
    expect(canonicalHash(other.value)).toBe(canonicalHash(seen.value));
  });

  it('says nothing where nobody knows what is in it', () => {
    const mask = fieldMask({ a: HASH }, KEY);
    const aside = { reason: 'record_missing', detail: '' };
    expect(mask({ ...source('{"doc":{"a":"x"}}'), value: null, aside }).bytes.toString()).toBe(
      `{"doc":{"a":"${hash('x')}"}}`,
    );
    expect(mask(source('"x"')).bytes.toString()).toBe(`"${hash('x')}"`);
    const deep = `{"id":1,"b":${'['.repeat(20_000)}"x"${']'.repeat(20_000)},"a":"x"}`;
    expect(mask(source(deep)).bytes.toString()).toMatch(/^\{"left_out":"[0-9a-f]{32}"\}$/);
  });

  it('is another one under another key', () => {
    expect(hashKeyMark(KEY)).not.toBe(hashKeyMark('another'));
    expect(hashKeyMark(KEY)).not.toContain(KEY);
  });
});
