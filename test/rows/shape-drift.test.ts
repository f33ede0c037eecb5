import { describe, expect, it } from 'vitest';
import { columnsOf, rowsOf, shapePages } from './shaping.ts';

/** One record a page, each with this value in `v`; what the tables look like after the last. */
function drift(...values: string[]): { columns: string[]; types: (string | null)[]; cells: unknown[] } {
  const pages = shapePages(values.map((value) => [`{"id":1,"v":${value}}`]));
  const last = pages.at(-1);
  return {
    columns: last === undefined ? [] : columnsOf(last.shape),
    types: pages.flatMap((page) => page.changes.map((change) => change.from)),
    cells: last === undefined ? [] : Object.values(rowsOf(last, 'content')[0] ?? {}),
  };
}

describe('type drift over runs', () => {
  it.each([
    [['1', '2.5'], ['content.v double'], 2.5],
    [['1.5', '2'], ['content.v double'], 2],
    [['1', '"x"'], ['content.v text'], 'x'],
    [['"x"', '1'], ['content.v text'], '1'],
    [['true', '1'], ['content.v text'], '1'],
    [['1', '9007199254740993'], ['content.v integer'], 9007199254740993n],
    [['1.5', '9007199254740993'], ['content.v numeric'], '9007199254740993'],
    [['1', '9223372036854775808'], ['content.v numeric'], '9223372036854775808'],
    [['"2024-01-01"', '"2024-01-01T01:00:00Z"'], ['content.v timestamp'], '2024-01-01 01:00:00'],
    [['"2024-01-01T01:00:00Z"', '"2024-01-01"'], ['content.v timestamp'], '2024-01-01 00:00:00'],
    [['"2024-01-01T01:00:00Z"', '"soon"'], ['content.v text'], 'soon'],
    [['"soon"', '"2024-01-01T01:00:00Z"'], ['content.v text'], '2024-01-01T01:00:00Z'],
    [['"x"', '{"a":1}'], ['content.v json'], '{"a":1}'],
    [['"x"', '[1]'], ['content.v json'], '[1]'],
    [['"x"', '{"a":1}', '"y"'], ['content.v json'], '"y"'],
    [['1', 'null', '1'], ['content.v integer'], 1],
  ])('F103 %j ends as %j in the same column', (values, columns, cell) => {
    const end = drift(...values);
    expect(end.columns).toEqual(columns);
    expect(end.cells).toEqual(['1', cell]);
  });

  it('F103 an object that becomes a text keeps filling its columns and is kept whole beside them', () => {
    const pages = shapePages([
      ['{"id":1,"seo":{"title":"a"}}'],
      ['{"id":1,"seo":"plain"}'],
      ['{"id":1,"seo":{"title":"b","new":true}}'],
      ['{"id":1,"seo":{"title":5}}'],
      ['{"id":1,"seo":["c"]}'],
    ]);
    expect(pages.flatMap((page) => rowsOf(page, 'content'))).toEqual([
      { id: '1', seo_title: 'a' },
      { id: '1', seo_title: null, seo: '"plain"' },
      { id: '1', seo_title: 'b', seo: '{"title":"b","new":true}' },
      { id: '1', seo_title: '5', seo: '{"title":5}' },
      { id: '1', seo_title: null, seo: '["c"]' },
    ]);
  });

  it('F103 an array that becomes an object keeps its table and is kept whole beside it', () => {
    const pages = shapePages([['{"id":1,"v":["a"]}'], ['{"id":1,"v":{"a":1}}'], ['{"id":1,"v":["b",{"c":1}]}']]);
    expect(pages.map((page) => rowsOf(page, 'content')[0]?.['v'])).toEqual([undefined, '{"a":1}', '["b",{"c":1}]']);
    expect(pages.map((page) => rowsOf(page, 'content_v').map((row) => row['value']))).toEqual([
      ['a'],
      [],
      ['"b"', '{"c":1}'],
    ]);
  });

  it('F103 elements that are texts at one time and objects at another stand whole in their column', () => {
    const pages = shapePages([['{"id":1,"v":[{"a":1}]}'], ['{"id":1,"v":["x",{"a":2},[3]]}']]);
    expect(rowsOf(pages[1] ?? raise(), 'content_v')).toEqual([
      { content_id: '1', position: 0, a: null, value: '"x"' },
      { content_id: '1', position: 1, a: 2, value: '{"a":2}' },
      { content_id: '1', position: 2, a: null, value: '[3]' },
    ]);
  });
});

function raise(): never {
  throw new Error('not there');
}
