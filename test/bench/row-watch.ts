import { setTimeout as delay } from 'node:timers/promises';
import { timestampMs } from '../../src/model/timestamp-text.ts';
import type { ContentRow, Reader } from './reader.ts';
import { epochNow } from './staged.ts';

/** How a change shows in its row. */
export type Sign = { title: string } | 'deleted';

/** When a reader saw it, and when the reading of the record that brought it was sent, in epoch milliseconds. */
export interface Seen {
  at: number;
  askedAt: number;
}

interface Waiting {
  sign: Sign;
  since: number;
  seen: (seen: Seen) => void;
  missed: (error: Error) => void;
}

const LOOK_EVERY_MS = 1;
const PATIENCE_MS = 60_000;

/**
 * Sees rows as a reader of the warehouse does: about every millisecond it asks whether any other connection may have
 * committed, and only then for the rows that are waited for.
 */
export class RowWatch {
  readonly #reader: Reader;
  readonly #waiting = new Map<string, Waiting>();
  readonly #looking: Promise<void>;
  #isClosed = false;

  constructor(reader: Reader) {
    this.#reader = reader;
    this.#looking = this.#look();
  }

  /** Resolves once a reader sees it; rejects where that takes a minute. One change of a record at a time. */
  seen(id: string, sign: Sign): Promise<Seen> {
    return new Promise((seen, missed) => this.#waiting.set(id, { sign, since: epochNow(), seen, missed }));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#looking;
  }

  async #look(): Promise<void> {
    while (!this.#isClosed) {
      await delay(LOOK_EVERY_MS);
      const [oldest] = this.#waiting;
      if (oldest === undefined) continue;
      if (epochNow() - oldest[1].since > PATIENCE_MS)
        oldest[1].missed(new Error(`${oldest[0]}: its row did not follow`));
      if (this.#reader.mayHaveChanged()) await this.#lookAtRows();
    }
  }

  async #lookAtRows(): Promise<void> {
    for (const row of await this.#reader.content([...this.#waiting.keys()])) {
      const waiting = this.#waiting.get(row.id);
      if (waiting === undefined || !shows(row, waiting.sign)) continue;
      this.#waiting.delete(row.id);
      waiting.seen({ at: epochNow(), askedAt: timestampMs(row.synced_at) });
    }
  }
}

function shows(row: ContentRow, sign: Sign): boolean {
  if (sign === 'deleted') return row.deleted_at !== null;
  return row.deleted_at === null && row.title === sign.title;
}
