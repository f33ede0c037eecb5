import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../src/model/errors.ts';
import { fitsDouble, hasInexactNumber, parseJson } from '../../../src/rows/json/parse-json.ts';

describe('parseJson', () => {
  it.each([
    ['an integer beyond 2^53', '[9007199254740993]'],
    ['the even integer after 2^53', '[9007199254740994]'],
    ['a 20-digit id in the middle of a record', '{"a":"x","id": 12345678901234567890 ,"b":1}'],
    ['a negative one at the end of the text', '-12345678901234567890'],
    ['a decimal with more digits than a double has', '{"x":0.12345678901234567890123}'],
    ['one with an exponent', '[1.23456789012345678901e-5]'],
    ['a number beyond every double', '[1e400]'],
    ['a number below every double', '[1E-400]'],
    ['one with digits that a subnormal number loses', '[1.2345e-320]'],
    ['a tenth with 17 digits, as printf writes it', '[0.10000000000000001]'],
    ['all digits of the double that is nearest to a tenth', '[0.1000000000000000055511151231257827]'],
    ['an exact double that has a shorter text', '[98331783783160.625]'],
    ['more digits of the least double than it needs', '[4.94e-324]'],
  ])('F092 keeps %s by its digits', (_, text) => {
    expect(JSON.stringify(parseJson(text))).toBe(text.replaceAll(' ', ''));
  });

  it.each([
    ['the greatest safe integer', '[9007199254740991]'],
    ['a double with 17 digits, as programs print it', '[0.30000000000000004]'],
    ['one with an exponent', '[1.2345678901234566e-7]'],
    ['a zero with an exponent', '[0.0000000000000000e-999]'],
    ['trailing zeros', '[1.100000000000000000000]'],
    ['a hundred with three digits of exponent', '[1e+002]'],
    ['digits in a text', '["12345678901234567890, 1e400 ]"]'],
  ])('F092 leaves %s a plain value', (_, text) => {
    expect(parseJson(text)).toStrictEqual(JSON.parse(text));
  });

  it('F092 reads -0 as the double -0', () => {
    expect(parseJson('[-0]')).toStrictEqual([-0]);
  });

  it('finds every number that does not fit, wherever it stands', () => {
    const filler = fc.stringMatching(/^[ \n]{0,20}$/);
    fc.assert(
      fc.property(filler, filler, fc.bigInt({ min: 2n ** 53n, max: 10n ** 40n }), (before, after, number) => {
        expect(hasInexactNumber(`{"k":${before}${number}${after}}`)).toBe(true);
        expect(JSON.stringify(parseJson(`[${before}-${number}${after}]`.replace('- ', '-')))).toBe(`[-${number}]`);
      }),
      { examples: [['', '', 2n ** 53n]] },
    );
  });

  it('holds every finite double to fit its own shortest text', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (double) => {
        fc.pre(!Number.isInteger(double) || Number.isSafeInteger(double));
        expect(fitsDouble(String(double))).toBe(true);
        expect(fitsDouble(double.toExponential())).toBe(true);
      }),
      { examples: [[Number('-98331783783160.62')]] },
    );
  });

  it('F098 T12 keeps __proto__ as an ordinary key and pollutes nothing', () => {
    const value = parseJson('{"__proto__":{"polluted":true},"id":12345678901234567890}');
    expect(Object.keys(value ?? {})).toEqual(['__proto__', 'id']);
    expect(Reflect.get({}, 'polluted')).toBeUndefined();
  });

  it('F099 takes the last of two equal keys, with and without long numbers', () => {
    expect(parseJson('{"a":1,"a":2}')).toEqual({ a: 2 });
    expect(JSON.stringify(parseJson('{"a":12345678901234567890,"a":2}'))).toBe('{"a":2}');
  });

  it('F096 T13 parses a million levels, also beside a number that needs the slower way', () => {
    const deep = '['.repeat(1_000_000) + ']'.repeat(1_000_000);
    expect(Array.isArray(parseJson(deep))).toBe(true);
    const page = parseJson(`{"data":[{"id":12345678901234567890,"s":"] \\" ["},{"id":2,"deep":${deep}}]}`);
    expect(page).toMatchObject({ data: [{ s: '] " [' }, { id: 2 }] });
    expect(page).toHaveProperty('data.0.id', JSON.rawJSON('12345678901234567890'));
  });

  it('says where the text breaks, as one line, and asks for another attempt', () => {
    expect(() => parseJson('{"a":1,\n}')).toThrow(/^the body is not valid JSON: .*position 8/);
    expect(() => parseJson('{')).toThrow(expect.objectContaining({ code: 'bad_json', recovery: 'retry' }));
    expect(() => parseJson('[1,')).toThrow(/3 characters/);
    expect(() => parseJson('[\u001b[31m\n"x')).toThrow(/^\P{Cc}*$/u);
    expect(() => parseJson('')).toThrow(SyncError);
  });
});
