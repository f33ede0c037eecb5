import type { Random } from '../random.ts';
import type { EntryMaker, ServiceRecords } from './records.ts';

/** Someone who works in the service. */
export class Editor {
  readonly #records: ServiceRecords;
  readonly #maker: EntryMaker;
  readonly #random: Random;
  /** What was done, for whoever looks for a fault. */
  readonly #log: string[];

  constructor(records: ServiceRecords, maker: EntryMaker, random: Random, log: string[]) {
    this.#log = log;
    this.#records = records;
    this.#maker = maker;
    this.#random = random;
  }

  /** Writes so many records, as long ago as the first of them was written. */
  fill(count: number, from: number, until: number): void {
    for (let written = 0; written < count; written += 1) {
      const now = from + Math.floor(((until - from) * written) / count);
      const entry = this.#maker.create(now);
      this.#records.put(this.#random.chance(0.4) ? this.#maker.update(entry, this.#random.whole(now, until)) : entry);
    }
  }

  /** One change at this moment of the service's time. */
  edit(now: number): void {
    const [kind, act] = this.#random.pick(this.#acts);
    const done = act(now);
    this.#log.push(`${new Date(now).toISOString()} ${kind} ${done ?? 'nothing'}`);
  }

  readonly #acts: readonly [string, (now: number) => string | null][] = [
    ['create', (now) => this.#create(now)],
    ['create', (now) => this.#create(now)],
    ['update', (now) => this.#update(now)],
    ['update', (now) => this.#update(now)],
    ['update', (now) => this.#update(now)],
    ['delete', (now) => this.#delete(now)],
    ['delete', (now) => this.#delete(now)],
    ['unpublish', (now) => this.#unpublish(now)],
    ['restore', (now) => this.#restore(now)],
  ];

  #create(now: number): string {
    const entry = this.#maker.create(now);
    this.#records.put(entry);
    return entry.key;
  }

  #update(now: number): string | null {
    const entries = [...this.#records.entries.values()];
    if (entries.length === 0) return null;
    const entry = this.#random.pick(entries);
    this.#records.put(this.#maker.update(entry, now));
    return entry.key;
  }

  #delete(now: number): string | null {
    const keys = [...this.#records.entries.keys()];
    if (keys.length === 0) return null;
    const key = this.#random.pick(keys);
    this.#records.remove(key, now);
    return key;
  }

  /** It vanishes from the listing, and its own time does not say so. */
  #unpublish(now: number): string | null {
    const listed = [...this.#records.entries.values()].filter(({ isListed }) => isListed);
    if (listed.length === 0) return null;
    const entry = this.#random.pick(listed);
    this.#records.put({ ...entry, isListed: false, changedAt: now, isHonest: false });
    return entry.key;
  }

  /** As it was, with its old time. */
  #restore(now: number): string | null {
    const unlisted = [...this.#records.entries.values()].filter(({ isListed }) => !isListed);
    const gone = this.#records.graves.filter(({ key }) => !this.#records.entries.has(key));
    const candidates = [...unlisted, ...gone];
    if (candidates.length === 0) return null;
    const entry = this.#random.pick(candidates);
    this.#records.put({ ...entry, isListed: true, changedAt: now, isHonest: false });
    return entry.key;
  }
}
