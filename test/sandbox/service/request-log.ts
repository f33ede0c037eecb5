/** One request as the sandbox saw it. */
export interface RequestEntry {
  /** Epoch milliseconds on the machine's monotonic clock at which the request arrived, with fractions. */
  at: number;
  method: string;
  /** Path and query. */
  path: string;
  /** The part after /v1/; null elsewhere. */
  resource: string | null;
  /** 0 until it is answered, and for good if a fault ended it without an answer. */
  status: number;
}

const RING = 100_000;

/** All requests so far: a bounded ring of them, and counters over all. */
export class RequestLog {
  /** All requests since the start or the last `clear`. */
  total = 0;
  /** Answers by status. */
  byStatus: Record<number, number> = {};
  /** Requests being answered now, and the most there ever were at once. */
  inFlight = 0;
  peakInFlight = 0;
  #ring: RequestEntry[] = [];

  /** The newest requests (up to 100,000), oldest first. */
  entries(): RequestEntry[] {
    const start = this.total <= RING ? 0 : this.total % RING;
    return [...this.#ring.slice(start), ...this.#ring.slice(0, start)];
  }

  clear(): void {
    this.#ring = [];
    this.byStatus = {};
    [this.total, this.peakInFlight] = [0, this.inFlight];
  }

  arrived(entry: RequestEntry): void {
    this.#ring[this.total % RING] = entry;
    this.total += 1;
    this.inFlight += 1;
    this.peakInFlight = Math.max(this.peakInFlight, this.inFlight);
  }

  answered(entry: RequestEntry, status: number): void {
    entry.status = status;
    this.byStatus[status] = (this.byStatus[status] ?? 0) + 1;
  }

  /** Called when the connection is done with the request, answered or not. */
  ended(): void {
    this.inFlight -= 1;
  }
}
