import { describe, expect, it } from 'vitest';
import { EACH_ELEMENT, EACH_MEMBER, fieldPathText, keysOfPath, parseBodyPath } from '../../src/model/body-path.ts';

describe('a path in a body', () => {
  it.each([
    ['', []],
    ['data', ['data']],
    ['meta.next', ['meta', 'next']],
    ['@odata.x', ['@odata', 'x']],
    ['a b.c-d$', ['a b', 'c-d$']],
    ["it's.5*3", ["it's", '5*3']],
    ['posts[0]', ['posts', 0]],
    ['posts[-1].id', ['posts', -1, 'id']],
    ['[0][1].a', [0, 1, 'a']],
    ['rows[*].doc', ['rows', EACH_ELEMENT, 'doc']],
    ['[*]', [EACH_ELEMENT]],
    ['query.pages.*', ['query', 'pages', EACH_MEMBER]],
    ['*.x', [EACH_MEMBER, 'x']],
    ['a.*[*].b', ['a', EACH_MEMBER, EACH_ELEMENT, 'b']],
    ['a."b.c".d', ['a', 'b.c', 'd']],
    [`a['b.c']`, ['a', 'b.c']],
    ['["@odata.nextLink"]', ['@odata.nextLink']],
    [`'a"b\\'c'."\\\\"`, [`a"b'c`, '\\']],
    ['"*"', ['*']],
    ['a."".b', ['a', '', 'b']],
  ])('%s', (text, steps) => {
    expect(parseBodyPath(text)).toEqual(steps);
  });

  it.each(['a[', 'a[x]', 'a]', 'a[1', '"a', 'a."b', 'a[*]b', 'a[1.5]', '"a"b', '*a[', 'a.[0]', '[]'])(
    'is not %s',
    (text) => {
      expect(parseBodyPath(text)).toBeNull();
    },
  );

  it('is a field if it leads through objects alone, written as the catalogue of columns has it', () => {
    expect(keysOfPath('a."b.c"')).toEqual(['a', 'b.c']);
    expect(keysOfPath('a[0]')).toBeNull();
    expect(keysOfPath('a.*')).toBeNull();
    expect(['a.b', `a['b']`, 'a."b.c"', '["b.c"]'].map(fieldPathText)).toEqual([
      'a.b',
      'a.b',
      '["a","b.c"]',
      '["b.c"]',
    ]);
    expect(fieldPathText('["a","b.c"]')).toBe('["a","b.c"]');
  });
});
