import type { Clock } from '../../src/model/clock.ts';

interface Sleeper {
  due: number;
  wake: () => void;
}

/** A clock that stands still until a test winds it: `advance` wakes what is due, in order, and lets it act. */
export class HandClock implements Clock {
  #elapsed = 0;
  #start: number;
  #sleepers: Sleeper[] = [];

  constructor(start: number | string = '2026-11-20T08:00:00.000Z') {
    this.#start = typeof start === 'number' ? start : Date.parse(start);
  }

  now(): number {
    return this.#start + this.#elapsed;
  }

  monotonic(): number {
    return this.#elapsed;
  }

  /** Sleeps that have not ended. */
  get sleeping(): number {
    return this.#sleepers.length;
  }

  /** Moves the wall clock alone, as an operator or NTP would. */
  step(ms: number): void {
    this.#start += ms;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    if (signal?.aborted) {
      reject(signal.reason);
      return promise;
    }
    const sleeper: Sleeper = { due: this.#elapsed + Math.max(0, ms), wake: () => undefined };
    const abort = () => {
      this.#remove(sleeper);
      reject(signal?.reason);
    };
    sleeper.wake = () => {
      signal?.removeEventListener('abort', abort);
      resolve();
    };
    signal?.addEventListener('abort', abort, { once: true });
    this.#insert(sleeper);
    return promise;
  }

  /** Winds on by `ms`; everything that falls due on the way happens at its own time. */
  async advance(ms: number): Promise<void> {
    const end = this.#elapsed + ms;
    await settled();
    for (let next = this.#sleepers[0]; next && next.due <= end; next = this.#sleepers[0]) {
      this.#sleepers.shift();
      this.#elapsed = Math.max(this.#elapsed, next.due);
      next.wake();
      await settled();
    }
    this.#elapsed = end;
  }

  /** Winds on until `work` is settled, at most `limit` milliseconds. */
  async finish<T>(work: Promise<T>, limit = 86_400_000): Promise<T> {
    const state = { done: false };
    const end = this.#elapsed + limit;
    const mark = () => {
      state.done = true;
    };
    work.then(mark, mark);
    await settled();
    while (!state.done) {
      const next = this.#sleepers[0];
      if (!next || next.due > end) throw new Error(`not settled after ${this.#elapsed} ms on the hand clock`);
      await this.advance(next.due - this.#elapsed);
      await settled();
    }
    return work;
  }

  /** Keeps the sleepers by due time, those of one moment in the order in which they lay down. */
  #insert(sleeper: Sleeper): void {
    const after = this.#sleepers.findLastIndex((other) => other.due <= sleeper.due);
    this.#sleepers.splice(after + 1, 0, sleeper);
  }

  #remove(sleeper: Sleeper): void {
    const at = this.#sleepers.indexOf(sleeper);
    if (at !== -1) this.#sleepers.splice(at, 1);
  }
}

/** All microtasks have run by the time an immediate does. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
