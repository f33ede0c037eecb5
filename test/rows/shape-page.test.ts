import { describe, expect, it } from 'vitest';
import { initialShape, shapeRecords } from '../../src/rows/shape-page.ts';
import { columnsOf, PROFILE, recordsOf, rowsOf, shapePage, shapePages } from './shaping.ts';

describe('initialShape', () => {
  it.each([
    ['one id', 'id', 'id'],
    ['a nested id', 'meta.docId', 'meta_doc_id'],
    ['several ids', ['page', 'day'], '_id'],
  ])('makes the table of a resource with %s', (_, id, key) => {
    const shape = initialShape('pages', { ...PROFILE, id });
    expect(shape).toEqual({ resource: 'pages', tables: [{ name: 'pages', path: [], key: [key], columns: [] }] });
  });
});

describe('flattening', () => {
  it('makes columns of fields, and of the fields of objects, and leaves the id to the key', () => {
    const page = shapePage(['{"id":1,"title":"T","seo":{"image":{"id":"i","wide":true}}}']);
    expect(rowsOf(page, 'content')).toEqual([{ id: '1', title: 'T', seo_image_id: 'i', seo_image_wide: true }]);
    expect(page.changes.map(({ column, from }) => [column.path.join('/'), from])).toEqual([
      ['title', null],
      ['seo/image/id', null],
      ['seo/image/wide', null],
    ]);
  });

  it('leaves a nested id to the key, with or without neighbours', () => {
    const page = shapePages([['{"meta":{"id":1}}'], ['{"meta":{"id":1,"x":2}}']], { id: 'meta.id' });
    expect(columnsOf(page[0]?.shape ?? raise())).toEqual([]);
    expect(columnsOf(page[1]?.shape ?? raise())).toEqual(['content.meta_x integer']);
  });

  it('keeps the fields of a composed id as columns', () => {
    const page = shapePage(['{"page":"a","day":"2024-01-01"}'], { id: ['page', 'day'] });
    expect(rowsOf(page, 'content')).toEqual([{ _id: '1', page: 'a', day: '2024-01-01' }]);
  });

  it('makes a child table of an array of scalars, by position', () => {
    const page = shapePage(['{"id":1,"tags":["a","b"]}', '{"id":2,"tags":[]}', '{"id":3,"tags":[null,"c"]}']);
    expect(rowsOf(page, 'content_tags')).toEqual([
      { content_id: '1', position: 0, value: 'a' },
      { content_id: '1', position: 1, value: 'b' },
      { content_id: '3', position: 0, value: null },
      { content_id: '3', position: 1, value: 'c' },
    ]);
    expect(rowsOf(page, 'content')).toEqual([{ id: '1' }, { id: '2' }, { id: '3' }]);
  });

  it('makes child tables of arrays within arrays of objects, with a position for each', () => {
    const page = shapePage(['{"id":1,"authors":[{"handle":"x"},{"handle":"y","roles":["r","s"],"at":{"org":"o"}}]}']);
    expect(rowsOf(page, 'content_authors')).toEqual([
      { content_id: '1', position: 0, handle: 'x', at_org: null },
      { content_id: '1', position: 1, handle: 'y', at_org: 'o' },
    ]);
    expect(rowsOf(page, 'content_authors_roles')).toEqual([
      { content_id: '1', position: 1, position_2: 0, value: 'r' },
      { content_id: '1', position: 1, position_2: 1, value: 's' },
    ]);
  });

  it('gives a field of an element its own name where the key has taken it', () => {
    const page = shapePage(['{"id":1,"authors":[{"handle":"x","position":7}]}']);
    const [row] = rowsOf(page, 'content_authors');
    expect(row).toEqual({ content_id: '1', position: 0, handle: 'x', source_position: 7 });
  });

  it.each([
    ['an array of arrays', '{"id":1,"a":[[1,2],[]]}', {}, 'content_a', [{ value: '[1,2]' }, { value: '[]' }]],
    [
      'what lies deeper than the depth',
      '{"id":1,"a":{"b":{"c":[1]}}}',
      { depth: 1 },
      'content',
      [{ a_b: '{"c":[1]}' }],
    ],
    [
      'what the profile says',
      '{"id":1,"a":{"b":{"c":1},"d":2}}',
      { json: ['a.b'] },
      'content',
      [{ a_b: '{"c":1}', a_d: 2 }],
    ],
    ['the same inside an array', '{"id":1,"a":[{"b":[1]}]}', { json: ['a.b'] }, 'content_a', [{ b: '[1]' }]],
  ])('keeps %s as JSON', (_, text, profile, table, rows) => {
    const page = shapePage([text], profile);
    expect(rowsOf(page, table)).toEqual(rows.map((row) => expect.objectContaining(row)));
  });

  it('has no column and no table until there is something to put into it', () => {
    const empty = '{"id":1,"a":null,"b":{},"c":[],"d":{"e":null,"f":[]}}';
    const [first, second] = shapePages([[empty], ['{"id":1,"c":[1]}', empty]]);
    expect(first).toMatchObject({ shape: { tables: [{ name: 'content' }] }, changes: [], rows: [{ cells: ['1'] }] });
    expect(second?.shape.tables.map((table) => table.name)).toEqual(['content', 'content_c']);
  });

  it('has a row for each element of an array, also where all are empty', () => {
    const empty = '{"id":1,"d":{"f":[[]]},"g":[{},{"h":null},{"i":[null]}]}';
    const [first, second] = shapePages([[empty], ['{"id":1,"g":[null,{"h":1}]}', empty]]);
    expect(first?.shape.tables.map(({ name }) => name)).toEqual(['content', 'content_d_f', 'content_g', 'content_g_i']);
    expect(first?.changes).toEqual([]);
    expect(first?.rows.map(({ cells }) => cells)).toEqual([['1'], ['1', 0], ['1', 0, '1', 1, '1', 2], ['1', 2, 0]]);
    expect(rowsOf(second ?? raise(), 'content_g').map((row) => row['h'])).toEqual([null, 1, null, null, null]);
  });

  it('has empty objects and arrays in columns of JSON, from the first on, and null for them in all others', () => {
    const profile = { json: ['whole', 'deep.in'] };
    const pages = shapePages(
      [[everywhere('{}')], [everywhere('[]')], ['{"id":1,"n":1,"mixed":"x"}', everywhere('{}')]],
      profile,
    );
    expect(pages.map((page) => rowsOf(page, 'content').at(-1))).toEqual([
      { id: '1', whole: '{}', deep_in: '{}' },
      { id: '1', whole: '[]', deep_in: '[]' },
      { id: '2', whole: '{}', deep_in: '{}', mixed: null, n: null },
    ]);
    expect(pages[2]?.changes.map(({ column }) => column.type)).toEqual(['integer', 'text']);
  });

  it('gives the same shape object back where nothing is new', () => {
    const [first, second] = shapePages([['{"id":1,"a":1,"b":[1]}'], ['{"id":2,"a":2,"b":[]}']]);
    expect(second?.shape).toBe(first?.shape);
    expect(second?.changes).toEqual([]);
  });

  it('keeps child tables off the names of views and of other resources', () => {
    const shape = initialShape('content', PROFILE);
    const records = recordsOf('{"live":[1],"tags":[1]}');
    const page = shapeRecords({ shape, profile: PROFILE, records, tableNames: new Set(['content_tags']) });
    expect(page.shape.tables[1]?.name).toMatch(/^content_live_[0-9a-f]{8}$/);
    expect(page.shape.tables[2]?.name).toMatch(/^content_tags_[0-9a-f]{8}$/);
  });

  it('stops making tables at 64 and keeps further arrays as JSON', () => {
    const arrays = Object.fromEntries(Array.from({ length: 70 }, (_, n) => [`a${n}`, [n]]));
    const page = shapePage([JSON.stringify({ id: 1, ...arrays })]);
    expect(page.shape.tables).toHaveLength(65);
    expect(rowsOf(page, 'content')).toEqual([
      { id: '1', a64: '[64]', a65: '[65]', a66: '[66]', a67: '[67]', a68: '[68]', a69: '[69]' },
    ]);
  });
});

describe('cells', () => {
  it.each([
    ['a boolean', ['true', 'false'], [true, false]],
    ['integers', ['1', '-0', '1.0'], [1, 0, 1]],
    ['integers beyond 2^53 as bigint', ['9007199254740993', '1'], [9007199254740993n, 1]],
    ['doubles', ['1', '0.08'], [1, 0.08]],
    [
      'numbers that a double would change, as digits',
      ['1.5', '18446744073709551616', '0.10000000000000000001'],
      ['1.5', '18446744073709551616', '0.10000000000000000001'],
    ],
    ['a big integer beside a double, as digits', ['1.5', '9007199254740993'], ['1.5', '9007199254740993']],
    ['a number beyond every double', ['1e400'], ['1e400']],
    ['a number beyond every database', ['1', '1e999999'], ['1', '1e999999']],
    ['dates', ['"2024-01-01"'], ['2024-01-01']],
    [
      'timestamps',
      ['"2024-01-01T08:49:39.676Z"', '"2024-01-01T02:00:00+02:00"'],
      ['2024-01-01 08:49:39.676', '2024-01-01 00:00:00'],
    ],
    [
      'dates and timestamps together',
      ['"2024-01-01"', '"2024-01-01T08:00:00Z"'],
      ['2024-01-01 00:00:00', '2024-01-01 08:00:00'],
    ],
    [
      'anything beside text as it was sent',
      ['"x"', '1.5', 'true', '"2024-01-01T08:00:00Z"', '12345678901234567890'],
      ['x', '1.5', 'true', '2024-01-01T08:00:00Z', '12345678901234567890'],
    ],
    [
      'epoch numbers beside timestamps as they were sent',
      ['"2024-01-01T08:00:00Z"', '1704096000'],
      ['2024-01-01T08:00:00Z', '1704096000'],
    ],
    [
      'no moment of any calendar as text',
      ['"2026-02-30T00:00:00Z"', '"2016-12-31T23:59:60Z"'],
      ['2026-02-30T00:00:00Z', '2016-12-31T23:59:60Z'],
    ],
    ['a missing value as null', ['1', 'null'], [1, null]],
  ])('F068 F072 F092 hold %s', (_, values, cells) => {
    const page = shapePage(values.map((value) => `{"id":1,"v":${value}}`));
    expect(rowsOf(page, 'content').map((row) => row['v'])).toEqual(cells);
  });

  it('F094 F095 T14 shows NUL and half surrogate pairs by a sign, in texts and in JSON, and counts them', () => {
    const page = shapePage(
      [String.raw`{"id":1,"t":"a\u0000b\ud800c","n":"\\u0000","j":{"\u0000":"\udfff","ok":"\\ud800\ud83d\ude42"}}`],
      { json: ['j'] },
    );
    expect(rowsOf(page, 'content')).toEqual([
      {
        id: '1',
        t: 'a␀b\ufffdc',
        n: String.raw`\u0000`,
        j: String.raw`{"␀":"` + '\ufffd' + String.raw`","ok":"\\ud800🙂"}`,
      },
    ]);
    expect(page.repaired).toBe(2);
  });

  it('F098 keeps fields named like the language’s own, and pollutes nothing', () => {
    const keys = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'then', 'toJSON', 'rawJSON'];
    const page = shapePage([`{"id":1,${keys.map((key) => `"${key}":{"x":"${key}"}`).join(',')}}`]);
    expect(Object.values(rowsOf(page, 'content')[0] ?? {})).toEqual(['1', ...keys]);
    expect(Reflect.get({}, 'x')).toBeUndefined();
  });

  it('keeps an object apart from a number that has its looks', () => {
    const page = shapePage(['{"id":1,"v":{"rawJSON":"12345678901234567890"}}']);
    expect(rowsOf(page, 'content')).toEqual([{ id: '1', v_raw_json: '12345678901234567890' }]);
  });

  it('keeps source keys that look like the marks of a path apart from them', () => {
    const text = String.raw`{"id":1,"a":{"[]":1},"b":["x"],"[overflow]":2,"\\[]":3,"[]":4}`;
    const [first, second] = shapePages([[text], [text]]);
    expect(second?.shape).toBe(first?.shape);
    expect(Object.values(rowsOf(second ?? raise(), 'content')[0] ?? {})).toEqual(['1', 1, 2, 3, 4]);
  });
});

/** A record with the value in fields of each kind. */
function everywhere(value: string): string {
  return `{"id":1,"whole":${value},"deep":{"in":${value}},"mixed":${value},"n":${value}}`;
}

function raise(): never {
  throw new Error('not there');
}
