import type { Clock } from '../../src/model/clock.ts';

/** How many of its seconds pass in one of the machine's. */
const SPEED = 20;

/**
 * A clock on which waits are over twenty times as soon, shared by the product and the service that it talks to: what
 * one of them is told to wait is what the other one measures. Deadlines of requests stay on the machine's own clock.
 */
export class FastClock implements Clock {
  private readonly start = Date.now();
  private readonly origin = performance.now();
  private jumped = 0;
  private readonly sleepers = new Set<() => void>();

  now(): number {
    return this.start + this.monotonic();
  }

  monotonic(): number {
    return (performance.now() - this.origin) * SPEED + this.jumped;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, Math.max(0, ms) / SPEED);
    const onAbort = (): void => reject(signal?.reason);
    if (signal?.aborted === true) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
    this.sleepers.add(resolve);
    return promise.finally(() => {
      clearTimeout(timer);
      this.sleepers.delete(resolve);
      signal?.removeEventListener('abort', onAbort);
    });
  }

  /** Ends every wait that is under way. */
  wake(): void {
    for (const resolve of this.sleepers) resolve();
  }

  /** Time passes between two runs. */
  jump(ms: number): void {
    this.jumped += ms;
  }
}
