import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/rows/json/parse-json.ts';
import { countRecords, selectRecords } from '../../../src/rows/records/select-records.ts';

function texts(text: string, path: string): string[] | undefined {
  return selectRecords(Buffer.from(text), parseJson(text), path)?.map((record) => record.bytes.toString());
}

describe('selectRecords', () => {
  it.each([
    ['the body itself', ' [ {"id": 1} , {"id":2}\n]\n', '', ['{"id": 1}', '{"id":2}']],
    ['a field', '{"total":2,"data":[{"id":1},{"id":2}]}', 'data', ['{"id":1}', '{"id":2}']],
    ['a field within a field', '{"a":{"x":[0],"b":[1, 2]},"b":[3]}', 'a.b', ['1', '2']],
    ['a field written with escapes', '{"d\\u0061ta":["x"]}', 'data', ['"x"']],
    ['a key with a quote in it', '{"a\\"b":[1]}', 'a"b', ['1']],
    [
      'brackets, quotes and backslashes in texts',
      '{"data":["]\\\\","}\\"[",{"k]":"\\\\\\""}]}',
      'data',
      ['"]\\\\"', '"}\\"["', '{"k]":"\\\\\\""}'],
    ],
    [
      'every kind of value',
      '{"data":[null,true,-1.5e3,"",[],{},[[1],{"a":[]}]]}',
      'data',
      ['null', 'true', '-1.5e3', '""', '[]', '{}', '[[1],{"a":[]}]'],
    ],
    ['an empty array', '{"data":[ ]}', 'data', []],
    ['digits that a double would lose', '[12345678901234567890]', '', ['12345678901234567890']],
  ])('finds the records in %s', (_, text, path, expected) => {
    expect(texts(text, path)).toEqual(expected);
  });

  it.each([
    ['missing', '{"items":[]}', 'data'],
    ['an object', '{"data":{}}', 'data'],
    ['null', '{"data":null}', 'data'],
    ['below an array', '{"data":[{"x":[]}]}', 'data.0.x'],
    ['inherited', '{}', 'constructor'],
    ['a body that is no array', '{"data":[]}', ''],
    ['inside a number kept by its digits', '12345678901234567890', 'rawJSON'],
  ])('gives null where the path is %s', (_, text, path) => {
    expect(selectRecords(Buffer.from(text), parseJson(text), path)).toBeNull();
  });

  it.each([
    ['an element', '{"posts":[{"items":[1]},{"items":[2, 3]}]}', 'posts[1].items', ['2', '3']],
    ['the last element', '[[1],[2]]', '[-1]', ['2']],
    ['each element', '{"rows":[{"id":1}, {"id":2}]}', 'rows[*]', ['{"id":1}', '{"id":2}']],
    [
      'an object in each element',
      '{"rows":[{"id":"x","doc":{"a": 1.10}},{"doc":{}}]}',
      'rows[*].doc',
      ['{"a": 1.10}', '{}'],
    ],
    ['an array in each element', '[{"a":[1,2]},{"a":[]},{"a":[3]}]', '[*].a', ['1', '2', '3']],
    [
      'the values of a map, in its order',
      '{"p":{"b":{"x":1},"10":{"x":2},"9":{}}}',
      'p.*',
      ['{"x":1}', '{"x":2}', '{}'],
    ],
    ['a map with a key twice', '{"p":{"a":{"x":1},"a":{"x":2}}}', 'p.*', ['{"x":2}']],
    ['an empty map that is written as an array', '{"p":[]}', 'p.*', []],
    [
      'each node of the edges of a map',
      '{"a":{"e":[{"n":{"i":1}}]},"b":{"e":[{"n":{"i":2}}]}}',
      '*.e[*].n',
      ['{"i":1}', '{"i":2}'],
    ],
    ['a key with dots and brackets', '{"a.b[0]":{"*":[1]}}', `'a.b[0]'["*"]`, ['1']],
    [
      'digits that a double would lose',
      '{"r":[{"d":{"n":12345678901234567890}}]}',
      'r[*].d',
      ['{"n":12345678901234567890}'],
    ],
  ])('finds the records behind %s', (_, text, path, expected) => {
    expect(texts(text, path)).toEqual(expected);
    expect(countRecords(parseJson(text), path)).toBe(expected.length);
  });

  it.each([
    ['{"rows":[{"id":1},{"doc":null,"id":2},null,{"doc":{"id":3}},{"doc":5}]}', 'rows[*].doc'],
    ['{"rows":{"a":{"id":1},"b":{"doc":null,"id":2},"c":null,"d":{"doc":{"id":3}},"e":{"doc":5}}}', 'rows.*.doc'],
  ])('has every entry without a record set aside with its own body: %s', (text, path) => {
    const found = selectRecords(Buffer.from(text), parseJson(text), path) ?? [];
    expect(found.map(({ rejection }) => rejection?.reason)).toEqual([
      'record_missing',
      'record_missing',
      'record_missing',
      undefined,
      'record_missing',
    ]);
    const bodies = ['{"id":1}', '{"doc":null,"id":2}', 'null', '{"id":3}', '{"doc":5}'];
    expect(found.map(({ bytes }) => bytes.toString())).toEqual(bodies);
    expect(found[0]?.value).toBeNull();
  });

  it.each([
    ['{"rows":{"doc":1}}', 'rows[*].doc'],
    ['{"query":{}}', 'query.pages.*'],
    ['{"query":{"pages":5}}', 'query.pages.*'],
    ['{"posts":[]}', 'posts[0].items'],
  ])('gives null where the way to the entries is missing: %s', (text, path) => {
    expect(selectRecords(Buffer.from(text), parseJson(text), path)).toBeNull();
  });

  it('adds the key of a map as a field in front, unless the record has it', () => {
    const text = '{"p":{"a":{"n": 1.0},"b\\n":{ },"c":{"k":7}}}';
    const found = selectRecords(Buffer.from(text), parseJson(text), 'p.*', 'k') ?? [];
    expect(found.map(({ bytes }) => bytes.toString())).toEqual(['{"k":"a","n": 1.0}', '{"k":"b\\n" }', '{"k":7}']);
    for (const { bytes, value } of found) expect(parseJson(bytes.toString())).toEqual(value);
  });

  it('F099 slices the last of two equal keys, as JSON.parse reads it, on every level', () => {
    expect(texts('{"a":{"b":[1]},"a":{"b":[2],"b":[3]},"c":0}', 'a.b')).toEqual(['3']);
  });

  it('slices texts that parse to their values, in any layout', () => {
    const value = fc.jsonValue({ maxDepth: 4 });
    fc.assert(
      fc.property(fc.array(value), value, fc.constantFrom(undefined, 1, '\t', '\r\n '), (records, other, space) => {
        const text = JSON.stringify({ other, '"data"': { data: records }, last: other }, null, space);
        const json = parseJson(text);
        const found = selectRecords(Buffer.from(text), json, `'"data"'.data`) ?? [];
        expect(JSON.stringify(found.map((record) => record.value))).toBe(JSON.stringify(records));
        for (const record of found) expect(parseJson(record.bytes.toString())).toStrictEqual(record.value);
      }),
    );
  });

  it('F096 T13 passes a million levels', () => {
    const deep = '['.repeat(1_000_000) + ']'.repeat(1_000_000);
    const found = texts(`{"data":[1,{"x":${deep}},3]}`, 'data') ?? [];
    expect(found.map((text) => text.length)).toEqual([1, deep.length + 6, 1]);
  });
});
