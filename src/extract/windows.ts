import type { Doubt } from './guards/walk-end.ts';
import type { WalkOptions } from './walk.ts';

/** A span of times of change, in epoch milliseconds; `to` is null for the last one, which ends now. */
export interface TimeWindow {
  from: number;
  to: number | null;
}

/** How a listing is asked for window after window. */
export interface Windows {
  /** Where the first one begins. */
  from: number;
  /** What lies before is one window. */
  start: number;
  /** Length of the others. */
  span: number;
  /** The shortest one that is still cut in two. */
  least: number;
  /** As many records as a service lists for one query; null if it is not known. */
  most: number | null;
  /** True of a walk that is to meet every record: then the filter is tried with some of them at its end. */
  isWhole: boolean;
  /** Doubts that are known before. */
  doubts: readonly Doubt[];
  /** Our clock; the service's is taken if it is later. */
  now: () => number;
  /** The request for a window. `now` is the clock at which the last one ends. */
  ask: (window: TimeWindow, now: number) => Pick<WalkOptions, 'extraQuery' | 'values'>;
}
