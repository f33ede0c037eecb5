import { describe, expect, it } from 'vitest';
import type { ColumnType } from '../../../src/model/vocabulary.ts';
import type { JsonValue } from '../../../src/model/json.ts';
import { timeZone } from '../../../src/model/time-zone.ts';
import { cellOf, TO_CELL } from '../../../src/shape/columns/cells.ts';

const exact = (digits: string): JsonValue => JSON.rawJSON(digits);
const notes = (suspect = false) => ({ suspect, repaired: 0 });

describe('a cell', () => {
  it.each<[ColumnType, JsonValue, unknown]>([
    ['boolean', true, true],
    ['boolean', 1, undefined],
    ['integer', -0, 0],
    ['integer', 1.5, undefined],
    ['integer', exact('9007199254740993'), 9_007_199_254_740_993n],
    ['integer', exact('9223372036854775808'), undefined],
    ['double', 1.5, 1.5],
    ['double', exact('9007199254740993'), undefined],
    ['numeric', 1.5, '1.5'],
    ['numeric', exact('1e400'), '1e400'],
    ['numeric', exact('1e4000'), undefined],
    ['date', '2026-11-20', '2026-11-20'],
    ['date', '2026-11-31', undefined],
    ['timestamp', '2026-11-20T14:05:09+01:00', '2026-11-20 13:05:09'],
    ['timestamp', '2026-11-20', '2026-11-20 00:00:00'],
    ['timestamp', 'soon', undefined],
    ['text', 12, '12'],
    ['text', false, 'false'],
    ['text', exact('1e400'), '1e400'],
    ['text', ['a'], undefined],
    ['json', ['a', exact('1e400')], '["a",1e400]'],
  ])('of type %s for %j', (type, value, expected) => {
    expect(TO_CELL[type](value, notes())).toEqual(expected);
  });

  it('of a local time is read in its zone', () => {
    expect(cellOf('timestamp', timeZone('Europe/Vienna'))('2026-11-20T14:05:09', notes())).toBe('2026-11-20 13:05:09');
    expect(cellOf('text', timeZone('Europe/Vienna'))).toBe(TO_CELL.text);
  });
});

it.each<[ColumnType, JsonValue, string]>([
  ['text', 'a\0b', 'a␀b'],
  ['text', 'a\ud800b', 'a\ufffdb'],
  ['json', ['a\0', '\ud800', '\\u0000'], '["a␀","\ufffd","\\\\u0000"]'],
])('what neither database can store is replaced in %s, and counted', (type, value, expected) => {
  const counted = notes(true);
  expect(TO_CELL[type](value, counted)).toBe(expected);
  expect(counted.repaired).toBe(1);
});
