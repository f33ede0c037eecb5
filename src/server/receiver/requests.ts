// Routes every HTTP request of the server to webhooks, pages or the health check, and sends the response.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { messageOf } from '../../model/errors.ts';
import { waitAtMost } from '../../model/waiting.ts';
import { type Pages, textResponse } from '../endpoints/status-pages.ts';
import {
  type DeliveryOutcome,
  type ReceiverContext,
  receiveWebhook,
  type RefusalReason,
  refusalStatus,
} from './webhook.ts';

const WEBHOOK_PATH = /^\/webhooks\/(?<source>[a-z][a-z0-9_-]{0,40})\/?$/;
/** Excludes what a proxy may read differently: escapes, parameters, empty or dotted segments. */
const PLAIN_PATH = /^\/$|^(?:\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*){1,8}$/;

/** Handles requests whose headers have arrived. Never throws. */
export function requestHandler(context: ReceiverContext): (request: IncomingMessage, response: ServerResponse) => void {
  const { note, limits } = context;
  const renderPage = boundedPages(context);

  async function answerPage(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const page = await renderPage(toRequest(request));
    response.setTimeout(limits.idleMs, () => response.destroy());
    await sendResponse(page, response);
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = ''] = (request.url ?? '').split('?', 1);
    const source = WEBHOOK_PATH.exec(path)?.groups?.['source'];
    const refuse = (reason: RefusalReason): void => sendRefusal(reason, request, response);
    try {
      if ((request.headersDistinct['host']?.length ?? 0) > 1) refuse('host');
      else if (source !== undefined) sendOutcome(await receiveWebhook(request, source, context), request, response);
      else if (!PLAIN_PATH.test(path) || path.startsWith('/webhooks')) refuse('not_found');
      else if (!hasPageMethod(request, response)) refuse('method');
      else if (path !== '/healthz') await answerPage(request, response);
      else await sendResponse(textResponse(200, 'ok', HEALTH_HEADERS), response);
    } catch (error) {
      note({ level: 'error', event: 'request_failed', error: messageOf(error) });
      if (response.headersSent) response.destroy();
      else refuse('failed');
    }
  }

  return (request, response) => void answer(request, response);
}

const HEALTH_HEADERS = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };

/** Sets `Allow` if the method is refused. */
function hasPageMethod({ method = '' }: IncomingMessage, response: ServerResponse): boolean {
  if (['GET', 'HEAD'].includes(method)) return true;
  response.setHeader('allow', 'GET, HEAD');
  return false;
}

const RETRY_SOON = { 'retry-after': '2' };

/** Answers 503 if too many pages are in progress, or if one takes too long. */
function boundedPages({ clock, pages, limits }: ReceiverContext): Pages {
  let inProgress = 0;
  return async (request) => {
    if (inProgress >= limits.parallelPages) return textResponse(503, 'Too many pages are being made.', RETRY_SOON);
    inProgress += 1;
    try {
      const making = pages(request);
      const made = await waitAtMost(clock, limits.pageMs, making);
      if (made !== null) return made.value;
      making.then(({ body }) => body?.cancel()).catch(() => undefined);
      return textResponse(503, 'The page was not ready in time, because the process is busy.', RETRY_SOON);
    } finally {
      inProgress -= 1;
    }
  };
}

/** Converts a request without its body. */
function toRequest({ url = '/', method = 'GET', headers }: IncomingMessage): Request {
  const sent = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  return new Request(`http://localhost${url}`, { method, headers: sent });
}

/**
 * Sends a body no faster than its client reads. A body that fails ends its connection, so that no client takes a part
 * for the whole. Never rejects.
 */
async function sendResponse({ status, headers, body }: Response, response: ServerResponse): Promise<void> {
  response.writeHead(status, Object.fromEntries(headers));
  if (body === null) response.end();
  else await pipeline(body, response).catch(() => undefined);
}

/** An inbox that is full stays so for longer than a locked database. */
const FULL_RETRY_AFTER_S = '60';
/** The unread rest of a body up to this size is skipped, so that the connection can be reused. */
const SMALL_BODY_BYTES = 65_536;
/** A connection with an unread body is closed after this time, in which its sender receives the response. */
const LINGER_MS = 300;

/** Responses to deliveries have no body, so that none shows more than its status. */
function sendOutcome(outcome: DeliveryOutcome, request: IncomingMessage, response: ServerResponse): void {
  if (outcome.result === 'gone') return void response.destroy();
  if (outcome.result === 'refused') return sendRefusal(outcome.reason, request, response);
  if (outcome.result !== 'challenge') return void response.writeHead(202, { 'content-length': '0' }).end();
  const { contentType, body } = outcome.answer;
  const headers = { 'content-type': contentType, 'x-content-type-options': 'nosniff' };
  response.writeHead(200, { 'content-length': String(Buffer.byteLength(body)), ...headers }).end(body);
}

function sendRefusal(reason: RefusalReason, request: IncomingMessage, response: ServerResponse): void {
  const status = refusalStatus(reason);
  response.statusCode = status;
  response.setHeader('content-length', '0');
  if (status === 405 && !response.hasHeader('allow')) response.setHeader('allow', 'POST');
  if (status === 503) {
    response.setHeader('retry-after', reason === 'inbox_full' ? FULL_RETRY_AFTER_S : RETRY_SOON['retry-after']);
  }
  const { 'content-length': length = 0, 'transfer-encoding': encoding } = request.headers;
  const isSmall = encoding === undefined && Number(length) <= SMALL_BODY_BYTES;
  if (request.complete || (isSmall && request.readableFlowing === null)) return void response.end();
  response.shouldKeepAlive = false;
  response.flushHeaders();
  // Unread bytes turn a close into a reset, which may overtake the response.
  const timer = setTimeout(() => response.end(), LINGER_MS);
  response.once('close', () => clearTimeout(timer));
}
