import { describe, expect, it } from 'vitest';
import { asOtherClient, POSTGRES, SQLITE, warehouseOn } from '../../support/databases.ts';
import { loading } from '../../support/page-loading.ts';

const TEXTS = [
  '',
  ' ',
  '\\N',
  '\\.',
  '\\',
  'a\\',
  'tab\tnew\nline\r',
  '"quoted"',
  "it's",
  'NULL',
  '{1,2}',
  '€ 😀 é',
  '\u2028',
];
const INTEGERS = ['0', '-1', '9007199254740993', '-9223372036854775808', '9223372036854775807'];
const DOUBLES = ['0.5', '-0.0', '1e308', '-1e308', '5e-324', '0.1', '1e21'];
const NUMERICS = ['0.12345678901234567890123456789', '123456789012345678901234567890', '-1.5'];
const DATES = ['"0001-01-01"', '"9999-12-31"', '"2024-02-29"'];
const MOMENTS = ['"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999Z"', '"2026-01-02T03:04:05.678+02:00"'];
const JSONS = ['{"a":[1,"\\\\N",null]}', '"text\\twith\\\\tab"', '{"n":1.25}', '[]', '{"deep":{"b":"\\u2028"}}'];

const HARD: Readonly<Record<string, readonly string[]>> = {
  text: TEXTS.map((text) => JSON.stringify(text)),
  whole: INTEGERS,
  double: DOUBLES,
  exact: NUMERICS,
  flag: ['true', 'false'],
  day: DATES,
  moment: MOMENTS,
  json: JSONS,
};

const TYPES = {
  text: 'text',
  whole: 'integer',
  double: 'double',
  exact: 'numeric',
  flag: 'boolean',
  day: 'date',
  moment: 'timestamp',
  json: 'json',
};

/** Records whose ids are as hard as their values, each with one value of these kinds. */
function hardRecords(prefix: string, kinds: readonly string[]): string[] {
  const hard = Object.entries(HARD).filter(([name]) => kinds.includes(name));
  return TEXTS.map((text, index) => {
    if (kinds.length === 0) return `{"id":${JSON.stringify(`${prefix} ${text}`)}}`;
    const values = hard.map(([name, all]) => `"${name}":${all[index % all.length]}`);
    const list = hard.map(([name, all]) => `{"${name}":${all[(index + 1) % all.length]}}`);
    return `{"id":${JSON.stringify(`${prefix} ${text}`)},${values.join(',')},"list":[${list.join(',')}]}`;
  });
}

function numbered(count: number, of = ''): string[] {
  return Array.from({ length: count }, (_, row) => `{"id":"${String(row).padStart(5, '0')}","tags":["a","b"]${of}}`);
}

describe.skipIf(POSTGRES.missing !== null)('a page on postgres', () => {
  it('is the same whether its rows are new or changed, and the same as on sqlite', async () => {
    const kinds = Object.keys(TYPES);
    const found: Record<string, unknown>[][][] = [];
    for (const database of [SQLITE, POSTGRES]) {
      const { warehouse, rows } = await warehouseOn(database);
      const { load } = await loading(warehouse, { profile: { history: 'all' } });
      await load(hardRecords('new', kinds), 1_000);
      await load(hardRecords('old', []), 1_000);
      await load(hardRecords('old', kinds), 2_000);
      const types = await rows("SELECT column_name AS name, type FROM _sync_columns WHERE table_name = 'content'");
      expect(Object.fromEntries(types.map(({ name, type }) => [name, type]))).toMatchObject(TYPES);
      const ofRoot = ['substr(id, 1, 3) AS how', 'substr(id, 5) AS id', ...kinds].join(', ');
      const [roots, children, versions] = [
        await rows(`SELECT ${ofRoot} FROM content ORDER BY 1, 2`),
        await rows("SELECT * FROM content_list WHERE content_id LIKE 'old%' ORDER BY 1, 2"),
        await rows('SELECT id, version, valid_from, valid_to, op, hash, body FROM _sync_versions ORDER BY 1, 2'),
      ];
      const [fresh, changed] = ['new', 'old'].map((how) => roots.filter((row) => row['how'] === how).map(plain));
      expect(fresh).toHaveLength(TEXTS.length);
      expect(changed).toEqual(fresh);
      expect(versions).toHaveLength(3 * TEXTS.length);
      found.push([roots.map(plain), children.map(plain), versions]);
    }
    expect(found[1]).toEqual(found[0]);
  });

  it('keeps the sign of zero on either way, which sqlite does not', async () => {
    const { warehouse, address } = await warehouseOn(POSTGRES);
    const { load } = await loading(warehouse);
    await load(['{"id":"new","n":-0.0}', '{"id":"old","n":0.5}'], 1_000);
    await load(['{"id":"old","n":-0.0}'], 2_000);
    const zeros = await asOtherClient(address, (client) => client.query('SELECT n::text FROM content'));
    expect(zeros.rows).toEqual([{ n: '-0' }, { n: '-0' }]);
  });

  it('has rows that a sample finds at both ends and between, live ones alone', async () => {
    const { warehouse, write } = await warehouseOn(POSTGRES);
    const table = { name: 'content', path: [], key: ['id'], columns: [] };
    const { load } = await loading(warehouse);
    expect(await warehouse.rows.liveSample(table, 'content', 5)).toEqual([]);
    for (const count of [3, 20, 600]) {
      await load(numbered(count), count);
      const sample = await warehouse.rows.liveSample(table, 'content', 5);
      expect(sample).toHaveLength(Math.min(5, count));
      expect(sample).toEqual(sample.toSorted());
      expect(Number(sample[0])).toBe(0);
      expect(Number(sample.at(-1))).toBeGreaterThan(0.8 * count - 1);
    }
    await write("UPDATE content SET _deleted_at = now() WHERE id < '00300'");
    await write(`INSERT INTO _sync_suspects SELECT 'content', id, 'missing', 'open', 1, now(), now() FROM content
      WHERE id BETWEEN '00300' AND '00399'`);
    const rest = await warehouse.rows.liveSample(table, 'content', 5);
    expect(rest.length).toBeGreaterThan(1);
    expect(rest.every((key) => key >= '00400')).toBe(true);
  });
});

/** JSON as its value: how it is spaced is the database's matter. */
function plain(row: Record<string, unknown>): Record<string, unknown> {
  const { json } = row;
  return { ...row, how: null, json: typeof json === 'string' ? JSON.stringify(JSON.parse(json)) : null };
}
