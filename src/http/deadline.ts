import { SyncError } from '../model/errors.ts';

/** Bytes without which a body does not move: whoever sends single ones holds a connection no longer than who sends none. */
const LEAST_PROGRESS = 16_384;

/** What ends an exchange that takes too long. */
export interface Deadline {
  /** Fires when it is over, and with the outer signal. */
  signal: AbortSignal;
  /** Called with the bytes of each chunk. */
  progress(bytes: number): void;
  clear(): void;
}

/** For an exchange as a whole, of `ms` milliseconds. */
export function totalDeadline(ms: number, outer: AbortSignal | undefined): Deadline {
  return startDeadline(ms, outer, { isOver: () => true, reason: `no whole answer within ${ms} ms` });
}

/** For each stretch of `ms` milliseconds in which next to nothing comes; a large body may take as long as it needs. */
export function silenceDeadline(ms: number, outer: AbortSignal | undefined): Deadline {
  let moved = 0;
  const isOver = (): boolean => {
    const before = moved;
    moved = 0;
    return before < LEAST_PROGRESS;
  };
  const deadline = startDeadline(ms, outer, { isOver, reason: `next to nothing came for ${ms} ms` });
  return { ...deadline, progress: (bytes) => void (moved += bytes) };
}

/** By hand: `AbortSignal.any` on a long-lived signal is slow to be collected. */
function startDeadline(
  ms: number,
  outer: AbortSignal | undefined,
  { isOver, reason }: { isOver: () => boolean; reason: string },
): Deadline {
  outer?.throwIfAborted();
  const controller = new AbortController();
  const passOn = (): void => controller.abort(outer?.reason);
  const timer = setInterval(() => {
    if (isOver()) controller.abort(new SyncError('deadline', reason, { recovery: 'retry' }));
  }, ms);
  outer?.addEventListener('abort', passOn, { once: true });
  return {
    signal: controller.signal,
    progress: () => undefined,
    clear() {
      clearInterval(timer);
      outer?.removeEventListener('abort', passOn);
    },
  };
}
