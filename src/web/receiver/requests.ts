import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { messageOf } from '../../model/errors.ts';
import { refused, sendOutcome, sendPage, type Outcome, type RefusalReason } from './answer.ts';
import type { ReadForm } from './form.ts';
import type { Connections } from './server.ts';
import { countUp } from './figures.ts';
import type { PageAnswer, PageRequest } from '../page-request.ts';
import type { ReceiverLimits, ReceiverNote } from './setup.ts';

/** The purpose of a request. */
type Route =
  | { kind: 'webhook'; source: string }
  | { kind: 'health' }
  /** May not exist: the pages decide. */
  | { kind: 'page' }
  /** The form of the page. */
  | { kind: 'form' }
  | { kind: 'none' };

const FORM_PATH = '/control';
const WEBHOOK = /^\/webhooks\/(?<source>[a-z][a-z0-9_-]{0,40})\/?$/;
/** Nothing that a proxy and we might read differently: no escapes, no parameters, no empty or dotted segments. */
const PLAIN_PATH = /^\/$|^(?:\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*){1,8}$/;

/** The route of a request target as it was sent; only its path decides. */
export function routeOf(target: string): Route {
  const [path = ''] = target.split('?', 1);
  const source = WEBHOOK.exec(path)?.groups?.['source'];
  if (source !== undefined) return { kind: 'webhook', source };
  if (!PLAIN_PATH.test(path) || path.startsWith('/webhooks')) return { kind: 'none' };
  if (path === FORM_PATH) return { kind: 'form' };
  return path === '/healthz' ? { kind: 'health' } : { kind: 'page' };
}

interface RequestParts {
  webhook: (request: IncomingMessage, source: string, invite: () => void) => Promise<Outcome>;
  /** Returns null if no page came in time. */
  page: (request: PageRequest) => Promise<PageAnswer | null>;
  form: (request: IncomingMessage, invite: () => void) => Promise<ReadForm>;
  /** Called for each form that is not taken. */
  refusedForm: (reason: RefusalReason) => void;
  limits: ReceiverLimits;
  isStopping: () => boolean;
  connections: Connections;
  /** Requests that belong to no source, by reason. */
  unclaimed: Record<string, number>;
  note: (note: ReceiverNote) => void;
}

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  invite: () => void;
}

/** The answer of the pages to the headers of a form that they accept. */
const CONTINUE = 100;

const TEXT = {
  'content-type': 'text/plain; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
};

const HEALTHY: PageAnswer = { status: 200, headers: TEXT, body: 'ok\n' };
const BUSY: PageAnswer = { status: 503, headers: { 'retry-after': '2' }, body: '' };

/** Returns null, and sets the header that says so, for a method that pages do not have. */
function readingMethod({ request: { method }, response }: Exchange): PageRequest['method'] | null {
  if (method === 'GET' || method === 'HEAD') return method;
  response.setHeader('allow', 'GET, HEAD');
  return null;
}

/** Handlers for requests whose headers are there. They never throw, whatever is sent. */
export function requestHandler(parts: RequestParts) {
  const { webhook, page, limits, isStopping, connections, unclaimed, note } = parts;
  const sendStream = streamSender(limits);

  function finish(outcome: Outcome, { request, response }: Exchange): void {
    if (outcome.kind === 'stored' || outcome.kind === 'challenge') connections.believed(request);
    if (outcome.kind === 'refused' && connections.refused(request)) response.shouldKeepAlive = false;
    sendOutcome(outcome, request, response);
  }

  function refuse(reason: RefusalReason, exchange: Exchange): void {
    countUp(unclaimed, reason);
    finish(refused(reason), exchange);
  }

  async function answerPage(route: 'health' | 'page', exchange: Exchange): Promise<void> {
    const { url: path = '/', headers } = exchange.request;
    const method = readingMethod(exchange);
    if (method === null) return refuse('method', exchange);
    const answer = route === 'health' ? HEALTHY : await page({ method, path, headers });
    if (answer === null) refuse('overloaded', exchange);
    else if (answer.stream === undefined) sendPage(answer, exchange.response);
    else await sendStream(answer, answer.stream, exchange.response);
  }

  const answerForm = formAnswerer(parts, { refuse, finish });

  async function answer(exchange: Exchange): Promise<void> {
    const { request, response, invite } = exchange;
    const route = routeOf(request.url ?? '');
    try {
      if (route.kind === 'webhook') finish(await webhook(request, route.source, invite), exchange);
      else if (route.kind === 'none') refuse('not_found', exchange);
      else if (route.kind === 'form') await answerForm(exchange);
      else await answerPage(route.kind, exchange);
    } catch (error) {
      note({ level: 'error', event: 'request_failed', error: messageOf(error) });
      if (response.headersSent) response.destroy();
      else refuse('failed', exchange);
    }
  }

  return {
    request: (request: IncomingMessage, response: ServerResponse, invite: () => void): void => {
      if (!connections.begin(request, response)) return countUp(unclaimed, 'pipelined');
      if (isStopping()) response.shouldKeepAlive = false;
      void answer({ request, response, invite });
    },
    unexpected: (request: IncomingMessage, response: ServerResponse): void =>
      refuse('expectation', { request, response, invite: () => undefined }),
    malformed: (reason: string): void => countUp(unclaimed, reason),
  };
}

interface Answering {
  refuse: (reason: RefusalReason, exchange: Exchange) => void;
  finish: (outcome: Outcome, exchange: Exchange) => void;
}

/** Shows the pages a form's headers first: a form that is refused by them is not read. */
function formAnswerer({ page, form, refusedForm }: RequestParts, { refuse, finish }: Answering) {
  return async (exchange: Exchange): Promise<void> => {
    const { request, response, invite } = exchange;
    const { method, url: path = '/', headers } = request;
    if (method !== 'POST') return refuse('method', exchange);
    const asked = await page({ method, path, headers });
    if (asked === null) return refuse('overloaded', exchange);
    if (asked.status !== CONTINUE) return sendLast(asked, exchange);
    const read = await form(request, invite);
    if (read === 'gone') return finish({ kind: 'gone' }, exchange);
    if ('refused' in read) {
      refusedForm(read.refused);
      return refuse(read.refused, exchange);
    }
    const answer = await page({ method, path, headers, body: read.body });
    if (answer === null) refuse('overloaded', exchange);
    else sendPage(answer, response);
  };
}

/** What is left of the request is not read for another one. */
function sendLast(answer: PageAnswer, { response }: Exchange): void {
  response.shouldKeepAlive = false;
  sendPage(answer, response);
}

/**
 * Sends long bodies no faster than their clients read, and only some at once. A body that fails ends its connection, so
 * that no client mistakes a part for the whole. Never rejects.
 */
function streamSender({ longBodies, longIdleMs }: ReceiverLimits) {
  let inProgress = 0;
  return async ({ status, headers }: PageAnswer, stream: Readable, response: ServerResponse): Promise<void> => {
    if (inProgress >= longBodies) {
      stream.on('error', () => undefined).destroy();
      return sendPage(BUSY, response);
    }
    inProgress += 1;
    response.setTimeout(longIdleMs, () => response.destroy());
    response.writeHead(status, { ...headers });
    // If it rejects, the stream has failed or the client has gone, and the response is destroyed.
    await pipeline(stream, response).catch(() => undefined);
    inProgress -= 1;
  };
}
