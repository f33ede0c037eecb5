import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../../src/model/clock.ts';

/**
 * A clock that only moves when somebody pushes it or sleeps: who sleeps wakes soon, and by then the clock shows the
 * moment until which they wanted to sleep. So a seed always tells the same story, however busy the machine is.
 */
export class WorldClock implements Clock {
  /** A sleep of that many milliseconds takes one; 0: none takes any. */
  hurry: number;
  readonly #start: number;
  #elapsed = 0;

  constructor(start: string, hurry: number) {
    this.#start = Date.parse(start);
    this.hurry = hurry;
  }

  now(): number {
    return this.#start + this.#elapsed;
  }

  monotonic(): number {
    return this.#elapsed;
  }

  push(ms: number): void {
    this.#elapsed += ms;
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const due = this.#elapsed + Math.max(0, ms);
    const options = signal === undefined ? {} : { signal };
    try {
      if (this.hurry === 0) await nextTurn(undefined, options);
      else await delay(Math.max(0, ms) / this.hurry, undefined, options);
    } catch (error) {
      throw signal?.aborted === true ? signal.reason : error;
    }
    this.#elapsed = Math.max(this.#elapsed, due);
  }
}
