import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { DATABASES } from '../support/databases.ts';
import { ownStage } from '../support/own-stage.ts';
import type { OwnRecord } from '../support/record-service.ts';
import { inDuckDb, manifestIn, parquetRows, parquetTypes, tableIn, viewRows } from './read-back.ts';
import { sampled } from '../support/length.ts';

const raw = (digits: string): unknown => JSON.rawJSON(digits);
const AT = '2024-03-01T08:49:39.676Z';

/** What is hard to carry from one format to another. */
const RECORDS: readonly OwnRecord[] = [
  {
    id: 'a',
    updated_at: AT,
    body: 'He said "no", then\r\nleft\n😀 \u0000 é',
    whole: raw('9223372036854775807'),
    decimal: raw('1234567890123456789012345678.1234567891'),
    share: 0.1,
    flag: true,
    day: '1903-12-31',
    seen_at: '1969-07-20T20:17:40.123Z',
    extra: { nested: { deep: { deeper: [1, raw('12345678901234567890')] } } },
    tags: ['x', ''],
  },
  {
    id: 'b',
    updated_at: AT,
    body: '',
    whole: raw('-9223372036854775807'),
    decimal: raw('-0.5'),
    share: 1e300,
    flag: false,
    day: '2024-02-29',
    seen_at: '2024-02-29T23:59:59Z',
    extra: { nested: { deep: { deeper: 'a\nb' } } },
  },
  { id: 'c', updated_at: AT, body: ' lead, and trail ', whole: 0, decimal: 7, share: -2.5, day: '2024-03-01' },
  // Nothing but NULLs.
  { id: 'd', updated_at: AT },
  { id: '"é,😀', updated_at: AT, body: 'a'.repeat(70_000) },
];

describe.for(DATABASES)('an export of odd values from $name', (database) => {
  it('holds in Parquet what the views show, row by row, with their types', async () => {
    const stage = await ownStage(database, RECORDS);
    const { code, stderr } = await stage.command('export', 'parquet', 'out');
    expect([code, stderr]).toEqual([0, '']);
    const folder = path.join(stage.folder, 'out');
    for (const table of manifestIn(folder).tables) {
      const rows = await viewRows(database, stage.address, table);
      expect([table.name, rows]).toEqual([table.name, await parquetRows(folder, table.name)]);
    }
    expect(tableIn(folder, 'content_live').rows).toBe(RECORDS.length);
    expect(await parquetTypes(folder, 'content_live')).toMatchObject({
      id: 'VARCHAR',
      _synced_at: 'TIMESTAMP WITH TIME ZONE',
      body: 'VARCHAR',
      whole: 'BIGINT',
      share: 'DOUBLE',
      flag: 'BOOLEAN',
      day: 'DATE',
      seen_at: 'TIMESTAMP WITH TIME ZONE',
      decimal: 'DECIMAL(38,10)',
    });
    const { files } = tableIn(folder, 'content_live');
    const list = files.map((file) => `'${path.join(folder, file.path)}'`).join(', ');
    const { rows } = await inDuckDb(
      `SELECT whole::VARCHAR, decimal::VARCHAR FROM read_parquet([${list}]) WHERE id = 'a'`,
    );
    expect(rows).toEqual([['9223372036854775807', '1234567890123456789012345678.1234567891']]);
  });

  it('keeps the digits of decimals that no decimal of Parquet holds', async () => {
    const digits = '12345678901234567890123456789012345678901234567890.25';
    const stage = await ownStage(database, [
      { id: 'a', decimal: raw(digits) },
      { id: 'b', decimal: raw('0.5') },
      { id: 'c', decimal: raw('5e-7') },
    ]);
    expect((await stage.command('export', 'parquet', 'out')).code).toBe(0);
    const folder = path.join(stage.folder, 'out');
    expect(await parquetTypes(folder, 'content_live')).toMatchObject({ decimal: 'VARCHAR' });
    const { columns } = tableIn(folder, 'content_live');
    const at = columns.findIndex((column) => column.name === 'decimal');
    const rows = await parquetRows(folder, 'content_live');
    expect(rows.map((row) => row[at])).toEqual([digits, '0.5', '0.0000005']);
  });

  it.for(sampled(['snappy', 'none'], 2, DATABASES.indexOf(database)))(
    'compresses Parquet by %s as well',
    async (compression) => {
      const stage = await ownStage(database, RECORDS);
      const { code } = await stage.command('export', 'parquet', 'out', '--compression', compression);
      const folder = path.join(stage.folder, 'out');
      const rows = await viewRows(database, stage.address, tableIn(folder, 'content_live'));
      expect([code, rows]).toEqual([0, await parquetRows(folder, 'content_live')]);
    },
  );

  it('holds in CSV the texts of the views, NULL apart from an empty text', async () => {
    const stage = await ownStage(database, RECORDS);
    expect((await stage.command('export', 'csv', 'out')).code).toBe(0);
    const folder = path.join(stage.folder, 'out');
    const { columns, files } = tableIn(folder, 'content_live');
    const at = (name: string): number => columns.findIndex((column) => column.name === name);
    const lines = files.flatMap(({ path: file }) => {
      const [head, ...rest] = parsedCsv(readFileSync(path.join(folder, file), 'utf8'));
      expect(head).toEqual(columns.map(({ name }) => name));
      return rest;
    });
    const byId = new Map(lines.map((line) => [line[0], line]));
    expect(byId.get('a')?.[at('body')]).toBe('He said "no", then\r\nleft\n😀 ␀ é');
    expect(byId.get('a')?.[at('seen_at')]).toBe('1969-07-20T20:17:40.123Z');
    expect(byId.get('a')?.[at('whole')]).toBe('9223372036854775807');
    expect(byId.get('a')?.[at('decimal')]).toBe('1234567890123456789012345678.1234567891');
    expect(byId.get('b')?.[at('body')]).toBe('');
    expect(byId.get('d')?.[at('body')]).toBeNull();
    expect(byId.get('c')?.[at('body')]).toBe(' lead, and trail ');
    // A reader of the world's own.
    const list = files.map(({ path: file }) => `'${path.join(folder, file)}'`).join(', ');
    const { rows } = await inDuckDb(
      `SELECT id, body IS NULL, body = '' FROM read_csv([${list}], header = true, all_varchar = true, delim = ',',
        quote = '"', escape = '"', nullstr = '', allow_quoted_nulls = false, strict_mode = false) ORDER BY id`,
    );
    expect(rows.map(([id, isNull, isEmpty]) => [id, isNull, isEmpty === true])).toEqual(
      [...byId.values()]
        .map((line) => [line[0], line[at('body')] === null, line[at('body')] === ''])
        .toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
    );
  });

  it('begins CSV with a byte order mark and keeps spreadsheets from running texts, if asked to', async () => {
    const formulas = ['=1+1', '+1', '-1', '@sum', '\tx', '\rx', '\n=1'];
    const plain = ['a=1', ''];
    const all = [...formulas, ...plain].map((body, at) => ({ id: String(at), updated_at: AT, body, share: -2.5 }));
    const stage = await ownStage(database, [...all, { id: '-x', updated_at: AT, tags: ['=cmd'] }]);
    const bodies = async (...options: string[]): Promise<{ text: string; cells: (string | null | undefined)[] }> => {
      expect(await stage.command('export', 'csv', 'out', ...options)).toMatchObject({ code: 0 });
      const { columns, files } = tableIn(path.join(stage.folder, 'out'), 'content_live');
      const text = files.map(({ path: file }) => readFileSync(path.join(stage.folder, 'out', file), 'utf8')).join('');
      const lines = parsedCsv(text).slice(1);
      const [body, share] = ['body', 'share'].map((name) => columns.findIndex((column) => column.name === name));
      expect(new Set(lines.map((line) => line[share ?? 0]))).toEqual(new Set(['-2.5', null]));
      const own = lines.filter(([id]) => /^\d$/.test(id ?? ''));
      return { text, cells: own.map((line) => line[body ?? 0]) };
    };
    const usual = await bodies();
    expect([usual.text.startsWith('id,'), usual.cells]).toEqual([true, [...formulas, ...plain]]);
    const safe = await bodies('--bom', '--escape-formulas');
    expect(safe.text.startsWith('\uFEFFid,')).toBe(true);
    expect(safe.text).toContain("\r\n'-x,");
    expect(safe.cells).toEqual([...formulas.map((each) => `'${each}`), ...plain]);
    expect((await bodies()).text).toBe(usual.text);
  });

  it('holds in NDJSON long numbers by their digits, and JSON as JSON', async () => {
    const stage = await ownStage(database, RECORDS);
    expect((await stage.command('export', 'ndjson', 'out')).code).toBe(0);
    const folder = path.join(stage.folder, 'out');
    const { columns, files } = tableIn(folder, 'content_live');
    const text = files.map(({ path: file }) => readFileSync(path.join(folder, file), 'utf8')).join('');
    const lines = text.trimEnd().split('\n');
    expect(lines).toHaveLength(RECORDS.length);
    const records = lines.map((line): Record<string, unknown> => JSON.parse(line));
    for (const record of records) expect(Object.keys(record)).toEqual(columns.map(({ name }) => name));
    const line = lines.find((each) => each.startsWith('{"id":"a"')) ?? '';
    expect(line).toContain('"whole":9223372036854775807,');
    expect(line).toContain('"decimal":1234567890123456789012345678.1234567891,');
    expect(line).toContain('12345678901234567890');
    expect(records.find(({ id }) => id === 'a')).toMatchObject({
      body: 'He said "no", then\r\nleft\n😀 ␀ é',
      day: '1903-12-31',
      seen_at: '1969-07-20T20:17:40.123Z',
      flag: true,
    });
    expect(records.find(({ id }) => id === 'd')).toMatchObject({ body: null, whole: null, flag: null });
  });
});

/** RFC 4180; null for a field of nothing at all. */
function parsedCsv(text: string): (string | null)[][] {
  const lines: (string | null)[][] = [[]];
  for (const [, quoted, bare = '', end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    lines.at(-1)?.push(quoted === undefined ? bare || null : quoted.replaceAll('""', '"'));
    if (end !== ',') lines.push([]);
  }
  return lines.slice(0, -1);
}
