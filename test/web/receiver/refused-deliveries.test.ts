import { expect, it } from 'vitest';
import type { ReceiverNote } from '../../../src/web/receiver/setup.ts';
import { refusedDeliveries } from '../../../src/web/receiver/refused-deliveries.ts';
import { HandClock } from '../../support/hand-clock.ts';

it('each of ten refused deliveries in a minute has a line, the others one together, by source', async () => {
  const clock = new HandClock();
  const notes: ReceiverNote[] = [];
  const log = refusedDeliveries((note) => notes.push(note), clock);
  for (let count = 0; count < 255; count += 1) log.refused('blog', count % 2 === 0 ? 'bad_signature' : 'too_old');
  log.refused(null, 'unknown_source');
  expect(notes.slice(0, 2)).toEqual([
    { level: 'warn', event: 'delivery_refused', source: 'blog', reason: 'bad_signature' },
    { level: 'warn', event: 'delivery_refused', source: 'blog', reason: 'too_old' },
  ]);
  expect(notes.slice(10)).toEqual([{ level: 'warn', event: 'delivery_refused', reason: 'unknown_source' }]);

  log.flush();
  expect(notes.length).toBe(11);
  await clock.advance(60_000);
  log.flush();
  const rest = { count: 245, reasons: { bad_signature: 123, too_old: 122 } };
  const more = { level: 'warn', event: 'delivery_refused: and 245 more in this minute', source: 'blog', ...rest };
  expect(notes.slice(11)).toEqual([more]);

  log.refused('blog', 'too_old');
  log.flush(true);
  expect(notes.slice(12)).toEqual([{ level: 'warn', event: 'delivery_refused', source: 'blog', reason: 'too_old' }]);
});
