import type { Random } from '../random.ts';
import type { Behaviour } from './behaviour.ts';
import { FieldMaker } from './fields.ts';
import { canonical, Digits, type Fields, type Value } from './json-value.ts';

/** A record as the service has it. Never changed: another state is another entry. */
export interface Entry {
  key: string;
  /** Of each part of the id, its name and value. */
  id: Fields;
  /** The how-manieth record it was. */
  serial: number;
  title: string;
  body: Fields;
  createdAt: number;
  /** As the service compares it; null where the record was never updated. */
  updatedAt: number | null;
  isListed: boolean;
  isPublic: boolean;
  isDraft: boolean;
  /** When it came to be so. */
  changedAt: number;
  /** True where its time of change tells of this change. */
  isHonest: boolean;
}

export type Entries = ReadonlyMap<string, Entry>;

/** What a record was at a time. */
export interface PastState {
  /** Canonical. */
  body: string;
  updatedAt: number | null;
}

/** All records of a service, and all that they ever were; times are the service's own, in epoch milliseconds. */
export class ServiceRecords {
  entries: Entries = new Map();
  /** Counts changes. */
  moves = 0;
  readonly graves: Entry[] = [];
  /** When a record went, the last time that it did. */
  readonly removedAt = new Map<string, number>();
  /** All that a record ever was, oldest first, by its key. */
  readonly past = new Map<string, PastState[]>();
  readonly #snapshots: { at: number; entries: Entries }[] = [];

  /** Writes this state of a record. */
  put(entry: Entry): void {
    this.entries = new Map([...this.entries, [entry.key, entry]]);
    const states = this.past.get(entry.key) ?? [];
    this.past.set(entry.key, [...states, { body: canonical(entry.body), updatedAt: entry.updatedAt }]);
    this.#moved(entry.changedAt);
  }

  remove(key: string, at: number): void {
    const entry = this.entries.get(key);
    if (entry === undefined) return;
    this.graves.push(entry);
    this.removedAt.set(key, at);
    this.entries = new Map([...this.entries].filter(([other]) => other !== key));
    this.#moved(at);
  }

  /** Everything as it was at that moment. */
  asOf(at: number): Entries {
    return (
      this.#snapshots.findLast((snapshot) => snapshot.at <= at)?.entries ?? this.#snapshots[0]?.entries ?? this.entries
    );
  }

  /** When anything changed last. */
  get movedAt(): number {
    return this.#snapshots.at(-1)?.at ?? -Infinity;
  }

  #moved(at: number): void {
    this.moves += 1;
    this.#snapshots.push({ at, entries: this.entries });
  }
}

const MINUTE = 60_000;

/** Makes entries in the form of one service. */
export class EntryMaker {
  readonly #behaviour: Behaviour;
  readonly #random: Random;
  readonly #fields: FieldMaker;
  #serial = 0;

  constructor(behaviour: Behaviour, random: Random) {
    this.#behaviour = behaviour;
    this.#random = random;
    this.#fields = new FieldMaker(random);
  }

  /** A new record, written at `now`. */
  create(now: number): Entry {
    this.#serial += 1;
    const { times, publicPart } = this.#behaviour;
    const stamp = this.#stamp(now);
    const id = this.#id();
    return this.#entry({
      key: keyOf(id),
      id,
      serial: this.#serial,
      title: this.#title(),
      body: this.#fields.make(this.#serial),
      createdAt: stamp,
      updatedAt: times.isNullAtFirst ? null : stamp,
      isListed: true,
      isPublic: this.#random.chance(publicPart),
      isDraft: this.#random.chance(0.3),
      changedAt: now,
      isHonest: !times.isNullAtFirst,
    });
  }

  /** The record with other content; its own time never goes back. */
  update(before: Entry, now: number): Entry {
    const updatedAt = Math.max(before.updatedAt ?? before.createdAt, this.#stamp(now));
    const title = this.#random.chance(0.3) ? this.#title() : before.title;
    const rest = { title, updatedAt, isListed: true, changedAt: now, isHonest: true };
    return this.#entry({ ...before, ...rest, body: this.#fields.make(this.#serial) });
  }

  #stamp(now: number): number {
    const { lateMs, resolution } = this.#behaviour.times;
    const late = this.#random.chance(0.5) ? this.#random.whole(0, lateMs) : 0;
    return Math.floor((now - late) / resolution) * resolution;
  }

  #title(): string {
    return `${this.#random.pick(['Apfel', 'apple', 'Zebra', 'öl', 'Mond'])} ${this.#random.whole(1, 30)}`;
  }

  #id(): Fields {
    const serial = this.#serial;
    // Larger ids are not always newer ones.
    const mixed = (serial * 7_919) % 10_007;
    const ids: Readonly<Record<Behaviour['ids'], () => [string, Value][]>> = {
      integers: () => [['id', new Digits(serial)]],
      uuids: () => [
        ['id', `${mixed.toString(16).padStart(8, '0')}-0000-4000-8000-${String(serial).padStart(12, '0')}`],
      ],
      odd: () => [['id', `${this.#random.pick(['a/b', 'ä ö', 'A', '100%', '~', 'x?y=1'])}-${serial}`]],
      composite: () => [
        ['space', this.#random.pick(['blog', 'shop', 'null', '', null])],
        ['ref', new Digits(serial)],
      ],
    };
    return new Map(ids[this.#behaviour.ids]());
  }

  #entry(entry: Entry): Entry {
    const { times } = this.#behaviour;
    const updated = entry.updatedAt === null ? null : timeValue(entry.updatedAt, times.form);
    const [outer = '', inner] = times.name.split('.');
    const body = new Map<string, Value>([
      ...entry.id,
      ['title', entry.title],
      ...[...entry.body].filter(([name]) => !entry.id.has(name) && name !== 'title'),
      ['created_at', timeValue(entry.createdAt, times.form)],
      [outer, inner === undefined ? updated : new Map([[inner, updated]])],
    ]);
    return { ...entry, body };
  }
}

/** A moment as the service writes it. */
export function timeValue(at: number, form: Behaviour['times']['form']): Value {
  const iso = new Date(at).toISOString();
  const forms = {
    iso_ms: iso,
    iso_s: `${iso.slice(0, 19)}Z`,
    offset: `${new Date(at + 120 * MINUTE).toISOString().slice(0, 23)}+02:00`,
    naive: iso.slice(0, 19).replace('T', ' '),
    epoch_s: new Digits(Math.floor(at / 1_000)),
    epoch_ms: new Digits(at),
  };
  return forms[form];
}

/** The text by which the copy tells a record from all others. */
function keyOf(id: Fields): string {
  const parts = [...id.values()].map((part) => (part instanceof Digits ? part.text : part));
  const [only] = parts;
  return parts.length === 1 && typeof only === 'string' ? only : JSON.stringify(parts);
}
