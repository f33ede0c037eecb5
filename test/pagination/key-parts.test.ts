import { describe, expect, it } from 'vitest';
import { keyParts } from '../../src/pagination/read-item.ts';

const BY_LOCALE = { values: ['en'], param: 'locale', field: 'locale' };

describe('the parts of a key', () => {
  it.each([
    ['the id alone', { id: 'id', partitions: null }, '["en"]', { partition: null, id: '["en"]' }],
    ['several fields', { id: ['a', 'b'], partitions: null }, '["1","2"]', { partition: null, id: null }],
    ['listing and id', { id: ['locale', 'id'], partitions: BY_LOCALE }, '["en","1"]', { partition: 'en', id: '1' }],
    ['id and listing', { id: ['id', 'locale'], partitions: BY_LOCALE }, '["1","en"]', { partition: 'en', id: '1' }],
    [
      'more than an id',
      { id: ['locale', 'a', 'b'], partitions: BY_LOCALE },
      '["en","1","2"]',
      { partition: 'en', id: null },
    ],
    ['an empty id', { id: ['locale', 'id'], partitions: BY_LOCALE }, '["en",null]', { partition: 'en', id: null }],
    ['no such key', { id: ['locale', 'id'], partitions: BY_LOCALE }, 'en', { partition: null, id: null }],
  ])('are those of %s', (_, profile, key, parts) => {
    expect(keyParts(profile, key)).toEqual(parts);
  });
});
