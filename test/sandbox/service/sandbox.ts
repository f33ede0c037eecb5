import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { Clock } from '../../../src/model/clock.ts';
import { listen, machineClock, stopListening } from '../../../src/sandbox/sandbox.ts';
import { openRecords } from '../../../src/sandbox/records/starting-records.ts';
import type { Store } from '../../../src/sandbox/records/store.ts';
import { type DeliveryCounts, webhooks } from '../../../src/sandbox/webhooks.ts';
import { access, type OAuthClient } from './access.ts';
import { type AppliedFaults, type Faults, faultScript } from './faults/fault-script.ts';
import { listPage, PageCache, renderPage } from './pages/listing-page.ts';
import { type Rate, rateLimiter, type RateLimiter } from './rate-limit.ts';
import { type RequestEntry, RequestLog } from './request-log.ts';
import type { Handler, Service } from './route-context.ts';
import { type SandboxSettings, settingsFrom } from './sandbox-options.ts';
import { TrieRouter } from 'hono/router/trie-router';
import { messageOf } from '../../../src/model/errors.ts';
import {
  createRecord,
  deleteRecord,
  issueToken,
  listRecords,
  listSubscriptions,
  patchRecord,
  readFile,
  readRecord,
  readReport,
  readSubscription,
  replaceRecord,
  subscribe,
  unsubscribe,
  writeFile,
} from './record-routes.ts';
import { type Answer, type ApiRequest, gzipped, problem, RefusedRequest, sendPlain, type Wire } from './answer.ts';

export type SandboxOptions = Partial<SandboxSettings> & {
  /** Clock for limits, stamps and waits; the machine's if absent. */
  clock?: Clock;
};

/** A content service that runs in this process, with its data and controls. */
export interface Sandbox {
  /** `http://host:port`, without a path. */
  url: string;
  apiKey: string;
  oauth: OAuthClient & {
    /** Ends every access token at once: the next request with one is answered 401. */
    revokeTokens(): void;
  };
  store: Store;
  requests: Omit<RequestLog, 'arrived' | 'answered' | 'ended'>;
  faults: Faults;
  /** Webhook deliveries so far. */
  deliveries: Readonly<DeliveryCounts>;
  /** Revokes the API key that it started with, and takes this one from now on. */
  changeKey(key: string): void;
  /** Changes limits while it runs; what is left out stays. */
  setRate(rate: Partial<Rate>): void;
  /** Ends every connection and drops undelivered webhooks. */
  close(): Promise<void>;
}

/** Starts a Content Service. Throws ConfigError for data that cannot be read and a port that cannot be had. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { clock: ownClock = machineClock, ...given } = options;
  const settings = settingsFrom(given);
  const clock = skewedClock(ownClock, settings.clockSkew);
  const apiKey = settings.apiKey ?? `key_${randomBytes(18).toString('base64url')}`;
  const client = {
    clientId: settings.clientId,
    clientSecret: settings.clientSecret ?? randomBytes(24).toString('base64url'),
  };
  const service = buildService(settings, clock, apiKey, client);
  const limiter = rateLimiter(settings, settings.rateHeaders, settings.retryAfter, clock);
  const [log, faults] = [new RequestLog(), faultScript()];
  for (const script of settings.fault) faults.add(script);
  const server = createServer(listener({ service, limiter, log, faults }));
  const url = await listen(server, settings);
  return {
    url,
    apiKey,
    oauth: { ...client, revokeTokens: service.access.revokeTokens },
    store: service.store,
    requests: log,
    faults,
    deliveries: service.webhooks.counts,
    changeKey: service.access.changeKey,
    setRate: limiter.set,
    close: async () => {
      service.webhooks.close();
      await stopListening(server);
    },
  };
}

function buildService(settings: SandboxSettings, clock: Clock, apiKey: string, client: OAuthClient): Service {
  const hooks = webhooks(clock, settings.webhookRetry);
  const { tokenLifetime, oneToken } = settings;
  return {
    settings,
    clock,
    webhooks: hooks,
    cache: new PageCache(settings.cache),
    access: access({ apiKey, client, tokenLifetime, oneToken }, clock),
    store: openRecords(settings, clock, hooks.emit),
  };
}

/** The service's own clock: the machine's, ahead (or, if negative, behind) by `skewMs`. */
function skewedClock(clock: Clock, skewMs: number): Clock {
  if (skewMs === 0) return clock;
  return {
    now: () => clock.now() + skewMs,
    monotonic: () => clock.monotonic(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
  };
}

/** The parts between the socket and the routes. */
interface Front {
  service: Service;
  limiter: RateLimiter;
  log: RequestLog;
  faults: AppliedFaults;
}

/** One request: log, credential, limit, route, faults, wire. */
function listener(front: Front): RequestListener {
  return (request, response) => {
    const entry = entryOf(front, request);
    const gone = new AbortController();
    front.log.arrived(entry);
    response.once('close', () => {
      gone.abort();
      front.log.ended();
    });
    const wire: Wire = { request, response, clock: front.service.clock, gone: gone.signal };
    serve(front, wire, entry).catch(() => response.destroy());
  };
}

async function serve(front: Front, wire: Wire, entry: RequestEntry): Promise<void> {
  const { settings, clock } = front.service;
  const answer = await answerTo(front, wire.request, entry);
  const ready = settings.gzip ? gzipped(answer, wire.request.headers['accept-encoding']) : answer;
  const delay = settings.latency + (ready.delayMs ?? 0);
  if (delay > 0) await clock.sleep(delay, wire.gone);
  front.log.answered(entry, ready.status);
  wire.response.setHeader('date', new Date(clock.now()).toUTCString());
  await (ready.deliver ?? sendPlain)(wire, ready);
}

async function answerTo(front: Front, request: IncomingMessage, entry: RequestEntry): Promise<Answer> {
  const url = urlOf(request);
  if (url === null) return problem(400, 'The address of the request cannot be read.');
  try {
    const limited = admit(front, request, entry);
    if (limited.status !== null) return limited.status;
    const answer = await routed(front, request, url).catch(refusalOf);
    const headers = { ...limited.headers, ...answer.headers };
    return spoiled(front, { ...answer, headers }, url, entry);
  } catch (error) {
    return refusalOf(error);
  }
}

/** Credential and limit; the token endpoint has neither. A request without credential costs nothing. */
function admit(front: Front, request: IncomingMessage, entry: RequestEntry) {
  if (!entry.path.startsWith('/v1/')) return { status: null, headers: {} };
  const writes = request.method !== 'GET' && request.method !== 'HEAD';
  front.service.access.check(request.headers.authorization, writes);
  const verdict = front.limiter.take(front.log.inFlight);
  if (verdict.allowed) return { status: null, headers: verdict.headers };
  entry.notBefore = verdict.notBefore;
  return { status: problem(429, 'Too many requests.', verdict.headers), headers: {} };
}

async function routed(front: Front, request: IncomingMessage, url: URL): Promise<Answer> {
  const method = request.method ?? 'GET';
  const { handler, params } = routeOf(method, url.pathname);
  const body = () => bodyOf(request, front.service.settings.maxBody);
  const asked: ApiRequest = { method, url, headers: request.headers, params, body };
  return handler(front.service, asked);
}

function spoiled(front: Front, answer: Answer, url: URL, entry: RequestEntry): Answer {
  const { settings, store } = front.service;
  return front.faults.apply(
    answer,
    { ...entry, page: answer.pageNumber ?? null },
    {
      url,
      render: (parts) => renderPage(parts, settings.pagination),
      list: (query) => {
        const collection = store.collection(entry.resource ?? '');
        if (collection === undefined) throw new RefusedRequest(404, 'There is nothing to list.');
        return listPage(collection, query, settings.total);
      },
    },
  );
}

function refusalOf(error: unknown): Answer {
  return error instanceof RefusedRequest
    ? problem(error.status, error.message, error.headers)
    : problem(500, `The sandbox failed: ${messageOf(error)}`);
}

function entryOf(front: Front, request: IncomingMessage): RequestEntry {
  const path = request.url ?? '/';
  const resource = path.startsWith('/oauth/') ? 'oauth' : (/^\/v1\/([^/?]+)/.exec(path)?.[1] ?? null);
  const at = front.service.clock.monotonic();
  return { at, method: request.method ?? 'GET', path, resource, status: 0, notBefore: null };
}

/** The address as the client wrote it, so that links lead back the same way. */
function urlOf(request: IncomingMessage): URL | null {
  const path = request.url ?? '';
  const host = request.headers.host ?? 'localhost';
  return path.startsWith('/') && /^[\w.:[\]-]+$/.test(host) ? URL.parse(`http://${host}${path}`) : null;
}

async function bodyOf(request: IncomingMessage, most: number): Promise<Uint8Array> {
  const tooLarge = () => new RefusedRequest(413, `A body may have ${most} bytes.`, { connection: 'close' });
  if (Number(request.headers['content-length'] ?? '0') > most) throw tooLarge();
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    length += piece.length;
    if (length > most) throw tooLarge();
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** Every endpoint; the first that fits a path is taken. */
const ROUTES: readonly (readonly [method: string, path: string, handler: Handler])[] = [
  ['POST', '/oauth/token', issueToken],
  ['GET', '/v1/webhooks', listSubscriptions],
  ['POST', '/v1/webhooks', subscribe],
  ['GET', '/v1/webhooks/:id', readSubscription],
  ['DELETE', '/v1/webhooks/:id', unsubscribe],
  ['GET', '/v1/images/:id/file', readFile],
  ['PUT', '/v1/images/:id/file', writeFile],
  ['GET', '/v1/reports/:report', readReport],
  ['GET', '/v1/:resource', listRecords],
  ['POST', '/v1/:resource', createRecord],
  ['GET', '/v1/:resource/:id', readRecord],
  ['PUT', '/v1/:resource/:id', replaceRecord],
  ['PATCH', '/v1/:resource/:id', patchRecord],
  ['DELETE', '/v1/:resource/:id', deleteRecord],
];

const METHODS = [...new Set(ROUTES.map(([method]) => method))];

const router = new TrieRouter<Handler>();
for (const [method, path, handler] of ROUTES) router.add(method, path, handler);

interface Route {
  handler: Handler;
  params: Record<string, string>;
}

/** The endpoint of a request. Throws RefusedRequest: 404 for the path, 405 for the method, 400 for bad escapes. */
function routeOf(method: string, path: string): Route {
  const found = match(method === 'HEAD' ? 'GET' : method, path);
  if (found !== null) return found;
  const allowed = METHODS.filter((other) => match(other, path) !== null);
  if (allowed.length === 0) throw new RefusedRequest(404, `There is nothing at ${path}.`);
  throw new RefusedRequest(405, `${method} is not possible on ${path}.`, { allow: allowed.join(', ') });
}

function match(method: string, path: string): Route | null {
  const [found] = router.match(method, path)[0];
  if (found === undefined) return null;
  const [handler, params] = found;
  return {
    handler,
    params: Object.fromEntries(Object.entries(params).map(([name, text]) => [name, decoded(String(text))])),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new RefusedRequest(400, `The path holds a broken escape: ${text.slice(0, 80)}`);
  }
}
