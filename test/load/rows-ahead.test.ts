import { expect, it } from 'vitest';
import { keyRecords } from '../../src/load/key-records.ts';
import { shapeOf } from '../../src/load/prepare-page.ts';
import { rowsAhead } from '../../src/load/rows-ahead.ts';
import type { PageRows } from '../../src/warehouse/warehouse.ts';
import { USUAL, warehouseOn } from '../support/databases.ts';
import { loading } from '../support/page-loading.ts';
import { recordsOf } from '../support/page-records.ts';

const body = { records: [], overflowed: 1, discarded: 2, repaired: 3 };

it('counts what was made of all bodies, and makes rows only if they are asked for, of the whole records', async () => {
  const { warehouse } = await warehouseOn(USUAL);
  const { context, load } = await loading(warehouse);
  await load(['{"id":"1","n":1}']);
  const prepared: PageRows[] = [];
  const watched = { ...warehouse, prepare: (rows: PageRows) => (prepared.push(rows), { rows }) };
  const { keyed: records } = keyRecords(recordsOf(['{"id":"2","n":2}', '{"id":"3","n":3}']), context.profile);
  for (const record of records) Object.assign(record, { value: { id: record.key }, isPartial: true });

  const bodies = [
    { ...body, years: [2020, 2021] as const },
    { ...body, years: null },
    { ...body, years: [1999, 2000] as const },
  ];
  const at = { records, requestedAt: '2026-11-20 10:00:00' };
  const ahead = rowsAhead({ ...context, warehouse: watched }, shapeOf(context.owned), bodies, at);
  expect(ahead.years).toEqual([1999, 2021]);
  expect(ahead.shaped).toMatchObject({ overflowed: 3, discarded: 6, repaired: 9, rejects: [] });
  expect(records.every(({ isPartial }) => isPartial)).toBe(true);

  const [page] = prepared;
  expect(page?.rows.map(({ cells }) => cells)).toEqual([['2', 2, '3', 3]]);
  expect(records.map(({ value }) => value)).toEqual([
    { id: '2', n: 2 },
    { id: '3', n: 3 },
  ]);
  expect(ahead.shaped.rows).toBe(page?.rows);
});
