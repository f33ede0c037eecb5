import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { Clock } from '../../model/clock.ts';
import { messageOf } from '../../model/errors.ts';
import { waitAtMost } from '../../model/waiting.ts';
import type { ChallengeAnswer } from '../signature/challenges.ts';
import type { SignatureRefusal } from '../signature/delivery.ts';
import type { InboxEffect } from '../../database/inbox.ts';
import { CONTROL_PATH } from '../endpoints/control-door.ts';
import type { Pages } from '../endpoints/pages.ts';
import { textResponse } from '../endpoints/responses.ts';
import { type BodyBudget, FORM_TYPE, type HeldBody, mediaTypeIn, readBody } from './body.ts';
import type { Connections } from './server.ts';
import type { ReceiverLimits, ReceiverNote } from './setup.ts';

/** The purpose of a request. */
type Route =
  | { kind: 'webhook'; source: string }
  | { kind: 'health' }
  /** May not exist: the pages decide. */
  | { kind: 'page' }
  | { kind: 'none' };

const WEBHOOK = /^\/webhooks\/(?<source>[a-z][a-z0-9_-]{0,40})\/?$/;
/** Nothing that a proxy and we might read differently: no escapes, no parameters, no empty or dotted segments. */
const PLAIN_PATH = /^\/$|^(?:\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*){1,8}$/;

/** The route of a request target as it was sent; only its path decides. */
export function routeOf(target: string): Route {
  const [path = ''] = target.split('?', 1);
  const source = WEBHOOK.exec(path)?.groups?.['source'];
  if (source !== undefined) return { kind: 'webhook', source };
  if (!PLAIN_PATH.test(path) || path.startsWith('/webhooks')) return { kind: 'none' };
  return path === '/healthz' ? { kind: 'health' } : { kind: 'page' };
}

interface RequestParts {
  webhook: (request: IncomingMessage, source: string, invite: () => void) => Promise<Outcome>;
  pages: Pages;
  budget: BodyBudget;
  /** Called for each request to the page whose body is refused. */
  refusedBody: (reason: RefusalReason) => void;
  limits: ReceiverLimits;
  clock: Clock;
  isStopping: () => boolean;
  connections: Connections;
  note: (note: ReceiverNote) => void;
}

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  invite: () => void;
}

const HEALTH_HEADERS = {
  'content-type': 'text/plain; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
};

/** Handlers for requests whose headers have arrived. They never throw, whatever is sent. */
export function requestHandler(parts: RequestParts) {
  const { webhook, limits, isStopping, connections, note } = parts;
  const sendResponse = responseSender(limits);
  const page = boundedPages(parts);

  function finish(outcome: Outcome, { request, response }: Exchange): void {
    if (outcome.kind === 'stored' || outcome.kind === 'challenge') connections.believed(request);
    if (outcome.kind === 'refused' && connections.refused(request)) response.shouldKeepAlive = false;
    sendOutcome(outcome, request, response);
  }

  function refuse(reason: RefusalReason, exchange: Exchange): void {
    finish(refused(reason), exchange);
  }

  async function answerPage(exchange: Exchange): Promise<void> {
    const { request, response } = exchange;
    const read: { posted: Posted | null } = { posted: null };
    const readPosted = async (): Promise<string | null> => {
      read.posted = await postedIn(exchange, parts);
      return read.posted.kind === 'body' ? read.posted.body : null;
    };
    const made = await page(toRequest(request), { client: request.socket.remoteAddress ?? '', readBody: readPosted });
    if (read.posted !== null && read.posted.kind !== 'body') {
      if (read.posted.kind === 'refused') parts.refusedBody(read.posted.reason);
      return finish(read.posted, exchange);
    }
    // A body that was not read must not be read as another request.
    if (request.method === 'POST' && read.posted === null) response.shouldKeepAlive = false;
    await sendResponse(made, response);
  }

  async function answer(exchange: Exchange): Promise<void> {
    const { request, response, invite } = exchange;
    const route = routeOf(request.url ?? '');
    try {
      if ((request.headersDistinct['host']?.length ?? 0) > 1) refuse('host', exchange);
      else if (route.kind === 'webhook') finish(await webhook(request, route.source, invite), exchange);
      else if (route.kind === 'none') refuse('not_found', exchange);
      else if (!hasPageMethod(exchange)) refuse('method', exchange);
      else if (route.kind === 'page') await answerPage(exchange);
      else await sendResponse(new Response('ok\n', { headers: HEALTH_HEADERS }), response);
    } catch (error) {
      note({ level: 'error', event: 'request_failed', error: messageOf(error) });
      if (response.headersSent) response.destroy();
      else if (route.kind === 'page')
        await sendResponse(textResponse(503, 'The page failed; the log says why.'), response);
      else refuse('failed', exchange);
    }
  }

  return {
    request: (request: IncomingMessage, response: ServerResponse, invite: () => void): void => {
      if (!connections.begin(request, response)) return;
      if (isStopping()) response.shouldKeepAlive = false;
      void answer({ request, response, invite });
    },
    unexpected: (request: IncomingMessage, response: ServerResponse): void =>
      refuse('expectation', { request, response, invite: () => undefined }),
  };
}

/** Forms are posted, everything else is read. Sets the header that says so if the method is another one. */
function hasPageMethod({ request: { method, url = '' }, response }: Exchange): boolean {
  const methods = url.split('?', 1)[0] === CONTROL_PATH ? ['POST'] : ['GET', 'HEAD'];
  if (methods.includes(method ?? '')) return true;
  response.setHeader('allow', methods.join(', '));
  return false;
}

type Posted = { kind: 'body'; body: string } | Extract<Outcome, { kind: 'refused' | 'gone' }>;

const POSTED_TYPES: ReadonlySet<string> = new Set([FORM_TYPE, 'application/json']);

/** Reads what is posted to the page, which is small. Everything else is refused before it is read. */
async function postedIn({ request, invite }: Exchange, { budget, limits }: RequestParts): Promise<Posted> {
  const { 'content-type': type, 'content-encoding': coding, 'content-length': length } = request.headers;
  if (!POSTED_TYPES.has(mediaTypeIn(type)) || coding !== undefined) return refused('content_type');
  if (Number(length ?? 0) > limits.formBytes) return refused('too_large');
  invite();
  const held: HeldBody = { bytes: 0, cut: null };
  try {
    const body = await readBody(request, held, limits.formBytes, budget);
    if (body === 'gone') return { kind: 'gone' };
    return typeof body === 'string' ? refused(body) : { kind: 'body', body: body.toString() };
  } finally {
    budget.release(held);
  }
}

const RETRY_SOON = { 'retry-after': '2' };

/** Answers 503 if too many pages are in progress, or if one takes too long. */
function boundedPages({ clock, pages, limits }: RequestParts): Pages {
  let inProgress = 0;
  return async (request, bindings) => {
    if (inProgress >= limits.pages) return textResponse(503, 'Too many pages are being made.', RETRY_SOON);
    inProgress += 1;
    try {
      const making = pages(request, bindings);
      const made = await waitAtMost(clock, limits.pageMs, making);
      if (made !== null) return made.value;
      making.then(({ body }) => body?.cancel()).catch(() => undefined);
      return textResponse(503, 'The page was not ready in time, because the process is busy.', RETRY_SOON);
    } finally {
      inProgress -= 1;
    }
  };
}

/** The request for a page without its body. Its path is one of those that URLs leave as they are. */
export function toRequest({ url = '/', method = 'GET', headers }: IncomingMessage): Request {
  const sent = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  return new Request(`http://localhost${url}`, { method, headers: sent });
}

/**
 * Sends texts at once, and bodies of a stated length no faster than their clients read, only some at the same time. A
 * body that fails ends its connection, so that no client mistakes a part for the whole. Never rejects.
 */
function responseSender({ longBodies, longIdleMs }: ReceiverLimits) {
  let inProgress = 0;
  return async (made: Response, response: ServerResponse): Promise<void> => {
    const headers = Object.fromEntries(made.headers);
    const { body } = made;
    if (body === null || !made.headers.has('content-length')) {
      const bytes = new Uint8Array(await made.arrayBuffer());
      return void response.writeHead(made.status, { 'content-length': String(bytes.length), ...headers }).end(bytes);
    }
    if (inProgress >= longBodies) {
      await body.cancel();
      return void response.writeHead(503, RETRY_SOON).end('Too many files are being sent.\n');
    }
    inProgress += 1;
    response.setTimeout(longIdleMs, () => response.destroy());
    response.writeHead(made.status, headers);
    // If it rejects, the body has failed or the client has gone, and the response is destroyed.
    await pipeline(body, response).catch(() => undefined);
    inProgress -= 1;
  };
}

/** Why a request is refused before its signature is looked at, with the status of its answer. */
const REFUSALS = {
  /** Two Host headers: a proxy may have read the other one. */
  host: 400,
  method: 405,
  not_found: 404,
  unknown_source: 404,
  content_type: 415,
  content_encoding: 415,
  expectation: 417,
  too_large: 413,
  /** Too much at once; the sender is asked to come again. */
  overloaded: 503,
  /** As much waits in the inbox as may. */
  inbox_full: 503,
  /** The inbox could not take it. */
  not_stored: 503,
  /** A bug of ours: the sender is asked to come again all the same. */
  failed: 503,
} as const;

export type RefusalReason = keyof typeof REFUSALS | SignatureRefusal;

/** The outcome of a request. The sender sees the status only: reasons are for our own figures. */
export type Outcome =
  | { kind: 'stored'; effect: InboxEffect }
  | { kind: 'challenge'; answer: ChallengeAnswer }
  | { kind: 'refused'; reason: RefusalReason }
  /** The sender has gone. */
  | { kind: 'gone' };

/** Whatever is wrong with a signature, the answer is the same 401. */
function statusOf(reason: RefusalReason): number {
  return isOwn(reason) ? REFUSALS[reason] : 401;
}

function isOwn(reason: RefusalReason): reason is keyof typeof REFUSALS {
  return Object.hasOwn(REFUSALS, reason);
}

export function refused(reason: RefusalReason): { kind: 'refused'; reason: RefusalReason } {
  return { kind: 'refused', reason };
}

/** Seconds after which a sender tries again that was refused for a lock or a full disk. */
const RETRY_AFTER_S = '2';
/** An inbox that is full has not been worked on for long, and will not be within seconds. */
const FULL_RETRY_AFTER_S = '60';
/** The unread rest of a body up to this size is skipped, so that the connection can be used on. */
const SMALL_BODY = 65_536;
/** How long a connection stays that is to be cut, so that its sender sees the answer before the cut. */
const LINGER_MS = 300;

/** Answers to deliveries have no body, so that none shows more than its status. */
function sendOutcome(outcome: Outcome, request: IncomingMessage, response: ServerResponse): void {
  if (outcome.kind === 'gone') response.destroy();
  else if (outcome.kind === 'stored') response.writeHead(202, { 'content-length': '0' }).end();
  else if (outcome.kind === 'challenge') sendChallenge(outcome.answer, response);
  else sendRefusal(outcome.reason, request, response);
}

function sendChallenge({ status, contentType, body }: ChallengeAnswer, response: ServerResponse): void {
  const headers = { 'content-type': contentType, 'x-content-type-options': 'nosniff' };
  response.writeHead(status, { 'content-length': String(Buffer.byteLength(body)), ...headers }).end(body);
}

function sendRefusal(reason: RefusalReason, request: IncomingMessage, response: ServerResponse): void {
  const status = statusOf(reason);
  response.statusCode = status;
  response.setHeader('content-length', '0');
  if (status === 405 && !response.hasHeader('allow')) response.setHeader('allow', 'POST');
  if (status === 503) response.setHeader('retry-after', reason === 'inbox_full' ? FULL_RETRY_AFTER_S : RETRY_AFTER_S);
  if (hasLittleLeft(request)) return void response.end();
  response.shouldKeepAlive = false;
  response.flushHeaders();
  // Unread bytes turn a close into a reset, and a reset may overtake the answer.
  const timer = setTimeout(() => response.end(), LINGER_MS);
  response.once('close', () => clearTimeout(timer));
}

/** True if the rest of the request is soon skipped. */
function hasLittleLeft(request: IncomingMessage): boolean {
  if (request.readableEnded) return true;
  const { 'content-length': length, 'transfer-encoding': encoding, expect } = request.headers;
  // A sender that asks first may never send it: what comes next would be taken for it.
  if (expect !== undefined) return false;
  return request.readableFlowing === null && encoding === undefined && Number(length ?? 0) <= SMALL_BODY;
}
