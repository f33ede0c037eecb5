import type { Random } from '../random.ts';

/** How the bytes of an answer reach the client. */
export interface Wire {
  pieces: readonly Buffer[];
  /** Milliseconds between two pieces, and before the first. */
  waitMs: number;
  /** What becomes of the connection afterwards; `open` says nothing more and leaves it so. */
  end: 'keep' | 'close' | 'reset' | 'open';
  /** Sends the last piece again and again. */
  isEndless?: boolean;
}

/** The bytes up to and with the empty line, and those behind it. */
export interface Parts {
  head: Buffer;
  body: Buffer;
}

const NOTHING = Buffer.alloc(0);

export function whole({ head, body }: Parts): Wire {
  return { pieces: [Buffer.concat([head, body])], waitMs: 0, end: 'keep' };
}

/** Ways in which an answer does not come as it should. */
export const TRANSPORTS: Tricks<(parts: Parts) => Wire> = {
  'wire: reset at once': () => () => ({ pieces: [], waitMs: 0, end: 'reset' }),
  'wire: closed at once': () => () => ({ pieces: [], waitMs: 0, end: 'close' }),
  'wire: no answer': () => () => ({ pieces: [], waitMs: 0, end: 'open' }),
  'wire: broken in the head':
    ({ random }) =>
    ({ head }) => ({
      pieces: [head.subarray(0, Math.floor(head.length * random.next()))],
      waitMs: 0,
      end: random.pick(['reset', 'close', 'open']),
    }),
  'wire: broken in the body':
    ({ random }) =>
    ({ head, body }) => ({
      pieces: [head, body.subarray(0, Math.floor(body.length * random.next()))],
      waitMs: 5,
      end: random.pick(['reset', 'close', 'open']),
    }),
  'wire: closed afterwards':
    ({ random }) =>
    (parts) => ({ ...whole(parts), end: random.pick(['close', 'reset']) }),
  'wire: drip':
    ({ random }) =>
    ({ head, body }) => ({
      pieces: cut(Buffer.concat([head, body]), random.pick([3, 40])),
      waitMs: random.pick([1, 20, 60]),
      end: 'keep',
    }),
  'wire: endless':
    ({ random }) =>
    ({ head }) => {
      const open = head.toString('latin1').replace(/content-length:[^\r]*\r\n/i, '');
      const piece = Buffer.alloc(random.pick([1, 65_536]), random.pick([' ', '[', '"', '\\']));
      const chunked = open.replace('\r\n\r\n', '\r\nTransfer-Encoding: chunked\r\n\r\n');
      const isChunked = random.chance(0.5);
      const last = isChunked ? chunk(piece) : piece;
      return {
        pieces: [Buffer.from(isChunked ? chunked : open, 'latin1'), last],
        waitMs: 2,
        end: 'close',
        isEndless: true,
      };
    },
  'wire: endless head':
    ({ random }) =>
    () => {
      const line = random.pick(['X-More: more\r\n', 'HTTP/1.1 100 Continue\r\n\r\n', 'x']);
      const first = line.startsWith('HTTP') ? NOTHING : Buffer.from('HTTP/1.1 200 OK\r\n');
      return { pieces: [first, Buffer.from(line.repeat(20))], waitMs: 2, end: 'close', isEndless: true };
    },
  'wire: more than asked for':
    ({ random }) =>
    (parts) => {
      const more = random.pick([
        Buffer.concat([parts.head, parts.body]),
        Buffer.from('\0\0'),
        Buffer.from('HTTP/1.1 500 '),
      ]);
      return { pieces: [Buffer.concat([parts.head, parts.body, more])], waitMs: 0, end: 'keep' };
    },
  'wire: another protocol':
    ({ random }) =>
    (parts) => {
      const head = parts.head.toString('latin1');
      const first = random.pick<Buffer | string>([
        'SSH-2.0-OpenSSH_9.6\r\n',
        Buffer.from([0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x28]),
        head.replace('HTTP/1.1', 'HTTP/2.0'),
        head.replace('HTTP/1.1', 'HTTP/1.0'),
        head.replace('HTTP/1.1', 'ICY'),
        head.replaceAll('\r\n', '\n'),
        `\r\n\r\n${head}`,
        '{"data":[]}',
      ]);
      return {
        pieces: [typeof first === 'string' ? Buffer.from(first, 'latin1') : first, parts.body],
        waitMs: 0,
        end: 'close',
      };
    },
  'wire: chunks':
    ({ random }) =>
    ({ head, body }) => {
      const open = head
        .toString('latin1')
        .replace(/content-length:[^\r]*\r\n/i, '')
        .replace('\r\n\r\n', '\r\nTransfer-Encoding: chunked\r\n\r\n');
      const sent = random.pick<Buffer | string>([
        Buffer.concat([chunk(body), Buffer.from('0\r\n\r\n')]),
        Buffer.concat([...cut(body, Math.max(1, body.length >> 6)).map(chunk), Buffer.from('0\r\nX-Later: 1\r\n\r\n')]),
        chunk(body),
        'ffffffffffffffff\r\n{}',
        '-1\r\n{}\r\n0\r\n\r\n',
        'x\r\n',
        `2;${'e'.repeat(40_000)}\r\n{}\r\n0\r\n\r\n`,
        '2\r\n{}{}\r\n0\r\n\r\n',
        `0\r\n${'X-Later: 1\r\n'.repeat(3_000)}\r\n`,
      ]);
      const last = typeof sent === 'string' ? Buffer.from(sent) : sent;
      return { pieces: [Buffer.from(open, 'latin1'), last], waitMs: 0, end: random.pick(['keep', 'close']) };
    },
};

function chunk(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

function cut(bytes: Buffer, size: number): Buffer[] {
  const pieces = Math.ceil(bytes.length / size);
  return Array.from({ length: pieces }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
}

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
