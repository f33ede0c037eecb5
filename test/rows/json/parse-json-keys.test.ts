import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/rows/json/parse-json.ts';
import { canonicalJson } from '../../../src/rows/json/canonical-json.ts';

/** Ways to write one character between quotes. */
function waysOf(char: string): string[] {
  const code = `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const own = char === '"' || char === '\\' || char === '\n' ? JSON.stringify(char).slice(1, -1) : char;
  return char === '/' ? [own, code, '\\/'] : [own, code];
}

const char = fc
  .constantFrom(...'a b \\ u 0 6 1 n " / Ä Ł'.split(' '), '\n')
  .chain((one) => fc.constantFrom(...waysOf(one)).map((way) => ({ one, way })));
/** A key, and how it is written. */
const key = fc
  .array(char, { maxLength: 3 })
  .map((chars) => ({ key: chars.map(({ one }) => one).join(''), way: chars.map(({ way }) => way).join('') }));

interface Written {
  text: string;
  /** What it says, with members in pairs. */
  says: unknown;
}

const { value } = fc.letrec<{ value: Written }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constantFrom('1', '2.5', 'true', 'null', '12345678901234567890').map((text) => ({ text, says: `is ${text}` })),
    key.map(({ key: says, way }) => ({ text: `"${way}"`, says })),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => ({
      text: `[ ${items.map(({ text }) => text).join(' ,')} ]`,
      says: items.map(({ says }) => says),
    })),
    fc.array(fc.tuple(key, tie('value')), { maxLength: 4 }).map((members) => ({
      text: `{${members.map(([{ way }, { text }]) => ` "${way}" : ${text}`).join(',')}}`,
      says: new Map(members.map(([{ key: name }, { says }]) => [name, says])),
    })),
  ),
}));

/** A parsed value in the same words. */
function said(parsed: unknown): unknown {
  if (typeof parsed === 'string') return parsed;
  if (Array.isArray(parsed)) return parsed.map(said);
  if (typeof parsed !== 'object' || parsed === null || JSON.isRawJSON(parsed)) return `is ${JSON.stringify(parsed)}`;
  return new Map(Object.entries(parsed).map(([name, member]) => [name, said(member)]));
}

describe('keys', () => {
  it.each([
    ['{"h":1,"\\n":2}', ['h', '\n'], '{"h":1,"\\\\":0}'],
    ['{"h":1,"\\u0061":2}', ['h', 'a'], '{"h":1,"\\\\":0}'],
    ['{"h":1,"\\"":12345678901234567890}', ['h', '"'], '{"h":1,"\\\\":0}'],
    ['{"k":1,"u\\u002f":2}', ['k', 'u/'], '{"k":1,"u\\\\":0}'],
  ])('of %s are %j, also after %s', (text, keys, before) => {
    expect(Object.keys(parseJson(before) ?? {})).toHaveLength(2);
    expect(Object.keys(parseJson(text) ?? {})).toEqual(keys);
    expect(Object.keys(parseJson(text) ?? {})).toEqual(keys);
  });

  it('are those that were written, whatever was read before', () => {
    fc.assert(
      fc.property(value, ({ text, says }) => {
        // Once more, when all of it has been read before.
        for (let time = 0; time < 2; time += 1) expect(said(parseJson(text))).toEqual(says);
      }),
      { numRuns: 3_000 },
    );
  });

  it('stand in their order, the last value of two alike, beside ones with a backslash', () => {
    expect(Object.entries(parseJson('{"b":1,"\\u0061":2,"\\\\":3,"b":4,"__proto__":[ {} , [ ] ]}') ?? {})).toEqual([
      ['b', 4],
      ['a', 2],
      ['\\', 3],
      ['__proto__', [{}, []]],
    ]);
  });

  it('with a backslash stand beside numbers by their digits and any depth', () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    const parsed = parseJson(` {"\\\\" : 12345678901234567890 , "x":-0, "y": 1.50e1 ,"deep":${deep}} `);
    expect(parsed).toMatchObject({ '\\': JSON.rawJSON('12345678901234567890'), x: -0, y: 15 });
  });

  it('are compared as they were written where two databases are', () => {
    const read = ['{"h":1,"\\\\":0}', '{"h":1,"\\n":0}', '{"h":1.10,"\\u0061":0.0}'].map(canonicalJson);
    expect(read).toEqual(['{"\\\\":0,"h":1e0}', '{"\\n":0,"h":1e0}', '{"a":0,"h":11e-1}']);
  });
});
