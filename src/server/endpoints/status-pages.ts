// The HTTP endpoints that show what `serve` does: status page, /status.json, /metrics and /readyz.
import { randomBytes } from 'node:crypto';
import { type Context, Hono } from 'hono';
import { compress } from 'hono/compress';
import { renderStatusPage } from '../page/overview.ts';
import { renderRefusedPage, renderSourcePage } from '../page/source-page.ts';
import { findProblems, buildHeadline } from '../status/attention.ts';
import type { Readiness } from '../status/collect.ts';
import type { StatusSnapshot } from '../status/snapshot.ts';
import type { SourceDetails } from '../status/source-details.ts';
import { type AccessCheck, CHALLENGE, type PageAccess } from './page-access.ts';

/** What the pages of a worker (`content-sync worker`) need: it has readiness and metrics, and no status page. */
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
  details: (source: string) => Promise<SourceDetails | null>;
}

/** Answers a request for one of these endpoints. Never rejects. */
export type Pages = (request: Request) => Promise<Response>;

type PageHandler = (context: Context) => Promise<Response>;

/** Values of Content-Security-Policy. */
const LOAD_NOTHING = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";
const LOAD_AND_SEND_NOTHING = `${LOAD_NOTHING}; form-action 'none'`;

/** Nothing is cached, framed, sniffed or passed on to other sites. */
const DEFAULT_HEADERS = {
  'content-security-policy': LOAD_AND_SEND_NOTHING,
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
} as const;

export function createPages(options: PagesOptions): Pages {
  const app = createApp(options);
  const guarded = guardBy(options.access);
  app.get('/', guarded(htmlPage(options)));
  app.get('/sources/:source', guarded(htmlPage(options)));
  app.get('/status.json', guarded(statusJson(options)));
  return async (request) => app.fetch(request);
}

/** Creates the pages of a worker, which shows no status. */
export function createWorkerPages(options: WorkerPagesOptions): Pages {
  const app = createApp(options);
  return async (request) => app.fetch(request);
}

/** Readiness and metrics, with the headers and errors of all pages. */
function createApp(options: WorkerPagesOptions): Hono {
  const app = new Hono();
  app.use(async (context, next) => {
    await next();
    const { headers } = context.res;
    for (const [name, value] of Object.entries(DEFAULT_HEADERS)) if (!headers.has(name)) headers.set(name, value);
  });
  app.use(compress());
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
      const access = await check(context.req.raw.headers);
      return access === 'granted' ? page(context) : REFUSALS[access]();
    };
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

/** Serves the overview, or the page of the source in the path. */
function htmlPage(options: PagesOptions): PageHandler {
  return async ({ req }) => {
    const nonce = randomBytes(18).toString('base64');
    const page = await renderPage(options, req.param('source') ?? null, nonce);
    if (page === null) return noSuchPage();
    // The only image is the icon of the tab.
    const scripts = `script-src 'nonce-${nonce}'; connect-src 'self'; img-src data:; form-action 'none'`;
    return new Response(page, {
      headers: {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': `${LOAD_NOTHING}; style-src 'nonce-${nonce}'; ${scripts}`,
      },
    });
  };
}

/** Renders the page of a source, or the overview for null. Returns null if there is no such source. */
async function renderPage(options: PagesOptions, name: string | null, nonce: string): Promise<string | null> {
  const snapshot = await options.snapshot();
  if (name === null) return renderStatusPage(snapshot, nonce);
  if (snapshot.refused.some(({ source }) => source === name)) return renderRefusedPage(snapshot, name, nonce);
  const status = snapshot.sources.find(({ source }) => source === name);
  const details = status && (await options.details(name));
  return details ? renderSourcePage(snapshot, status, details, nonce) : null;
}

function statusJson({ snapshot }: PagesOptions): PageHandler {
  return async () => {
    const status: StatusSnapshot = await snapshot();
    const attention = findProblems(status);
    return jsonResponse(200, { summary: buildHeadline(status, attention), attention, ...status });
  };
}

/** Names the sources only to clients that may see everything. */
function readyPage({ ready, failed, access: check }: WorkerPagesOptions): PageHandler {
  return async ({ req }) => {
    const access = await check(req.raw.headers);
    try {
      const { sources, ...readiness } = await ready();
      return jsonResponse(readiness.ready ? 200 : 503, access === 'granted' ? { ...readiness, sources } : readiness);
    } catch (error) {
      failed(error);
      return jsonResponse(503, { ready: false, reason: 'readiness is unknown' });
    }
  };
}

function jsonResponse(status: number, value: object): Response {
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  return new Response(`${JSON.stringify(value, null, 2)}\n`, { status, headers });
}

/** One sentence as plain text. */
export function textResponse(status: number, sentence: string, headers: Record<string, string> = {}): Response {
  return new Response(`${sentence}\n`, {
    status,
    headers: { 'content-type': 'text/plain; charset=utf-8', ...headers },
  });
}
