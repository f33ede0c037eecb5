import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { toDateText, toTimestampText } from '../../../src/shape/columns/timestamps.ts';
import { VIEW_DIALECT as POSTGRES_DIALECT } from '../../../src/warehouse/postgres/views/dialect.ts';
import { VIEW_DIALECT as SQLITE_DIALECT } from '../../../src/warehouse/sqlite/views/dialect.ts';
import type { ViewDialect } from '../../../src/warehouse/view-dialect.ts';
import { asOtherClient, POSTGRES, postgresDatabase } from '../../support/databases.ts';

const DATES = ['2024-02-29', '2024-01-31', '2023-12-30', '0001-01-01', '9999-12-31', '2000-02-29', '2024-06-30'];
const TIMES = [
  '2015-03-12T10:07:00Z',
  '2015-03-12 10:07:00',
  '2024-10-29T23:59:59.999Z',
  '2024-10-31T10:07Z',
  '2024-10-31T10:07',
  '2024-10-31T10:07:08.5Z',
  '2024-10-31T10:07:08.05+02:00',
  '2024-10-31T10:07:08.676543Z',
  '2024-10-31T10:07:08.9999999Z',
  '2024-10-31T10:07:08.0004Z',
  '2024-10-31T10:07:08.000Z',
  '2024-12-31T23:30:00-05:30',
  '2024-01-01T00:30:00+14:00',
  '2024-10-31T10:07:08.5+10:00',
];
const NEITHER = [
  '2023-02-29',
  '1900-02-29',
  '2024-04-31',
  '2024-13-01',
  '0000-01-01',
  '2024-10-31T24:00:00Z',
  '2024-10-31T10:60:00Z',
  '2024-10-31T10:07:08Z and more',
  '2024-10-31 yesterday',
  'now',
  '12:00',
  '2460000.5',
  '7',
  'a word',
  '',
];
const ALL = [...DATES, ...TIMES, ...NEITHER];

/** What the table would hold: a date is its first moment. */
function asTime(text: string): string | null {
  return toTimestampText(text) ?? (toDateText(text) === null ? null : `${text} 00:00:00`);
}

function queryOf(dialect: ViewDialect): string {
  const rows = ALL.map((text, at) => `SELECT ${at} AS place, ${dialect.literal(text)} AS x`).join(' UNION ALL ');
  const time = dialect.text(dialect.converted('x', 'text', 'timestamp'), 'timestamp');
  const day = dialect.text(dialect.converted('x', 'text', 'date'), 'date');
  return `SELECT x, ${time} AS time, ${day} AS day FROM (${rows}) AS texts ORDER BY place`;
}

/** Texts that a column of numbers may get, and what of each it shows as a whole number and as another one. */
const NUMBERS: [string, number | null, number | null][] = [
  ['7', 7, 7],
  ['-12', -12, -12],
  ['9007199254740993', 9_007_199_254_740_992, 9_007_199_254_740_992],
  ['1e3', 1000, 1000],
  ['5.0', 5, 5],
  ['5.5', null, 5.5],
  ['0.25', null, 0.25],
  ['99999999999999999999', null, 1e20],
  ...['1e400', '1.2.3', '1-2', '2024-01-02', '1e', '007', '+', '', 'a word', 'true', 'null', '[1]'].map(
    (text): [string, null, null] => [text, null, null],
  ),
];

function numbersQuery(dialect: ViewDialect): string {
  const rows = NUMBERS.map(([text], at) => `SELECT ${at} AS place, ${dialect.literal(text)} AS x`).join(' UNION ALL ');
  const [whole, other] = (['integer', 'double'] as const).map((type) => dialect.converted('x', 'text', type));
  return `SELECT x, ${whole} AS whole, ${other} AS other FROM (${rows}) AS texts ORDER BY place`;
}

const SHOWN = NUMBERS.map(([x, whole, other]) => ({ x, whole, other }));

/** SQLite keeps milliseconds. */
const CUT = ALL.map((text) => ({
  x: text,
  time: asTime(text)?.slice(0, 23).replace('.000', '') ?? null,
  day: asTime(text)?.slice(0, 10) ?? null,
}));

const EXPECTED = ALL.map((text) => ({ x: text, time: asTime(text), day: asTime(text)?.slice(0, 10) ?? null }));

describe('dates, times and numbers of a column that became a text', () => {
  it('are shown as a table of SQLite would hold them', () => {
    const db = new Database(':memory:');
    expect(db.prepare(queryOf(SQLITE_DIALECT)).all()).toEqual(CUT);
    expect(db.prepare(numbersQuery(SQLITE_DIALECT)).all()).toEqual(SHOWN);
    db.close();
  });

  it.runIf(POSTGRES.missing === null)('are shown as one of Postgres would, in every session', async () => {
    const [texts, numbers] = await asOtherClient(await postgresDatabase(), async (client) => {
      await client.query("SET TIME ZONE 'America/New_York'");
      return [await client.query(queryOf(POSTGRES_DIALECT)), await client.query(numbersQuery(POSTGRES_DIALECT))];
    });
    expect(texts?.rows).toEqual(EXPECTED);
    const shown = numbers?.rows.map(({ x, whole, other }) => ({
      x,
      whole: whole === null ? null : Number(whole),
      other,
    }));
    expect(shown).toEqual(SHOWN);
  });
});
