import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { randomFrom, type Random } from '../random.ts';
import type { Asked } from './answer.ts';
import { honestAnswer, type HonestRecord, type PageStyleName } from './honest.ts';
import { mangled, onTheWire } from './mangle.ts';
import { tokenAnswer } from './tokens.ts';
import { whole, type Wire } from './transports.ts';

/** After so many answers nobody is let in any more, so that an episode ends. */
const MOST_HOSTILE = 16;

export interface ServiceOptions {
  name: string;
  seed: number;
  records: readonly HonestRecord[];
  style: PageStyleName;
  /** Milliseconds by which its clock is ahead of this machine's. */
  aheadMs: () => number;
  /** The address of somebody else's service. */
  foreign: () => string;
}

/** A content service that answers whatever its seed says, until it is told to be honest. */
export class HostileService {
  isHonest = false;
  readonly options: ServiceOptions;
  /** What was asked and answered, line by line. */
  readonly log: string[] = [];
  /** Access tokens that it has issued. */
  readonly tokens: string[] = [];
  /** Credentials that it was sent and never gave out: somebody else's. */
  readonly strangers = new Set<string>();
  asked = 0;
  url = '';
  #key: string;
  #server: Server | null = null;
  #sockets = new Set<Socket>();

  constructor(options: ServiceOptions, key: string) {
    this.options = options;
    this.#key = key;
  }

  async start(): Promise<void> {
    const server = createServer({ noDelay: true }, (socket) => this.#welcome(socket));
    this.#server = server;
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the service has no port');
    this.url = `http://127.0.0.1:${address.port}`;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => {
      if (this.#server === null) resolve(null);
      else this.#server.close(resolve);
    });
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #welcome(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket)).on('error', () => undefined);
    let waiting = Buffer.alloc(0);
    socket.on('data', (bytes: Buffer) => {
      waiting = Buffer.concat([waiting, bytes]);
      for (let read = readRequest(waiting, this.url); read !== null; read = readRequest(waiting, this.url)) {
        waiting = waiting.subarray(read.length);
        void this.#answer(socket, { ...read.asked, number: this.asked });
        this.asked += 1;
      }
    });
  }

  async #answer(socket: Socket, asked: Asked): Promise<void> {
    const { wire, names } = this.isHonest ? { wire: this.#honest(asked), names: ['honest'] } : this.#hostile(asked);
    const size = wire.pieces.reduce((sum, piece) => sum + piece.length, 0);
    this.log.push(
      `${this.options.name} #${asked.number} ${asked.method} ${asked.target.slice(0, 120)}: ${names.join('; ') || 'right'} (${size} bytes, ${wire.end})`,
    );
    try {
      await send(socket, wire);
    } catch {
      // The client went away.
      socket.destroy();
    }
  }

  #honest(asked: Asked): Wire {
    const now = Date.now() + this.options.aheadMs();
    const answer = isToken(asked)
      ? tokenAnswer(() => this.#issue(), now)
      : honestAnswer(asked, { ...this.options, now });
    return whole(onTheWire(answer));
  }

  #hostile(asked: Asked): { wire: Wire; names: readonly string[] } {
    const { seed, foreign, aheadMs } = this.options;
    // By its number alone, so that nothing depends on how fast anybody is.
    const random = numbered(seed, asked.number);
    const credential = credentialOf(asked);
    if (credential !== '' && credential !== this.#key && !this.tokens.includes(credential))
      this.strangers.add(credential);
    if (asked.number >= MOST_HOSTILE) return { wire: whole(onTheWire(ENOUGH)), names: ['enough'] };
    const now = Date.now() + aheadMs();
    const draw = { random, asked, origin: this.url, foreign: foreign(), credential, now };
    const right = isToken(asked) ? null : honestAnswer(asked, { ...this.options, now });
    return mangled(draw, right, () => this.#issue());
  }

  #issue(): string {
    const token = `tok-${this.options.name}-${this.tokens.length}-${this.options.seed}-canary`;
    this.tokens.push(token);
    return token;
  }
}

const ENOUGH = { status: '403 Enough', headers: [], body: Buffer.from('{"message":"go away"}') };

function isToken({ url }: Asked): boolean {
  return url.pathname === '/oauth/token';
}

/** The key or the token, or what the false credential of a check stands for. */
function credentialOf({ headers }: Asked): string {
  return (headers['authorization'] ?? '').replace(/^Bearer /, '');
}

/** A stream of its own for each request. */
function numbered(seed: number, number: number): Random {
  return randomFrom(Math.imul(seed, 2_654_435_761) ^ Math.imul(number + 1, 40_503));
}

/** The first whole request in the bytes, and how many of them it takes; null where it is not all there yet. */
function readRequest(bytes: Buffer, origin: string): { asked: Omit<Asked, 'number'>; length: number } | null {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return null;
  const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const [method = '', target = '/'] = first.split(' ');
  const headers = Object.fromEntries(
    lines.map((line) => [line.split(':', 1)[0]?.toLowerCase() ?? '', line.slice(line.indexOf(':') + 1).trim()]),
  );
  const length = end + 4 + Number(headers['content-length'] ?? 0);
  if (bytes.length < length) return null;
  const url = URL.parse(target, origin) ?? new URL(origin);
  return { asked: { method, target, url, headers, body: bytes.toString('utf8', end + 4, length) }, length };
}

async function send(socket: Socket, { pieces, waitMs, end, isEndless = false }: Wire): Promise<void> {
  for (const piece of pieces) {
    if (waitMs > 0) await delay(waitMs);
    if (!(await written(socket, piece))) return;
  }
  const last = pieces.at(-1);
  if (isEndless && last !== undefined) {
    while (await written(socket, last)) await delay(waitMs);
  }
  if (end === 'close') socket.end();
  else if (end === 'reset') socket.resetAndDestroy();
}

/** False once the client is gone. */
function written(socket: Socket, piece: Buffer): Promise<boolean> {
  if (socket.destroyed || !socket.writable) return Promise.resolve(false);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const gone = (): void => resolve(false);
  socket.once('close', gone);
  socket.write(piece, (error) => {
    socket.off('close', gone);
    resolve(error === undefined || error === null);
  });
  return promise;
}
