import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/observe/system-clock.ts';
import { parseJson } from '../../src/rows/json/parse-json.ts';
import { openWarehouse } from '../../src/database/databases.ts';
import { jsonSuite, naughtyStrings } from '../support/corpora.ts';
import { copiedCells, copiedColumns, isPostgres, rowsOf } from '../support/copied-cells.ts';
import { POSTGRES, SQLITE, preparedAddress } from '../support/databases.ts';
import { sampled } from '../support/length.ts';
import { loading } from '../support/page-loading.ts';
import type { ProfileChoice } from '../support/page-records.ts';

/** Loads the pages into a warehouse of each kind; the addresses. */
async function inBoth(pages: readonly (readonly string[])[], profile: ProfileChoice = {}): Promise<[string, string]> {
  const addresses: string[] = [];
  for (const database of [SQLITE, POSTGRES]) {
    const address = await preparedAddress(database);
    const warehouse = await openWarehouse(address, systemClock);
    onTestFinished(() => warehouse.close());
    const { load } = await loading(warehouse, { profile: { updated: null, ...profile } });
    for (const page of pages) await load(page);
    addresses.push(address);
  }
  const [sqlite = '', postgres = ''] = addresses;
  return [sqlite, postgres];
}

/** Expects the same tables, columns and values in both, and the same records set aside. */
async function expectAlike([sqlite, postgres]: [string, string]): Promise<void> {
  const tables = await rowsOf(sqlite, TABLES);
  expect(await rowsOf(postgres, TABLES)).toEqual(tables);
  for (const { name } of tables) {
    expect(await copiedColumns(postgres, String(name))).toEqual(await copiedColumns(sqlite, String(name)));
    const key = await keyOf(sqlite, String(name));
    expect(await copiedCells(postgres, String(name), key)).toEqual(await copiedCells(sqlite, String(name), key));
  }
  const bodies = 'SELECT id, body FROM _sync_versions WHERE valid_to IS NULL ORDER BY id';
  expect(await rowsOf(postgres, inBytes(postgres, bodies))).toEqual(await rowsOf(sqlite, bodies));
  expect(await rowsOf(postgres, REJECTS)).toEqual(await rowsOf(sqlite, REJECTS));
}

const TABLES = `SELECT DISTINCT table_name AS name FROM _sync_columns ORDER BY 1`;
const REJECTS = 'SELECT reason, record_id, detail, body FROM _sync_rejects ORDER BY hash, reason';

async function keyOf(address: string, table: string): Promise<string[]> {
  const rows = await rowsOf(
    address,
    `SELECT column_name AS name FROM _sync_columns WHERE table_name = '${table}' AND role = 'key' ORDER BY position`,
  );
  return rows.map(({ name }) => String(name));
}

/** SQLite sorts texts by their bytes. */
function inBytes(address: string, query: string): string {
  return isPostgres(address) ? query.replace('ORDER BY id', 'ORDER BY id COLLATE "C"') : query;
}

const HARD: readonly string[] = [
  '9007199254740993',
  '-9223372036854775808',
  '9223372036854775808',
  '0.12345678901234567890123',
  '1e400',
  '-1e400',
  '1e1000',
  '1e-1000',
  '1e400000',
  '-1e-400000',
  '1e99999999999999999999',
  '9'.repeat(1_001),
  '9'.repeat(140_000),
  `0.${'123456789'.repeat(2_000)}`,
  '1.7976931348623157e308',
  '5e-324',
  '-0',
  '-0.0',
  '0e400000',
  '"a\\u0000b"',
  '"a\\ud800b"',
  '"\\udc00\\ud83d\\ude00"',
  '"\\\\u0000 \\\\ud800"',
  '"\\t\\n\\r\\b\\f\\u0001\\u007f\\u2028\\ufeff\\uffff"',
  '"\\\\N"',
  '"\\\\."',
  '""',
  '" "',
  '"NULL"',
  '"NaN"',
  '"Infinity"',
  '"-infinity"',
  '"now"',
  '"epoch"',
  '"0000-00-00"',
  '"0000-01-01"',
  '"0001-01-01"',
  '"9999-12-31"',
  '"10000-01-01"',
  '"2026-02-30"',
  '"0001-01-01T00:00:00Z"',
  '"0001-01-01T00:00:00+14:00"',
  '"9999-12-31T23:59:59.999Z"',
  '"9999-12-31T23:59:59.9999999-14:00"',
  '"2026-06-30T23:59:60Z"',
  '"2026-01-01T24:00:00Z"',
  '"2026-01-01T00:00:00.000000001Z"',
  '"2026-01-01T00:00:00+23:59"',
  '"-infinity"',
  'true',
];

describe.skipIf(POSTGRES.missing !== null)('what both databases make of a value', () => {
  it('F092 F093 F072 T12 T14 is the same, in columns of its own, in lists, in JSON and in _overflow', async () => {
    const records = HARD.map(
      (value, at) => `{"id":"r${at}","f${at}":${value},"list":[${value}],"whole":{"k":[${value}]},"mixed":${value}}`,
    );
    await expectAlike(await inBoth([records], { json: ['whole'] }));
    await expectAlike(await inBoth([records], { max_columns: 10 }));
  });

  it('F094 F095 T14 is the same for NUL and half characters in names, in the keys of JSON and in what is set aside', async () => {
    const odd = String.raw`"\u0000":1,"a\u0000b":"x","\ud800":2,"c":{"\u0000":[{"d\udc00":"\u0000"}]}`;
    const [first, second] = ['{"id":"1","c":{"k":1},"d":"x"}', `{"id":"2",${odd}}`];
    await expectAlike(await inBoth([[first], [second]], { json: ['c'] }));
    await expectAlike(await inBoth([[first], [second]], { contract: 'discard_row' }));
    await expectAlike(await inBoth([[first], [second]], { contract: 'discard_value' }));
    await expect(inBoth([[first], [second]], { contract: 'freeze' })).rejects.toMatchObject({
      code: 'contract_frozen',
      message: expect.not.stringContaining('\0'),
    });
  });

  it('F104 T15 is the same for ids: the long ones are set aside, and no page is lost', async () => {
    const ids = ['a'.repeat(1_000), 'é'.repeat(500), '€'.repeat(334), 'b'.repeat(3_000), 'c'.repeat(50_000), '', ' '];
    const records = ids.map((id) => JSON.stringify({ id, list: [[{ deep: [1] }], 'x'], title: 'good' }));
    const both = await inBoth([records]);
    await expectAlike(both);
    expect(await rowsOf(both[1], 'SELECT reason FROM _sync_rejects ORDER BY 1')).toEqual(
      ['id_empty', 'id_too_long', 'id_too_long', 'id_too_long'].map((reason) => ({ reason })),
    );
  });

  it('F096 T13 is the same for JSON as deep as it may be', async () => {
    await expectAlike(await inBoth([[`{"id":"1","v":${deep(98)}}`, `{"id":"2","v":${deep(10_000)}}`]]));
  });
});

function deep(levels: number): string {
  return `${'{"a":['.repeat(levels / 2)}1${']}'.repeat(levels / 2)}`;
}

describe.skipIf(POSTGRES.missing !== null)('what both databases make of a corpus', () => {
  it('F101 F109 T15 is the same for 515 naughty strings as values, and as names', async () => {
    const strings = naughtyStrings();
    const values = strings.map((text, at) => JSON.stringify({ id: `n${at}`, text, nested: { text }, all: [text] }));
    await expectAlike(await inBoth([values]));
    const names = [...new Set(strings)].filter((name) => name !== 'id');
    const named = JSON.stringify({ id: 'one', ...Object.fromEntries(names.map((name, at) => [name, `mark ${at}`])) });
    const both = await inBoth([[named]], { max_columns: 900 });
    await expectAlike(both);
    expect((await copiedColumns(both[1], 'content')).length).toBe(names.length);
    await expectAlike(await inBoth([[named]]));
  });

  it('F090 F095 F096 is the same for every value of the JSON test suite that is one', async () => {
    const texts = [...jsonSuite('test_parsing').values(), ...jsonSuite('test_transform').values()]
      .filter((bytes) => Buffer.from(bytes.toString()).equals(bytes))
      .map(String)
      .filter(isJson);
    expect(texts.length).toBeGreaterThan(100);
    const records = sampled(texts, 6).map((text, at) => `{"id":"s${at}","v":${text},"whole":${text},"f${at}":${text}}`);
    await expectAlike(await inBoth([records], { json: ['whole'] }));
  });
});

function isJson(text: string): boolean {
  try {
    parseJson(text);
    return true;
  } catch {
    return false;
  }
}
