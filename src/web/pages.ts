import { randomBytes } from 'node:crypto';
import { answerFile } from './file-page.ts';
import { filePathOf } from './files/file-path.ts';
import type { PageAnswer, PageRequest } from './page-request.ts';
import { compressed } from './compress.ts';
import { CONTROL_PATH, type ControlDoor, type FormRefusal } from './control-door.ts';
import { CHALLENGE, type Admission } from './door.ts';
import { attentionOf } from '../serve/status/attention.ts';
import { headlineOf } from '../serve/status/headline.ts';
import { choiceOf } from './page/overview-choice.ts';
import type { PageView } from './page/page-frame.ts';
import { changedParts } from './page/parts.ts';
import { KNOWN_PARTS } from './page/refresh.ts';
import { renderRefusedPage, renderResourcePage, renderSourcePage } from './page/source-page.ts';
import { renderStatusPage } from './page/status-page.ts';
import { pagePathOf, type PagePath } from './page-path.ts';
import type { StatusSnapshot } from '../serve/status/snapshot.ts';
import type { Readiness } from '../serve/status/collect.ts';
import type { DetailsAsked, SourceDetails } from '../serve/status/source-details.ts';
import type { ShownFiles } from '../serve/files/shown-files.ts';
import type { SourceTables } from '../serve/dictionary/table-reader.ts';
import { renderDictionaryPage } from './page/dictionary-page.ts';

export interface PagesOptions {
  snapshot: () => Promise<StatusSnapshot>;
  ready: () => Promise<Readiness>;
  details: (asked: DetailsAsked) => Promise<SourceDetails | null>;
  tables: () => Promise<SourceTables[]>;
  /** The contents of files that the copies name. */
  files: ShownFiles;
  /** Prometheus text. */
  metrics: () => Promise<string>;
  /** Decides who may see the pages. */
  door: (request: PageRequest) => Promise<Admission>;
  /** Takes the forms of the page; null where nobody proves who he is, and there are none. */
  controls: () => ControlDoor | null;
  /** Called with errors: the answer does not show them. */
  failed: (error: unknown) => void;
}

interface Page {
  /** True if only those may see it who may see everything; else the others see less of it. */
  guarded: boolean;
  answer: (options: PagesOptions, request: PageRequest, seesAll: boolean) => Promise<PageAnswer>;
}

const PAGES: Readonly<Record<string, Page>> = {
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

const LOCKED = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";
const NOTHING = `${LOCKED}; form-action 'none'`;

/** The pages of `serve`. The returned function never throws. */
export function createPages(options: PagesOptions): (request: PageRequest) => Promise<PageAnswer> {
  return async (request) => {
    const answer: PageAnswer = await answerOf(options, request).catch((error: unknown) => {
      options.failed(error);
      return text(500, 'The page could not be put together; the log says why.');
    });
    const headers = { ...ALWAYS, 'content-security-policy': NOTHING, ...answer.headers };
    if (request.method === 'HEAD') return { status: answer.status, headers, body: '' };
    if (answer.stream !== undefined) return { ...answer, headers };
    return compressed({ ...answer, headers }, request.headers);
  };
}

async function answerOf(options: PagesOptions, request: PageRequest): Promise<PageAnswer> {
  const name = request.path.split('?', 1)[0] ?? '';
  if (request.method === 'POST' || name === CONTROL_PATH) return formAnswer(options, request, name);
  const path = pagePathOf(name);
  const page = path === null ? otherPage(name) : sourcePages(path);
  if (page === undefined) return noSuchPage();
  const admission = await options.door(request);
  if (page.guarded && admission !== 'in') return REFUSALS[admission]();
  return page.answer(options, request, admission === 'in');
}

function otherPage(name: string): Page | undefined {
  const file = filePathOf(name);
  if (file !== null) return { guarded: true, answer: (options, request) => answerFile(options, file, request) };
  return Object.hasOwn(PAGES, name) ? PAGES[name] : undefined;
}

function noSuchPage(): PageAnswer {
  return text(404, 'There is no such page.');
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

const FORM_REFUSALS: Readonly<Record<FormRefusal, string>> = {
  other_site: 'Nothing was done: another site sent this.',
  other_origin:
    'Nothing was done: this came from a page of another name. Behind a proxy, put the name of the page under serve.hosts.',
  no_form: 'Nothing was done: there is no form in this.',
  no_token: 'Nothing was done: this is not a form of the page.',
  wrong_token: 'Nothing was done: the page is older than the process that runs now. Load it again.',
  wrong_request: 'Nothing was done: this is none of the controls.',
};

/** Answers a form, or first its headers: 100 if the form may come. */
async function formAnswer({ door, controls }: PagesOptions, request: PageRequest, name: string): Promise<PageAnswer> {
  const taken = controls();
  if (name !== CONTROL_PATH || taken === null) return noSuchPage();
  if (request.method !== 'POST') return text(405, 'A form is posted here.', { allow: 'POST' });
  const admission = await door(request);
  if (admission !== 'in') return REFUSALS[admission]();
  if (request.body === undefined) return { status: 100, headers: {}, body: '' };
  const outcome = await taken.take(request);
  return 'refused' in outcome
    ? text(403, FORM_REFUSALS[outcome.refused])
    : text(303, 'Done; the page says what.', { location: outcome.to });
}

/** A page about sources, as a whole or what has changed of it. */
function sourcePages(path: PagePath): Page {
  return {
    guarded: true,
    answer: async (options, request) => {
      const controls = options.controls();
      const nonce = randomBytes(18).toString('base64');
      const view = { nonce, token: controls?.token() ?? null, told: controls?.told(request.path) ?? null };
      const rendered = await renderedPage(options, path, request.path, view);
      if (rendered === null) return noSuchPage();
      const { page, images } = rendered;
      const known = request.headers[KNOWN_PARTS];
      const changed = typeof known === 'string' ? changedParts(page, known) : null;
      if (changed !== null) return json(200, changed, 0);
      const scripts = `script-src 'nonce-${nonce}'; connect-src 'self'; img-src ${images}; form-action 'self'`;
      const policy = `${LOCKED}; style-src 'nonce-${nonce}'; ${scripts}`;
      // With no-referrer browsers send their forms without an origin.
      const headers = { 'content-security-policy': policy, 'referrer-policy': 'same-origin' };
      return { status: 200, headers: { 'content-type': 'text/html; charset=utf-8', ...headers }, body: page };
    },
  };
}

interface Rendered {
  page: string;
  /** Where its images may come from. */
  images: string;
}

/** The icon of the tab. */
const OWN = 'data:';

/** Null if there is no such source or resource. */
async function renderedPage(
  { snapshot: read, details, controls }: PagesOptions,
  path: PagePath,
  address: string,
  view: PageView,
): Promise<Rendered | null> {
  const snapshot = await read();
  if (path.page === 'overview') return { page: renderStatusPage(snapshot, view, choiceOf(address)), images: OWN };
  const { source: name } = path;
  if (snapshot.refused.some(({ source }) => source === name)) {
    return path.page === 'source' ? { page: renderRefusedPage(snapshot, name, view), images: OWN } : null;
  }
  const resource = path.page === 'resource' ? path.resource : null;
  const source = snapshot.sources.find((one) => one.source === name);
  const status = source?.resources.find((one) => one.resource === resource);
  if (source === undefined || (resource !== null && status === undefined)) return null;
  // What records hold is shown to those only who have proved who they are.
  const more = await details({ source: name, resource, bodies: controls() !== null });
  if (more === null) return null;
  const page =
    status === undefined
      ? renderSourcePage(snapshot, source, more, view)
      : renderResourcePage(snapshot, source, status, more, view);
  return { page, images: more.pictures.length === 0 ? OWN : `${OWN} 'self'` };
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
  const status: StatusSnapshot = await snapshot();
  const attention = attentionOf(status);
  return json(200, { summary: headlineOf(status, attention), attention, ...status });
}

async function metricsPage({ metrics }: PagesOptions): Promise<PageAnswer> {
  const headers = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' };
  return { status: 200, headers, body: await metrics() };
}

async function readyPage({ ready, failed }: PagesOptions, _: PageRequest, seesAll: boolean): Promise<PageAnswer> {
  try {
    const { sources, ...readiness } = await ready();
    return json(readiness.ready ? 200 : 503, seesAll ? { ...readiness, sources } : readiness);
  } catch (error) {
    failed(error);
    return json(503, { ready: false, reason: 'it cannot be told' });
  }
}

function json(status: number, value: object, indent = 2): PageAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    body: `${JSON.stringify(value, null, indent)}\n`,
  };
}

function text(status: number, sentence: string, headers: Record<string, string> = {}): PageAnswer {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8', ...headers }, body: `${sentence}\n` };
}
