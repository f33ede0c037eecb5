import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/model/json.ts';
import { cutOf, parseBody, parseInParts } from '../../../src/shape/json/parse-body.ts';
import { parseJson } from '../../../src/shape/json/parse-json.ts';
import { selectRecords } from '../../../src/shape/records/select-records.ts';
import { jsonSuite, naughtyStrings } from '../../support/corpora.ts';

/** Sources of records at a path, or null: as they are cut byte by byte. */
function cutSlowly(bytes: Buffer, path: string): string[] | null {
  return selectRecords(bytes, parseJson(bytes.toString()), path)?.map((record) => record.bytes.toString()) ?? null;
}

function parsedOrNull(text: string): JsonValue {
  try {
    return parseJson(text);
  } catch {
    return null;
  }
}

/** Expects the body to be parsed and cut as the slow way does it, if it is cut at all; returns whether it was. */
function sameAsSlow(text: string, path = 'data'): boolean {
  const bytes = Buffer.from(text);
  const json = parseInParts(bytes);
  if (json === null) return false;
  expect(JSON.stringify(json)).toBe(JSON.stringify(parsedOrNull(text)));
  expect(selectRecords(bytes, json, path)?.map((record) => record.bytes.toString()) ?? null).toEqual(
    cutSlowly(bytes, path),
  );
  return true;
}

describe('parseInParts', () => {
  it.each([
    ['a border within a text', '{"data":[{"id":"},{\\"id\\":"},{"id":2}]}'],
    ['a border that a text seems to end', '{"data":[{"id":"},{","x":1},{"id":"},{"},{"id":3}]}'],
    ['escaped quotes and backslashes', '{"data":[{"id":"\\\\"},{"id":"\\"},{\\\\"},{"id":"\\\\\\""}]}'],
    [
      'objects of the same kind in each',
      '{"data":[{"id":1,"c":[{"id":2},{"id":3}]},{"id":4,"c":[{"id":4},{"id":4}]}]}',
    ],
    ['objects of the same kind in a later one', '{"data":[{"id":1},{"id":4,"c":[{"id":4},{"id":4}]},{"id":5}]}'],
    ['as many seams within as are missing', '{"data":[{"id":1},{"id":2,"c":[{"id":2},{"id":2}]},  {"id":2}]}'],
    ['the same in a key that comes twice', '{"data":[{"id":1},{"id":2,"c":[{"id":2},{"id":2}],"c":0},  {"id":2}]}'],
    ['white space of all kinds', '\n{ "data" :\t[\r\n {"id":1} ,\n\t{ "id" : 2 }\n,{"id":3}, {"id":4} ] }\n'],
    [
      'always the same white space',
      '{"data": [\n  {\n    "id": 1\n  },\n  {\n    "id": 2\n  },\n  {\n    "id": 3\n  }\n]}',
    ],
    ['characters of several bytes', '{"data":[{"id":"é"},{"id":"🙂},{"},{"id":"\u2028"},{"é":4}]}'],
    ['equal records', '{"data":[{"id":1},{"id":1},{"id":1}]}'],
    ['other first keys', '{"data":[{"id":1},{"x":2},{},{"id":3},{"id":4}]}'],
    ['empty objects', '{"data":[{},{},{ },{}]}'],
    ['numbers kept by their digits', '{"data":[{"id":12345678901234567890},{"id":1e400},{"id":-0},{"id":0.1000}]}'],
    ['keys that are escaped', '{"data":[{"\\\\":1},{"\\n":2},{"\\u0061":3}]}'],
    ['the key of its parent', '{"data":[{"__proto__":1},{"__proto__":{"a":2}}]}'],
    ['another list behind', '{"data":[{"id":1},{"id":2}],"included":[{"id":3},{"id":4}],"total":2}'],
    ['another list before', '{"links":[{"id":3},{"id":4}],"data":[{"id":1},{"id":2}]}'],
    ['the same key once more', '{"data":[{"id":1},{"id":2}],"data":[{"id":3}]}'],
    ['the same key once more, as a list', '{"data":[{"id":1}],"data":[{"id":3},{"id":4}]}'],
    ['a key that hides the place', '{"data":[{"id":1},{"id":2}],"__proto__":[{"id":3},{"id":4}]}'],
  ])('cuts records with %s', (_, text) => {
    expect(sameAsSlow(text)).toBe(true);
  });

  it.each([
    ['the body itself', ' [{"id":1},{"id":2}] ', ''],
    ['a list of lists', '[[{"id":1},{"id":2}],[{"id":3},{"id":4}]]', '[1]'],
    ['a list in a map', '{"a":{"b":[{"id":1},{"id":2}]}}', 'a.b'],
    ['a part of each', '{"rows":[{"doc":{"id": 1}},{"doc":{"id":2}},{"x":0}]}', 'rows[*].doc'],
    ['each element', '{"rows":[{"id":1},{"id":2}]}', 'rows[*]'],
    ['a path that leads nowhere', '{"rows":[{"id":1},{"id":2}]}', 'data'],
  ])('cuts %s', (_, text, path) => {
    expect(sameAsSlow(text, path)).toBe(true);
  });

  it.each([
    ['between records', '{"data":[{"id":1}\u0001,{"id":2}]}'],
    ['between later records', '{"data":[{"id":1},{"id":2},\v{"id":3}]}'],
    ['behind the last one', '{"data":[{"id":1},{"id":2}\u00a0]}'],
    ['a comma at the end', '{"data":[{"id":1},{"id":2},]}'],
    ['no comma', '{"data":[{"id":1},{"id":2}{"id":3}]}'],
    ['no end', '{"data":[{"id":1},{"id":2}'],
    ['another end', '{"data":[{"id":1},{"id":2}}'],
    ['a list within a text that does not end', '{"data":"[{"id":1},{"id":2}]}'],
    ['a list within a text', '{"a":"[{"id":1},{"id":2}]"}'],
    ['a list behind a backslash', '{"a":"\\[{"id":1},{"id":2}]"}'],
    ['a list where none may stand', '{"data":1[{"id":1},{"id":2}]}'],
    ['something behind', '[{"id":1},{"id":2}]]'],
    ['an element that is none', '[{"id":1},{"id":2},{"id":03}]'],
  ])('refuses what is not valid: %s', (_, text) => {
    expect([parsedOrNull(text), parseInParts(Buffer.from(text))]).toEqual([null, null]);
    const padded = text + ' '.repeat(10_000);
    expect(() => parseBody(Buffer.from(padded))).toThrow(messageOfSlow(padded));
  });

  it('is the slow way for random bodies', () => {
    let cut = 0;
    fc.assert(
      fc.property(bodies, (text) => {
        cut += sameAsSlow(text) ? 1 : 0;
      }),
      { numRuns: 1_500, seed: 7 },
    );
    expect(cut).toBeGreaterThan(1_000);
  });

  it('takes nothing that the corpora refuse, and nothing otherwise', () => {
    for (const bytes of jsonSuite('test_parsing').values()) {
      const source = bytes.toString();
      sameAsSlow(source, '');
      for (const list of [`[{"a":${source}},{"a":1}]`, `[{"a":0},{"a":${source}},{"a":1}]`, `[{},{}${source}]`]) {
        sameAsSlow(`{"data":${list}}`);
      }
    }
    const naughty = naughtyStrings().map((text) => ({ [text.slice(0, 20)]: text, text }));
    for (const list of [naughty, naughty.toReversed()]) {
      expect(sameAsSlow(JSON.stringify({ data: list }))).toBe(true);
      expect(sameAsSlow(JSON.stringify({ data: list }, null, 2))).toBe(true);
    }
  });

  it('takes its time in proportion to the text, whatever stands in it', () => {
    const deep = 20_000;
    const nested = `${'[{"a":'.repeat(deep)}1${'}]'.repeat(deep)}`;
    expect(parseInParts(Buffer.from(nested))).toBeNull();
    expect(sameAsSlow(`{"data":[${'{"a":1},'.repeat(deep)}{"b":[{"a":1},{"a":2}]},{"c":1}]}`)).toBe(true);
    const mixed = `{"data":[${'{"a":1},[],'.repeat(deep)}[]]}`;
    expect(parseInParts(Buffer.from(mixed))).toBeNull();
  });

  it('knows where the elements lie for these bytes only', () => {
    const bytes = Buffer.from(`[${'{"id":1},'.repeat(2_000)}{"id":1}]`);
    const json = parseBody(bytes);
    const array = Array.isArray(json) ? json : [];
    expect(cutOf(bytes, array)?.borders.slice(0, 4)).toEqual([1, 9, 10, 18]);
    expect(cutOf(Buffer.from(bytes), array)).toBeNull();
    array.pop();
    expect(cutOf(bytes, array)).toBeNull();
  });
});

function messageOfSlow(text: string): string {
  try {
    parseJson(text);
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
  return 'not refused';
}

/** Texts that look like structure. */
const text = fc
  .array(fc.constantFrom('},{"id":', '},{', '"', '\\', '[{"id":', '{', '}', '[', ']', ',', ':', ' ', 'é', '🙂', 'id'), {
    maxLength: 4,
  })
  .map((parts) => parts.join(''));
const scalar = fc.oneof(
  text.map((value) => JSON.stringify(value)),
  fc.constantFrom('1', '-0', '1.50', 'null', 'true', '12345678901234567890', '1e999', '"\\u007d,{\\"id\\":"'),
);
const blank = fc.constantFrom('', '', '', '', ' ', '\n', '\t\r\n ');
const key = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('"id"', '"id"', '"data"', '"c"') },
  { weight: 1, arbitrary: text.map((value) => JSON.stringify(value)) },
);

/** Sources of JSON with keys that come twice, and white space anywhere. */
const { value: anyValue, object: anyObject } = fc.letrec<{ value: string; object: string; list: string }>((tie) => ({
  value: fc.oneof({ maxDepth: 3, depthIdentifier: 'json' }, scalar, tie('list'), tie('object')),
  list: fc
    .tuple(fc.array(fc.oneof({ depthIdentifier: 'json' }, tie('value'), tie('object')), { maxLength: 4 }), blank, blank)
    .map(([values, before, after]) => `[${before}${values.join(`${after},${before}`)}${after}]`),
  object: fc
    .tuple(fc.array(fc.tuple(key, blank, tie('value')), { maxLength: 4 }), blank, blank)
    .map(
      ([members, before, after]) =>
        `{${before}${members.map(([name, space, value]) => `${name}${space}:${value}`).join(`${after},${before}`)}${after}}`,
    ),
}));
const records = fc
  .tuple(fc.array(fc.tuple(anyObject, blank, blank), { minLength: 1, maxLength: 8 }), fc.boolean())
  .map(([all, isTight]) => `[${all.map(([record, ...blanks]) => (isTight ? record : blanks.join(record))).join(',')}]`);
const bodies = fc
  .tuple(records, anyValue, blank)
  .map(([list, other, space]) => `{"a":${other},"data":${space}${list},"b":${other}}`);
