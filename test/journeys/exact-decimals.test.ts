import { decimal } from '../support/copied-cells.ts';
import { describe, expect, it } from 'vitest';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

/** Source texts of numbers that a double holds, more or less: each has digits that its fewest digits do not have. */
const LONG = [
  '98331783783160.625',
  '-98331783783160.625',
  '0.1000000000000000055511151231257827',
  '0.10000000000000001',
  '4.94e-324',
  '1.8014398509481992e16',
  '9007199254740993.5',
];
/** No double holds these. */
const BEYOND = ['1e-400', '123456789012345678901234567890.5', '0.12345678901234567890', '9007199254740993'];
/** These stand as a double is written: what is the same number in fewer signs. */
const PLAIN = ['1.10', '-0', '1E2', '0.1', '3.0', '0.30000000000000004', '5e-324', '1e23'];
const ALL = [...LONG, ...BEYOND, ...PLAIN];

/** The numbers in a text, in their order. */
function numbersIn(json: unknown): string[] {
  return (String(json).match(/-?\d[\d.eE+-]*/g) ?? []).map(decimal);
}

interface Row {
  id: string;
  [column: string]: unknown;
}

/** A service with these records, each by its source text, and a copy that is made of them; they may change. */
async function copyOf(database: TestDatabase, first: readonly string[], fields: Record<string, unknown> = {}) {
  let records = first;
  const stage = await ownService(
    database,
    { updated: null, incremental: null, item: null, json: ['whole'], ...fields },
    () => ({
      body: `{"data":[${records.join(',')}],"next_cursor":null}`,
    }),
  );
  const types = 'SELECT column_name AS name, type FROM _sync_columns';
  return {
    walk: async (next: readonly string[] = records): Promise<string> => {
      records = next;
      return (await stage.run('backfill')).status;
    },
    rows: (table = 'report', order = 'id'): Promise<Row[]> =>
      stage.all<Row>(`SELECT * FROM "${table}" ORDER BY ${order}`),
    types: (): Promise<Record<string, string>> =>
      stage.read((db) =>
        Object.fromEntries(
          db
            .prepare<[], { name: string; type: string }>(types)
            .all()
            .map(({ name, type }) => [name, type]),
        ),
      ),
  };
}

/** One record for each number, numbered in their order. */
function eachIn(numbers: readonly string[], text: (number: string) => string): string[] {
  return numbers.map((number, at) => `{"id":"${String(at).padStart(2, '0')}",${text(number)}}`);
}

const digits = (all: Row[], column: string): string[] =>
  all.filter((row) => row.id !== 'a' && row['report_id'] !== 'a').map((row) => decimal(String(row[column])));

describe.for(DATABASES)('decimals on $name', (database) => {
  it('stand by their digits in columns of numbers, texts and JSON, in objects and in lists', async () => {
    const mixed = [
      ...eachIn(ALL, (n) => `"number":${n},"text":${n},"whole":{"in":[${n},{"n":${n}}]},"list":[${n},{"n":${n}}]`),
    ];
    const first = '{"id":"a","number":0.12345678901234567890,"text":"x","list":["x",0.12345678901234567890]}';
    const { walk, rows, types } = await copyOf(database, [first, ...mixed]);
    expect(await walk()).toBe('ok');
    expect(await types()).toMatchObject({ number: 'numeric', text: 'text', whole: 'json', value: 'json' });
    const found = (await rows()).filter(({ id }) => id !== 'a');
    const wanted = ALL.map(decimal);
    expect(found.map(({ number }) => decimal(String(number)))).toEqual(wanted);
    expect(found.map(({ text }) => decimal(String(text)))).toEqual(wanted);
    expect(found.map(({ whole }) => numbersIn(whole))).toEqual(wanted.map((number) => [number, number]));
    const list = (await rows('report_list', 'report_id, position')).filter(({ report_id: id }) => id !== 'a');
    expect(list.map((row) => numbersIn(row['value']))).toEqual(wanted.flatMap((number) => [[number], [number]]));
  });

  it('stand in a column of doubles as the double that is nearest, and no column widens for them', async () => {
    const { walk, rows, types } = await copyOf(
      database,
      eachIn(LONG.slice(0, 5), (n) => `"number":${n}`),
    );
    expect(await walk()).toBe('ok');
    expect(await types()).toMatchObject({ number: 'double' });
    expect((await rows()).map(({ number }) => number)).toEqual(LONG.slice(0, 5).map(Number));
  });

  it.each([
    ['numeric', '0.12345678901234567890'],
    ['text', '"x"'],
    ['json', '{"a":1}'],
  ])('have their digits when a column of doubles becomes one of %s', async (type, widening) => {
    const doubles = eachIn(LONG.slice(0, 5), (n) => `"number":${n},"list":[${n}]`);
    const { walk, rows, types } = await copyOf(database, doubles);
    expect(await walk()).toBe('ok');
    expect(await walk([...doubles, `{"id":"a","number":${widening},"list":[${widening}]}`])).toBe('ok');
    expect(await types()).toMatchObject({ number: type, value: type });
    const wanted = LONG.slice(0, 5).map(decimal);
    expect(digits(await rows(), 'number')).toEqual(wanted);
    expect(digits(await rows('report_list', 'report_id'), 'value')).toEqual(wanted);
  });

  it('that change in digits alone are a change', async () => {
    const { walk, rows } = await copyOf(database, ['{"id":"1","text":"x"}', '{"id":"2","text":0.1}']);
    await walk();
    await walk(['{"id":"1","text":"x"}', '{"id":"2","text":0.10000000000000001}']);
    expect((await rows()).map((row) => [row['text'], row['_version']])).toEqual([
      ['x', 1],
      ['0.10000000000000001', 2],
    ]);
  });
});
