import type { Random } from '../random.ts';
import type { Behaviour } from './behaviour.ts';
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

export function drawTitle(random: Random): string {
  return `${random.pick(['Apfel', 'apple', 'Zebra', 'öl', 'Mond'])} ${random.whole(1, 30)}`;
}

/** Larger ids are not always newer ones. */
export function uuidOf(serial: number): string {
  const mixed = (serial * 7_919) % 10_007;
  return `${mixed.toString(16).padStart(8, '0')}-0000-4000-8000-${String(serial).padStart(12, '0')}`;
}

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
      title: drawTitle(this.#random),
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
    const title = this.#random.chance(0.3) ? drawTitle(this.#random) : before.title;
    const rest = { title, updatedAt, isListed: true, changedAt: now, isHonest: true };
    return this.#entry({ ...before, ...rest, body: this.#fields.make(this.#serial) });
  }

  #stamp(now: number): number {
    const { lateMs, resolution } = this.#behaviour.times;
    const late = this.#random.chance(0.5) ? this.#random.whole(0, lateMs) : 0;
    return Math.floor((now - late) / resolution) * resolution;
  }

  #id(): Fields {
    const serial = this.#serial;
    const ids: Readonly<Record<Behaviour['ids'], () => [string, Value][]>> = {
      integers: () => [['id', new Digits(serial)]],
      uuids: () => [['id', uuidOf(serial)]],
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

type Draw = (random: Random) => Value;

/** A field as this service has it. */
interface FieldPlan {
  name: string;
  draw: Draw;
  /** Records written before have none. */
  from: number;
  chance: number;
}

const NAMES = [
  'size | tags | authors | seo | price | body | published_on | flags | r | v | t | order | value | position',
  'content_id | Straße | café au lait | a.b | x-y | 价格 | 😀 | userId | UserID | _hash | __proto__',
  'constructor | \\ | a"b | null | 0 | select | body_text | key | data | new | excluded',
].flatMap((names) => names.split(' | '));
const TEXTS = [
  '',
  'one',
  'drei ünf',
  '🙂',
  'a\nb',
  '5',
  'true',
  'null',
  '{"a":1}',
  'e\u0301',
  '\u0000x',
  '\ud83d',
  '\\u0041',
];
const NUMBERS = ['0', '1', '-1', '42', '1.5', '-0.25', '1e3', '2147483648', '9007199254740993', '1.10', '-0'];
const DECIMALS = [
  '98331783783160.625 0.1000000000000000055511151231257827 0.1 19.99 1e21 1E-7 3.0',
  '123456789012345678901234567890.123456789 18446744073709551616 -9223372036854775808 0.30000000000000004',
].flatMap((names) => names.split(' '));
const INSTANTS = [
  '2024-05-06T07:08:09Z | 2024-05-06T07:08:09.5Z | 2024-05-06T07:08:09.123456Z | 2024-05-06T23:30:00+02:00',
  '2024-05-06 07:08:09 | 2024-05-06T07:08:09 | 2024-02-29T00:00:00-11:30 | 2024-05-06T07:08Z',
].flatMap((names) => names.split(' | '));
const DATES = ['2024-05-06', '2024-02-29', '1999-12-31'];
const NO_DATES = ['2024-02-30', 'soon', '2024-05-06T25:00:00Z', '0000-00-00'];

const text: Draw = (random) => random.pick(TEXTS);
const whole: Draw = (random) => new Digits(random.whole(-5, 500));
const number: Draw = (random) => new Digits(random.pick(NUMBERS));
const decimalNumber: Draw = (random) => new Digits(random.pick(DECIMALS));
const flag: Draw = (random) => random.chance(0.5);
const instant: Draw = (random) => random.pick(INSTANTS);
const date: Draw = (random) => random.pick(DATES);
const nothing: Draw = () => null;
const listOf =
  (draw: Draw): Draw =>
  (random) =>
    Array.from({ length: random.whole(0, 3) }, () => draw(random));
const objectOf =
  (...members: readonly [string, Draw, number][]): Draw =>
  (random) =>
    new Map(members.filter(([, , chance]) => random.chance(chance)).map(([name, draw]) => [name, draw(random)]));
const anyOf =
  (...draws: readonly Draw[]): Draw =>
  (random) =>
    random.pick(draws)(random);

const scalar = anyOf(text, whole, number, decimalNumber, flag, instant, date);
const person = objectOf(['handle', text, 0.9], ['rank', number, 0.5], ['since', date, 0.4]);
const deep = objectOf(
  ['a', objectOf(['b', objectOf(['c', objectOf(['d', scalar, 0.7], ['e', listOf(whole), 0.4]), 0.8]), 0.8]), 0.9],
  ['z', scalar, 0.5],
);

/** What a field holds: most always the same, some drift. */
const KINDS: readonly Draw[] = [
  text,
  text,
  whole,
  number,
  anyOf(number, decimalNumber),
  decimalNumber,
  flag,
  instant,
  anyOf(instant, date),
  anyOf(date, (random) => random.pick(NO_DATES)),
  anyOf(whole, text),
  anyOf(flag, whole),
  objectOf(['description', text, 0.8], ['rank', number, 0.6], ['image', objectOf(['id', whole, 0.9]), 0.4]),
  deep,
  listOf(text),
  listOf(whole),
  listOf(anyOf(text, nothing)),
  listOf(person),
  listOf(anyOf(person, nothing, () => new Map())),
  anyOf(
    () => [null],
    () => [new Map()],
    () => [new Map([['x', null]])],
    listOf(objectOf(['x', whole, 0.6])),
  ),
  listOf(objectOf(['name', text, 0.9], ['parts', listOf(objectOf(['n', whole, 0.8])), 0.7])),
  listOf(listOf(whole)),
  anyOf(person, text),
  anyOf(listOf(whole), whole),
  anyOf(listOf(person), person, scalar),
  nothing,
];

/** Makes what stands in records besides id, title and times. The same for the same seed. */
export class FieldMaker {
  readonly #plans: readonly FieldPlan[];
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
    const names = new Set(Array.from({ length: random.whole(2, 7) }, () => random.pick(NAMES)));
    this.#plans = [...names].map((name) => ({
      name,
      draw: random.pick(KINDS),
      from: random.pick([0, 0, 0, random.whole(1, 80)]),
      chance: random.pick([1, 0.8, 0.3]),
    }));
  }

  /** Of the record that is the `serial`th to be written. */
  make(serial: number): Fields {
    const random = this.#random;
    const fields = new Map<string, Value>();
    for (const { name, draw, from, chance } of this.#plans) {
      if (serial >= from && random.chance(chance)) fields.set(name, random.chance(0.1) ? null : draw(random));
    }
    return fields;
  }
}

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
