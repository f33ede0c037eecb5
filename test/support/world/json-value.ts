import { decimal } from '../copied-cells.ts';

/** A number by its digits, as JSON writes it. */
export class Digits {
  readonly text: string;

  constructor(text: string | number) {
    this.text = String(text);
  }
}

/** A JSON value that loses nothing: digits of numbers, the order of keys, half characters. */
export type Value = null | boolean | string | Digits | readonly Value[] | Fields;
export type Fields = ReadonlyMap<string, Value>;

export function isList(value: unknown): value is readonly Value[] {
  return Array.isArray(value);
}

export function isFields(value: unknown): value is Fields {
  return value instanceof Map;
}

/** How texts and numbers are written; what is not given is written as JSON writes it. */
interface Hand {
  text?: (text: string) => string;
  number?: (digits: string) => string;
  isSorted?: boolean;
}

/** The value as JSON text. */
export function written(value: Value, hand: Hand = {}): string {
  const { text = JSON.stringify, number = String, isSorted = false } = hand;
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return text(value);
  if (value instanceof Digits) return number(value.text);
  if (isList(value)) return `[${value.map((each) => written(each, hand)).join(',')}]`;
  const members = isSorted ? [...value].toSorted(([a], [b]) => (a < b ? -1 : 1)) : [...value];
  return `{${members.map(([key, each]) => `${text(key)}:${written(each, hand)}`).join(',')}}`;
}

/** One text for all ways to write one value: keys sorted, numbers by their significant digits. */
export function canonical(value: Value): string {
  return written(value, { number: decimal, isSorted: true });
}

/** The same with what no database holds replaced as the README has it. */
export function canonicalStored(value: Value): string {
  return written(value, { text: (text) => JSON.stringify(storable(text)), number: decimal, isSorted: true });
}

/** A text as a cell holds it: U+2400 for NUL, U+FFFD for half a surrogate pair. */
export function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '␀');
}

/** Reads JSON text and loses nothing. Throws on anything else. */
export function parsed(text: string): Value {
  const reader = new Reader(text);
  const value = reader.value();
  reader.end();
  return value;
}

const WORDS: ReadonlyMap<string, Value> = new Map([
  ['null', null],
  ['true', true],
  ['false', false],
]);

/** Reads from left to right; the runtime's own parser is only trusted with single texts. */
class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(): Value {
    this.#match(/\s*/y);
    if (this.#take('{')) return this.#fields();
    if (this.#take('[')) return this.#list();
    if (this.#text[this.#at] === '"') return this.#string();
    const word = this.#match(/null|true|false/y);
    if (word !== '') return WORDS.get(word) ?? null;
    const digits = this.#match(/-?\d+(\.\d+)?([eE][-+]?\d+)?/y);
    if (digits === '') throw new Error(`no JSON at ${this.#at}: ${this.#text.slice(this.#at, this.#at + 40)}`);
    return new Digits(digits);
  }

  end(): void {
    this.#match(/\s*/y);
    if (this.#at < this.#text.length) throw new Error(`more than one value: ${this.#text.slice(this.#at)}`);
  }

  #fields(): Fields {
    const fields = new Map<string, Value>();
    for (let isFirst = true; !this.#take('}'); isFirst = false) {
      if (!isFirst) this.#need(',');
      this.#match(/\s*/y);
      const key = this.#string();
      this.#need(':');
      fields.set(key, this.value());
    }
    return fields;
  }

  #list(): Value[] {
    const values: Value[] = [];
    for (let isFirst = true; !this.#take(']'); isFirst = false) {
      if (!isFirst) this.#need(',');
      values.push(this.value());
    }
    return values;
  }

  #string(): string {
    const text: unknown = JSON.parse(this.#match(/"(?:[^"\\]|\\.)*"/y));
    return String(text);
  }

  #need(sign: string): void {
    if (!this.#take(sign)) throw new Error(`no ${sign} at ${this.#at}: ${this.#text.slice(this.#at, this.#at + 40)}`);
  }

  #take(sign: string): boolean {
    this.#match(/\s*/y);
    const isThere = this.#text[this.#at] === sign;
    if (isThere) this.#at += 1;
    return isThere;
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found = ''] = pattern.exec(this.#text) ?? [];
    this.#at += found.length;
    return found;
  }
}
