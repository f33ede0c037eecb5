/** Answers of this long are looked back on. */
const HORIZON_MS = 3_000;
/** Shorter spans say nothing: `remaining` is a whole number. */
const SHORTEST_SPAN_MS = 800;
/** How long the lowest level is kept in mind; longer than the window of one second that many services have. */
const LOW_MS = 1_200;
const SPACING_MS = 50;

interface Sample {
  at: number;
  /** `remaining` plus the requests sent so far: grows only by what the service gave back. */
  total: number;
  /** The lowest `remaining` around this moment. */
  low: number;
}

/** Measures how fast a service gives requests back, from the `remaining` of its answers. */
export interface RefillMeter {
  samples: Sample[];
}

export function noteLevel(meter: RefillMeter, at: number, remaining: number, sent: number): void {
  const last = meter.samples.at(-1);
  if (last && at - last.at < SPACING_MS) {
    last.low = Math.min(last.low, remaining);
    return;
  }
  meter.samples.push({ at, total: remaining + sent, low: remaining });
  while (at - (meter.samples[0]?.at ?? at) > HORIZON_MS) meter.samples.shift();
}

/** Requests per second that came back lately; null while too little was seen. A full quota hides what it had to spare. */
export function refillRate(meter: RefillMeter): number | null {
  const first = meter.samples[0];
  const last = meter.samples.at(-1);
  if (!first || !last || last.at - first.at < SHORTEST_SPAN_MS) return null;
  return Math.max(0, ((last.total - first.total) / (last.at - first.at)) * 1_000);
}

export function lowestLevel(meter: RefillMeter, at: number): number | null {
  const lately = meter.samples.filter((sample) => at - sample.at <= LOW_MS);
  return lately.length === 0 ? null : Math.min(...lately.map((sample) => sample.low));
}
