import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { DeliveryRow, InboxPort } from '../../warehouse/inbox.ts';

export interface ScanOptions {
  inbox: InboxPort;
  clock: Clock;
  signal: AbortSignal;
  /** How many more may be taken. */
  room: () => number;
  /** Gets deliveries that wait and are due, also such as it has got before. */
  take: (rows: readonly DeliveryRow[]) => void;
  /** Told of every look that failed; it is taken again by itself. */
  failed: (error: unknown) => void;
  /** How often all that waits is looked through, for what has become due or was set waiting from outside. */
  pollMs: number;
}

/** Where much is in hand, and would be read again along with the rest, only so often. */
const BUSY_POLL_MS = 30_000;
const MUCH = 2_000;
const BATCH = 500;

/** Reads the inbox: what is new as it comes, and all that waits now and then. Never two looks at once. */
export class InboxScan {
  readonly #options: ScanOptions;
  readonly #most: number;
  /** Everything up to here was seen once. */
  #seen = 0;
  #wanted: 'all' | 'new' | null = null;
  #looking: Promise<void> | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(options: ScanOptions) {
    this.#options = options;
    this.#most = options.room();
  }

  /** Looks through all that waits, now and from time to time until the signal is aborted. */
  start(): void {
    this.#look('all');
    void this.#poll();
  }

  /** Something new has come, or there is room again. */
  wake(): void {
    this.#look('new');
  }

  /** Resolves when no look is under way. */
  async idle(): Promise<void> {
    await this.#looking;
  }

  async #poll(): Promise<void> {
    const { clock, signal, room, pollMs } = this.#options;
    while (!signal.aborted) {
      await clock.sleep(pollMs, signal).catch(() => undefined);
      const isBusy = this.#most - room() > MUCH && clock.monotonic() - this.#lookedAt < BUSY_POLL_MS;
      this.#look(isBusy ? 'new' : 'all');
    }
  }

  #look(wanted: 'all' | 'new'): void {
    if (this.#options.signal.aborted) return;
    if (this.#wanted !== 'all') this.#wanted = wanted;
    this.#looking ??= this.#lookOn();
  }

  async #lookOn(): Promise<void> {
    const { signal, room, failed } = this.#options;
    // Without this it might be over before it is known as the look that is under way.
    await Promise.resolve();
    try {
      while (this.#wanted !== null && room() > 0 && !signal.aborted) {
        const from = this.#wanted === 'all' ? 0 : this.#seen;
        this.#wanted = null;
        await this.#readFrom(from);
      }
    } catch (error) {
      failed(error);
    }
    this.#looking = null;
  }

  async #readFrom(from: number): Promise<void> {
    const { inbox, clock, take, room, signal } = this.#options;
    if (from === 0) this.#lookedAt = clock.monotonic();
    for (let after = from; !signal.aborted;) {
      const rows = await inbox.waiting(after, timestampText(clock.now()), BATCH);
      take(rows);
      after = rows.at(-1)?.seq ?? after;
      this.#seen = Math.max(this.#seen, after);
      if (rows.length < BATCH) return;
      if (room() > 0) continue;
      this.#wanted ??= 'new';
      return;
    }
  }
}
