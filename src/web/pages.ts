import { randomBytes } from 'node:crypto';
import type { PageAnswer, PageRequest } from './receiver/calls.ts';
import { CHALLENGE, type Admission } from './door.ts';
import { attentionOf, headlineOf } from '../serve/status/attention.ts';
import { renderStatusPage } from './page/status-page.ts';
import type { StatusSnapshot } from '../serve/status/snapshot.ts';
import type { Readiness } from '../serve/status/collect.ts';
import type { SourceTables } from '../serve/dictionary/table-reader.ts';
import { renderDictionaryPage } from './page/dictionary-page.ts';

export interface PagesOptions {
  snapshot: () => Promise<StatusSnapshot>;
  ready: () => Promise<Readiness>;
  tables: () => Promise<SourceTables[]>;
  /** Prometheus text. */
  metrics: () => Promise<string>;
  /** Decides who may see the pages. */
  door: (request: PageRequest) => Promise<Admission>;
  /** Called with errors: the answer does not show them. */
  failed: (error: unknown) => void;
}

interface Page {
  /** True if only those may see it who may see everything; else the others see less of it. */
  guarded: boolean;
  answer: (options: PagesOptions, seesAll: boolean) => Promise<PageAnswer>;
}

const PAGES: Readonly<Record<string, Page>> = {
  '/': { guarded: true, answer: statusPage },
  '/tables': { guarded: true, answer: tablesPage },
  '/status.json': { guarded: true, answer: statusJson },
  '/metrics': { guarded: true, answer: metricsPage },
  '/readyz': { guarded: false, answer: readyPage },
};

/** Headers of every answer: nothing is cached, framed, sniffed or passed on to other sites. */
const ALWAYS = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
} as const;

const NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The pages of `serve`. The returned function never throws. */
export function createPages(options: PagesOptions): (request: PageRequest) => Promise<PageAnswer> {
  return async (request) => {
    const answer = await answerOf(options, request).catch((error: unknown) => {
      options.failed(error);
      return text(500, 'The page could not be put together; the log says why.');
    });
    const headers = { ...ALWAYS, 'content-security-policy': NOTHING, ...answer.headers };
    return { ...answer, headers, body: request.method === 'HEAD' ? '' : answer.body };
  };
}

async function answerOf(options: PagesOptions, request: PageRequest): Promise<PageAnswer> {
  const name = request.path.split('?', 1)[0] ?? '';
  const page = Object.hasOwn(PAGES, name) ? PAGES[name] : undefined;
  if (page === undefined) return text(404, 'There is no such page.');
  const admission = await options.door(request);
  if (page.guarded && admission !== 'in') return REFUSALS[admission]();
  return page.answer(options, admission === 'in');
}

const REFUSALS: Readonly<Record<Exclude<Admission, 'in'>, () => PageAnswer>> = {
  unnamed: askForPassword,
  wrong: askForPassword,
  busy: () => text(429, 'Too many wrong passwords: try again in a moment.', { 'retry-after': '2' }),
  elsewhere: () => text(421, 'This is not a name of this page: put it under serve.hosts, or set serve.auth.'),
};

function askForPassword(): PageAnswer {
  return text(401, 'Name and password, please.', { 'www-authenticate': CHALLENGE });
}

async function statusPage({ snapshot }: PagesOptions): Promise<PageAnswer> {
  const nonce = randomBytes(18).toString('base64');
  const body = renderStatusPage(await snapshot(), nonce);
  const policy = `${NOTHING}; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'; connect-src 'self'; img-src data:`;
  return {
    status: 200,
    headers: { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': policy },
    body,
  };
}

/** `snapshot` says which version this is, and of which moment. */
async function tablesPage({ snapshot, tables }: PagesOptions): Promise<PageAnswer> {
  const nonce = randomBytes(18).toString('base64');
  const { at, version } = await snapshot();
  return {
    status: 200,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': `${NOTHING}; style-src 'nonce-${nonce}'; img-src data:`,
    },
    body: renderDictionaryPage(await tables(), { version, at, nonce }),
  };
}

async function statusJson({ snapshot }: PagesOptions): Promise<PageAnswer> {
  const status = await snapshot();
  const attention = attentionOf(status);
  return json(200, { summary: headlineOf(status, attention), attention, ...status });
}

async function metricsPage({ metrics }: PagesOptions): Promise<PageAnswer> {
  const headers = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' };
  return { status: 200, headers, body: await metrics() };
}

async function readyPage({ ready, failed }: PagesOptions, seesAll: boolean): Promise<PageAnswer> {
  try {
    const { sources, ...readiness } = await ready();
    return json(readiness.ready ? 200 : 503, seesAll ? { ...readiness, sources } : readiness);
  } catch (error) {
    failed(error);
    return json(503, { ready: false, reason: 'it cannot be told' });
  }
}

function json(status: number, value: object): PageAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    body: `${JSON.stringify(value, null, 2)}\n`,
  };
}

function text(status: number, sentence: string, headers: Record<string, string> = {}): PageAnswer {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8', ...headers }, body: `${sentence}\n` };
}
