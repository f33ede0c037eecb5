import { expect, it } from 'vitest';
import { EACH, keysOf, OVERFLOW, pathPart, pathText, sourceKey } from '../../../src/shape/columns/source-path.ts';

it.each(['title', EACH, OVERFLOW, `\\${EACH}`, `\\\\${OVERFLOW}`, '\\', ''])(
  'the key %j comes back from a path',
  (key) => {
    expect(sourceKey(pathPart(key))).toBe(key);
    expect([EACH, OVERFLOW]).not.toContain(pathPart(key));
  },
);

it.each([
  [['seo', 'image'], 'seo.image'],
  [['tags', EACH, 'name'], 'tags.name'],
  [[pathPart(EACH)], EACH],
  [['a.b', 'c'], '["a.b","c"]'],
  [['a"b'], '["a\\"b"]'],
])('%j is written %s', (path, text) => {
  expect(pathText(path)).toBe(text);
});

it('marks are no keys', () => {
  expect(keysOf(['tags', EACH, 'name'])).toEqual(['tags', 'name']);
});
