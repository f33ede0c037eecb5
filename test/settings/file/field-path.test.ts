import { expect, it } from 'vitest';
import { fieldName, partAt, replaceAt, textsIn, valueAt } from '../../../src/settings/file/fault.ts';

const VALUE = { sources: { blog: { resources: ['content', 'images'], port: 80 } } };

it.each([
  [[], ''],
  [['sources', 'blog', 'resources', 1], 'sources.blog.resources[1]'],
  [['a', 0, 'b'], 'a[0].b'],
])('%j is written %s', (path, name) => {
  expect(fieldName(path)).toBe(name);
});

it.each([
  [[], VALUE],
  [['sources', 'blog', 'resources', 1], 'images'],
  [['sources', 'blog', 'resources', '1'], undefined],
  [['sources', 'shop', 'resources'], undefined],
  [['sources', 'toString'], undefined],
])('at %j is %j', (path, expected) => {
  expect(valueAt(VALUE, path)).toEqual(expected);
});

it('only own keys count', () => {
  expect(partAt({}, 'constructor')).toBeUndefined();
});

it('a part is replaced in a copy, and a path that leads nowhere changes nothing', () => {
  expect(replaceAt(VALUE, ['sources', 'blog', 'resources', 0], 'pages')).toEqual({
    sources: { blog: { resources: ['pages', 'images'], port: 80 } },
  });
  expect(replaceAt(VALUE, ['sources', 'shop', 'port'], 1)).toEqual(VALUE);
  expect(VALUE.sources.blog.resources[0]).toBe('content');
});

it('all texts are found with their paths', () => {
  expect([...textsIn({ a: ['x', 1, { b: 'y' }], c: null })]).toEqual([
    [['a', 0], 'x'],
    [['a', 2, 'b'], 'y'],
  ]);
});
