// A content service that runs in this process, for the demo and for tests.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import type { Clock } from '../model/clock.ts';
import { ConfigError, messageOf } from '../model/errors.ts';
import { RefusedRequest } from './records/record-json.ts';
import { RecordStore } from './records/store.ts';
import { respond, type SandboxResponse, type SandboxService } from './routes.ts';
import { createWebhooks } from './webhooks.ts';

export interface SandboxOptions {
  port?: number;
  host?: string;
  /** Generated if absent, like the secret of the OAuth client. */
  apiKey?: string;
  /** A folder with `<resource>.ndjson` and `files/`. */
  data?: string;
  generate?: Readonly<Record<string, number>>;
  /** Allowed requests per second; any number if absent. */
  rate?: number;
  /** Requests that may come at once; the rate if absent. */
  burst?: number;
}

export interface Sandbox {
  /** `http://host:port`, without a path. */
  url: string;
  apiKey: string;
  clientId: string;
  clientSecret: string;
  /** Ends every connection and drops webhooks that were not delivered. */
  close(): Promise<void>;
}

/** The machine's clock. `monotonic` counts from the epoch, so that it can be compared with `now`. */
export const machineClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.timeOrigin + performance.now(),
  sleep: async (ms, signal) => {
    await wait(ms, undefined, signal === undefined ? {} : { signal });
  },
};

const FIRST_RETRY_MS = 1_000;

/** Starts a content service. Throws ConfigError for data that cannot be read and a port that cannot be used. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { port = 0, host = '127.0.0.1', data = null, generate = {}, rate = null, burst = rate } = options;
  const webhooks = createWebhooks(machineClock, FIRST_RETRY_MS);
  const service: SandboxService = {
    clock: machineClock,
    store: new RecordStore({ data, generate }, machineClock, webhooks.emit),
    webhooks,
    apiKey: options.apiKey ?? `key_${randomBytes(18).toString('base64url')}`,
    clientId: 'content-sync',
    clientSecret: randomBytes(24).toString('base64url'),
    tokens: new Set(),
  };
  const limit = rate === null ? null : tokenBucket(rate, Math.max(1, Math.floor(burst ?? rate)));
  const server = createServer((request, response) => {
    answer(service, limit, request, response).catch(() => response.destroy());
  });
  const url = await listen(server, { port, host });
  const { apiKey, clientId, clientSecret } = service;
  const close = async (): Promise<void> => {
    webhooks.close();
    await stopListening(server);
  };
  return { url, apiKey, clientId, clientSecret, close };
}

type RateLimit = ReturnType<typeof tokenBucket>;

async function answer(
  service: SandboxService,
  limit: RateLimit | null,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const isApi = request.url?.startsWith('/v1/') === true;
  let found: SandboxResponse;
  let headers: Record<string, string> = {};
  try {
    if (isApi && limit !== null) headers = limit();
    found = await respond(service, request);
  } catch (error) {
    const refused = error instanceof RefusedRequest ? error : new RefusedRequest(500, messageOf(error));
    const body = { type: 'about:blank', status: refused.status, detail: refused.message };
    const problem = { 'content-type': 'application/problem+json', ...refused.headers };
    found = { status: refused.status, headers: problem, body: Buffer.from(JSON.stringify(body)) };
  }
  const length = found.status === 204 || found.status === 304 ? {} : { 'content-length': String(found.body.length) };
  response.writeHead(found.status, { ...length, ...headers, ...found.headers });
  response.end(request.method === 'HEAD' ? undefined : found.body);
}

/** Returns the rate headers of a request (`RateLimit` fields of the IETF draft), or throws a 429. */
function tokenBucket(rate: number, burst: number) {
  let tokens = burst;
  let filledAt = performance.now();
  // A quota over whole seconds: 0.5 requests/s are one in two seconds.
  const windowSeconds = Math.max(1, Math.ceil(1 / rate));
  const policy = `"default";q=${Math.max(1, Math.round(rate * windowSeconds))};w=${windowSeconds}`;
  return (): Record<string, string> => {
    const now = performance.now();
    tokens = Math.min(burst, tokens + ((now - filledAt) / 1_000) * rate);
    filledAt = now;
    const isAllowed = tokens >= 1;
    if (isAllowed) tokens -= 1;
    const full = Math.max(1, Math.ceil((burst - tokens) / rate));
    const headers = { 'ratelimit-policy': policy, ratelimit: `"default";r=${Math.floor(tokens)};t=${full}` };
    if (isAllowed) return headers;
    const retryAfter = String(Math.max(1, Math.ceil((1 - tokens) / rate)));
    throw new RefusedRequest(429, 'Too many requests.', { ...headers, 'retry-after': retryAfter });
  };
}

/** Starts listening and returns the URL. Throws ConfigError if the port cannot be used. */
export async function listen(server: Server, { port, host }: { port: number; host: string }): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new ConfigError('usage', `Cannot listen on ${host}:${port}: ${messageOf(error)}`, {
      hint: 'Choose another --port, or 0 to have a free one picked.',
      cause: error,
    });
  }
  const address = server.address();
  const actual = typeof address === 'object' && address !== null ? address.port : port;
  return `http://${host.includes(':') ? `[${host}]` : host}:${actual}`;
}

export async function stopListening(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  server.close(() => resolve(undefined));
  server.closeAllConnections();
  await promise;
}
