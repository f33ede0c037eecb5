/** Answers of this long are looked back on, or longer if the caller says so. */
const HORIZON_MS = 3_000;
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

export function noteLevel(meter: RefillMeter, at: number, remaining: number, sent: number, horizonMs: number): void {
  const last = meter.samples.at(-1);
  if (last && at - last.at < SPACING_MS) {
    last.low = Math.min(last.low, remaining);
    return;
  }
  meter.samples.push({ at, total: remaining + sent, low: remaining });
  while (at - (meter.samples[0]?.at ?? at) > Math.max(HORIZON_MS, horizonMs)) meter.samples.shift();
}

/**
 * Requests per second that came back, over all that is kept in mind or over the latest part of at least `spanMs`; null
 * while too little was seen. A quota that was full hides what it had to spare.
 */
export function refillRate(meter: RefillMeter, part: 'whole' | 'latest', spanMs: number): number | null {
  const last = meter.samples.at(-1);
  if (!last) return null;
  const oldEnough = (sample: Sample) => last.at - sample.at >= spanMs;
  const first = part === 'whole' ? meter.samples.find(oldEnough) : meter.samples.findLast(oldEnough);
  return first ? Math.max(0, ((last.total - first.total) / (last.at - first.at)) * 1_000) : null;
}

export function lowestLevel(meter: RefillMeter, at: number): number | null {
  const lately = meter.samples.filter((sample) => at - sample.at <= LOW_MS);
  return lately.length === 0 ? null : Math.min(...lately.map((sample) => sample.low));
}

/** Samples so late are looked at one by one; of the older ones as many are kept as tell the rate. */
const LATEST_MS = 1_500;
const OLDER_ONES = 40;

/** The samples that are worth storing. */
export function thinned({ samples }: RefillMeter): Sample[] {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) return [];
  const spacing = (last.at - first.at) / OLDER_ONES;
  let keptAt = Number.NEGATIVE_INFINITY;
  return samples.filter(({ at }) => {
    const isKept = at > last.at - LATEST_MS || at - keptAt >= spacing;
    if (isKept) keptAt = at;
    return isKept;
  });
}
