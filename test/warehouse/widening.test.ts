import { describe, expect, it } from 'vitest';
import { COLUMN_TYPES, type ColumnType } from '../../src/model/words.ts';
import { widen } from '../../src/shape/type-lattice.ts';
import { loading } from '../support/page-loading.ts';
import type { ProfileChoice } from '../support/page-records.ts';
import { rowsIn, tempWarehouse } from '../support/temp-warehouse.ts';

/** Source texts that make a column of each type, among them those that a careless conversion changes. */
const SAMPLES: Readonly<Record<ColumnType, readonly string[]>> = {
  boolean: ['true', 'false'],
  integer: ['0', '-7', '9007199254740991', '1.0', '-0'],
  double: ['1.5', '0.1', '-2.5e-7', '1e21', '1e300', '1.2345678901234568e17', '5e-324', '3.0', '0.30000000000000004'],
  numeric: ['0.12345678901234567890', '9223372036854775808', '1e400', '1.10', '7'],
  date: ['"2024-02-29"', '"0001-01-01"'],
  timestamp: ['"2024-01-01T08:49:39.676Z"', '"2024-01-01T10:49:39+02:00"', '"2024-01-01 08:49"', '"2024-02-29"'],
  text: [
    '"plain"',
    '"5"',
    '5',
    'true',
    '"true"',
    '"it\'s \\"quoted\\" \\\\ \\n"',
    '"😀 ünï"',
    '"\\u0000 \\ud800"',
    '1e21',
  ],
  json: ['{"a":1}', '[1,[2]]', '{}'],
};

/** What a resource's column must be declared as, so that BI clients read it right. */
const DECLARED: Readonly<Record<ColumnType, string>> = {
  boolean: 'BOOLEAN',
  integer: 'BIGINT',
  double: 'DOUBLE',
  numeric: 'TEXT',
  date: 'DATE',
  timestamp: 'TIMESTAMP',
  text: 'TEXT',
  json: 'TEXT',
};

type Pair = Record<'from' | 'other' | 'to', ColumnType>;

const PAIRS: readonly Pair[] = COLUMN_TYPES.flatMap((from) =>
  COLUMN_TYPES.filter((other) => widen(from, other) !== from).map((other) => ({ from, other, to: widen(from, other) })),
);

const PROFILE: ProfileChoice = { updated: null };
const CELLS = 'SELECT id, v, typeof(v) AS kind FROM content ORDER BY id';

function recordsOf(prefix: string, type: ColumnType): string[] {
  return SAMPLES[type].map((text, index) => `{"id":"${prefix}${index}","v":${text}}`);
}

async function copyOf(pages: readonly string[][], profile: ProfileChoice): Promise<string> {
  const { warehouse, file } = await tempWarehouse();
  const { load } = await loading(warehouse, { profile: { ...PROFILE, ...profile } });
  for (const page of pages) await load(page);
  return file;
}

describe('a column that widens', () => {
  it.each(PAIRS)('F103 from $from by $other to $to holds what a fresh copy would', async ({ from, other, to }) => {
    const pages = [recordsOf('a', from), recordsOf('b', other)];
    const grown = await copyOf(pages, { history: 'latest' });
    const fresh = await copyOf([pages.flat()], { history: 'latest' });
    expect(rowsIn(grown, CELLS)).toEqual(rowsIn(fresh, CELLS));
    expect(rowsIn(grown, "SELECT type FROM pragma_table_info('content') WHERE name = 'v'")).toEqual([
      { type: DECLARED[to] },
    ]);
    expect(rowsIn(grown, "SELECT type FROM _sync_columns WHERE column_name = 'v'")).toEqual([{ type: to }]);
    expect(
      rowsIn(grown, "SELECT from_type, to_type FROM _sync_schema_changes WHERE column_name = 'v' ORDER BY rowid"),
    ).toEqual([
      { from_type: null, to_type: from },
      { from_type: from, to_type: to },
    ]);
    expect(rowsIn(grown, 'SELECT * FROM _sync_reshapes')).toEqual([]);
    expect(rowsIn(grown, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  });
});

/** What the stored values cannot tell stays as it stood; this is what the README says of `history: none`. */
const CONVERTED: Readonly<Record<string, readonly string[]>> = {
  'timestamp text': ['2024-01-01 08:49:39.676', '2024-01-01 08:49:39', '2024-01-01 08:49:00', '2024-02-29 00:00:00'],
  'timestamp json': [
    '"2024-01-01 08:49:39.676"',
    '"2024-01-01 08:49:39"',
    '"2024-01-01 08:49:00"',
    '"2024-02-29 00:00:00"',
  ],
  'text json': [
    '"plain"',
    '"5"',
    '"5"',
    '"true"',
    '"true"',
    String.raw`"it's \"quoted\" \\ \n"`,
    '"😀 ünï"',
    '"␀ \ufffd"',
    '"1e+21"',
  ],
};

describe('a column that widens without stored bodies', () => {
  it('F103 holds what a fresh copy would, but for the pairs that only a body could tell', async () => {
    const pages = [wideRecords('a', 'from'), wideRecords('b', 'other')];
    const [grown, fresh] = [
      await copyOf(pages, { history: 'none' }),
      await copyOf([pages.flat()], { history: 'none' }),
    ];
    const told = byPair((pair) => inNine(CONVERTED[`${pair.from} ${pair.to}`] ?? firstNine(fresh, pair)));
    expect(byPair((pair) => firstNine(grown, pair))).toEqual(told);
  });
});

function nameOf({ from, other }: Pair): string {
  return `${from}_by_${other}`;
}

function byPair<T>(value: (pair: Pair) => T): Record<string, T> {
  return Object.fromEntries(PAIRS.map((pair) => [nameOf(pair), value(pair)]));
}

/** What the records before `b` have in the pair's column. */
function firstNine(file: string, pair: Pair): unknown[] {
  return rowsIn(file, `SELECT "${nameOf(pair)}" AS v FROM content WHERE id < 'b' ORDER BY id`).map(({ v }) => v);
}

function inNine(values: readonly unknown[]): unknown[] {
  return Array.from({ length: 9 }, (_, at) => values[at] ?? null);
}

/** Nine records with a column for each pair, all of them of the one or of the other type. */
function wideRecords(prefix: string, side: 'from' | 'other'): string[] {
  return Array.from({ length: 9 }, (_, index) => {
    const members = PAIRS.map((pair) => `"${nameOf(pair)}":${SAMPLES[pair[side]][index] ?? 'null'}`);
    return `{"id":"${prefix}${index}",${members.join(',')}}`;
  });
}

describe('integers that a double would change', () => {
  it.each(['9007199254740992', '-9007199254740993', '9223372036854775807'])(
    'F092 the stored %s becomes numeric when a decimal comes, and keeps its digits',
    async (digits) => {
      const file = await copyOf(pagesWith(digits), {});
      expect(rowsIn(file, 'SELECT v FROM content ORDER BY id')).toEqual([{ v: digits }, { v: '7' }, { v: '1.5' }]);
      expect(rowsIn(file, "SELECT type FROM _sync_columns WHERE column_name = 'v'")).toEqual([{ type: 'numeric' }]);
    },
  );

  it('the largest integers that a double holds become a double', async () => {
    const file = await copyOf(pagesWith('9007199254740991'), {});
    expect(rowsIn(file, 'SELECT v, typeof(v) AS kind FROM content ORDER BY id')).toEqual([
      { v: 9007199254740991, kind: 'real' },
      { v: 7, kind: 'real' },
      { v: 1.5, kind: 'real' },
    ]);
  });
});

function pagesWith(first: string): string[][] {
  return [[`{"id":"1","v":${first}}`, '{"id":"2","v":7}'], ['{"id":"3","v":1.5}']];
}
