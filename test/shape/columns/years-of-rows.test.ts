import { describe, expect, it } from 'vitest';
import { yearsOfRows } from '../../../src/load/grow-calendar.ts';
import type { Cell, TableRows } from '../../../src/model/table.ts';
import type { ColumnType } from '../../../src/model/vocabulary.ts';

const NOW = 2026;

/** Rows of a column of this type, behind a key that looks like a time. */
function rowsOf(type: ColumnType, ...values: Cell[]): TableRows {
  const table = { name: 't', path: [], key: ['id'], columns: [{ name: 'c', path: ['c'], type }] };
  return { table, width: 2, cells: values.flatMap((value) => ['1980-01-01', value]) };
}

describe('yearsOfRows', () => {
  it.each<[string, TableRows[], readonly number[] | null]>([
    ['dates', [rowsOf('date', '2021-05-01', null, '2019-12-31')], [2019, 2021]],
    ['times', [rowsOf('timestamp', '2024-01-01 00:00:00', '2024-12-31 23:59:59.999')], [2024, 2024]],
    ['several tables', [rowsOf('date', '2021-05-01'), rowsOf('timestamp', '1999-01-01 00:00:00')], [1999, 2021]],
    ['the first and the last that count', [rowsOf('date', '1970-01-01', '2035-12-31')], [1970, 2035]],
    ['slips of the pen', [rowsOf('date', '0019-05-01', '1969-12-31', '2036-01-01', '9999-12-31')], null],
    ['texts and numbers', [rowsOf('text', '2021-05-01'), rowsOf('integer', 2021)], null],
    ['nothing', [], null],
  ])('finds the years of %s', (_, rows, years) => {
    expect(yearsOfRows(rows, NOW)).toEqual(years);
  });
});
