import { expect, it } from 'vitest';
import type { JsonValue } from '../../../src/model/json.ts';
import { parseJson } from '../../../src/shape/json/parse-json.ts';
import { compareTotals } from '../../../src/sync/reports/compare-totals.ts';

const records = (...values: JsonValue[]) => values.map((views) => ({ value: { views }, bytes: Buffer.alloc(0) }));
const PLACES = { views: 'totals.views' };

it('finds sums that differ, whatever form the numbers have', () => {
  expect(compareTotals(PLACES, { totals: { views: 6 } }, records(1, '2', 3))).toEqual([]);
  expect(compareTotals(PLACES, { totals: { views: '0.3' } }, records(0.1, 0.2, null))).toEqual([]);
  expect(compareTotals(PLACES, { totals: { views: parseJson('3.00000000000000000001') } }, records(1, 2))).toEqual([]);
  expect(compareTotals(PLACES, { totals: { views: 7 } }, records(1, 2))).toEqual([
    { field: 'views', told: 7, counted: 3 },
  ]);
});

it('finds totals that are not told', () => {
  expect(compareTotals(PLACES, { totals: {} }, records(1))).toEqual([{ field: 'views', told: null, counted: 1 }]);
  expect(compareTotals(PLACES, { totals: { views: 'n/a' } }, [])).toEqual([{ field: 'views', told: null, counted: 0 }]);
  expect(compareTotals({}, null, records(1))).toEqual([]);
});
