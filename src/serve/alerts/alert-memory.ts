import type { CompiledQuery } from 'kysely';
import { forgetTold, keepTold, readTold } from '../../state/alerts-told.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import type { Judgement } from './conditions.ts';
import { keyOf, type ToldOf } from './plan-telling.ts';

/** A source that is told of. */
export interface AlertSource {
  name: string;
  /** True while it is this process that tells of it. */
  isLed: () => boolean;
  /** Gives its warehouse to `work`. Rejects if it cannot be opened. */
  use: <T>(work: (warehouse: Warehouse) => Promise<T>) => Promise<T>;
}

/** What was told of one source; `changed` is not written yet, null for what is to be forgotten. */
interface Remembered {
  isRead: boolean;
  rows: Map<string, ToldOf>;
  changed: Map<string, ToldOf | null>;
}

/**
 * What the channels were told, kept in the warehouse of the source that it is about, so that no restart and no other
 * process tells it again. What cannot be written now is remembered here and written later.
 */
export class AlertMemory {
  readonly #sources = new Map<string, Remembered>();

  /** Reads what was told of the sources, once each; forgets those that another process tells of. */
  async read(sources: readonly AlertSource[]): Promise<void> {
    for (const source of sources) {
      if (!source.isLed()) this.#sources.delete(source.name);
      else if (!this.#of(source.name).isRead) await this.#readOne(source).catch(() => undefined);
    }
  }

  /** Reads again what was told of these: another process may have worked on them, and told it. */
  async reread(sources: readonly AlertSource[], names: ReadonlySet<string>): Promise<void> {
    for (const source of sources) if (names.has(source.name)) await this.#readOne(source).catch(() => undefined);
  }

  /** The judgement of what is known well enough to tell it: of a source that was not read, only that it cannot be. */
  known({ conditions, readable, copied }: Judgement, sources: readonly AlertSource[]): Judgement {
    const others = new Set(sources.filter(({ isLed }) => !isLed()).map(({ name }) => name));
    const own = new Set(sources.map(({ name }) => name));
    const isRead = (source: string): boolean => !own.has(source) || this.#sources.get(source)?.isRead === true;
    return {
      conditions: conditions.filter(({ source, resource }) => {
        return !others.has(source) && (resource === null || isRead(source));
      }),
      readable: new Set([...readable].filter((source) => !others.has(source) && isRead(source))),
      copied: copied.filter(({ source }) => !others.has(source) && isRead(source)),
    };
  }

  /** What a channel was told of all sources. */
  of(channel: string): ToldOf[] {
    return [...this.#sources.values()].flatMap(({ rows }) =>
      rows
        .values()
        .filter((row) => row.channel === channel)
        .toArray(),
    );
  }

  keep(rows: readonly ToldOf[]): void {
    for (const row of rows) {
      const { rows: known, changed } = this.#of(row.source);
      known.set(keyOf(row.channel, row.alert), row);
      changed.set(keyOf(row.channel, row.alert), row);
    }
  }

  forget(rows: readonly ToldOf[]): void {
    for (const row of rows) {
      const { rows: known, changed } = this.#of(row.source);
      known.delete(keyOf(row.channel, row.alert));
      changed.set(keyOf(row.channel, row.alert), null);
    }
  }

  /** Writes what has changed. Returns what could not be written, by its source: it is tried again the next time. */
  async write(sources: readonly AlertSource[]): Promise<{ source: string; error: unknown }[]> {
    const failed: { source: string; error: unknown }[] = [];
    for (const source of sources) {
      const { changed, isRead } = this.#of(source.name);
      if (changed.size === 0 || !isRead) continue;
      const batch = [...changed];
      try {
        await source.use((open) => open.apply(batch.map((each) => statementOf(open.own, each))));
        // What changed again meanwhile is written the next time.
        for (const [key, row] of batch) if (changed.get(key) === row) changed.delete(key);
      } catch (error) {
        failed.push({ source: source.name, error });
      }
    }
    return failed;
  }

  #of(source: string): Remembered {
    const known = this.#sources.get(source) ?? { isRead: false, rows: new Map(), changed: new Map() };
    this.#sources.set(source, known);
    return known;
  }

  async #readOne({ name, use }: AlertSource): Promise<void> {
    const stored = await use(({ own }) => readTold(own));
    const known = this.#of(name);
    const rows = stored.map((row) => Object.assign(row, { source: name }));
    known.rows = new Map(rows.map((row) => [keyOf(row.channel, row.alert), row]));
    // What was told since, while it could not be written, is newer.
    for (const [key, row] of known.changed) {
      if (row === null) known.rows.delete(key);
      else known.rows.set(key, row);
    }
    known.isRead = true;
  }
}

function statementOf(own: Warehouse['own'], [key, row]: [string, ToldOf | null]): CompiledQuery {
  const [channel = '', alert = ''] = key.split('\n');
  if (row === null) return forgetTold(own, { channel, alert });
  const { source: _source, ...told } = row;
  return keepTold(own, told);
}
