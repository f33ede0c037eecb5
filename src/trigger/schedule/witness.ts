import type { Clock } from '../../model/clock.ts';
import { timestampMs } from '../../model/timestamp-text.ts';

/** A stored time, and the same moment on the monotonic clock; null if that is not known. */
export interface Witness {
  text: string | null;
  at: number | null;
}

/** Notes when a stored time was first met, unless it is the one that is known. */
export function witnessed(known: Witness | null, text: string | null, clock: Clock): Witness {
  if (known?.text === text) return known;
  if (known !== null || text === null) return { text, at: clock.monotonic() };
  // Stored before this process began: its age is what the clock says, unless the clock was set back meanwhile.
  const age = clock.now() - timestampMs(text);
  return { text, at: age < 0 ? null : clock.monotonic() - age };
}
