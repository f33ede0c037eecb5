import type { Clock } from '../../model/clock.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import type { DeliveryRow, Inbox } from '../../database/inbox.ts';

interface ScanOptions {
  inbox: Pick<Inbox, 'waiting'>;
  clock: Clock;
  signal: AbortSignal;
  /** How often all that waits is looked through, for what has become due or was set waiting from outside. */
  pollMs: number;
  /** Called at that time; returns the deliveries that were begun and have not ended. */
  polled: () => number;
  /** How many more deliveries may be begun. */
  room: () => number;
  /** Called before each reading of the inbox. */
  reads: () => void;
  /** Called with deliveries that wait and are due, also with those that it was called with before. */
  begin: (rows: readonly DeliveryRow[]) => void;
  /** Called for every look that failed; the next one comes by itself. */
  failed: (error: unknown) => void;
}

/** While much is in progress, which would be read again along with the rest. */
const BUSY_POLL_MS = 30_000;
const MUCH = 2_000;
const BATCH = 500;

/** Reads the inbox until the signal: what is new as it comes, and all that waits now and then. Never two looks at once. */
export class InboxScan {
  readonly #options: ScanOptions;
  /** Everything up to here was seen once. */
  #seen = 0;
  #wanted: 'all' | 'new' | null = null;
  #looking: Promise<void> | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(options: ScanOptions) {
    this.#options = options;
    const { clock, signal, pollMs: everyMs, polled } = options;
    void repeatUntilAborted({ clock, everyMs, signal }, () => {
      const isBusy = polled() > MUCH && clock.monotonic() - this.#lookedAt < BUSY_POLL_MS;
      this.look(isBusy ? 'new' : 'all');
    });
  }

  /** Looks for what is new, when something has come or there is room again; or through all that waits. */
  look(wanted: 'all' | 'new'): void {
    if (this.#options.signal.aborted) return;
    if (this.#wanted !== 'all') this.#wanted = wanted;
    this.#looking ??= this.#lookOn();
  }

  /** Resolves when no look is under way. */
  async idle(): Promise<void> {
    await this.#looking;
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
    const { inbox, clock, reads, begin, room, signal } = this.#options;
    if (from === 0) this.#lookedAt = clock.monotonic();
    for (let after = from; !signal.aborted;) {
      reads();
      const rows = await inbox.waiting(after, timestampText(clock.now()), BATCH);
      begin(rows);
      after = rows.at(-1)?.seq ?? after;
      this.#seen = Math.max(this.#seen, after);
      if (rows.length < BATCH) return;
      if (room() > 0) continue;
      this.#wanted ??= 'new';
      return;
    }
  }
}
