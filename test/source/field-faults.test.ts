import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../src/source/profile.ts';

/** What is wrong with a resource, as `path: message`. */
function faults(resource: Record<string, unknown>): string[] {
  const { error } = profileSchema.safeParse({
    resources: { posts: { path: '/posts', page: { style: 'single' }, ...resource } },
  });
  return error?.issues.map(({ path, message }) => `${path.slice(2).join(' ')}: ${message}`) ?? [];
}

describe('what is said of single fields', () => {
  it.each([
    [
      'everything that fits together',
      {
        fields: {
          a: { type: 'bigint', rename: 'b', unit: 's' },
          c: { hash: true, type: 'text' },
          d: { exclude: true, description: 'x' },
        },
      },
      [],
    ],
    [
      'a hash of the id',
      { id: 'meta.id', fields: { meta: { hash: true } } },
      ['fields meta hash: expected it to be copied as it is, because it is the id of the record'],
    ],
    [
      'no time of change',
      { updated: ['a', 'b'], fields: { b: { exclude: true } } },
      ['fields b exclude: expected it to be copied as it is, because it is its time of change'],
    ],
    [
      'no state',
      { state: 'status', fields: { status: { exclude: true } } },
      ['fields status exclude: expected it to be copied as it is, because it is its state of publishing'],
    ],
    [
      'no tombstone',
      { deleted: { field: 'gone', at: 'at' }, fields: { at: { hash: true } } },
      ['fields at hash: expected it to be copied as it is, because it is a tombstone'],
    ],
    [
      'two fields of one name',
      { fields: { a: { rename: 'x' }, b: { rename: 'x' } } },
      ['fields b rename: expected a name of its own, got that of a'],
    ],
    [
      'the name of the id',
      { fields: { a: { rename: 'id' } } },
      ['fields a rename: expected a name of its own, got that of id'],
    ],
    [
      'a name that SQL keeps',
      { fields: { a: { rename: 'select' } } },
      ['fields a rename: expected a name that SQL does not keep for itself'],
    ],
    [
      'a hash that is a number',
      { fields: { a: { hash: true, type: 'bigint' } } },
      ['fields a type: expected text or json, because a hash is a text'],
    ],
    [
      'a name of what is left out',
      { fields: { a: { exclude: true, rename: 'x' } } },
      ['fields a: expected nothing but a description beside `exclude`: it has no column'],
    ],
    [
      'a type of a JSON column',
      { json: ['a'], fields: { a: { type: 'text' } } },
      ['fields a type: expected json, because the field is in the list `json`'],
    ],
    [
      'a moment of no zone',
      { times: { a: 'local' }, fields: { a: { type: 'timestamp' } } },
      ['fields a type: expected text, because its times are of a zone that nobody tells (`times`: local)'],
    ],
  ])('%s', (_, resource, expected) => expect(faults(resource)).toEqual(expected));

  it('hides nothing of a parent that its listings are asked by', () => {
    const page = { style: 'single' };
    const posts = { path: '/posts', page, fields: { slug: { hash: true } } };
    const comments = {
      path: '/comments',
      page,
      partitions: { parent: 'posts', parent_id: 'slug', field: 'post', param: 'p' },
    };
    const { error } = profileSchema.safeParse({ resources: { posts, comments } });
    expect(error?.issues.map(({ message }) => message)).toEqual(['expected slug of the parent to be copied as it is']);
  });

  it('is for the id too, which may have another name', () => {
    expect(faults({ fields: { id: { rename: 'post_id', description: 'The key' }, a: { rename: 'id' } } })).toEqual([]);
  });
});
