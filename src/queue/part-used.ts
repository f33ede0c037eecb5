/** How much of what the service allows was used, since its limit became known. */
export interface Usage {
  used: number;
  allowed: number;
  /** Monotonic milliseconds up to which `allowed` was counted. */
  until: number | null;
}

/** Counts one answered request; `rate` is what the service is understood to allow now, per second. */
export function noteUsage(usage: Usage, at: number, rate: number | null): void {
  if (rate === null) return;
  if (usage.until !== null) {
    usage.allowed += (rate * (at - usage.until)) / 1_000;
    usage.used += 1;
  }
  usage.until = at;
}

/** 0..1; null while nothing is known. */
export function partUsed(usage: Usage): number | null {
  return usage.allowed === 0 ? null : Math.min(1, usage.used / usage.allowed);
}
