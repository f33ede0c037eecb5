import * as fc from 'fast-check';
import { expect } from 'vitest';
import type { TableShape } from '../../src/model/table.ts';
import { parseJson } from '../../src/rows/json/parse-json.ts';
import { shapeRecords } from '../../src/rows/shape-page.ts';
import { readTables } from '../../src/database/state/catalog.ts';
import { bodiesAfter } from '../../src/database/state/versions.ts';
import type { Warehouse } from '../../src/database/warehouse.ts';
import { warehouseOn, type OpenWarehouse, type TestDatabase } from '../support/databases.ts';
import { canonicalJson } from '../support/expected-rows.ts';
import { loading } from '../support/page-loading.ts';
import { profileWith, type ProfileChoice } from '../support/page-records.ts';

/** Values over few fields and clashing kinds, so that most pages drift; numbers by their source text. */
const leaf = fc.constantFrom(
  'true',
  '1',
  '1.5',
  '9007199254740993',
  '0.12345678901234567890',
  '1e21',
  '"x"',
  '"5"',
  '"2024-01-01"',
  '"2024-01-01T02:00:00+02:00"',
  '"2024-01-01T00:00:00.5Z"',
  '"\\u0000"',
  '98331783783160.625',
  'null',
  '{}',
  '[]',
);
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    { arbitrary: leaf, weight: 3 },
    {
      arbitrary: fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(',')}]`),
      weight: 1,
    },
    { arbitrary: fc.dictionary(fc.constantFrom('p', 'q'), tie('value')).map(objectText), weight: 1 },
  ),
}));
const fields = fc.dictionary(fc.constantFrom('a', 'b'), value, { maxKeys: 2 });
const pages = fc.array(fc.array(fc.tuple(fc.integer({ min: 1, max: 6 }), fields), { minLength: 1, maxLength: 4 }), {
  minLength: 2,
  maxLength: 5,
});

/** Which values stand in columns of JSON, whatever they are. */
const profiles = fc.constantFrom({}, { depth: 1 }, { depth: 2 }, { json: ['a', 'b.p'] });

function objectText(members: Record<string, string>): string {
  return `{${Object.entries(members)
    .map(([key, text]) => `${JSON.stringify(key)}:${text}`)
    .join(',')}}`;
}

/**
 * Random records come page by page, new and changed; each run compares all rows with those that one page of the bodies
 * as they are in the end would have made.
 */
export async function checkDrift(database: TestDatabase, numRuns: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(pages, profiles, async (pages, choice) => {
      const profile = { updated: null, ...choice };
      const { warehouse, rows } = await warehouseOn(database);
      const { load } = await loading(warehouse, { profile });
      for (const page of pages) await load(page.map(([id, members]) => objectText({ id: String(id), ...members })));
      const expected = await asOnePage(warehouse, profile);
      const found: unknown[] = [];
      for (const table of expected.keys()) found.push([table.name, await storedRows(rows, table)]);
      expect(found).toEqual([...expected].map(([table, rows]) => [table.name, rows]));
      await warehouse.close();
    }),
    { numRuns },
  );
}

/** The rows of each table, made at once from the stored bodies by the shape that the warehouse has come to. */
async function asOnePage(warehouse: Warehouse, choice: ProfileChoice): Promise<Map<TableShape, unknown[][]>> {
  const shape = await readTables(warehouse, 'content');
  if (shape === null) throw new Error('no tables');
  const bodies = await bodiesAfter(warehouse.own, 'content', '', 1_000);
  const records = bodies.map(({ id, body }) => ({ key: id, value: parseJson(body), bytes: Buffer.from(body) }));
  const shaped = shapeRecords({ shape, profile: profileWith(choice), records });
  expect(shaped.changes).toEqual([]);
  return new Map(shape.tables.map((table) => [table, rowsOf(shaped.rows, table)]));
}

function rowsOf(all: ReturnType<typeof shapeRecords>['rows'], table: TableShape): unknown[][] {
  const found = all.find((rows) => rows.table.name === table.name);
  if (found === undefined) return [];
  const { cells, width } = found;
  return Array.from({ length: cells.length / width }, (_, row) =>
    formsOf(table).map((form, at) => form(cells[row * width + at])),
  );
}

/** Of the cells of a row, its key first. */
function formsOf({ key, columns }: TableShape): ((cell: unknown) => unknown)[] {
  return [...key.map(() => plain), ...columns.map(({ type }) => (type === 'json' ? canonical : plain))];
}

async function storedRows(rows: OpenWarehouse['rows'], table: TableShape): Promise<unknown[][]> {
  const names = [...table.key, ...table.columns.map((column) => column.name)];
  const order = table.key.map((_, index) => index + 1).join(',');
  const found = await rows(
    `SELECT ${names.map((name) => `"${name}"`).join(',')} FROM "${table.name}" ORDER BY ${order}`,
  );
  return found.map((row) => formsOf(table).map((form, at) => form(row[names[at] ?? ''])));
}

/** Postgres has its own order and spaces. */
function canonical(cell: unknown): unknown {
  return typeof cell === 'string' ? canonicalJson(JSON.parse(cell)) : cell;
}

/** Booleans as SQLite holds them, integers of any size alike. */
function plain(cell: unknown): unknown {
  if (typeof cell === 'boolean') return BigInt(cell);
  return typeof cell === 'number' && Number.isSafeInteger(cell) ? BigInt(cell) : cell;
}
