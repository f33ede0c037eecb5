import { randomBytes } from 'node:crypto';
import { type Context, Hono } from 'hono';
import { compress } from 'hono/compress';
import { type Control, type ControlAnswer, controlBodySchema, failed, refused } from '../controls/control-request.ts';
import { renderStatusPage } from '../page/overview.ts';
import { parsePagePath } from '../page/page-frame.ts';
import { renderRefusedPage, renderSourcePage } from '../page/source-page.ts';
import { attentionOf, headlineOf } from '../status/attention.ts';
import type { Readiness } from '../status/collect.ts';
import type { StatusSnapshot } from '../status/snapshot.ts';
import type { DetailsQuery, SourceDetails } from '../status/source-details.ts';
import { type AccessCheck, CHALLENGE, type PageAccess } from './page-access.ts';
import { jsonResponse, textResponse } from './responses.ts';

// The HTTP endpoints of the status page, /status.json, /metrics, /readyz and the control socket.

export interface WorkerPagesOptions {
  ready: () => Promise<Readiness>;
  /** Prometheus text. */
  metrics: () => Promise<string>;
  access: AccessCheck;
  /** Called with errors, which the response does not show. */
  failed: (error: unknown) => void;
}

export interface PagesOptions extends WorkerPagesOptions {
  snapshot: () => Promise<StatusSnapshot>;
  details: (query: DetailsQuery) => Promise<SourceDetails | null>;
  control: Control;
}

/** What the HTTP server passes along with a request. */
export interface PageBindings {
  /** Reads a command; null if it is too long. Only on the control socket, whose clients may see and do everything. */
  readCommand?: () => Promise<string | null>;
}

/** Never rejects. */
export type Pages = (request: Request, bindings: PageBindings) => Promise<Response>;

interface PageEnv {
  Bindings: PageBindings;
}

type PageContext = Context<PageEnv>;
type PageHandler = (context: PageContext) => Promise<Response>;

const LOCKED = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";
const NOTHING = `${LOCKED}; form-action 'none'`;

/** Nothing is cached, framed, sniffed or passed on to other sites. */
const DEFAULT_HEADERS = {
  'content-security-policy': NOTHING,
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
} as const;

export function createPages(options: PagesOptions): Pages {
  const app = createApp(options);
  const guarded = guardBy(options.access);
  app.get('/', guarded(sourcePage(options)));
  // An invalid path is answered alike to everybody.
  app.get('/sources/*', async ({ req }, next) => (parsePagePath(req.path) === null ? noSuchPage() : await next()));
  app.get('/sources/*', guarded(sourcePage(options)));
  app.get('/status.json', guarded(statusJson(options)));
  app.post(CONTROL_PATH, async ({ env }) =>
    env.readCommand === undefined ? noSuchPage() : answerCommand(options.control, await env.readCommand()),
  );
  return async (request, bindings) => app.fetch(request, bindings);
}

/** The pages of a process that shows no status of its own. */
export function createWorkerPages(options: WorkerPagesOptions): Pages {
  const app = createApp(options);
  return async (request, bindings) => app.fetch(request, bindings);
}

/** Readiness and metrics, with the headers and errors of all pages. */
function createApp(options: WorkerPagesOptions): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  app.use(async (context, next) => {
    await next();
    const { headers } = context.res;
    for (const [name, value] of Object.entries(DEFAULT_HEADERS)) if (!headers.has(name)) headers.set(name, value);
  });
  const compressed = compress();
  // Commands read lines as they come.
  app.use((context, next) => (context.env.readCommand !== undefined ? next() : compressed(context, next)));
  app.notFound(noSuchPage);
  app.onError((error) => {
    options.failed(error);
    return textResponse(500, 'The page could not be put together; the log says why.');
  });
  app.get('/readyz', readyPage(options));
  const metricsHeaders = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' };
  const metricsPage = async (): Promise<Response> => new Response(await options.metrics(), { headers: metricsHeaders });
  app.get('/metrics', guardBy(options.access)(metricsPage));
  return app;
}

function noSuchPage(): Response {
  return textResponse(404, 'There is no such page.');
}

/** Restricts pages to clients that may see everything. */
function guardBy(check: AccessCheck) {
  return (page: PageHandler): PageHandler =>
    async (context) => {
      const access = await accessOf(check, context);
      return access === 'granted' ? page(context) : REFUSALS[access]();
    };
}

async function accessOf(check: AccessCheck, { req, env }: PageContext): Promise<PageAccess> {
  return env.readCommand !== undefined ? 'granted' : check(req.raw.headers);
}

const REFUSALS: Readonly<Record<Exclude<PageAccess, 'granted'>, () => Response>> = {
  anonymous: askForPassword,
  wrong: askForPassword,
  busy: () => textResponse(429, 'Too many wrong passwords: try again in a moment.', { 'retry-after': '2' }),
  other_host: () => textResponse(421, 'This is not a name of this page: put it under serve.hosts, or set serve.auth.'),
};

function askForPassword(): Response {
  return textResponse(401, 'Name and password, please.', { 'www-authenticate': CHALLENGE });
}

function sourcePage(options: PagesOptions): PageHandler {
  return async ({ req }) => {
    const nonce = randomBytes(18).toString('base64');
    const page = await renderPage(options, req.path, nonce);
    if (page === null) return noSuchPage();
    // The only image is the icon of the tab.
    const scripts = `script-src 'nonce-${nonce}'; connect-src 'self'; img-src data:; form-action 'none'`;
    return new Response(page, {
      headers: {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': `${LOCKED}; style-src 'nonce-${nonce}'; ${scripts}`,
      },
    });
  };
}

/** Null if there is no such source, resource or run. */
async function renderPage(options: PagesOptions, address: string, nonce: string): Promise<string | null> {
  const path = parsePagePath(address);
  if (path === null) return null;
  const snapshot = await options.snapshot();
  if (path.page === 'overview') return renderStatusPage(snapshot, nonce);
  const { source: name } = path;
  if (snapshot.refused.some(({ source }) => source === name)) {
    return path.page === 'source' ? renderRefusedPage(snapshot, name, nonce) : null;
  }
  const source = snapshot.sources.find((one) => one.source === name);
  const resource = path.page === 'resource' ? path.resource : null;
  const status = source?.resources.find((one) => one.resource === resource);
  if (source === undefined || (resource !== null && status === undefined)) return null;
  const details = await options.details({ source: name, resource });
  return details && renderSourcePage(snapshot, source, status ?? null, details, nonce);
}

function statusJson({ snapshot }: PagesOptions): PageHandler {
  return async () => {
    const status: StatusSnapshot = await snapshot();
    const attention = attentionOf(status);
    return jsonResponse(200, { summary: headlineOf(status, attention), attention, ...status });
  };
}

/** Names the sources only to clients that may see everything. */
function readyPage({ ready, failed, access: check }: WorkerPagesOptions): PageHandler {
  return async (context) => {
    const access = await accessOf(check, context);
    try {
      const { sources, ...readiness } = await ready();
      return jsonResponse(readiness.ready ? 200 : 503, access === 'granted' ? { ...readiness, sources } : readiness);
    } catch (error) {
      failed(error);
      return jsonResponse(503, { ready: false, reason: 'readiness is unknown' });
    }
  };
}

// The HTTP endpoint of the control socket, through which commands control a running `serve`.

/** The path on the control socket to which commands send their requests, in JSON. */
const CONTROL_PATH = '/control';

/**
 * Answers a command on the control socket: a line with the answer, and one more when the syncs that it started have
 * ended.
 */
async function answerCommand(control: Control, body: string | null): Promise<Response> {
  const { data, error } = controlBodySchema.safeParse(parsed(body ?? ''));
  if (data === undefined) {
    const faults = error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`);
    const hint = 'use the commands of the same version of content-sync as the running serve';
    return answerResponse(refused('serve_version', `not understood: ${faults.join('; ').slice(0, 500)}`, hint));
  }
  const { answer, report } = await control(data.request, { via: 'command', by: data.by });
  if (report === null) return answerResponse(answer);
  async function* lines(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(`${JSON.stringify(answer)}\n`);
    const end = await report?.then(
      (ended) => ({ report: ended }),
      (error: unknown) => ({ failed: failed(error) }),
    );
    yield Buffer.from(`${JSON.stringify(end)}\n`);
  }
  return new Response(lines(), { headers: { 'content-type': 'application/x-ndjson' } });
}

function answerResponse(answer: ControlAnswer): Response {
  return jsonResponse(answer.done ? 200 : answer.code === 'serve_version' ? 400 : 409, answer, 0);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
