const MINUTE_MS = 60_000;
const SERIES_MINUTES = 60;

/** Buckets grow by a quarter, from 1 to about 12 million, so a quantile is off by an eighth at most. */
const LOG_BUCKET_GROWTH = Math.log(1.25);
const BUCKET_COUNT = 75;

/** Events of a series; quantiles are null if there were none. */
interface SeriesTotal {
  count: number;
  sum: number;
  p50: number | null;
  p95: number | null;
}

/** One minute of a series. */
export interface SeriesMinute extends SeriesTotal {
  /** Epoch milliseconds at which it began. */
  at: number;
}

interface MinuteSlot {
  /** Whole minutes since the epoch; NaN for a slot that was never used. */
  minute: number;
  count: number;
  sum: number;
  buckets: Uint32Array;
}

/**
 * Events of each of the last 60 minutes: their number, sum and distribution, in fixed memory. A clock that jumps loses
 * at most the minutes that it jumped over.
 */
export class MinuteSeries {
  /** Created on use, because most minutes of most sources have no events. */
  readonly #slots: (MinuteSlot | undefined)[] = Array.from({ length: SERIES_MINUTES });

  /** Adds `count` events of the same value (milliseconds, or 0 if only the count matters). */
  add(at: number, value = 0, count = 1): void {
    const slot = this.#slotFor(Math.floor(at / MINUTE_MS));
    slot.count += count;
    slot.sum += value * count;
    const bucket = bucketFor(value);
    slot.buckets[bucket] = (slot.buckets[bucket] ?? 0) + count;
  }

  /** The last 60 minutes, oldest first; the last one contains `now`. */
  minutes(now: number): SeriesMinute[] {
    const last = Math.floor(now / MINUTE_MS);
    return Array.from({ length: SERIES_MINUTES }, (_, index) => {
      const minute = last - SERIES_MINUTES + 1 + index;
      return { at: minute * MINUTE_MS, ...totalOf(this.#slotsIn(minute, minute)) };
    });
  }

  /** The last 60 minutes as one. */
  total(now: number): SeriesTotal {
    const last = Math.floor(now / MINUTE_MS);
    return totalOf(this.#slotsIn(last - SERIES_MINUTES + 1, last));
  }

  #slotsIn(from: number, to: number): MinuteSlot[] {
    return this.#slots.flatMap((slot) => (slot && slot.minute >= from && slot.minute <= to ? [slot] : []));
  }

  #slotFor(minute: number): MinuteSlot {
    const slot = (this.#slots[((minute % SERIES_MINUTES) + SERIES_MINUTES) % SERIES_MINUTES] ??= emptySlot());
    if (slot.minute === minute) return slot;
    slot.buckets.fill(0);
    return Object.assign(slot, { minute, count: 0, sum: 0 });
  }
}

function emptySlot(): MinuteSlot {
  return { minute: Number.NaN, count: 0, sum: 0, buckets: new Uint32Array(BUCKET_COUNT) };
}

function bucketFor(value: number): number {
  return value < 1 ? 0 : Math.min(BUCKET_COUNT - 1, 1 + Math.floor(Math.log(value) / LOG_BUCKET_GROWTH));
}

/** The geometric middle of a bucket. */
function bucketValue(bucket: number): number {
  return bucket === 0 ? 0 : Math.exp((bucket - 0.5) * LOG_BUCKET_GROWTH);
}

function totalOf(slots: readonly MinuteSlot[]): SeriesTotal {
  const count = slots.reduce((total, slot) => total + slot.count, 0);
  const sum = slots.reduce((total, slot) => total + slot.sum, 0);
  return { count, sum, p50: quantile(slots, count, 0.5), p95: quantile(slots, count, 0.95) };
}

function quantile(slots: readonly MinuteSlot[], count: number, part: number): number | null {
  if (count === 0) return null;
  let left = Math.ceil(count * part);
  for (let bucket = 0; bucket < BUCKET_COUNT; bucket += 1) {
    for (const slot of slots) left -= slot.buckets[bucket] ?? 0;
    if (left <= 0) return bucketValue(bucket);
  }
  return bucketValue(BUCKET_COUNT - 1);
}
