import { describe, expect, it } from 'vitest';
import { columnsOf, rowsOf, shapePage, shapePages } from './shaping.ts';

describe('a renamed field', () => {
  it('has the given name as a column, a child table or a key', () => {
    const fields = {
      id: { rename: 'post_id' },
      'seo.image.id': { rename: 'hero' },
      tags: { rename: 'labels' },
      'authors.full.name': { rename: 'name' },
    };
    const page = shapePage(
      ['{"id":"1","seo":{"image":{"id":"a"}},"name":"n","tags":["x"],"authors":[{"full":{"name":"A"}}]}'],
      { fields },
    );
    expect(page.shape.tables.map(({ name }) => name)).toEqual(['content', 'labels', 'content_authors']);
    expect(page.shape.tables[0]?.key).toEqual(['post_id']);
    expect(columnsOf(page.shape)).toEqual([
      'content.hero text',
      'content.name text',
      'labels.value text',
      'content_authors.name text',
    ]);
  });

  it.for([['{"title":"t","slug":"s"}'], ['{"slug":"s","title":"t"}']])(
    'gives way to no field beside it: %s',
    ([text = '']) => {
      const page = shapePage([text], { fields: { slug: { rename: 'title' } } });
      expect(rowsOf(page, 'content')[0]).toMatchObject({ title: 's' });
      expect(Object.keys(rowsOf(page, 'content')[0] ?? {})).toContainEqual(
        expect.stringMatching(/^title_[0-9a-f]{8}$/),
      );
    },
  );
});

const typed = (
  type: 'boolean' | 'integer' | 'double' | 'numeric' | 'date' | 'timestamp' | 'text' | 'json',
  values: string[],
) =>
  shapePages(
    values.map((value) => [`{"a":${value}}`]),
    { fields: { a: { type } } },
  );

const secondPage = (contract: 'evolve' | 'discard_row' | 'discard_value') =>
  shapePages([['{"a":1,"b":1}'], ['{"a":"x","b":2,"c":3}', '{"a":"7","b":3}']], {
    contract,
    fields: { a: { type: 'integer' } },
  })[1];

describe('a field with a type', () => {
  it.for([
    ['double', '"2.5"', 2.5],
    ['double', '98331783783160.625', 98331783783160.625],
    ['integer', '"42"', 42],
    ['integer', '"9007199254740993"', 9007199254740993n],
    ['numeric', '"0.1000000000000000000000001"', '0.1000000000000000000000001'],
    ['boolean', '1', true],
    ['boolean', '"FALSE"', false],
    ['timestamp', '"2024-02-29"', '2024-02-29 00:00:00'],
    ['date', '"2024-02-29T02:00:00+02:00"', '2024-02-29'],
    ['text', '12.50', '12.5'],
    ['text', '"2024-02-29"', '2024-02-29'],
    ['json', '[1]', '[1]'],
  ] as const)('%s holds %s', ([type, value, cell]) => {
    const [page] = typed(type, [value]);
    expect(page && columnsOf(page.shape)).toEqual([`content.a ${type}`]);
    expect(page && rowsOf(page, 'content')[0]?.['a']).toBe(cell);
  });

  it.for([
    ['double', '"n/a"'],
    ['double', '0.123456789012345678901234567890123456789'],
    ['integer', '1.5'],
    ['integer', '9223372036854775808'],
    ['boolean', '2'],
    ['date', '"2024-02-29T02:00:00Z"'],
    ['timestamp', '"yesterday"'],
    ['text', '{"a":1}'],
  ] as const)('%s does not hold %s, and no table changes for it', ([type, value]) => {
    const pages = typed(type, [value, 'null', '{}', '[]']);
    expect(pages.map(({ shape }) => columnsOf(shape))).toEqual([[], [], [], []]);
    expect(pages[0]?.rejects).toEqual([
      { index: 0, reason: 'contract', detail: 'a is not of the type that the profile gives it' },
    ]);
    expect(pages.slice(1).flatMap(({ rejects }) => rejects)).toEqual([]);
  });

  it('sets a value aside after others fitted, as the contract says', () => {
    const [evolve, row, value] = [secondPage('evolve'), secondPage('discard_row'), secondPage('discard_value')];
    expect(evolve?.rejects).toMatchObject([{ index: 0, reason: 'contract' }]);
    expect(evolve && rowsOf(evolve, 'content')).toEqual([{ id: '2', a: 7, b: 3 }]);
    // Nothing grows for a record that is set aside.
    expect(evolve && columnsOf(evolve.shape)).toEqual(['content.a integer', 'content.b integer']);
    expect(row?.rejects).toMatchObject([{ index: 0, reason: 'contract' }]);
    expect(value?.rejects).toEqual([]);
    expect(value?.discarded).toBe(2);
    expect(value && rowsOf(value, 'content')[0]).toEqual({ id: '1', a: null, b: 2 });
    expect(() => shapePages([['{"a":"x"}']], { contract: 'freeze', fields: { a: { type: 'integer' } } })).toThrow(
      'record 1: a is not of the type that the profile gives it',
    );
  });

  it('is that of the elements of a list, and of fields within', () => {
    const fields = { tags: { type: 'text' }, 'authors.age': { type: 'double' } } as const;
    const page = shapePage(['{"tags":[1,"2024-01-01"],"authors":[{"age":"30"},{"age":31}]}', '{"tags":"x"}'], {
      fields,
    });
    expect(columnsOf(page.shape)).toEqual(['content_tags.value text', 'content_authors.age double']);
    expect(page.rejects).toMatchObject([{ index: 1 }]);
    const other = shapePage(['{"tags":"x"}', '{"tags":["x"]}', '{"tags":[["x"]]}'], { fields });
    expect(columnsOf(other.shape)).toEqual(['content.tags text']);
    expect(other.rejects.map(({ index }) => index)).toEqual([1, 2]);
  });

  it('does not hold beyond the depth, where nothing has a column', () => {
    const page = shapePage(['{"a":{"b":{"c":"x"}}}'], { depth: 1, fields: { 'a.b.c': { type: 'integer' } } });
    expect(columnsOf(page.shape)).toEqual(['content.a_b json']);
  });
});
