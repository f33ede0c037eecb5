import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/rows/json/parse-json.ts';
import { unwrapRecord, type UnwrapRule } from '../../../src/rows/records/as-record.ts';

const DATE: UnwrapRule = { field: '__type', equals: 'Date', value: 'iso' };

describe('unwrap', () => {
  it.each([
    [
      'a kind',
      [DATE],
      '{"at":{"__type":"Date","iso":"2026"},"b":{"__type":"File","iso":1}}',
      '{"at":"2026","b":{"__type":"File","iso":1}}',
    ],
    [
      'an only member',
      [{ only: '$oid' }],
      '{"_id":{"$oid":"5f"},"b":{"$oid":1,"c":2}}',
      '{"_id":"5f","b":{"$oid":1,"c":2}}',
    ],
    [
      'a wrapper in a wrapper',
      [{ only: '$date' }, { only: '$numberLong' }],
      '{"a":{"$date":{"$numberLong":"12"}}}',
      '{"a":"12"}',
    ],
    ['wrappers in lists', [{ only: 'v' }], '{"a":[{"v":1},[{"v":[{"v":2}]}]]}', '{"a":[1,[[2]]]}'],
    [
      'one of several locales',
      [{ keys: ['en', 'de'], value: 'en' }],
      '{"t":{"en":"x","de":"y"},"u":{"de":"z"},"w":{"en":1,"q":2},"e":{}}',
      '{"t":"x","u":null,"w":{"en":1,"q":2},"e":{}}',
    ],
    [
      'rendered text',
      [{ keys: ['rendered', 'protected'], value: 'rendered' }],
      '{"c":{"rendered":"<p>","protected":false}}',
      '{"c":"<p>"}',
    ],
    ['long digits', [{ only: 'v' }], '{"a":{"v":12345678901234567890}}', '{"a":12345678901234567890}'],
    ['a kind without its value', [DATE], '{"at":{"__type":"Date"}}', '{"at":{"__type":"Date"}}'],
  ] as [string, UnwrapRule[], string, string][])('takes %s', (_, rules, text, expected) => {
    expect(JSON.stringify(unwrapRecord(parseJson(text), rules))).toBe(expected);
  });

  it('leaves the record itself, and the very object if there is no wrapper in it', () => {
    const record = parseJson('{"v":{"a":[1,{"b":2}]}}');
    expect(unwrapRecord(record, [{ only: 'v' }])).toBe(record);
    expect(unwrapRecord(record, [DATE])).toBe(record);
  });

  it('passes what is nested too deeply', () => {
    const deep = parseJson('{"a":'.repeat(50_000) + '1' + '}'.repeat(50_000));
    expect(unwrapRecord(deep, [{ only: 'b' }])).toBe(deep);
  });
});
