import { raw } from 'hono/html';
import type { Severity } from '../../serve/status/attention.ts';
import type { StatusSnapshot } from '../../serve/status/snapshot.ts';
import type { Told } from '../told-answers.ts';
import { icon, tabIcon, type Tone } from './icon.ts';
import { lasting, markup, type Markup } from './markup.ts';
import { REFRESH_SCRIPT, RELOAD_SECONDS } from './refresh.ts';
import { STYLESHEET } from './stylesheet.ts';
import { OVERVIEW_STYLESHEET } from './overview-stylesheet.ts';

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

export function sectionView({ at, started_at }: StatusSnapshot, root: string, may: boolean): SectionView {
  return { now: at, root, may, period: at - started_at < HOUR_MS ? 'since start' : 'last hour' };
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

/** What leads from a page to the overview; all addresses are relative, because a proxy may show the page below a path. */
function rootOf(path: string): string {
  return '../'.repeat(path.split('/').length - 1);
}

/** The content as a whole HTML document, which brings everything along. */
export function framed(frame: Frame, view: PageView, content: Markup): string {
  const { title, tone, path, snapshot } = frame;
  const { nonce, token, told } = view;
  const picture = tabIcon(tone);
  const page = markup`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">
<link rel="icon" href="${picture}">
<noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript>
<style nonce="${nonce}">${raw(STYLESHEET)}${raw(OVERVIEW_STYLESHEET)}</style></head>
<body><p id="lost" role="alert" hidden></p>
<main data-at="${new Date(snapshot.at).toISOString()}" data-title="${title}" data-icon="${picture}">${pageHead(frame)}
${told && toldNote(told)}
${token !== null && markup`<form id="control" method="post" action="${rootOf(path)}control" data-since="${snapshot.started_at}" hidden>${formFields(token, path)}</form>`}
${content}
${pageFoot(frame)}</main>
<script nonce="${nonce}">${raw(REFRESH_SCRIPT)}</script></body></html>`;
  return page.toString();
}

function formFields(token: string, path: string): Markup {
  return markup`<input type="hidden" name="token" value="${token}"><input type="hidden" name="back" value="${path}">`;
}

function toldNote({ done, message, hint }: Told): Markup {
  const severity: Severity | 'fine' = done ? 'fine' : 'late';
  return markup`<p id="told" class="told ${severity}" role="status">${icon(severity)}<span>${message}${hint && markup` <span class="hint">→ ${hint}</span>`}</span></p>`;
}

function pageHead({ path, trail, snapshot: { at, stopping } }: Frame): Markup {
  const root = rootOf(path);
  const name = path === '' ? markup`content-sync` : markup`<a href="${root === '' ? './' : root}">content-sync</a>`;
  const steps = trail.map((step, index) => {
    const isHere = index === trail.length - 1;
    return markup`<span class="step">${isHere ? step : markup`<a href="${root}sources/${encodeURIComponent(step)}">${step}</a>`}</span>`;
  });
  return markup`<header><h1>${name}${steps}</h1>${stopping && markup`<b class="stopping">stopping</b>`}
<p>as of ${asOf(at)}</p></header>`;
}

function asOf(at: number): Markup {
  const iso = new Date(at).toISOString();
  return markup`<time id="as-of" datetime="${iso}" data-as="zoned">${iso.slice(0, 19).replace('T', ' ')} UTC</time>`;
}

function pageFoot({ path, snapshot: { version, at, started_at } }: Frame): Markup {
  const root = rootOf(path);
  return markup`<footer><p>content-sync ${version} · running for ${lasting(started_at, at)} · <span id="zone">all times UTC</span></p>
<nav aria-label="Other pages, and the same for programs"><a href="${root}tables">tables</a> <a href="${root}status.json">status.json</a> <a href="${root}metrics">metrics</a>
<a href="${root}readyz">readyz</a></nav></footer>`;
}

/** A table that scrolls by itself where the screen is narrow; `id` must be the page's own. */
export function wide(id: string, label: string, table: Markup, kind = ''): Markup {
  return markup`<div class="wide" id="${id}" tabindex="0" role="region" aria-label="${label}"><table class="${kind}">${table}</table></div>`;
}
