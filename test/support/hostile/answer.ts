import type { Random } from '../random.ts';

/** A request as it came over the wire. */
export interface Asked {
  /** Its number at this service, from 0. */
  number: number;
  method: string;
  /** Path and query as they were sent. */
  target: string;
  url: URL;
  /** Names in lower case. */
  headers: Readonly<Record<string, string>>;
  body: string;
}

/** Names and values in the order in which they are sent; a name may come several times, a value may be anything. */
export type HeaderLines = readonly (readonly [name: string, value: string])[];

/** An answer before it is put on the wire. */
export interface Answer {
  /** What stands between the protocol and the first line break, such as `200 OK`. */
  status: string;
  headers: HeaderLines;
  body: Buffer;
}

/** What a trick may look at. */
export interface Draw {
  random: Random;
  asked: Asked;
  /** Of the service itself, and of one that belongs to somebody else. */
  origin: string;
  foreign: string;
  /** The credential that came with the request; the empty string where none did. */
  credential: string;
  /** Epoch milliseconds. */
  now: number;
}

/** Things that a service may do wrong, by name. */
export type Tricks<T> = Readonly<Record<string, (draw: Draw) => T>>;

/** The answer with a header set, whatever it had of that name. */
export function withHeader({ headers, ...rest }: Answer, name: string, value: string): Answer {
  return { ...rest, headers: [...withoutHeader(headers, name), [name, value]] };
}

export function withoutHeader(headers: HeaderLines, name: string): HeaderLines {
  return headers.filter(([each]) => each.toLowerCase() !== name.toLowerCase());
}

/** A JSON answer as a healthy service gives it. */
export function jsonAnswer(status: string, body: unknown, now: number): Answer {
  return {
    status,
    headers: [
      ['Content-Type', 'application/json'],
      ['Date', new Date(now).toUTCString()],
    ],
    body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
  };
}
