import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/model/json.ts';
import { errorIn, partialSignIn, searchableText } from '../../../src/http/outcome/outcome-table.ts';

const DATA = [{ id: '1' }];

describe('the error that a body carries', () => {
  it('is told beside records too, by either name', () => {
    const json = { data: DATA, error: 'one', errors: [{ message: 'two' }] };
    expect(errorIn({ json, isRecord: false })).toBe('one [{"message":"two"}]');
  });

  it('is no field of a record, and none of a body that is no object', () => {
    expect(errorIn({ json: { id: '1', error: 'x' }, isRecord: true })).toBe('');
    expect(errorIn({ json: [{ error: 'x' }], isRecord: false })).toBe('');
    expect(errorIn({ json: undefined, isRecord: false })).toBe('');
  });
});

describe('an answer that leaves something out', () => {
  it.each(['partial', 'is_partial', 'partialResults', 'incomplete_results', 'timed_out', 'timedOut'])(
    'says so by %s',
    (key) => {
      expect(partialSignIn({ json: { data: DATA, [key]: true }, isRecord: false })).toBe(key);
      expect(partialSignIn({ json: { data: DATA, meta: { [key]: true } }, isRecord: false })).toBe(`meta.${key}`);
      expect(partialSignIn({ json: { data: DATA, [key]: false }, isRecord: false })).toBe('');
      expect(partialSignIn({ json: { id: '1', [key]: true }, isRecord: true })).toBe('');
    },
  );

  it('says nothing within its records', () => {
    expect(partialSignIn({ json: { data: [{ id: '1', partial: true }] }, isRecord: false })).toBe('');
  });
});

it('a value too deep to be written is a sign for it', () => {
  let deep: JsonValue = [];
  for (let level = 0; level < 100_000; level += 1) deep = [deep];
  expect(searchableText(deep)).toBe('…');
});
