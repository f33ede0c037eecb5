import { describe, expect, it } from 'vitest';
import { createCachedReader } from '../../../src/server/status/cached-reader.ts';
import { HandClock } from '../../support/hand-clock.ts';

/** A reader whose readings the test ends by hand. */
function reader(keepFactor = 10) {
  const clock = new HandClock();
  const readings: PromiseWithResolvers<string>[] = [];
  const read = (): Promise<string> => {
    const reading = Promise.withResolvers<string>();
    readings.push(reading);
    return reading.promise;
  };
  return { clock, readings, ask: createCachedReader(read, { clock, keepMs: 1_000, keepFactor, timeoutMs: 3_000 }) };
}

describe('reading sparingly', () => {
  it('keeps what took long for longer', async () => {
    const { clock, readings, ask } = reader();
    const asked = ask();
    await clock.advance(2_000);
    readings[0]?.resolve('slow');
    await asked;
    await clock.advance(19_999);
    await ask();
    expect(readings).toHaveLength(1);
    await clock.advance(1);
    void ask();
    expect(readings).toHaveLength(2);
  });

  it('F159 lets nobody wait for long: what is known is told as late, and the reading goes on', async () => {
    const { clock, readings, ask } = reader();
    const asked = ask();
    await clock.advance(3_000);
    expect(await asked).toStrictEqual({ value: null, readAt: null, error: null, isLate: true });
    readings[0]?.resolve('at last');
    expect(await ask()).toMatchObject({ value: 'at last', isLate: false });
    expect([readings.length, clock.sleeping]).toStrictEqual([1, 0]);
  });

  it('F159 tells the last good value beside the error, and tries again at the next call', async () => {
    const { clock, readings, ask } = reader();
    const first = ask();
    readings[0]?.resolve('good');
    await first;
    await clock.advance(1_000);
    const second = ask();
    readings[1]?.reject(new Error('gone'));
    expect(await second).toMatchObject({ value: 'good', error: new Error('gone') });
    const third = ask();
    readings[2]?.resolve('better');
    expect(await third).toMatchObject({ value: 'better', error: null });
  });
});
