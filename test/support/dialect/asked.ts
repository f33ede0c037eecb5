import { isFields, parsed, Digits, type Value } from '../world/json-value.ts';

/** A request as the service got it. */
export interface Asked {
  method: string;
  url: URL;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The parsed body; null where there is none, or none that is JSON. */
  body: Value;
  /** As it came, for forms. */
  text: string;
  /** The service's own time. */
  now: number;
}

/** An answer before it is written. */
export interface Answer {
  status: number;
  /** Undefined for a response without content. */
  body: Value | undefined;
  headers?: Readonly<Record<string, string>>;
}

/** A place in a request: a query parameter by its name, `header:<name>`, or `body:<dotted.path>`. */
export type Place = string;

/** The arguments of one request; it remembers which were read, so that a strict service can refuse all others. */
export class Arguments {
  readonly asked: Asked;
  readonly #read = new Set<string>();

  constructor(asked: Asked) {
    this.asked = asked;
  }

  /** The text at this place; null where there is none. */
  read(place: Place): string | null {
    if (place.startsWith('header:')) {
      const value = this.asked.headers[place.slice('header:'.length).toLowerCase()];
      return typeof value === 'string' ? value : null;
    }
    if (place.startsWith('body:')) return textAt(this.asked.body, place.slice('body:'.length));
    this.#read.add(place);
    return this.asked.url.searchParams.get(place);
  }

  /** The whole number at this place; `otherwise` where there is none, NaN for what is no such number. */
  whole(place: Place, otherwise: number): number {
    const text = this.read(place);
    if (text === null) return otherwise;
    return /^\d+$/.test(text) ? Number(text) : Number.NaN;
  }

  /** Query parameters that nobody read. */
  unread(): string[] {
    return [...this.asked.url.searchParams.keys()].filter((name) => !this.#read.has(name));
  }
}

/** The text or number at a dotted path. */
export function textAt(value: Value, path: string): string | null {
  const found = path.split('.').reduce<Value>((at, key) => (isFields(at) ? (at.get(key) ?? null) : null), value);
  if (found instanceof Digits) return found.text;
  return typeof found === 'string' ? found : null;
}

export function jsonIn(text: string): Value {
  try {
    return text === '' ? null : parsed(text);
  } catch {
    return null;
  }
}

export function refused(status: number, message: string): Answer {
  return { status, body: new Map([['error', message]]) };
}
