/** Answers whose latency counts. */
const REMEMBERED = 8;

/**
 * How many pages to have under way at once: as many as the consumer can take in the time that one answer needs, and
 * no more, because a page fetched ahead is lost when the process dies.
 *
 * Latency is the best of the last answers: while this process or the service is busy, every answer seems the slower the
 * more of them are under way, and a window that believed that would open itself ever wider. For the same reason the
 * window only opens when a page was asked for before it was there.
 */
export class AheadWindow {
  private readonly most: number;
  private readonly latencies: number[] = [];
  private held: number | null = null;
  private open: number;

  /** `most`: the upper limit; with 0 nothing is ever fetched ahead. */
  constructor(most: number) {
    this.most = most;
    this.open = Math.min(1, most);
  }

  /** Requests that may be under way; 1 at the beginning. */
  size(): number {
    return this.open;
  }

  /** The consumer kept a page for `heldMs`, and now asks for the next one; `ready`: its answer is there already. */
  consumed(heldMs: number, ready: boolean): void {
    this.held = this.held === null ? heldMs : (this.held + heldMs) / 2;
    const fitting = this.fitting(this.held);
    if (!ready) this.open = Math.max(this.open, fitting);
    else if (fitting < this.open) this.open -= 1;
  }

  /** The page asked for is there; the consumer had to wait `waitedMs` for it, its answer took `latencyMs`. */
  answered(latencyMs: number, waitedMs: number): void {
    this.latencies.push(latencyMs);
    if (this.latencies.length > REMEMBERED) this.latencies.shift();
    // Latency that varies: the best answers say too little about the others.
    if (this.held !== null && waitedMs > this.held) this.open = Math.min(this.open + 1, this.most);
  }

  private fitting(held: number): number {
    const latency = Math.min(...this.latencies);
    return latency <= 0 ? this.open : Math.min(Math.max(Math.ceil(latency / held), 1), this.most);
  }
}
