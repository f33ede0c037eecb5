import type { Random } from '../random.ts';
import { Digits, type Fields, type Value } from '../world/json-value.ts';

export function drawTitle(random: Random): string {
  return `${random.pick(['Apfel', 'apple', 'Zebra', 'öl', 'Mond'])} ${random.whole(1, 30)}`;
}

/** Larger ids are not always newer ones. */
export function uuidOf(serial: number): string {
  const mixed = (serial * 7_919) % 10_007;
  return `${mixed.toString(16).padStart(8, '0')}-0000-4000-8000-${String(serial).padStart(12, '0')}`;
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
