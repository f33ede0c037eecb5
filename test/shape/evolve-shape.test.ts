import { describe, expect, it } from 'vitest';
import type { Column, ResourceShape } from '../../src/model/table.ts';
import type { ColumnType } from '../../src/model/vocabulary.ts';
import { OVERFLOW } from '../../src/shape/columns/source-path.ts';
import { changesStoredRows, shapeChanges } from '../../src/shape/evolve-shape.ts';

const PROFILE = { id: 'id', depth: 4, json: ['meta'], times: {}, max_columns: 10, contract: 'evolve' as const };
const column = (type: ColumnType, ...path: string[]): Column => ({ name: path.join('_'), path, type });

function shapeOf(...columns: Column[]): ResourceShape {
  return { resource: 'content', tables: [{ name: 'content', path: [], key: ['id'], columns }] };
}

const change = (from: ColumnType | null, changed: Column) => ({ table: 'content', column: changed, from });

it('changes are new columns and wider ones', () => {
  const [title, views] = [column('text', 'title'), column('integer', 'views')];
  const changes = shapeChanges(
    shapeOf(title, views),
    shapeOf(title, { ...views, type: 'double' }, column('date', 'on')),
  );
  expect(changes.map(({ column: { name, type }, from }) => [name, from, type])).toEqual([
    ['views', 'integer', 'double'],
    ['on', null, 'date'],
  ]);
});

describe('stored rows', () => {
  const before = shapeOf(column('text', 'title'), column('text', 'seo', 'title'));
  it.each<[ColumnType, ColumnType, boolean]>([
    ['integer', 'double', false],
    ['integer', 'text', false],
    ['date', 'timestamp', false],
    ['double', 'numeric', true],
    ['timestamp', 'text', true],
    ['boolean', 'json', true],
  ])('of a column that widens from %s to %s would be others: %s', (from, to, isChanged) => {
    expect(changesStoredRows(before, change(from, column(to, 'a')), PROFILE)).toBe(isChanged);
  });

  it.each<[string, ResourceShape, Column, boolean]>([
    ['a new field', before, column('text', 'a'), false],
    ['a field that may be in _overflow', shapeOf(column('json', OVERFLOW)), column('text', 'a'), true],
    ['an object that has had columns', before, column('json', 'seo'), true],
    ['a field that is always JSON', before, column('json', 'meta'), false],
  ])('and %s', (_, shape, added, isChanged) => {
    expect(changesStoredRows(shape, change(null, added), PROFILE)).toBe(isChanged);
  });
});
