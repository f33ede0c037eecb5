import type { IncomingMessage, ServerResponse } from 'node:http';
import { messageOf } from '../../../model/errors.ts';
import { refused, sendOutcome, sendPage, type Outcome, type RefusalReason } from './answer.ts';
import type { Connections } from './connections.ts';
import { countUp } from '../figures.ts';
import type { PageAnswer, PageRequest, ReceiverNote } from '../calls.ts';

/** What a request is for. */
type Route =
  | { kind: 'webhook'; source: string }
  | { kind: 'health' }
  /** Made by the main thread; it decides whether there is such a page. */
  | { kind: 'page' }
  | { kind: 'none' };

const WEBHOOK = /^\/webhooks\/(?<source>[a-z][a-z0-9_-]{0,40})$/;
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
  /** Null where nobody has made the page in time. */
  page: (request: PageRequest) => Promise<PageAnswer | null>;
  isAlive: () => boolean;
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

const TEXT = {
  'content-type': 'text/plain; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
};

/** Null, with the header that says so, for a method that pages do not have: they are only there to be read. */
function readingMethod({ request: { method }, response }: Exchange): PageRequest['method'] | null {
  if (method === 'GET' || method === 'HEAD') return method;
  response.setHeader('allow', 'GET, HEAD');
  return null;
}

/** What to do with a request once its headers are there. Never throws, whatever is sent. */
export function requestHandler(parts: RequestParts) {
  const { webhook, page, isAlive, isStopping, connections, unclaimed, note } = parts;

  function finish(outcome: Outcome, { request, response }: Exchange): void {
    if (outcome.kind === 'stored' || outcome.kind === 'challenge') connections.believed(request);
    if (outcome.kind === 'refused' && connections.refused(request)) response.shouldKeepAlive = false;
    sendOutcome(outcome, request, response);
  }

  function refuse(reason: RefusalReason, exchange: Exchange): void {
    countUp(unclaimed, reason);
    finish(refused(reason), exchange);
  }

  async function makePage(exchange: Exchange): Promise<void> {
    const { url: path = '/', headers } = exchange.request;
    const method = readingMethod(exchange);
    if (method === null) return refuse('method', exchange);
    const answer = await page({ method, path, headers });
    if (answer === null) refuse('overloaded', exchange);
    else sendPage(answer, exchange.response);
  }

  const answers: { readonly [K in Route['kind']]: (e: Exchange, route: Extract<Route, { kind: K }>) => Promise<void> } =
    {
      webhook: async (exchange, { source }) => {
        const { request, invite } = exchange;
        finish(await webhook(request, source, invite), exchange);
      },
      health: async (exchange) => {
        if (readingMethod(exchange) === null) return refuse('method', exchange);
        const answer = isAlive() ? { status: 200, body: 'ok\n' } : { status: 503, body: 'stuck\n' };
        sendPage({ ...answer, headers: TEXT }, exchange.response);
      },
      page: makePage,
      none: async (exchange) => refuse('not_found', exchange),
    };

  async function answer<K extends Route['kind']>(
    exchange: Exchange,
    kind: K,
    route: Extract<Route, { kind: K }>,
  ): Promise<void> {
    try {
      await answers[kind](exchange, route);
    } catch (error) {
      note({ level: 'error', event: 'request_failed', error: messageOf(error) });
      if (exchange.response.headersSent) exchange.response.destroy();
      else refuse('failed', exchange);
    }
  }

  return {
    request: (request: IncomingMessage, response: ServerResponse, invite: () => void): void => {
      if (!connections.begin(request, response)) return countUp(unclaimed, 'pipelined');
      if (isStopping()) response.shouldKeepAlive = false;
      const route = routeOf(request.url ?? '');
      void answer({ request, response, invite }, route.kind, route);
    },
    unexpected: (request: IncomingMessage, response: ServerResponse): void =>
      refuse('expectation', { request, response, invite: () => undefined }),
    malformed: (reason: string): void => countUp(unclaimed, reason),
  };
}
