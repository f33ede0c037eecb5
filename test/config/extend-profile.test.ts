import { describe, expect, it } from 'vitest';
import { extendProfile } from '../../src/config/load-profile.ts';
import { config, load as loadFiles } from './in-folder.ts';

describe('a profile over the one that it extends', () => {
  it.each([
    ['merges maps', { a: { b: 1, c: 2 } }, { a: { c: 3 } }, { a: { b: 1, c: 3 } }],
    ['replaces lists as a whole', { a: [1, 2, 3] }, { a: [4] }, { a: [4] }],
    ['replaces a plain value by a map', { a: 'auto' }, { a: { b: 1 } }, { a: { b: 1 } }],
    ['replaces a map by a plain value', { a: { b: 1 } }, { a: 'auto' }, { a: 'auto' }],
    ['keeps null outside of resources, where it says "none"', { a: { b: 1 } }, { a: null }, { a: null }],
    [
      'leaves out a resource that is null',
      { resources: { x: {}, y: {} } },
      { resources: { x: null } },
      { resources: { y: {} } },
    ],
    [
      'starts a page of another style afresh',
      { page: { style: 'cursor', cursor_param: 'c', size: 9 } },
      { page: { style: 'page', first: 0 } },
      { page: { style: 'page', first: 0 } },
    ],
    [
      'replaces the places of a filter as a whole',
      { incremental: { query: { from: '{since}' }, lookback: '1h' } },
      { incremental: { query: { after: '{since}' } } },
      { incremental: { query: { after: '{since}' }, lookback: '1h' } },
    ],
    [
      'merges a page of the same style, or of none named',
      { page: { style: 'cursor', size: 9 }, p: { style: 'link', size: 9 } },
      { page: { size: 5 }, p: { style: 'link', total: 't' } },
      { page: { style: 'cursor', size: 5 }, p: { style: 'link', size: 9, total: 't' } },
    ],
  ])('%s', (_, base, over, merged) => {
    expect(extendProfile(base, over)).toEqual(merged);
  });

  it('changes neither of the two', () => {
    const base = { resources: { a: { b: 1 } } };
    const over = { resources: { a: { b: 2 } } };
    extendProfile(base, over);
    expect([base, over]).toEqual([{ resources: { a: { b: 1 } } }, { resources: { a: { b: 2 } } }]);
  });
});

/** Settings whose profile has these fields of a filter. */
const load = (fields: string) =>
  loadFiles({
    'config.yaml': config({ 'content-service': './p.yaml' }),
    'p.yaml': `extends: content-service\nresources:\n  content: { incremental: { param: since, ${fields} } }\n`,
  });

describe('the former name of lookback', () => {
  it('is read as lookback, below another profile as well', () => {
    const { profile } = load('overlap: 2h').sources['blog'] ?? {};
    expect(profile?.resources['content']?.incremental).toMatchObject({ lookback: 7_200_000 });
  });

  it('is refused beside lookback', () => {
    expect(() => load('overlap: 2h, lookback: 1h')).toThrow('got the unknown key "overlap"');
  });
});
