/** A number of deliveries and their size in bytes. */
export interface Load {
  rows: number;
  bytes: number;
}

/**
 * Limits how much waits in an inbox without a query for each delivery: it adds up the last count, the deliveries stored
 * since, and those in flight. Deliveries processed since the count are included until the next one.
 */
export class WaitingLoad {
  readonly #limit: () => Load;
  readonly #inFlight: Load = { rows: 0, bytes: 0 };
  #counted: Load = { rows: 0, bytes: 0 };
  /** Stored since the last count. */
  #stored: Load = { rows: 0, bytes: 0 };
  /** Stored since the count in progress began, which may have missed them. */
  #storedDuringCount: Load = { rows: 0, bytes: 0 };

  /** `limit` returns how much may wait at this time. */
  constructor(limit: () => Load) {
    this.#limit = limit;
  }

  /** Returns false, and reserves nothing, if there is no room. Each reservation ends with `release`. */
  reserve(bytes: number): boolean {
    const loads = [this.#counted, this.#stored, this.#inFlight];
    const waiting = loads.reduce((sum, load) => ({ rows: sum.rows + load.rows, bytes: sum.bytes + load.bytes }));
    const limit = this.#limit();
    if (waiting.rows >= limit.rows || waiting.bytes + bytes > limit.bytes) return false;
    this.#inFlight.rows += 1;
    this.#inFlight.bytes += bytes;
    return true;
  }

  /** Called when the delivery was stored or failed; `isWaiting` if it now waits in the inbox and did not before. */
  release(bytes: number, isWaiting: boolean): void {
    this.#inFlight.rows -= 1;
    this.#inFlight.bytes -= bytes;
    if (!isWaiting) return;
    for (const load of new Set([this.#stored, this.#storedDuringCount])) {
      load.rows += 1;
      load.bytes += bytes;
    }
  }

  /** Called when a count begins; returns the function to call with its result. A later count replaces an earlier one. */
  startCount(): (counted: Load) => void {
    const storedDuringCount = { rows: 0, bytes: 0 };
    this.#storedDuringCount = storedDuringCount;
    return (counted) => {
      if (this.#storedDuringCount !== storedDuringCount) return;
      this.#counted = counted;
      this.#stored = storedDuringCount;
    };
  }
}
