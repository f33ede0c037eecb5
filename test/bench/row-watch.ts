import type Database from 'better-sqlite3';
import { timestampMs } from '../../src/model/timestamp-text.ts';
import { epochNow } from './staged.ts';

/** How a change shows in its row. */
export type Sign = { title: string } | 'deleted';

/** When a reader saw it, and when the reading of the record that brought it was sent, in epoch milliseconds. */
export interface Seen {
  at: number;
  askedAt: number;
}

interface Row {
  title: string | null;
  synced_at: string;
  deleted_at: string | null;
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
 * Sees rows as a reader of the warehouse does: it asks SQLite every millisecond whether any other connection has
 * committed (`data_version`, a few microseconds), and only then looks for the rows that are waited for.
 */
export class RowWatch {
  readonly #version: Database.Statement;
  readonly #row: Database.Statement<[string], Row>;
  readonly #waiting = new Map<string, Waiting>();
  readonly #timer: NodeJS.Timeout;
  #lastVersion: unknown = null;

  constructor(reader: Database.Database) {
    this.#version = reader.prepare('PRAGMA data_version').pluck();
    this.#row = reader.prepare(`SELECT title, _synced_at AS synced_at, _deleted_at AS deleted_at FROM content
      WHERE id = ?`);
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS);
  }

  /** Resolves once a reader sees it; rejects where that takes a minute. One change of a record at a time. */
  seen(id: string, sign: Sign): Promise<Seen> {
    return new Promise((seen, missed) => this.#waiting.set(id, { sign, since: epochNow(), seen, missed }));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const [oldest] = this.#waiting;
    if (oldest === undefined) return;
    if (epochNow() - oldest[1].since > PATIENCE_MS) oldest[1].missed(new Error(`${oldest[0]}: its row did not follow`));
    const version = this.#version.get();
    if (version === this.#lastVersion) return;
    this.#lastVersion = version;
    for (const [id, { sign, seen }] of this.#waiting) {
      const row = this.#row.get(id);
      if (row === undefined || !shows(row, sign)) continue;
      this.#waiting.delete(id);
      seen({ at: epochNow(), askedAt: timestampMs(row.synced_at) });
    }
  }
}

function shows(row: Row, sign: Sign): boolean {
  if (sign === 'deleted') return row.deleted_at !== null;
  return row.deleted_at === null && row.title === sign.title;
}
