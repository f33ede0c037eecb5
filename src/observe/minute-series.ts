// Counts per minute and quantiles of the last hour, in memory.
const MINUTE_MS = 60_000;
const SERIES_MINUTES = 60;
const HOUR_MS = SERIES_MINUTES * MINUTE_MS;

/** Counts the events of the last hour, minute by minute. A clock that jumps loses at most the minutes that it jumped over. */
export class MinuteSeries {
  /** By whole minutes since the epoch. */
  readonly #counts = new Map<number, number>();

  add(at: number, count = 1): void {
    const minute = Math.floor(at / MINUTE_MS);
    this.#counts.set(minute, (this.#counts.get(minute) ?? 0) + count);
    for (const known of this.#counts.keys()) {
      if (known > minute || known <= minute - SERIES_MINUTES) this.#counts.delete(known);
    }
  }

  total(now: number): number {
    const last = Math.floor(now / MINUTE_MS);
    return [...this.#counts]
      .filter(([minute]) => minute <= last && minute > last - SERIES_MINUTES)
      .reduce((sum, [, count]) => sum + count, 0);
  }
}

/** More values of an hour would change its quantiles little. */
const MAX_SAMPLES = 2_000;

/** The latest values, for the quantiles of the last hour. */
export class RecentValues {
  #samples: { at: number; value: number }[] = [];

  add(at: number, value: number): void {
    this.#samples.push({ at, value });
    if (this.#samples.length > MAX_SAMPLES) this.#samples = this.#samples.slice(-MAX_SAMPLES / 2);
  }

  /** The values below which these parts of all are, such as 0.5 and 0.95; null if there were no values. */
  quantiles(now: number, ...parts: readonly number[]): (number | null)[] {
    const values = this.#samples
      .flatMap(({ at, value }) => (at > now - HOUR_MS ? [value] : []))
      .toSorted((a, b) => a - b);
    return parts.map((part) => values[Math.ceil(values.length * part) - 1] ?? null);
  }
}
