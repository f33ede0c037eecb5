import { expect, it } from 'vitest';
import { deprecationsIn } from '../../src/source/deprecated-words.ts';

it('a word is found wherever its path leads, by any key where that is a star', () => {
  const words = [{ in: 'profile', path: ['resources', '*', 'old'], instead: 'new' }] as const;
  const value = { resources: { posts: { old: 1 }, tags: { new: 1 }, users: { old: null } } };
  expect(deprecationsIn(value, 'profile', words)).toEqual([
    { message: 'resources.posts.old in the profile is deprecated; it still works', hint: 'write new in its place' },
    { message: 'resources.users.old in the profile is deprecated; it still works', hint: 'write new in its place' },
  ]);
  expect(deprecationsIn(value, 'source', words)).toEqual([]);
  expect(deprecationsIn('text', 'profile', words)).toEqual([]);
});
