/** Counts of values, by the bucket that they fall into. */
export interface Histogram {
  /** Upper bounds in seconds, both alike long; what is beyond the last one stands in `count` only. */
  bounds: readonly number[];
  /** Values up to the bound, not counting those of the buckets before. */
  counts: number[];
  sum: number;
  count: number;
}

/** Requests to one source's address since the process started. */
export interface SourceFigures {
  received: number;
  /** Answered with a 2xx after they were committed: those that have to be worked on, and those that were there. */
  stored: number;
  repeats: number;
  challenges: number;
  refused: Record<string, number>;
  /** Seconds from the request's headers to the 2xx. */
  acks: Histogram;
}

export interface ReceiverFigures {
  sources: Record<string, SourceFigures>;
}

/** By the conventions of Prometheus for short waits. */
const ACK_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

export function sourceFigures(): SourceFigures {
  const acks = { bounds: ACK_BOUNDS, counts: ACK_BOUNDS.map(() => 0), sum: 0, count: 0 };
  return { received: 0, stored: 0, repeats: 0, challenges: 0, refused: {}, acks };
}

export function observe(histogram: Histogram, seconds: number): void {
  const { bounds, counts } = histogram;
  const bucket = bounds.findIndex((bound) => seconds <= bound);
  if (bucket !== -1) counts[bucket] = (counts[bucket] ?? 0) + 1;
  histogram.sum += seconds;
  histogram.count += 1;
}

export function countUp(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}
