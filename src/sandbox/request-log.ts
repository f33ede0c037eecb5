/** One request as the sandbox saw it. */
export interface RequestEntry {
  /** Epoch milliseconds on the machine's monotonic clock at which the request arrived, with fractions. */
  at: number;
  method: string;
  /** Path and query. */
  path: string;
  /** The part after /v1/; null elsewhere. */
  resource: string | null;
  /** 0 until it is answered, and for good where a fault ended it without an answer. */
  status: number;
  /** Where the answer was a 429: the moment, on the clock of `at`, before which the client was told not to come. */
  notBefore: number | null;
}

/** What has been asked; a bounded ring of requests, and counters over all of them. */
export interface RequestLog {
  /** The newest requests (up to 100,000), oldest first. */
  entries(): RequestEntry[];
  /** All requests since the start or the last `clear`. */
  readonly total: number;
  /** Answers by status. */
  readonly byStatus: Readonly<Record<number, number>>;
  /** Requests that arrived before the wait named by an earlier 429 was over. */
  readonly early: number;
  /** Requests being answered now, and the most there ever were at once. */
  readonly inFlight: number;
  readonly peakInFlight: number;
  clear(): void;
}

/** The log with what only the server needs. */
export interface WrittenLog extends RequestLog {
  arrived(entry: RequestEntry): void;
  answered(entry: RequestEntry, status: number): void;
  /** The connection is done with the request, answered or not. */
  ended(): void;
}

const RING = 100_000;

export function requestLog(): WrittenLog {
  let ring: RequestEntry[] = [];
  let [total, early, inFlight, peakInFlight, closedUntil] = [0, 0, 0, 0, 0];
  let byStatus: Record<number, number> = {};
  return {
    entries: () => (total <= RING ? [...ring] : [...ring.slice(total % RING), ...ring.slice(0, total % RING)]),
    get total() {
      return total;
    },
    get byStatus() {
      return byStatus;
    },
    get early() {
      return early;
    },
    get inFlight() {
      return inFlight;
    },
    get peakInFlight() {
      return peakInFlight;
    },
    clear: () => {
      [ring, byStatus] = [[], {}];
      [total, early, peakInFlight, closedUntil] = [0, 0, inFlight, 0];
    },
    arrived: (entry) => {
      ring[total % RING] = entry;
      total += 1;
      inFlight += 1;
      peakInFlight = Math.max(peakInFlight, inFlight);
      if (entry.at < closedUntil) early += 1;
    },
    answered: (entry, status) => {
      entry.status = status;
      byStatus[status] = (byStatus[status] ?? 0) + 1;
      if (entry.notBefore !== null) closedUntil = Math.max(closedUntil, entry.notBefore);
    },
    ended: () => {
      inFlight -= 1;
    },
  };
}
