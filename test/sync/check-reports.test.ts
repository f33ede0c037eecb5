import { expect, it } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { journey } from '../support/journey.ts';

const START = new Date(Date.now() - 40 * 86_400_000).toISOString().slice(0, 10);

it.each<[string, Record<string, unknown>, RegExp]>([
  ['a profile that fits', {}, /ok {4}traffic windows: .*all of these days/],
  [
    'an end that is taken for exclusive',
    { to_inclusive: false },
    /FAIL {2}traffic windows: .*are of other days by date/,
  ],
  ['a field that is none', { field: 'day' }, /FAIL {2}traffic windows: .*no day/],
])('check of reports tells %s', async (_, windows, told) => {
  const traffic = { windows: { start: START, largest: '5d', ...windows } };
  const stage = await journey({
    database: SQLITE,
    base: 'content-service-reports',
    sandbox: { report: ['traffic'], reportStart: START },
    profile: { resources: { content: null, images: null, analytics: null, traffic } },
  });
  expect((await stage.command('check')).stdout).toMatch(told);
});
