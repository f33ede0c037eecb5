import { expect, it } from 'vitest';
import { createRefusalLog, type ReportedRefusal } from '../../../src/server/receiver/setup.ts';
import { HandClock } from '../../support/hand-clock.ts';

it('each kind of refusal has one line in a minute, with the number of refusals since the last one', async () => {
  const clock = new HandClock();
  const reported: ReportedRefusal[] = [];
  const refused = createRefusalLog((refusal) => reported.push(refusal), clock);
  for (let count = 0; count < 255; count += 1) refused('blog', count % 2 === 0 ? 'bad_signature' : 'too_old');
  refused(null, 'unknown_source');
  expect(reported).toEqual([
    { source: 'blog', reason: 'bad_signature', count: 1 },
    { source: 'blog', reason: 'too_old', count: 1 },
    { reason: 'unknown_source', count: 1 },
  ]);
  await clock.advance(60_000);
  refused('blog', 'too_old');
  expect(reported.slice(3)).toEqual([{ source: 'blog', reason: 'too_old', count: 127 }]);
});
