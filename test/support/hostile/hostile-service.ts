import { portOf } from '../../faults/port-of.ts';
import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type Random, randomFrom } from '../random.ts';
import { type Answer, type Asked, jsonAnswer, whole, type Wire, withHeader } from './transports.ts';
import { mangled, onTheWire, tokenAnswer } from './mangle.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';

/** After so many answers nobody is let in any more, so that an episode ends. */
const MOST_HOSTILE = 16;

interface ServiceOptions {
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
class HostileService {
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
    this.url = `http://127.0.0.1:${await portOf(server)}`;
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

const SOURCES = ['one', 'two', 'three'] as const;
/** Short, so that a service that keeps its clients waiting costs seconds; and what is usual. */
const IMPATIENT = { headers_timeout: '500ms', timeout: '900ms', attempts: 2, max_body: '6MiB' };
const PATIENT = { headers_timeout: '30s', timeout: '2m', attempts: 4 };

/** A source, the service behind it, and what of it must never be written. */
export interface HostileSource {
  name: string;
  service: HostileService;
  records: readonly HonestRecord[];
  style: PageStyleName;
  isOauth: boolean;
  key: string;
  /** With which its webhooks come. */
  hook: string;
}

/** Services drawn from a seed, and the settings that lead to them; all gone when the test is over. */
export interface HostileStage {
  seed: number;
  random: Random;
  folder: string;
  sources: readonly HostileSource[];
  /** Milliseconds by which the service's clocks and the command's are ahead of this machine's. */
  aheadMs: number;
  /** Turns all services, and the settings with them. */
  setHonest(isHonest: boolean): void;
}

export async function hostileStage(seed: number): Promise<HostileStage> {
  const random = randomFrom(seed);
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-hostile-'));
  const state = { aheadMs: 0 };
  const sources: HostileSource[] = [];
  for (const [at, name] of SOURCES.entries()) {
    const [style, records, isOauth] = [random.pick(PAGE_STYLES), drawRecords(random), random.chance(0.4)];
    const key = `key-${name}-${seed}-canary+/x=`;
    const hook = `hook-${name}-${seed}-canary`;
    const foreign = (): string => sources[(at + 1) % SOURCES.length]?.service.url ?? 'http://127.0.0.1:1';
    const options = { name, seed: seed * 10 + at, records, style, aheadMs: () => state.aheadMs, foreign };
    const service = new HostileService(options, key);
    await service.start();
    sources.push({ name, service, records, style, isOauth, key, hook });
  }
  onTestFinished(async () => {
    await Promise.all(sources.map(({ service }) => service.close()));
    rmSync(folder, { recursive: true, force: true });
  });
  const setHonest = (isHonest: boolean): void => {
    for (const { service } of sources) service.isHonest = isHonest;
    writeSettings(folder, sources, isHonest ? PATIENT : IMPATIENT);
  };
  return Object.assign(state, { seed, random, folder, sources, setHonest });
}

function writeSettings(folder: string, sources: readonly HostileSource[], http: object): void {
  const written = sources.map(({ name, service, style, isOauth, key, hook }) => {
    writeFileSync(path.join(folder, `${name}.yaml`), JSON.stringify(profileFor(style, http)));
    const auth = isOauth
      ? { type: 'oauth', client_id: `client-${name}`, client_secret: key }
      : { type: 'api_key', key };
    const rest = { max_wait: '1500ms', deletes: ALL_DELETES, webhook: { secrets: [hook] } };
    return [name, { base_url: service.url, auth, profile: `./${name}.yaml`, ...rest }];
  });
  const config = {
    warehouse: `sqlite:${path.join(folder, '{source}.db')}`,
    log: { level: 'debug' },
    sources: Object.fromEntries(written),
  };
  // JSON is YAML.
  writeFileSync(path.join(folder, 'content-sync.yaml'), JSON.stringify(config));
}

/** What a hostile service made up is gone when it is honest: nobody is asked. */
const ALL_DELETES = { max_rows: 100_000, max_part: 1 };

function profileFor(style: PageStyleName, http: object): object {
  const content = {
    path: '/content',
    page: honestPage(style),
    incremental: { param: 'updated_since' },
    item: '/content/{id}',
    history: 'all',
  };
  return { version_prefix: '/v1', http, webhooks: { signature: 'bearer' }, resources: { content } };
}

const PAGE_STYLES = ['cursor', 'page', 'offset', 'link', 'next-url'] as const;
type PageStyleName = (typeof PAGE_STYLES)[number];

/** Of a record: what JSON can say exactly, so that the same text means the same record. */
type HonestRecord = { id: string; updated_at: string } & Record<string, unknown>;

const HOUR = 3_600_000;
const FIRST = Date.parse('2025-05-01T06:00:00Z');
const SIZE = 5;

/** Records as people write them, all of them changed long ago. */
function drawRecords(random: Random): HonestRecord[] {
  return Array.from({ length: random.whole(6, 18) }, (_, at) => ({
    id: `r${at + 1}`,
    title: `Record ${at + 1} ${random.pick(['', 'é', '😀', '"', '\\'])}`,
    count: random.whole(-5, 5_000),
    part: random.whole(0, 400) / 8,
    isShown: random.chance(0.5),
    tags: Array.from({ length: random.whole(0, 3) }, (_none, tag) => `tag ${tag}`),
    author: random.chance(0.8) ? { name: `Author ${random.whole(1, 3)}`, born: null } : null,
    updated_at: new Date(FIRST + at * HOUR).toISOString(),
  }));
}

/** The profile that a person would write of this service. */
function honestPage(style: PageStyleName): Record<string, unknown> {
  // The total proves the end where pages are counted.
  return { style, size: SIZE, total: 'total' };
}

/** What is right, told by a service that keeps all of its promises. */
function honestAnswer(
  asked: Asked,
  { records, style, now }: { records: readonly HonestRecord[]; style: PageStyleName; now: number },
): Answer {
  const { url } = asked;
  if (url.pathname === '/v1/content') return listing(url, records, style, now);
  const id = /^\/v1\/content\/([^/]+)$/.exec(url.pathname)?.[1];
  const found = records.find((record) => record.id === decodedId(id));
  if (found !== undefined) return jsonAnswer('200 OK', found, now);
  return jsonAnswer('404 Not Found', { message: 'there is nothing here' }, now);
}

function decodedId(id: string | undefined): string {
  try {
    return decodeURIComponent(id ?? '');
  } catch {
    return '';
  }
}

function listing(url: URL, all: readonly HonestRecord[], style: PageStyleName, now: number): Answer {
  const since = url.searchParams.get('updated_since');
  const from = startOf(url.searchParams, style);
  if (from === null || (since !== null && Number.isNaN(Date.parse(since)))) {
    return jsonAnswer('400 Bad Request', { message: 'a parameter that this service never gave' }, now);
  }
  const listed = all.filter((record) => since === null || Date.parse(record.updated_at) >= Date.parse(since));
  const size = Math.max(1, Math.min(100, Number(url.searchParams.get('limit') ?? SIZE) || SIZE));
  const next = from + size < listed.length ? from + size : null;
  const body = { data: listed.slice(from, from + size), total: listed.length };
  const nextUrl = next === null ? null : nextOf(url, next);
  if (style === 'cursor') return jsonAnswer('200 OK', { ...body, next_cursor: next === null ? null : `c${next}` }, now);
  if (style === 'next-url') return jsonAnswer('200 OK', { ...body, next: nextUrl }, now);
  const answer = jsonAnswer('200 OK', body, now);
  if (style !== 'link') return answer;
  const links = [`<${url.origin}/v1/content>; rel="first"`, ...(nextUrl === null ? [] : [`<${nextUrl}>; rel="next"`])];
  return withHeader(answer, 'Link', links.join(', '));
}

function nextOf(url: URL, next: number): string {
  const to = new URL(url);
  to.searchParams.set('from', String(next));
  return to.href;
}

/** Where a page begins; null where the parameter is none that this service ever gave. */
function startOf(params: URLSearchParams, style: PageStyleName): number | null {
  const size = Number(params.get('limit') ?? SIZE);
  const told = { cursor: 'cursor', page: 'page', offset: 'offset', link: 'from', 'next-url': 'from' }[style];
  const value = params.get(told);
  if (value === null) return 0;
  const digits = style === 'cursor' ? value.replace(/^c/, '') : value;
  if (!/^\d{1,6}$/.test(digits) || (style === 'cursor' && !value.startsWith('c'))) return null;
  return style === 'page' ? (Number(digits) - 1) * size : Number(digits);
}
