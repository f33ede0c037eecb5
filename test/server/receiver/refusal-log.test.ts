import { expect, it } from 'vitest';
import { createRefusalLog, type ToldRefusal } from '../../../src/server/receiver/setup.ts';
import { HandClock } from '../../support/hand-clock.ts';

it('each of ten refused deliveries in a minute has a line, the others one together, by source', async () => {
  const clock = new HandClock();
  const told: ToldRefusal[] = [];
  const log = createRefusalLog((refusal) => told.push(refusal), clock);
  for (let count = 0; count < 255; count += 1) log.refused('blog', count % 2 === 0 ? 'bad_signature' : 'too_old');
  log.refused(null, 'unknown_source');
  expect(told.slice(0, 2)).toEqual([
    { source: 'blog', reason: 'bad_signature' },
    { source: 'blog', reason: 'too_old' },
  ]);
  expect(told.slice(10)).toEqual([{ reason: 'unknown_source' }]);
  log.flush();
  expect(told.length).toBe(11);
  await clock.advance(60_000);
  log.flush();
  expect(told.slice(11)).toEqual([{ source: 'blog', count: 245, reasons: { bad_signature: 123, too_old: 122 } }]);
  log.refused('blog', 'too_old');
  log.flush(true);
  expect(told.slice(12)).toEqual([{ source: 'blog', reason: 'too_old' }]);
});
