import { describe, expect, it } from 'vitest';
import { ownCollections } from '../../../src/cli/init/collections.ts';

const PLACE = {
  path: '/types',
  records: 'data',
  name: 'plural',
  event_name: 'singular',
  where: [{ field: 'plugin', exists: false }],
  leave_out: ['sys_*'],
  resource: { path: '/{name}', item: '/{name}/{id}' },
  also: [{ where: [{ field: 'drafts', in: [true] }], resource: { query: { of: '{name}' } } }],
};

describe('collections of an account', () => {
  it('become resources by what the profile says of their list', () => {
    const data = [
      { plural: 'Blog-posts', singular: 'blog-post', drafts: true },
      { plural: 'tags', singular: 'tags' },
      { plural: 'files', plugin: 'upload' },
      { plural: 'sys_users' },
      { plural: null },
    ];
    expect(ownCollections(PLACE, { data })).toEqual({
      resources: {
        blog_posts: { path: '/Blog-posts', item: '/Blog-posts/{id}', query: { of: 'Blog-posts' } },
        tags: { path: '/tags', item: '/tags/{id}' },
      },
      resourceNames: { 'blog-post': 'blog_posts' },
      refused: [],
    });
  });

  it('are left out if their name is no segment of a path, or would take the resource of another', () => {
    const odd = ['x${HOME}', 'y${file:/etc/passwd}', '../users', 'a/b', 'c?d=1', '{id}', 'e%2f', 'Tags'];
    const found = ownCollections(PLACE, { data: ['tags', ...odd].map((plural) => ({ plural })) });
    expect(Object.keys(found?.resources ?? {})).toEqual(['tags']);
    expect(found?.refused).toEqual(odd);
  });

  it('are none where the answer has no list', () => {
    expect(ownCollections(PLACE, { error: 'forbidden' })).toBeNull();
  });
});
