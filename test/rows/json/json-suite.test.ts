import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../src/model/errors.ts';
import { parseJson } from '../../../src/rows/json/parse-json.ts';
import { selectRecords } from '../../../src/rows/records/select-records.ts';
import { jsonSuite } from '../../support/corpora.ts';

/** As the client decodes a body: strictly, a BOM left out. */
function parseBytes(bytes: Uint8Array): string {
  return JSON.stringify(parseJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes)));
}

function verdict(bytes: Uint8Array): string {
  try {
    return parseBytes(bytes);
  } catch (error) {
    return error instanceof SyncError ? error.code : 'not UTF-8';
  }
}

/** What the standard leaves to the parser. Everything is kept to the digit or refused; nothing is changed. */
const CHOICES: Record<string, string> = {
  'i_number_double_huge_neg_exp.json': '[123.456e-789]',
  'i_number_neg_int_huge_exp.json': '[-1e+9999]',
  'i_number_pos_double_huge_exp.json': '[1.5e+9999]',
  'i_number_real_neg_overflow.json': '[-123123e100000]',
  'i_number_real_pos_overflow.json': '[123123e100000]',
  'i_number_real_underflow.json': '[123e-10000000]',
  'i_number_too_big_neg_int.json': '[-123123123123123123123123123123]',
  'i_number_too_big_pos_int.json': '[100000000000000000000]',
  'i_number_very_big_negative_int.json': '[-237462374673276894279832749832423479823246327846]',
  'i_object_key_lone_2nd_surrogate.json': '{"\\udfaa":0}',
  'i_string_1st_surrogate_but_2nd_missing.json': '["\\udada"]',
  'i_string_1st_valid_surrogate_2nd_invalid.json': '["\\ud888ሴ"]',
  'i_string_UTF-16LE_with_BOM.json': 'not UTF-8',
  'i_string_UTF-8_invalid_sequence.json': 'not UTF-8',
  'i_string_UTF8_surrogate_U+D800.json': 'not UTF-8',
  'i_string_incomplete_surrogate_and_escape_valid.json': '["\\ud800\\n"]',
  'i_string_incomplete_surrogate_pair.json': '["\\udd1ea"]',
  'i_string_incomplete_surrogates_escape_valid.json': '["\\ud800\\ud800\\n"]',
  'i_string_invalid_lonely_surrogate.json': '["\\ud800"]',
  'i_string_invalid_surrogate.json': '["\\ud800abc"]',
  'i_string_invalid_utf-8.json': 'not UTF-8',
  'i_string_inverted_surrogates_U+1D11E.json': '["\\udd1e\\ud834"]',
  'i_string_iso_latin_1.json': 'not UTF-8',
  'i_string_lone_second_surrogate.json': '["\\udfaa"]',
  'i_string_lone_utf8_continuation_byte.json': 'not UTF-8',
  'i_string_not_in_unicode_range.json': 'not UTF-8',
  'i_string_overlong_sequence_2_bytes.json': 'not UTF-8',
  'i_string_overlong_sequence_6_bytes.json': 'not UTF-8',
  'i_string_overlong_sequence_6_bytes_null.json': 'not UTF-8',
  'i_string_truncated-utf-8.json': 'not UTF-8',
  'i_string_utf16BE_no_BOM.json': 'not UTF-8',
  'i_string_utf16LE_no_BOM.json': 'not UTF-8',
  'i_structure_500_nested_arrays.json': `${'['.repeat(500)}${']'.repeat(500)}`,
  'i_structure_UTF-8_BOM_empty_object.json': '{}',
};

const TRANSFORMS: Record<string, string> = {
  'number_-9223372036854775808.json': '[-9223372036854775808]',
  'number_-9223372036854775809.json': '[-9223372036854775809]',
  'number_1.0.json': '[1]',
  'number_1.000000000000000005.json': '[1.000000000000000005]',
  'number_1000000000000000.json': '[1000000000000000]',
  'number_10000000000000000999.json': '[10000000000000000999]',
  'number_1e-999.json': '[1E-999]',
  'number_1e6.json': '[1000000]',
  'number_9223372036854775807.json': '[9223372036854775807]',
  'number_9223372036854775808.json': '[9223372036854775808]',
  'object_key_nfc_nfd.json': '{"\u00e9":"NFC","e\u0301":"NFD"}',
  'object_key_nfd_nfc.json': '{"e\u0301":"NFD","\u00e9":"NFC"}',
  'object_same_key_different_values.json': '{"a":2}',
  'object_same_key_same_value.json': '{"a":1}',
  'object_same_key_unclear_values.json': '{"a":0}',
  'string_1_escaped_invalid_codepoint.json': '["\\ud800"]',
  'string_1_invalid_codepoint.json': 'not UTF-8',
  'string_2_escaped_invalid_codepoints.json': '["\\ud800\\ud800"]',
  'string_2_invalid_codepoints.json': 'not UTF-8',
  'string_3_escaped_invalid_codepoints.json': '["\\ud800\\ud800\\ud800"]',
  'string_3_invalid_codepoints.json': 'not UTF-8',
  'string_with_escaped_NULL.json': '["A\\u0000B"]',
};

function named(prefix: string): [string, Buffer][] {
  return [...jsonSuite('test_parsing')].filter(([name]) => name.startsWith(prefix));
}

describe('the JSON test suite as page bodies', () => {
  it('F089 accepts all 95 texts that must be accepted, with the value that JSON.parse gives', () => {
    const texts = named('y_');
    expect(texts).toHaveLength(95);
    const plain = texts.map(([name, bytes]) => [name, JSON.stringify(JSON.parse(bytes.toString()))]);
    expect(texts.map(([name, bytes]) => [name, parseBytes(bytes)])).toEqual(plain);
  });

  it('F089 refuses all 188 texts that must be refused', () => {
    const texts = named('n_');
    expect(texts).toHaveLength(188);
    const accepted = texts.filter(([, bytes]) => !['bad_json', 'not UTF-8'].includes(verdict(bytes)));
    expect(accepted.map(([name]) => name)).toEqual([]);
  });

  it('F090 T12 decides the 35 open cases as documented', () => {
    const texts = named('i_').filter(([name]) => name !== 'i_number_huge_exp.json');
    expect(Object.fromEntries(texts.map(([name, bytes]) => [name, verdict(bytes)]))).toEqual(CHOICES);
    expect(texts).toHaveLength(34);
  });

  it('F090 keeps an exponent of a hundred digits as it is', () => {
    const bytes = jsonSuite('test_parsing').get('i_number_huge_exp.json') ?? Buffer.of();
    expect(parseBytes(bytes)).toBe(bytes.toString().trim());
  });

  it('F090 gives each of the 22 transform cases back exactly', () => {
    const texts = [...jsonSuite('test_transform')];
    expect(Object.fromEntries(texts.map(([name, bytes]) => [name, verdict(bytes)]))).toEqual(TRANSFORMS);
    expect(texts).toHaveLength(22);
  });

  it('slices the elements of every accepted array so that each parses to itself', () => {
    let sliced = 0;
    for (const [, bytes] of [...named('y_'), ...named('i_')]) {
      if (['bad_json', 'not UTF-8'].includes(verdict(bytes))) continue;
      const text = new TextDecoder().decode(bytes);
      const records = selectRecords(Buffer.from(text), parseJson(text), '') ?? [];
      expect(records.map((record) => parseJson(record.bytes.toString()))).toEqual(
        records.map((record) => record.value),
      );
      sliced += records.length;
    }
    expect(sliced).toBe(100);
  });
});
