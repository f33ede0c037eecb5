import { describe, expect, it, onTestFinished } from 'vitest';
import { openWarehouse } from '../../src/database/databases.ts';
import { COLUMN_TYPES, type ColumnType } from '../../src/model/vocabulary.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { widen } from '../../src/rows/columns/cells.ts';
import { copiedCells, copiedColumns, decimal, isPostgres, rowsOf } from '../support/copied-cells.ts';
import { DATABASES, POSTGRES, preparedAddress, SQLITE, type TestDatabase } from '../support/databases.ts';
import { loading } from '../support/page-loading.ts';

/** Source texts that make a column of each type, among them those that a careless conversion changes. */
const SAMPLES: Readonly<Record<ColumnType, readonly string[]>> = {
  boolean: ['true', 'false'],
  integer: ['0', '-7', '9007199254740991', '1.0', '-0'],
  double: [
    '1.5',
    '0.1',
    '-2.5e-7',
    '1e21',
    '1e300',
    '1.2345678901234568e17',
    '5e-324',
    '3.0',
    '0.30000000000000004',
    '1e23',
    '1.8014398509481992e16',
    '-1.7976931348623157e308',
    '-0.0',
    '1e-6',
    '98331783783160.625',
    '0.1000000000000000055511151231257827',
    '4.94e-324',
  ],
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

/** In the fewest digits, as a double is written. */
const DOUBLES = SAMPLES.double.map((text) => String(Number(text)));

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
  'double numeric': DOUBLES.map(decimal),
  'double text': DOUBLES,
  'double json': DOUBLES.map((text) => JSON.stringify(`number ${decimal(text)}`)),
};

/** Postgres's numeric is a number, however it was written. */
const CONVERTED_BY_POSTGRES: typeof CONVERTED = {
  'numeric text': ['0.12345678901234567890', '9223372036854775808', `1${'0'.repeat(400)}`, '1.1', '7'],
};

/** What a column must be declared as, so that BI clients read it right. */
const DECLARED: Readonly<Record<TestDatabase['name'], Readonly<Record<ColumnType, string>>>> = {
  sqlite: {
    boolean: 'BOOLEAN',
    integer: 'BIGINT',
    double: 'DOUBLE',
    numeric: 'TEXT',
    date: 'DATE',
    timestamp: 'TIMESTAMP',
    text: 'TEXT',
    json: 'TEXT',
  },
  postgres: {
    boolean: 'boolean',
    integer: 'bigint',
    double: 'double precision',
    numeric: 'numeric',
    date: 'date',
    timestamp: 'timestamp with time zone',
    text: 'text',
    json: 'jsonb',
  },
};

type Pair = Record<'from' | 'other' | 'to', ColumnType>;

const PAIRS: readonly Pair[] = COLUMN_TYPES.flatMap((from) =>
  COLUMN_TYPES.filter((other) => widen(from, other) !== from).map((other) => ({ from, other, to: widen(from, other) })),
);
const MOST_SAMPLES = Math.max(...Object.values(SAMPLES).map((texts) => texts.length));
const PAGES = [wideRecords('a', 'from'), wideRecords('b', 'other')] as const;

async function copyOf(database: TestDatabase, pages: readonly string[][], history: string): Promise<string> {
  const address = await preparedAddress(database);
  const warehouse = await openWarehouse(address, systemClock);
  onTestFinished(() => warehouse.close());
  const { load } = await loading(warehouse, { profile: { updated: null, history } });
  for (const page of pages) await load(page);
  return address;
}

describe.for(DATABASES)('columns that widen, on $name', (database) => {
  it('F103 hold what a fresh copy would, every pair of types', async () => {
    const grown = await copyOf(database, PAGES, 'latest');
    const fresh = await copyOf(database, [PAGES.flat()], 'latest');
    expect(await copiedCells(grown, 'content')).toEqual(await copiedCells(fresh, 'content'));
    expect(byName(await copiedColumns(grown, 'content'))).toEqual(byPair(({ to }) => to));
    expect(await declaredTypes(grown)).toEqual(byPair(({ to }) => DECLARED[database.name][to]));
    expect(await rowsOf(grown, CHANGES)).toEqual(
      PAIRS.flatMap((pair) => [
        { column_name: nameOf(pair), from_type: null, to_type: pair.from },
        { column_name: nameOf(pair), from_type: pair.from, to_type: pair.to },
      ]).toSorted((a, b) => (a.column_name < b.column_name ? -1 : 1)),
    );
    expect(await rowsOf(grown, 'SELECT * FROM _sync_reshapes')).toEqual([]);
  });

  it('F103 hold without stored bodies what a fresh copy would, but for the pairs that only a body could tell', async () => {
    const grown = await copiedCells(await copyOf(database, PAGES, 'none'), 'content');
    const fresh = await copiedCells(await copyOf(database, [PAGES.flat()], 'none'), 'content');
    const converted = { ...CONVERTED, ...(database.name === 'postgres' ? CONVERTED_BY_POSTGRES : {}) };
    const told = (pair: Pair, at: number): string | null | undefined => {
      const texts = converted[`${pair.from} ${pair.to}`];
      return texts === undefined ? fresh[`a${at}`]?.[nameOf(pair)] : (texts[at] ?? null);
    };
    for (let at = 0; at < MOST_SAMPLES; at += 1) {
      expect(grown[`a${at}`]).toEqual(byPair((pair) => told(pair, at)));
    }
  });
});

describe.skipIf(POSTGRES.missing !== null)('the two databases', () => {
  it('F103 hold the same after the same widenings', async () => {
    const [sqlite, postgres] = await Promise.all([SQLITE, POSTGRES].map((one) => copyOf(one, PAGES, 'latest')));
    expect(await copiedCells(postgres ?? '', 'content')).toEqual(await copiedCells(sqlite ?? '', 'content'));
  });
});

const CHANGES = `SELECT column_name, from_type, to_type FROM _sync_schema_changes
  ORDER BY column_name, changed_at, from_type IS NOT NULL`;

async function declaredTypes(address: string): Promise<Record<string, string>> {
  const query = isPostgres(address)
    ? `SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute WHERE attrelid = 'content'::regclass
       AND attname LIKE '%\\_by\\_%'`
    : `SELECT name, type FROM pragma_table_info('content') WHERE name LIKE '%\\_by\\_%' ESCAPE '\\'`;
  return Object.fromEntries((await rowsOf(address, query)).map(({ name, type }) => [name, String(type)]));
}

function byName(columns: readonly { name: string; type: string }[]): Record<string, string> {
  return Object.fromEntries(columns.map(({ name, type }) => [name, type]));
}

function nameOf({ from, other }: Pair): string {
  return `${from}_by_${other}`;
}

function byPair<T>(value: (pair: Pair) => T): Record<string, T> {
  return Object.fromEntries(PAIRS.map((pair) => [nameOf(pair), value(pair)]));
}

/** Records with a column for each pair, all of them of the one or of the other type. */
function wideRecords(prefix: string, side: 'from' | 'other'): string[] {
  return Array.from({ length: MOST_SAMPLES }, (_, index) => {
    const members = PAIRS.map((pair) => `"${nameOf(pair)}":${SAMPLES[pair[side]][index] ?? 'null'}`);
    return `{"id":"${prefix}${index}",${members.join(',')}}`;
  });
}
