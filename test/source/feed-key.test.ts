import { describe, expect, it } from 'vitest';
import { checkValue } from '../../src/settings/file/check-value.ts';
import { profileSchema } from '../../src/source/profile.ts';

/** The findings of a profile with one resource, as a person reads them. */
function faultsOf(resource: object): unknown {
  const value = { resources: { posts: { path: '/posts', page: { style: 'cursor' }, item: null, ...resource } } };
  const { findings } = checkValue(profileSchema, value, new Set());
  return findings?.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? [];
}

const partitions = { values: ['en', 'de'], param: 'locale', field: 'locale' };
const deletes = (id: string | string[]) => ({ delete_feed: { path: '/deletes', id } });

describe('the id that a feed of deletes names', () => {
  it.each<[string, object, unknown]>([
    ['is one field', deletes('item'), []],
    ['is one field where the key is one', deletes(['item']), [expect.stringContaining('expected one field')]],
    [
      'holds the field of a partition',
      { partitions, ...deletes('item') },
      [expect.stringContaining('expected a list of 2 fields, where an entry names locale and id')],
    ],
    ['may name them otherwise', { partitions, ...deletes(['language', 'item']) }, []],
    [
      'covers a key of several fields',
      { id: ['day', 'page'], ...deletes(['day']) },
      [expect.stringContaining('delete_feed')],
    ],
  ])('%s', (_, resource, expected) => {
    expect(faultsOf(resource)).toEqual(expected);
  });
});
