import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../src/source/profile.ts';

const WINDOWED = { param: 'since', until_param: 'until', format: 'iso', window: '30d', start: '2020-01-01' };

function messageFor(incremental: Record<string, unknown>): string {
  const resources = { posts: { path: '/posts', page: { style: 'page' }, incremental } };
  const { error } = profileSchema.safeParse({ resources });
  return error?.issues.map(({ message }) => message).join('; ') ?? 'accepted';
}

describe('the grammar of windows', () => {
  it.each([
    [WINDOWED, /^accepted$/],
    [{ ...WINDOWED, param: 'q', template: 'updated:[{since} TO {until}]', until_param: null }, /^accepted$/],
    [{ ...WINDOWED, start: null }, /expected a day with `window`/],
    [{ ...WINDOWED, start: 'yesterday' }, /expected a date such as 2015-01-01/],
    [{ ...WINDOWED, window: null, start: null }, /the place that takes the end of a window/],
    [{ ...WINDOWED, until_param: null }, /the place that takes the end of a window/],
    [{ ...WINDOWED, format: 'as_sent' }, /expected a format by name or pattern/],
    [{ ...WINDOWED, window: '10s' }, /expected a minute or more/],
  ])('%j: %s', (incremental, told) => {
    expect(messageFor(incremental)).toMatch(told);
  });
});
