import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { type Profile, profileSchema } from '../../src/config/profile/profile.ts';
import { rateDialectSchema } from '../../src/config/profile/rate-dialect.ts';
import { type ApiAnswer, type ApiClient, newMeter } from '../../src/http/client.ts';
import { type ClientOptions, createClient } from '../../src/http/create-client.ts';
import type { AnswerFacts, RateLimiter } from '../../src/http/rate-limit/rate-limiter.ts';
import { SyncError } from '../../src/model/errors.ts';
import { systemClock } from '../../src/observe/system-clock.ts';

/** Lets everything through at once and remembers what it was told. */
export function openRateLimiter(
  dialect: string | object = 'auto',
): RateLimiter & { facts: (AnswerFacts | null)[]; lanes: string[] } {
  const facts: (AnswerFacts | null)[] = [];
  const lanes: string[] = [];
  return {
    facts,
    lanes,
    async run(lane, attempt) {
      lanes.push(lane);
      const attempted = await attempt(rateDialectSchema.parse(dialect));
      facts.push(attempted.facts);
      return attempted.result;
    },
    metrics: () => ({
      requests: 0,
      limited: 0,
      allowedPerSecond: null,
      pausedUntil: null,
    }),
    state: () => '',
    forgetWaits: async () => undefined,
    close: () => undefined,
  };
}

export function testProfile(over: Record<string, unknown> = {}): Profile {
  return profileSchema.parse({
    resources: { content: { path: '/content', page: { style: 'cursor' } } },
    ...over,
  });
}

export interface Stage {
  origin: string;
  /** What arrived, in order. */
  seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[];
}

/** A real HTTP server on a free port that answers as the listener says and ends with the test. */
export async function serve(
  answer: (request: IncomingMessage, response: ServerResponse, nth: number) => void,
): Promise<Stage> {
  const seen: Stage['seen'] = [];
  const listener: RequestListener = (request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body });
      answer(request, response, seen.length);
    });
  };
  const server = createServer(listener);
  await listen(server);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: originOf(server), seen };
}

/** A bare TCP server: `onRequest` is called with the socket each time a request's headers have come. */
export async function serveRaw(
  onRequest: (socket: Socket, nth: number) => void,
): Promise<{ origin: string; sockets: Set<Socket>; count: () => number }> {
  const sockets = new Set<Socket>();
  let requests = 0;
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!text.endsWith('\r\n\r\n')) return;
      text = '';
      requests += 1;
      onRequest(socket, requests);
    });
  });
  await listen(server);
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { origin: originOf(server), sockets, count: () => requests };
}

export async function listen(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
}

export function originOf(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server does not listen on a port');
  return `http://127.0.0.1:${address.port}`;
}

/** A client with quick retries; it is closed with the test. */
export function clientFor(origin: string, over: Partial<ClientOptions> = {}): ApiClient {
  const client = createClient({
    baseUrl: new URL(origin),
    profile: testProfile(),
    auth: { type: 'api_key', key: 'canary-api-key' },
    rateLimiter: openRateLimiter(),
    clock: systemClock,
    backoff: { base: 1, cap: 4 },
    ...over,
  });
  onTestFinished(() => client.close());
  return client;
}

export function get(client: ApiClient, url: string, meter = newMeter(), signal?: AbortSignal): Promise<ApiAnswer> {
  return client.get({ url: new URL(url), lane: 'backfill', meter, signal });
}

/** The `SyncError` that a request ends with; anything else fails the test. */
export async function errorOf(promise: Promise<unknown>): Promise<SyncError> {
  const ended: unknown = await promise.then(
    () => 'an answer',
    (error: unknown) => error,
  );
  if (ended instanceof SyncError) return ended;
  throw new Error(`expected a SyncError, got ${String(ended)}`, { cause: ended });
}

export function json(
  response: ServerResponse,
  body: unknown,
  status = 200,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

export const PAGE = { data: [{ id: '1' }], next_cursor: null };
