import { describe, expect, it } from 'vitest';
import type { Cell } from '../../../../src/model/table.ts';
import type { ColumnType } from '../../../../src/model/vocabulary.ts';
import { Batch } from '../../../../src/warehouse/postgres/connection/batch.ts';
import { CopyMemory } from '../../../../src/warehouse/postgres/connection/copy-data.ts';
import { CopyFields, PUT_CELL } from '../../../../src/warehouse/postgres/pages/copy-binary.ts';
import { CopyLines } from '../../../../src/warehouse/postgres/pages/copy-text.ts';
import { asOtherClient, POSTGRES, warehouseOn } from '../../../support/databases.ts';
import { loading } from '../../../support/page-loading.ts';

/** Days over all of the years that a text of ten signs can name, and those at which rules change. */
const DAYS = Array.from({ length: 2_000 }, (_, at) => new Date(Date.UTC(9999, 11, 31 - at * 1_826)))
  .map((date) => date.toISOString().slice(0, 10))
  .filter((day) => day > '0001' && day.length === 10)
  .concat('0001-01-01', '2000-02-29', '1900-02-28', '1900-03-01', '1999-12-31', '2000-01-01', '2024-12-31');

const CELLS: readonly (readonly [ColumnType, string, readonly Cell[]])[] = [
  ['date', 'date', DAYS],
  ['timestamp', 'timestamptz', DAYS.flatMap((day) => [`${day} 00:00:00`, `${day} 23:59:59.999`])],
  [
    'integer',
    'bigint',
    [0, -0, 1, -1, 2 ** 32, -(2 ** 32) - 1, 2 ** 53 - 1, 1 - 2 ** 53, 2n ** 63n - 1n, -(2n ** 63n)],
  ],
  ['double', 'float8', [0, -0, 0.1, 5e-324, -1.7976931348623157e308, 1e21]],
  ['boolean', 'boolean', [true, false]],
  ['text', 'text', ['', '\\N', 'a\tb', 'é'.repeat(30), '\u{1F600}'.repeat(9), 'x'.repeat(5_000)]],
  ['json', 'jsonb', ['{"a":"\\\\N"}', '"é"', '[1.50]', 'null']],
];

function there<T>(value: T | null): T {
  if (value === null) throw new Error('nothing is there');
  return value;
}

function tiny(from: number): string[] {
  return Array.from({ length: 700 }, (_, n) => `{"id":"${from + n}","n":${n}}`);
}

function withManyChildren(from: number): string[] {
  return Array.from({ length: 40 }, (_, n) => {
    return `{"id":"${from + n}","tags":${JSON.stringify(Array(33).fill(`é${n}`))}}`;
  });
}

describe.skipIf(POSTGRES.missing !== null)('rows as bytes', () => {
  it('are what the same rows are as text', async () => {
    await asOtherClient(await POSTGRES.address(), async (client) => {
      for (const [kind, type, cells] of CELLS) {
        const put = there(PUT_CELL[kind]);
        const [fields, lines] = [new CopyFields(new CopyMemory(), 1, [put]), new CopyLines(new CopyMemory(), 1)];
        for (const cell of [...cells, null]) {
          for (const format of [fields, lines]) {
            format.add(cell);
            format.endLine();
          }
        }
        await client.query(`CREATE TEMP TABLE "of_${kind}" (n int GENERATED ALWAYS AS IDENTITY, v ${type})`);
        const copy = `COPY "of_${kind}" (v) FROM STDIN`;
        const steps = [
          { text: `${copy} (FORMAT binary)`, data: there(fields.data()) },
          { text: copy, data: lines.data() },
        ];
        await client.query(new Batch(steps, 20_000)).done;
        const { rows } = await client.query(`SELECT count(*)::int AS rows, count(a.v)::int AS cells,
            count(*) FILTER (WHERE a.v::text IS DISTINCT FROM b.v::text)::int AS other
          FROM "of_${kind}" AS a JOIN "of_${kind}" AS b ON b.n = a.n + ${cells.length + 1}`);
        expect([kind, rows[0]]).toEqual([kind, { rows: cells.length + 1, cells: cells.length, other: 0 }]);
      }
    });
  });

  it.each([
    [
      'date',
      ['2023-02-29', '1900-02-29', '2024-13-01', '2024-00-10', '0000-01-01', '2024-1-01', '12024-01-01', 20_240_101],
    ],
    ['timestamp', ['2024-01-01 24:00:00', '2024-01-01 00:60:00', '2024-01-01T00:00:00', '2024-01-01 00:00:00.1', 1]],
    ['integer', [0.5, 2 ** 53, 2n ** 63n, '1', true]],
    ['double', ['1', 1n]],
    ['boolean', ['true', 1]],
    ['text', [1]],
    ['json', [1]],
  ] as const)('are none where a cell says something else than its column holds: %s', (kind, cells) => {
    for (const cell of cells) {
      const fields = new CopyFields(new CopyMemory(), 1, [there(PUT_CELL[kind])]);
      fields.add(cell);
      fields.endLine();
      expect([cell, fields.data()]).toEqual([cell, null]);
    }
  });

  it.each([
    ['as many bytes', 'ALTER n TYPE float8, ALTER at TYPE timestamp'],
    ['fewer bytes', 'ALTER n TYPE int, ALTER at TYPE date'],
  ])('are sent as text where somebody has given a column another type of %s', async (_, altered) => {
    const { warehouse, address } = await warehouseOn(POSTGRES);
    const { load } = await loading(warehouse, { profile: { history: 'all' } });
    await load(['{"id":"1","n":1,"at":"2026-01-01T00:00:00Z","of":{},"tags":[1]}'], 1_000);
    await asOtherClient(address, async (client) => {
      await client.query(`DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT viewname FROM pg_views WHERE schemaname = current_schema() LOOP
          EXECUTE format('DROP VIEW IF EXISTS %I CASCADE', name); END LOOP; END $$`);
      await client.query(`ALTER TABLE content ${altered};
        ALTER TABLE content_tags ALTER value TYPE numeric`);
    });
    await load(['{"id":"2","n":2,"at":"2026-01-02T00:00:00Z","tags":[2]}'], 2_000);
    await load(['{"id":"3","n":3,"at":"2026-01-03T00:00:00Z","tags":[3]}'], 3_000);
    const found = await asOtherClient(address, (client) =>
      client.query(`SELECT id, n::text AS n, at::date::text AS day, tag.value::text AS tag
      FROM content JOIN content_tags AS tag ON tag.content_id = id ORDER BY 1`),
    );
    expect(found.rows).toEqual(['1', '2', '3'].map((n) => ({ id: n, n, day: `2026-01-0${n}`, tag: n })));
  });

  it('are all there once where a page has many tiny records, or records many tiny children', async () => {
    const { warehouse, address } = await warehouseOn(POSTGRES);
    const { load } = await loading(warehouse, { profile: { history: 'all' } });
    for (const [at, records] of [
      tiny(0),
      tiny(700),
      withManyChildren(1_400),
      withManyChildren(1_440),
      withManyChildren(1_400),
    ].entries()) {
      await load(records, 1_000 * (at + 1));
    }
    const { rows } = await asOtherClient(address, (client) =>
      client.query(`SELECT (SELECT count(*)::int FROM content) AS content, (SELECT sum(n)::int FROM content) AS sum,
        (SELECT count(*)::int FROM _sync_versions) AS versions, (SELECT count(*)::int FROM content_tags) AS tags,
        (SELECT count(DISTINCT value)::int FROM content_tags) AS values,
        (SELECT count(*)::int FROM _sync_versions WHERE body::jsonb->>'id' = id) AS bodies`),
    );
    const sum = 700 * 699;
    expect(rows).toEqual([{ content: 1_480, sum, versions: 1_480, tags: 2_640, values: 40, bodies: 1_480 }]);
  });
});
