import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/shape/json/parse-json.ts';
import { type FieldCondition, meets } from '../../../src/shape/records/field-at.ts';

describe('a condition on a field', () => {
  it.each([
    ['{"type":"post"}', { field: 'type', in: ['post', 'page'] }, true],
    ['{"type":"draft"}', { field: 'type', in: ['post', 'page'] }, false],
    ['{}', { field: 'type', in: ['post'] }, false],
    ['{}', { field: 'type', in: [null] }, true],
    ['{"type":"trash"}', { field: 'type', not_in: ['trash'] }, false],
    ['{}', { field: 'type', not_in: ['trash'] }, true],
    ['{"tags":["a","b"]}', { field: 'tags', in: ['b'] }, true],
    ['{"tags":["a","b"]}', { field: 'tags', not_in: ['b'] }, false],
    ['{"gone":null}', { field: 'gone', exists: false }, true],
    ['{"gone":"2026"}', { field: 'gone', exists: false }, false],
    ['{"gone":0}', { field: 'gone', exists: true }, true],
    ['{"site":12345678901234567890}', { field: 'site', in: ['12345678901234567890'] }, true],
    ['{"n":5}', { field: 'n', in: ['5'] }, false],
    ['{"a":{"b.c":1}}', { field: 'a."b.c"', in: [1] }, true],
    ['{"s":"x"}', { field: 's', exists: true, not_in: ['x'] }, false],
  ] as [string, FieldCondition, boolean][])('%s %o %s', (record, condition, expected) => {
    expect(meets(parseJson(record), [condition])).toBe(expected);
  });

  it('must be met by all of them', () => {
    const record = parseJson('{"a":1,"b":2}');
    expect(meets(record, [])).toBe(true);
    expect(
      meets(record, [
        { field: 'a', in: [1] },
        { field: 'b', in: [1] },
      ]),
    ).toBe(false);
  });
});
