import { describe, expect, it } from 'vitest';
import {
  WakeableSleep,
  repeatUntilAborted,
  sleepOrAbort,
  untilAborted,
  waitAtMost,
  unlessAborted,
} from '../../src/model/waiting.ts';
import { HandClock } from '../support/hand-clock.ts';

describe('a sleep', () => {
  it('ends when it is aborted, without an error', async () => {
    const stop = new AbortController();
    const slept = sleepOrAbort(new HandClock(), 1_000, stop.signal);
    stop.abort(new Error('over'));
    await expect(slept).resolves.toBeUndefined();
  });

  it('ends when it is woken, and leaves the next one whole', async () => {
    const clock = new HandClock();
    const sleep = new WakeableSleep(clock);
    const first = sleep.sleep(1_000);
    sleep.wake();
    await first;
    const second = sleep.sleep(1_000);
    expect(clock.sleeping).toBe(1);
    await clock.advance(1_000);
    await second;
  });

  it('does not begin if it was woken before', async () => {
    const sleep = new WakeableSleep(new HandClock());
    sleep.wake();
    await sleep.sleep(1_000);
  });
});

describe('a wait for an abort', () => {
  it('ends with it', async () => {
    const stop = new AbortController();
    const waited = untilAborted(stop.signal);
    stop.abort();
    await waited;
  });

  it('ends at once if the signal is aborted already', async () => {
    await untilAborted(AbortSignal.abort());
  });
});

describe('a bounded wait', () => {
  it('returns the value, and leaves no timer behind', async () => {
    const clock = new HandClock();
    expect(await waitAtMost(clock, 1_000, Promise.resolve(7))).toEqual({ value: 7 });
    expect(clock.sleeping).toBe(0);
  });

  it('returns null when time is up', async () => {
    const clock = new HandClock();
    const waited = waitAtMost(clock, 1_000, new Promise(() => undefined));
    await clock.advance(1_000);
    expect(await waited).toBeNull();
  });

  it('rejects as the work does', async () => {
    await expect(waitAtMost(new HandClock(), 1_000, Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  });
});

describe('a wait for work that others wait for too', () => {
  it('gives what the work gives, with a signal or without one', async () => {
    expect(await unlessAborted(Promise.resolve(7), undefined)).toBe(7);
    expect(await unlessAborted(Promise.resolve(7), new AbortController().signal)).toBe(7);
  });

  it('ends with the reason of its signal, also of one that was aborted before', async () => {
    const stop = new AbortController();
    const waiting = unlessAborted(new Promise(() => undefined), stop.signal);
    stop.abort(new Error('given up'));
    await expect(waiting).rejects.toThrow('given up');
    await expect(unlessAborted(Promise.resolve(7), stop.signal)).rejects.toThrow('given up');
  });
});

describe('a periodic loop', () => {
  it('goes on after a failed round, and ends with its signal', async () => {
    const clock = new HandClock();
    const stop = new AbortController();
    const failures: unknown[] = [];
    let rounds = 0;
    const failed = (error: unknown): void => void failures.push(error);
    const loop = repeatUntilAborted({ clock, everyMs: 1_000, signal: stop.signal, failed }, () => {
      rounds += 1;
      if (rounds === 1) throw new Error('the first one');
    });
    await clock.advance(2_500);
    stop.abort();
    await loop;
    expect(rounds).toBe(3);
    expect(failures).toHaveLength(1);
  });
});
