import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { eitherDatabase, warehouseOn, type OpenWarehouse, type TestDatabase } from '../support/databases.ts';
import { canonicalJson } from '../support/expected-rows.ts';
import { loading } from '../support/page-loading.ts';
import { ownService } from '../support/own-service.ts';
import { longOrShort } from '../support/length.ts';

/** Elements of lists that have nothing in them, and such that have; each family has one kind of the latter. */
const EMPTY = ['null', '{}', '{"x":null}', '[]', '{"in":[]}', '{"in":{}}'];
const FAMILIES: Readonly<Record<string, readonly string[]>> = {
  'texts and numbers': ['""', '"a"', '1', '2.5'],
  objects: ['{"x":1}', '{"x":"b","in":[null]}', '{"in":[{}]}', '{"in":["c",null]}', '{"o":{"y":true}}'],
  arrays: ['[null]', '[[]]', '[1]', '[{}]'],
  nothing: [],
};

/** Rows of all child tables of a resource, JSON in one spelling, whatever the order of their columns. */
async function childRows({ rows }: OpenWarehouse, resource: string): Promise<unknown[]> {
  const tables = await rows(
    `SELECT table_name AS name, group_concat('"' || column_name || '"') AS key FROM _sync_columns
     WHERE resource = ? AND table_path <> '[]' AND role = 'key' GROUP BY 1 ORDER BY 1`,
    resource,
  );
  const found: unknown[] = [];
  for (const { name, key } of tables) {
    const own = await rows(`SELECT * FROM "${String(name)}" ORDER BY ${String(key)}`);
    found.push([String(name).slice(resource.length), own.map((row) => fieldsOf(row, resource))]);
  }
  return found;
}

function fieldsOf(row: Record<string, unknown>, resource: string): unknown[] {
  return Object.entries(row)
    .map(([name, cell]) => [name.replace(resource, ''), spelled(cell)])
    .toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1));
}

function spelled(cell: unknown): unknown {
  if (typeof cell === 'bigint' || typeof cell === 'number') return String(cell);
  return typeof cell === 'string' && /^[{["]/.test(cell) ? canonicalJson(JSON.parse(cell)) : cell;
}

/** So many records with a list each, in an order, cut into pages; and another order. */
function storyOf(elements: readonly string[]) {
  const list = fc
    .array(fc.constantFrom(...elements), { minLength: 1, maxLength: 3 })
    .map((items) => `[${items.join(',')}]`);
  const lists = fc.array(fc.oneof({ arbitrary: list, weight: 4 }, fc.constantFrom('[]', 'null')), {
    minLength: 2,
    maxLength: 5,
  });
  return lists.chain((texts) => {
    const records = texts.map((text, id) => `{"id":"${id}","list":${text}}`);
    const order = fc.shuffledSubarray(records, { minLength: records.length });
    return fc.tuple(order, order, fc.array(fc.boolean(), { minLength: records.length, maxLength: records.length }));
  });
}

/** Loads the records; a page ends where `ends` says so. */
async function load(opened: OpenWarehouse, resource: string, records: readonly string[], ends: readonly boolean[]) {
  const { load } = await loading(opened.warehouse, { resource, profile: { updated: null } });
  let page: string[] = [];
  for (const [at, record] of records.entries()) {
    page.push(record);
    if (ends[at] !== true && at < records.length - 1) continue;
    await load(page);
    page = [];
  }
}

const RUNS: Record<TestDatabase['name'], number> = { sqlite: longOrShort(30, 10), postgres: longOrShort(4, 2) };

describe.for(eitherDatabase(import.meta.filename))('rows of lists on $name', (database) => {
  it.each(Object.entries(FAMILIES))('are the same in whatever order they come, among %s', async (_, family) => {
    const opened = await warehouseOn(database);
    let made = 0;
    await fc.assert(
      fc.asyncProperty(storyOf([...EMPTY, ...family]), async ([one, other, ends]) => {
        const [first, second] = [`l${(made += 1)}`, `l${(made += 1)}`];
        await load(opened, first, one, ends);
        await load(opened, second, other, ends.toReversed());
        expect(await childRows(opened, second)).toEqual(await childRows(opened, first));
      }),
      { numRuns: RUNS[database.name] },
    );
  });

  it('are one for each element, before and after others that say more', async () => {
    const lists = ['[null]', '[{}]', '[{"x":null}]', '[[]]', '[""]', '[null,"a"]', '[]', 'null'];
    const rows = [1, 1, 1, 1, 1, 2, 0, 0];
    const records = lists.map((list, id) => `{"id":"${id}","list":${list}}`);
    for (const order of [records, records.toReversed()]) {
      const pages = new Map(order.map((record, at) => [at === 0 ? null : String(at), record]));
      const stage = await ownService(database, { updated: null, incremental: null, item: null }, (url) => {
        const at = Number(url.searchParams.get('cursor') ?? 0);
        const next = at + 1 < order.length ? `"${at + 1}"` : 'null';
        return { body: `{"data":[${pages.get(at === 0 ? null : String(at)) ?? ''}],"next_cursor":${next}}` };
      });
      expect((await stage.run('backfill')).status).toBe('ok');
      const found = await stage.read((db) =>
        db.prepare('SELECT report_id AS id, count(*) AS n FROM report_list GROUP BY 1').all(),
      );
      expect(found).toEqual(rows.flatMap((n, id) => (n === 0 ? [] : [{ id: String(id), n }])));
    }
  });
});
