import type { IncomingMessage, RequestListener } from 'node:http';
import { TrieRouter } from 'hono/router/trie-router';
import { messageOf } from '../../../src/model/errors.ts';
import { issueToken, listSubscriptions, readSubscription, subscribe, unsubscribe } from './account-routes.ts';
import { RefusedRequest, problem, type Answer, type ApiRequest, type Wire, gzipped, sendPlain } from './answer.ts';
import type { AppliedFaults } from './faults/fault-script.ts';
import { listPage, renderPage } from './pages/listing-page.ts';
import type { RateLimiter } from './rate-limit.ts';
import { readFile, readSignedFile, writeFile } from './file-routes.ts';
import { createRecord, deleteRecord, listRecords, patchRecord, readRecord, replaceRecord } from './record-routes.ts';
import { readReport } from './reports/report-route.ts';
import type { RequestEntry, RequestLog } from './request-log.ts';
import type { Service, Handler } from './route-context.ts';

/** The parts between the socket and the routes. */
export interface Front {
  service: Service;
  limiter: RateLimiter;
  log: RequestLog;
  faults: AppliedFaults;
}

/** One request: log, credential, limit, route, faults, wire. */
export function listener(front: Front): RequestListener {
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
  ['GET', '/files/:id', readSignedFile],
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
