import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../../src/config/profile/profile.ts';

function parsed(comments: object) {
  return profileSchema.safeParse({ resources: { comments: { path: '/c', page: { style: 'cursor' }, ...comments } } });
}

describe('the grammar of partitions', () => {
  it('makes the value the first part of the key, unless it stands there already', () => {
    const partitions = { values: ['en', 2], param: 'locale', field: 'locale' };
    const idOf = (id: unknown) => parsed({ partitions, id }).data?.resources['comments']?.id;
    expect(idOf('slug')).toEqual(['locale', 'slug']);
    expect(idOf(['site', 'slug'])).toEqual(['locale', 'site', 'slug']);
    expect(idOf(['slug', 'locale'])).toEqual(['slug', 'locale']);
    expect(parsed({ partitions }).data?.resources['comments']?.partitions).toMatchObject({ values: ['en', '2'] });
  });
});
