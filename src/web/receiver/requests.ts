import type { IncomingMessage, ServerResponse } from 'node:http';
import { messageOf } from '../../model/errors.ts';
import { CONTROL_PATH } from '../control-door.ts';
import type { PageBindings } from '../pages.ts';
import { textResponse } from '../responses.ts';
import { refused, sendOutcome, type Outcome, type RefusalReason } from './answer.ts';
import type { ReadForm } from './form.ts';
import { responseSender, toRequest } from './page-http.ts';
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
  /** Returns null if no page came in time. */
  page: (request: Request, bindings: PageBindings) => Promise<Response>;
  form: (request: IncomingMessage, invite: () => void) => Promise<ReadForm>;
  /** Called for each form whose body is refused. */
  refusedForm: (reason: RefusalReason) => void;
  limits: ReceiverLimits;
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
  const { webhook, page, form, refusedForm, limits, isStopping, connections, note } = parts;
  const sendResponse = responseSender(limits);

  function finish(outcome: Outcome, { request, response }: Exchange): void {
    if (outcome.kind === 'stored' || outcome.kind === 'challenge') connections.believed(request);
    if (outcome.kind === 'refused' && connections.refused(request)) response.shouldKeepAlive = false;
    sendOutcome(outcome, request, response);
  }

  function refuse(reason: RefusalReason, exchange: Exchange): void {
    finish(refused(reason), exchange);
  }

  async function answerPage(exchange: Exchange): Promise<void> {
    const { request, response, invite } = exchange;
    const read: { form: ReadForm | null } = { form: null };
    const readForm = async (): Promise<string | null> => {
      read.form = await form(request, invite);
      return typeof read.form === 'object' && 'body' in read.form ? read.form.body : null;
    };
    const made = await page(toRequest(request), { client: request.socket.remoteAddress ?? '', readForm });
    if (read.form === 'gone') return finish({ kind: 'gone' }, exchange);
    if (read.form !== null && 'refused' in read.form) {
      refusedForm(read.form.refused);
      return refuse(read.form.refused, exchange);
    }
    // The body of a form that was not read must not be read as another request.
    if (request.method === 'POST' && read.form === null) response.shouldKeepAlive = false;
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
