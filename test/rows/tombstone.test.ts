import { describe, expect, it } from 'vitest';
import { type DeletedField, tombstoneOf } from '../../src/rows/columns/updated-time.ts';
import { parseJson } from '../../src/rows/json/parse-json.ts';

function at(deleted: DeletedField | DeletedField[] | null, text: string, times = {}): string | null | undefined {
  return tombstoneOf(parseJson(text), { deleted, times })?.at;
}

describe('a tombstone', () => {
  it.for([
    ['{}', undefined],
    ['{"gone":null}', undefined],
    ['{"gone":false}', undefined],
    ['{"gone":0}', undefined],
    ['{"gone":"0"}', undefined],
    ['{"gone":""}', undefined],
    ['{"gone":"0001-01-01T00:00:00Z"}', undefined],
    ['{"gone":"0000-00-00 00:00:00"}', undefined],
    ['{"gone":[]}', undefined],
    ['{"gone":true}', null],
    ['{"gone":1}', null],
    ['{"gone":"yes"}', null],
    ['{"gone":{"by":"x"}}', null],
    ['{"gone":"2026-11-20T10:00:00+01:00"}', '2026-11-20 09:00:00.000'],
    ['{"gone":1763632800}', '2025-11-20 10:00:00.000'],
  ] as const)('is a record whose field is neither null nor empty: %s', ([text, expected]) => {
    expect(at({ field: 'gone' }, text)).toBe(expected);
  });

  it('is a record whose field has one of the values, by their text', () => {
    const field = { field: 'sys.state', in: ['trash', 7, true] };
    expect(at(field, '{"sys":{"state":"trash"}}')).toBeNull();
    expect(at(field, '{"sys":{"state":7}}')).toBeNull();
    expect(at(field, '{"sys":{"state":true}}')).toBeNull();
    expect(at(field, '{"sys":{"state":"draft"}}')).toBeUndefined();
    expect(at(field, '{"sys":{}}')).toBeUndefined();
    expect(at(field, '{"sys":{"state":null}}')).toBeUndefined();
    expect(at({ field: 'n', in: ['12345678901234567890'] }, '{"n":12345678901234567890}')).toBeNull();
  });

  it('takes the time from another field, in its zone, and the first field that says so', () => {
    const fields = [{ field: 'a' }, { field: 'status', in: ['trash'], at: 'modified' }];
    const times = { modified: 'Europe/Zurich' };
    expect(at(fields, '{"status":"trash","modified":"2026-07-01T12:00:00"}', times)).toBe('2026-07-01 10:00:00.000');
    expect(at(fields, '{"a":true,"status":"trash","modified":"2026-07-01T12:00:00"}', times)).toBeNull();
    expect(at(null, '{"a":true}')).toBeUndefined();
  });
});
