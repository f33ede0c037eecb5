import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { Clock } from '../../../src/model/clock.ts';
import { messageOf } from '../../../src/model/errors.ts';
import { RecordStore } from '../../../src/sandbox/records/store.ts';
import { checkCredential, respond } from '../../../src/sandbox/routes.ts';
import { listen, machineClock, stopListening } from '../../../src/sandbox/sandbox.ts';
import { createWebhooks } from '../../../src/sandbox/webhooks.ts';
import { type Answer, gzipped, problem, RefusedRequest, sendPlain, type Wire } from './answer.ts';
import { type AppliedFaults, type Faults, faultScript } from './faults/fault-script.ts';
import { listPage, PageCache, renderPage } from './pages/listing-page.ts';
import { type Rate, rateLimiter, type RateLimiter } from './rate-limit.ts';
import { respondToTest, type TestService } from './record-routes.ts';
import { type RequestEntry, RequestLog } from './request-log.ts';
import { type SandboxSettings, settingsFrom } from './sandbox-options.ts';

export type SandboxOptions = Partial<SandboxSettings> & {
  /** Clock for limits, timestamps and waits; the machine's if absent. */
  clock?: Clock;
};

/** A content service that runs in this process, with its data and controls. */
export interface Sandbox {
  /** `http://host:port`, without a path. */
  url: string;
  apiKey: string;
  oauth: { clientId: string; clientSecret: string };
  store: RecordStore;
  requests: Omit<RequestLog, 'arrived' | 'answered' | 'ended'>;
  faults: Faults;
  /** Webhook deliveries that were not answered with 2xx yet. */
  deliveries: { readonly pending: number };
  /** Revokes the API key that it started with, and accepts this one. */
  changeKey(key: string): void;
  /** Changes limits while it runs; limits that are left out stay. */
  setRate(rate: Partial<Rate>): void;
  /** Ends every connection and drops undelivered webhooks. */
  close(): Promise<void>;
}

/** Starts a content service. Throws ConfigError for data that cannot be read and a port that cannot be used. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { clock: ownClock = machineClock, ...given } = options;
  const settings = settingsFrom(given);
  const clock = skewedClock(ownClock, settings.clockSkew);
  const webhooks = createWebhooks(clock, settings.webhookRetry);
  const cache = new PageCache(settings.cache);
  const service: TestService = {
    settings,
    clock,
    webhooks,
    cache,
    store: new RecordStore(settings, clock, (change) => {
      cache.drop(change.resource);
      webhooks.emit(change);
    }),
    apiKey: settings.apiKey ?? `key_${randomBytes(18).toString('base64url')}`,
    clientId: settings.clientId,
    clientSecret: settings.clientSecret ?? randomBytes(24).toString('base64url'),
    tokens: new Set(),
  };
  const limiter = rateLimiter(settings, clock);
  const [log, faults] = [new RequestLog(), faultScript()];
  for (const script of settings.fault) faults.add(script);
  const server = createServer(listener({ service, limiter, log, faults }));
  const url = await listen(server, settings);
  const { apiKey, clientId, clientSecret } = service;
  return {
    url,
    apiKey,
    oauth: { clientId, clientSecret },
    store: service.store,
    requests: log,
    faults,
    deliveries: webhooks.counts,
    changeKey: (key) => {
      service.apiKey = key;
    },
    setRate: limiter.set,
    close: async () => {
      webhooks.close();
      await stopListening(server);
    },
  };
}

/** The service's own clock, ahead of the machine's by `skewMs`. */
function skewedClock(clock: Clock, skewMs: number): Clock {
  if (skewMs === 0) return clock;
  return {
    now: () => clock.now() + skewMs,
    monotonic: () => clock.monotonic(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
  };
}

/** The layers between the socket and the routes. */
interface Layers {
  service: TestService;
  limiter: RateLimiter;
  log: RequestLog;
  faults: AppliedFaults;
}

/** One request: log, credential, limit, route, faults, wire. */
function listener(layers: Layers): RequestListener {
  return (request, response) => {
    const entry = entryOf(layers, request);
    const gone = new AbortController();
    layers.log.arrived(entry);
    response.once('close', () => {
      gone.abort();
      layers.log.ended();
    });
    const wire: Wire = { request, response, clock: layers.service.clock, gone: gone.signal };
    serve(layers, wire, entry).catch(() => response.destroy());
  };
}

async function serve(layers: Layers, wire: Wire, entry: RequestEntry): Promise<void> {
  const { settings, clock } = layers.service;
  const answer = await answerTo(layers, wire.request, entry);
  const ready = settings.gzip ? gzipped(answer, wire.request.headers['accept-encoding']) : answer;
  const delay = settings.latency + (ready.delayMs ?? 0);
  if (delay > 0) await clock.sleep(delay, wire.gone);
  layers.log.answered(entry, ready.status);
  wire.response.setHeader('date', new Date(clock.now()).toUTCString());
  await (ready.deliver ?? sendPlain)(wire, ready);
}

async function answerTo(layers: Layers, request: IncomingMessage, entry: RequestEntry): Promise<Answer> {
  const url = urlOf(request);
  if (url === null) return problem(400, 'The address of the request cannot be read.');
  try {
    const limited = admit(layers, request, entry);
    if (limited.refusal !== null) return limited.refusal;
    const answer = await routed(layers.service, request, url).catch(refusalOf);
    return spoiled(layers, { ...answer, headers: { ...limited.headers, ...answer.headers } }, url, entry);
  } catch (error) {
    return refusalOf(error);
  }
}

/** Checks credential and limit; the token endpoint has neither. A request without credential costs nothing. */
function admit({ service, limiter, log }: Layers, request: IncomingMessage, entry: RequestEntry) {
  if (!entry.path.startsWith('/v1/')) return { refusal: null, headers: {} };
  checkCredential(service, request.headers.authorization);
  const verdict = limiter.take(log.inFlight);
  if (verdict.allowed) return { refusal: null, headers: verdict.headers };
  return { refusal: problem(429, 'Too many requests.', verdict.headers), headers: {} };
}

async function routed(service: TestService, request: IncomingMessage, url: URL): Promise<Answer> {
  return (await respondToTest(service, url, request)) ?? respond(service, request);
}

function spoiled({ service, faults }: Layers, answer: Answer, url: URL, entry: RequestEntry): Answer {
  const { settings, store } = service;
  return faults.apply(
    answer,
    { ...entry, page: answer.pageNumber ?? null },
    {
      url,
      render: (parts) => renderPage(parts, settings.pagination),
      list: (query) => {
        const collection = store.collection(entry.resource ?? '');
        if (collection === undefined) throw new RefusedRequest(404, 'There is nothing to list.');
        return listPage(collection, query, settings);
      },
    },
  );
}

function refusalOf(error: unknown): Answer {
  return error instanceof RefusedRequest
    ? problem(error.status, error.message, error.headers)
    : problem(500, `The sandbox failed: ${messageOf(error)}`);
}

function entryOf({ service }: Layers, request: IncomingMessage): RequestEntry {
  const path = request.url ?? '/';
  const resource = path.startsWith('/oauth/') ? 'oauth' : (/^\/v1\/([^/?]+)/.exec(path)?.[1] ?? null);
  const at = service.clock.monotonic();
  return { at, method: request.method ?? 'GET', path, resource, status: 0 };
}

/** The address as the client wrote it, so that links lead back the same way. */
function urlOf(request: IncomingMessage): URL | null {
  const path = request.url ?? '';
  const host = request.headers.host ?? 'localhost';
  return path.startsWith('/') && /^[\w.:[\]-]+$/.test(host) ? URL.parse(`http://${host}${path}`) : null;
}
