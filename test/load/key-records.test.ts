import { describe, expect, it } from 'vitest';
import { keyRecords } from '../../src/load/key-records.ts';
import { profileWith, recordsOf, type ProfileChoice } from '../support/page-records.ts';

function keyed(texts: readonly string[], profile: ProfileChoice = {}) {
  return keyRecords(recordsOf(texts), profileWith(profile));
}

describe('keyRecords', () => {
  it('F104 sets aside what has no usable key, with its source as it came, and keeps the rest', () => {
    const bad = [
      '{ "id" : null }',
      '{"id":""}',
      '{"id":{}}',
      '{"id":1.5}',
      '{}',
      '7',
      `{"id":"${'x'.repeat(50_000)}"}`,
    ];
    const { keyed: good, setAside } = keyed(['{"id":"1"}', ...bad, '{"id":2}']);
    expect(good.map(({ key }) => key)).toEqual(['1', '2']);
    expect(setAside.map(({ bytes }) => bytes.toString())).toEqual(bad);
    expect(setAside.map(({ reason }) => reason)).toEqual([
      'id_null',
      'id_empty',
      'id_type',
      'id_type',
      'id_missing',
      'id_missing',
      'id_too_long',
    ]);
  });

  it.each([
    ['the newest', ['2026-11-20T10:00:00Z', '2026-11-20T09:00:00Z'], '2026-11-20T10:00:00Z'],
    ['the newest by instant', ['2026-11-20T10:00:00+02:00', '2026-11-20T09:00:00Z'], '2026-11-20T09:00:00Z'],
    [
      'the last where they are of one moment',
      ['2026-11-20T10:00:00Z', '2026-11-20T10:00:00.000Z'],
      '2026-11-20T10:00:00.000Z',
    ],
    ['the last if one has no time', ['2026-11-20T10:00:00Z', 'soon'], 'soon'],
  ])('C24 of several with one key keeps %s', (_, times, kept) => {
    const { keyed: records } = keyed(times.map((time) => `{"id":"1","updated_at":"${time}"}`));
    expect(records.map(({ value }) => value)).toEqual([{ id: '1', updated_at: kept }]);
  });

  it('holds an id that is a number and the same as a text for one', () => {
    expect(keyed(['{"id":5,"n":1}', '{"id":"5","n":2}']).keyed.map(({ value }) => value)).toEqual([{ id: '5', n: 2 }]);
  });

  it('F092 keeps 20 digits of an id apart', () => {
    const { keyed: records } = keyed(['{"id":12345678901234567890}', '{"id":12345678901234567891}']);
    expect(records.map(({ key }) => key)).toEqual(['12345678901234567890', '12345678901234567891']);
  });

  it('F107 gives one hash to the same members in another order, if no body is there to compare', () => {
    const [first, second] = keyed(['{"id":"1","a":1,"b":[1, 2]}', '{"b":[1,2], "a":1,"id":"2"}'], {
      history: 'none',
    }).keyed;
    const [same] = keyed(['{ "b":[1,2],"id":"1","a":1 }'], { history: 'none' }).keyed;
    expect(same?.hash).toBe(first?.hash);
    expect(second?.hash).not.toBe(first?.hash);
  });

  it.each([
    ['"2026-11-20T10:00:00Z"', { text: '2026-11-20T10:00:00Z', at: Date.parse('2026-11-20T10:00:00Z') }],
    ['1763640000', { text: '1763640000', at: 1_763_640_000_000 }],
    ['null', null],
    ['"soon"', null],
    ['{"at":1}', null],
  ])('reads the time of change %s', (time, updated) => {
    expect(keyed([`{"id":"1","updated_at":${time}}`]).keyed[0]?.updated).toEqual(updated);
  });

  it('knows no time of change if the profile names none', () => {
    expect(keyed(['{"id":"1","updated_at":1763640000}'], { updated: null }).keyed[0]?.updated).toBeNull();
  });
});
