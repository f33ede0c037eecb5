import type { Clock } from './clock.ts';

/** Why a sleep was ended that nobody needs any more. One for all: without a reason, each makes an error with its stack. */
const WOKEN = new Error('woken');

/** Resolves after `ms`, or as soon as the signal is aborted. Never rejects. */
export async function sleepOrAbort(clock: Pick<Clock, 'sleep'>, ms: number, signal?: AbortSignal): Promise<void> {
  await clock.sleep(ms, signal).catch(() => undefined);
}

/** Resolves once the signal is aborted; at once if it is already. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal.aborted) resolve();
  else signal.addEventListener('abort', () => resolve(), { once: true });
  return promise;
}

/** Waits for `work`, but no longer than `ms`. Returns null if time ran out first; rejects if `work` does before that. */
export async function waitAtMost<T>(
  clock: Pick<Clock, 'sleep'>,
  ms: number,
  work: Promise<T>,
): Promise<{ value: T } | null> {
  const timer = new AbortController();
  const late = sleepOrAbort(clock, ms, timer.signal).then(() => null);
  try {
    return await Promise.race([work.then((value) => ({ value })), late]);
  } finally {
    timer.abort(WOKEN);
  }
}

/** The result of `work`, which others may wait for too; rejects with the signal's reason as soon as that is aborted. */
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

export interface Period {
  clock: Clock;
  everyMs: number;
  signal: AbortSignal;
  /** Called when a round has failed; the next one starts after the usual pause. Not called once the signal is aborted. */
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

/** A sleep that can be cut short. A call of `wake` while nobody sleeps ends the next sleep at once. */
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
