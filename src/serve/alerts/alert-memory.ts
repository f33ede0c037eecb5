import type { Logger } from 'pino';
import { messageOf } from '../../model/errors.ts';
import { keepTold, readTold, type ToldAlert } from '../../state/alerts-told.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import type { Judgement } from './conditions.ts';

/** A source that alerts may be about. */
export interface AlertSource {
  name: string;
  /** True while this process is the one that reports its alerts. */
  isLed: () => boolean;
  /** Gives its warehouse to `work`. Rejects if it cannot be opened. */
  use: <T>(work: (warehouse: Warehouse) => Promise<T>) => Promise<T>;
}

/** What was reported of one source, by channel and alert. */
interface Remembered {
  isRead: boolean;
  rows: Map<string, ToldAlert>;
  /** Those of them that are not written yet. */
  changed: Map<string, ToldAlert>;
}

/**
 * What the channels have reported, kept in the warehouse of the source that it is about, so that no restart and no
 * other process reports it again. What cannot be written now is written later.
 */
export class AlertMemory {
  readonly #remembered = new Map<string, Remembered>();
  readonly #sources: () => readonly AlertSource[];
  readonly #log: Logger;

  constructor({ sources, log }: { sources: () => readonly AlertSource[]; log: Logger }) {
    this.#sources = sources;
    this.#log = log;
  }

  /** Reads each source once; those in `again` once more, as another process may have reported of them. Never rejects. */
  async read(again: ReadonlySet<string> = new Set()): Promise<void> {
    for (const { name, isLed, use } of this.#sources()) {
      if (!isLed()) this.#remembered.delete(name);
      const of = this.#of(name);
      if (!isLed() || (of.isRead && !again.has(name))) continue;
      const stored = await use(({ own }) => readTold(own, name)).catch(() => null);
      if (stored === null) continue;
      // What is not written yet is newer than what is stored.
      of.rows = new Map([...stored.map((row) => [keyOfRow(row), row] as const), ...of.changed]);
      of.isRead = true;
    }
  }

  /** The part of a judgement that can be reported: of a source that was not read, only that it cannot be. */
  known({ conditions, readable, copied }: Judgement): Judgement {
    const sources = new Map(this.#sources().map((source) => [source.name, source]));
    const isLed = (name: string): boolean => sources.get(name)?.isLed() !== false;
    const isKnown = (name: string): boolean => isLed(name) && (!sources.has(name) || this.#of(name).isRead);
    return {
      conditions: conditions.filter(({ source, resource }) => (resource === null ? isLed(source) : isKnown(source))),
      readable: new Set([...readable].filter(isKnown)),
      copied: copied.filter(({ source }) => isKnown(source)),
    };
  }

  /** What a channel has reported of all sources. */
  of(channel: string): ToldAlert[] {
    const all = [...this.#remembered.values()].flatMap(({ rows }) => Array.from(rows.values()));
    return all.filter((row) => row.channel === channel);
  }

  keep(rows: readonly ToldAlert[]): void {
    for (const row of rows) {
      const of = this.#of(row.source);
      of.rows.set(keyOfRow(row), row);
      of.changed.set(keyOfRow(row), row);
    }
  }

  /** Writes what has changed; what cannot be written is tried again the next time. Never rejects. */
  async write(): Promise<void> {
    for (const { name: source, use } of this.#sources()) {
      const { changed, isRead } = this.#of(source);
      const batch = [...changed];
      if (batch.length === 0 || !isRead) continue;
      try {
        await use((open) => open.apply(batch.map(([, row]) => keepTold(open.own, row))));
        // What changed again in the meantime is written the next time.
        for (const [key, row] of batch) if (changed.get(key) === row) changed.delete(key);
      } catch (error) {
        this.#log.warn({ source, error }, `alerts that were sent could not be stored: ${messageOf(error)}`);
      }
    }
  }

  #of(source: string): Remembered {
    const known = this.#remembered.get(source) ?? { isRead: false, rows: new Map(), changed: new Map() };
    this.#remembered.set(source, known);
    return known;
  }
}

function keyOfRow({ channel, alert }: ToldAlert): string {
  return `${channel}\n${alert}`;
}
