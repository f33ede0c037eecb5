/** Answers that count as recent. */
const RECENT = 8;
/** Bodies that may wait to be consumed: parsed they take ten times as much memory. */
const MOST_BYTES = 2_097_152;

/**
 * How many pages to have under way at once: as many as the consumer can take in the time that one answer needs, and
 * no more, because a page fetched ahead is lost when the process dies; of large pages only a few.
 *
 * Latency is the best of the whole walk: while this process or the service is busy, every answer seems the slower the
 * more of them are under way, and a window that believed that would open itself ever wider. When the latency varies or
 * grew, the consumer waits for longer than it works: then the recent answers count, and the window opens step by step.
 */
export class AheadWindow {
  private readonly most: number;
  private readonly least: number;
  private best = Infinity;
  private recent: number[] = [];
  private holds: number[] = [];
  /** Half of the recent holds were shorter: one that was held up for once says nothing about the next. */
  private held: number | null = null;
  private open: number;
  private bytes = 0;

  /** `most`: the upper limit; with 0 nothing is ever fetched ahead. `least`: the lower one, if that allows it. */
  constructor(most: number, least = 1) {
    this.most = most;
    this.least = least;
    this.open = Math.min(least, most);
  }

  /** Requests that may be under way; the least at the beginning. */
  size(): number {
    return Math.min(this.open, this.fittingBytes());
  }

  /**
   * Pages that may be under way or wait for their turn. More than are under way: answers come in any order, and while
   * all but the first are there already, or the consumer is held up for once, no request would be under way.
   */
  depth(): number {
    return Math.min(this.open + Math.floor(this.open / 2), this.fittingBytes());
  }

  /** The consumer kept a page for `heldMs`, and asks for the next one; `ready`: its answer is there already. */
  consumed(heldMs: number, ready: boolean): void {
    this.holds = [...this.holds, heldMs].slice(-RECENT);
    this.held = this.holds.toSorted((a, b) => a - b)[Math.floor((this.holds.length - 1) / 2)] ?? heldMs;
    if (!ready) this.open = Math.max(this.open, this.fitting(this.best, this.held));
  }

  /** The page asked for is there, `bytes` long; the consumer had to wait `waitedMs` for it, its answer took `latencyMs`. */
  answered(latencyMs: number, waitedMs: number, bytes: number): void {
    this.bytes = bytes;
    this.best = Math.min(this.best, latencyMs);
    this.recent = [...this.recent, latencyMs].slice(-RECENT);
    if (this.held === null) return;
    if (waitedMs > this.held) this.widen(this.fitting(Math.min(...this.recent), this.held));
    else if (this.open > this.fitting(this.best, this.held)) this.open -= 1;
  }

  private fittingBytes(): number {
    return this.bytes === 0 ? Infinity : Math.max(1, Math.floor(MOST_BYTES / this.bytes));
  }

  private widen(fitting: number): void {
    this.open = Math.min(Math.max(this.open + 1, fitting), this.most);
  }

  private fitting(latency: number, held: number): number {
    const isKnown = Number.isFinite(latency) && latency > 0;
    return Math.min(isKnown ? Math.max(Math.ceil(latency / held), this.least) : this.least, this.most);
  }
}
