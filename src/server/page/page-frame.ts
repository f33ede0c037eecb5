import { raw } from 'hono/html';
import type { ControlAnswer } from '../controls/control-request.ts';
import type { StatusSnapshot } from '../status/snapshot.ts';
import { SOURCE_NAME } from '../../config/settings.ts';
import { icon, lasting, markup, tabIcon, type Markup, type Tone } from './markup.ts';
import { REFRESH_SCRIPT, RELOAD_SECONDS } from './script.ts';
import { OVERVIEW_STYLESHEET, STYLESHEET } from './stylesheet.ts';

/** A page about sources, by its path. */
export type PagePath =
  | { page: 'overview' }
  | { page: 'source'; source: string }
  | { page: 'resource'; source: string; resource: string }
  | { page: 'run'; source: string; run: string };

const RESOURCE_NAME = /^[a-z][a-z0-9_]{0,40}$/;
const RUN_ID = /^\d{8}T\d{6}Z-[0-9a-f]{1,16}$/;

/**
 * The page of a path, without its query: `/`, `/sources/<name>`, `/sources/<name>/<resource>`,
 * `/sources/<name>/runs/<id>`. Null for everything else, escapes and doubled slashes included: names hold nothing that has to be escaped.
 */
export function pagePathOf(path: string): PagePath | null {
  if (path === '/') return { page: 'overview' };
  const [empty, sources, source = '', resource, run, ...more] = path.split('/');
  if (empty !== '' || sources !== 'sources' || more.length > 0 || !SOURCE_NAME.test(source)) return null;
  if (resource === undefined) return { page: 'source', source };
  if (run !== undefined) return resource === 'runs' && RUN_ID.test(run) ? { page: 'run', source, run } : null;
  return RESOURCE_NAME.test(resource) ? { page: 'resource', source, resource } : null;
}

/** An answer to a control, as a page shows it. */
export type Told = Pick<ControlAnswer, 'done' | 'message' | 'hint'>;

/** How a page is shown to its reader, whatever it is about. */
export interface PageView {
  /** What the page's Content-Security-Policy allows. */
  nonce: string;
  /** Of the page's one form; null if its reader can tell the process nothing. */
  token: string | null;
  /** The answer to what was asked for on the page before. */
  told: Told | null;
}

/** How a section is written. */
export interface SectionView {
  /** Epoch milliseconds. */
  now: number;
  /** What leads to the overview. */
  root: string;
  /** True if the reader may tell the process what to do: then the page has its form. */
  may: boolean;
  /** What the plots cover: the last hour, or less if the process is younger. */
  period: 'last hour' | 'since start';
}

const HOUR_MS = 3_600_000;

export function sectionView({ at, started_at }: StatusSnapshot, path: string, { token }: PageView): SectionView {
  const period = at - started_at < HOUR_MS ? 'since start' : 'last hour';
  return { now: at, root: rootOf(path), may: token !== null, period };
}

/** What leads from a page to the overview; all addresses are relative, because a proxy may show the page below a path. */
function rootOf(path: string): string {
  return '../'.repeat(path.split('/').length - 1);
}

interface Document {
  title: string;
  /** The address of the tab's icon. */
  picture: string;
  /** What the policy of a page of `serve` allows; a file of its own has a policy by itself. */
  nonce: string | null;
  head: Markup | null;
  style: string;
  body: Markup;
  script: string;
}

/** A whole HTML document, which brings everything along. */
export function htmlDocument({ title, picture, nonce, head, style, body, script }: Document): string {
  const allowed = nonce === null ? null : markup` nonce="${nonce}"`;
  const page = markup`<!doctype html>
<html lang="en"><head><meta charset="utf-8">${head}<title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">
<link rel="icon" href="${picture}"><style${allowed}>${raw(style)}</style></head>
<body>${body}<script${allowed}>${raw(script)}</script></body></html>`;
  return page.toString();
}

interface Frame {
  title: string;
  tone: Tone;
  /** The page's path below that of the overview, such as `sources/blog`; '' for the overview. */
  path: string;
  /** Names that lead here from the overview. */
  trail: readonly string[];
  snapshot: Pick<StatusSnapshot, 'at' | 'version' | 'started_at' | 'stopping'>;
}

/** The content as a page of the status, which keeps itself up to date. */
export function framed(frame: Frame, { nonce, token, told }: PageView, content: Markup): string {
  const { title, tone, path, trail, snapshot } = frame;
  const { at, started_at, stopping, version } = snapshot;
  const [picture, root, iso] = [tabIcon(tone), rootOf(path), new Date(at).toISOString()];
  const name = path === '' ? markup`content-sync` : markup`<a href="${root}">content-sync</a>`;
  const steps = trail.map((step, index) => {
    const isHere = index === trail.length - 1;
    return markup`<span class="step">${isHere ? step : markup`<a href="${root}sources/${encodeURIComponent(step)}">${step}</a>`}</span>`;
  });
  const form =
    token !== null &&
    markup`<form id="control" method="post" action="${root}control" data-since="${started_at}" hidden><input type="hidden" name="token" value="${token}"><input type="hidden" name="back" value="${path}"></form>`;
  const body = markup`<p id="lost" role="alert" hidden></p>
<main data-at="${iso}" data-title="${title}" data-icon="${picture}"><header><h1>${name}${steps}</h1>${stopping && markup`<b class="stopping">stopping</b>`}
<p>as of <time id="as-of" datetime="${iso}" data-as="zoned">${utcText(at)}</time></p></header>
${told && toldNote(told)}
${form}
${content}
<footer><p>content-sync ${version} · running for ${lasting(started_at, at)} · <span id="zone">all times UTC</span></p>
<nav aria-label="Other pages, and the same for programs"><a href="${root}tables">tables</a> <a href="${root}status.json">status.json</a> <a href="${root}metrics">metrics</a>
<a href="${root}readyz">readyz</a></nav></footer></main>
`;
  const head = markup`<noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript>`;
  const style = `${STYLESHEET}${OVERVIEW_STYLESHEET}`;
  return htmlDocument({ title, picture, nonce, head, style, body, script: REFRESH_SCRIPT });
}

function toldNote({ done, message, hint }: Told): Markup {
  const severity = done ? 'fine' : 'late';
  return markup`<p id="told" class="told ${severity}" role="status">${icon(severity)}<span>${message}${hint && markup` <span class="hint">→ ${hint}</span>`}</span></p>`;
}

/** `2026-11-20 14:22:37 UTC`. */
export function utcText(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** A part of a page under a heading. */
export function panel(id: string, title: string, content: Markup): Markup {
  return markup`<section class="source" id="${id}" aria-labelledby="${id}-title"><div class="title"><h2 id="${id}-title">${title}</h2></div>${content}</section>`;
}
