// Waiting that a signal or another event can end.
import type { Clock } from './clock.ts';

/** One shared reason, because an abort without a reason creates an error with a stack each time. */
const WOKEN = new Error('woken');

/** Resolves after `ms`, or as soon as the signal is aborted. Never rejects. */
export async function sleepOrAbort(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  await clock.sleep(ms, signal).catch(() => undefined);
}

/** Resolves once the signal is aborted; at once if it is already. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal.aborted) resolve();
  else signal.addEventListener('abort', () => resolve(), { once: true });
  return promise;
}

/** Waits for `work`, at most `ms`. Returns null after a timeout; rejects if `work` rejects before. */
export async function waitAtMost<T>(clock: Clock, ms: number, work: Promise<T>): Promise<{ value: T } | null> {
  const timer = new AbortController();
  const late = sleepOrAbort(clock, ms, timer.signal).then(() => null);
  try {
    return await Promise.race([work.then((value) => ({ value })), late]);
  } finally {
    timer.abort(WOKEN);
  }
}

/** Returns the result of `work`, or rejects with the signal's reason once it is aborted; `work` itself continues. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

interface Period {
  clock: Clock;
  everyMs: number;
  signal: AbortSignal;
  /** Called when `work` has failed, unless the signal is aborted; the next call follows after the usual pause. */
  failed?: (error: unknown) => void;
}

/** Calls `work` at once and again `everyMs` after each call has ended, until the signal is aborted. Never rejects. */
export async function repeatUntilAborted(
  { clock, everyMs, signal, failed }: Period,
  work: () => void | Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) failed?.(error);
    }
    await sleepOrAbort(clock, everyMs, signal);
  }
}

/** A sleep that `wake` ends. A call of `wake` between two sleeps ends the next one at once. */
export class WakeableSleep {
  readonly #clock: Clock;
  #alarm = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves after `ms`, when woken, or when the signal is aborted. Never rejects. */
  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const alarm = this.#alarm;
    await sleepOrAbort(this.#clock, ms, signal === undefined ? alarm.signal : AbortSignal.any([alarm.signal, signal]));
    if (alarm.signal.aborted) this.#alarm = new AbortController();
  }

  wake(): void {
    this.#alarm.abort(WOKEN);
  }
}
