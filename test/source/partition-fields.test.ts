import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../src/source/profile.ts';

const POSTS = { path: '/posts', page: { style: 'cursor' } };

function parsed(comments: Record<string, unknown>, more: Record<string, unknown> = {}) {
  const page = { style: 'cursor' };
  return profileSchema.safeParse({ resources: { posts: POSTS, comments: { path: '/c', page, ...comments }, ...more } });
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

  it.each([
    [{ values: ['en'], field: 'locale' }, {}, 'expected the place that takes the value'],
    [{ values: ['en', 'en'], param: 'l', field: 'l' }, {}, 'expected each value once'],
    [{ values: [], param: 'l', field: 'l' }, {}, 'Too small'],
    [{ values: ['en'], param: 'l', field: 'a.b' }, {}, 'expected the plain name of a field'],
    [{ param: 'l', field: 'l' }, {}, 'expected { values, field } or { parent, field }'],
    [{ parent: 'pages', param: 'p', field: 'p' }, {}, 'expected a resource of this profile, got pages'],
    [{ parent: 'comments', param: 'p', field: 'p' }, {}, 'do not lead back'],
    [
      { parent: 'stats', param: 'p', field: 'p' },
      { stats: { ...POSTS, id: ['a', 'b'] } },
      'expected parent_id, because several fields',
    ],
  ])('refuses %j', (partitions, more, why) => {
    const { error } = parsed({ partitions }, more);
    expect(error?.issues.map(({ message }) => message).join()).toContain(why);
  });

  it('goes with {partition} in any template', () => {
    const partitions = { parent: 'posts', field: 'post_id' };
    expect(parsed({ partitions, path: '/posts/{partition}/c' }).success).toBe(true);
    expect(parsed({ partitions, headers: { 'X-Post': '{partition}' } }).success).toBe(true);
    expect(parsed({ partitions, method: 'POST', body: { of: ['{partition}'] } }).success).toBe(true);
  });

  it.each([
    [{ records: 'a[' }, 'expected a path such as'],
    [{ id: 'a[0]' }, 'expected a field such as'],
    [{ filter: [{ field: 'a' }] }, 'expected in, not_in or exists'],
    [{ unwrap: [{ value: 'x' }] }, 'expected { only }'],
    [{ page: { style: 'cursor', next_cursor: 'a[*]' } }, 'expected a path such as'],
  ])('refuses %j of a resource', (fields, why) => {
    expect(
      parsed(fields)
        .error?.issues.map(({ message }) => message)
        .join(),
    ).toContain(why);
  });
});
