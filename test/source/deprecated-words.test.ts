import { expect, it } from 'vitest';
import { deprecationsIn, insteadOf } from '../../src/source/deprecated-words.ts';
import { rateDialectSchema } from '../../src/source/rate-dialect.ts';

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

it('a setting without effect is accepted and reported', () => {
  const profile = { rate_limit: { quotas: ['10000/day'] } };
  expect(deprecationsIn(profile, 'profile')).toEqual([
    { message: 'rate_limit.quotas in the profile has no effect any more', hint: 'remove it' },
  ]);
  expect(rateDialectSchema.safeParse(profile.rate_limit).success).toBe(true);
});

it('a field that was removed is refused with what to do in its place', () => {
  expect(insteadOf(['resources', 'posts', 'incremental', 'window'])).toContain('page.style keyset');
  expect(insteadOf(['resources', 'posts', 'window'])).toBeNull();
});
