// What all pages share: header, footer, stylesheet and script.
import { raw } from 'hono/html';
import type { StatusSnapshot } from '../status/snapshot.ts';
import { markup, type Markup, type PageTone, tabIcon, timeAs } from './markup.ts';
import { REFRESH_SCRIPT, RELOAD_SECONDS } from './script.ts';
import { STYLESHEET } from './stylesheet.ts';

/** What the sections of a page need. */
export interface SectionView {
  /** Epoch milliseconds. */
  now: number;
  /** Path to the overview: relative, because a proxy may serve the pages under another path. */
  root: '' | '../';
  /** The time that the counts of requests and webhooks cover. */
  period: 'last hour' | 'since start';
}

const HOUR_MS = 3_600_000;

export function sectionView({ at, started_at }: StatusSnapshot, root: SectionView['root']): SectionView {
  const period = at - started_at < HOUR_MS ? 'since start' : 'last hour';
  return { now: at, root, period };
}

interface Frame {
  title: string;
  tone: PageTone;
  /** Null for the overview. */
  source: string | null;
  snapshot: StatusSnapshot;
}

/**
 * Renders a page with header, footer and the script that keeps it up to date. It loads nothing else; `nonce` is that of
 * its Content-Security-Policy.
 */
export function renderInFrame(frame: Frame, nonce: string, content: Markup): string {
  const { title, tone, source, snapshot } = frame;
  const { at, started_at, stopping, version } = snapshot;
  const [tab, root, iso] = [tabIcon(tone), source === null ? '' : '../', new Date(at).toISOString()];
  const name = source === null ? 'content-sync' : markup`<a href="../">content-sync</a>`;
  const asOf = markup`<time id="as-of" datetime="${iso}" data-as="zoned">${iso.slice(0, 19).replace('T', ' ')} UTC</time>`;
  const page = markup`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript><title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">
<link rel="icon" href="${tab}"><style nonce="${nonce}">${raw(STYLESHEET)}</style></head>
<body><p id="lost" role="alert" hidden></p>
<main data-title="${title}" data-icon="${tab}"><header><h1>${name}${source !== null && markup`<span class="step">${source}</span>`}</h1>${stopping && markup`<b class="stopping">stopping</b>`}
<p>as of ${asOf}</p></header>
${content}
<footer><p>content-sync ${version} · running for ${timeAs('for', started_at, at)} · <span id="zone">all times UTC</span></p>
<nav aria-label="The same for programs"><a href="${root}status.json">status.json</a> <a href="${root}metrics">metrics</a>
<a href="${root}readyz">readyz</a></nav></footer></main>
<script nonce="${nonce}">${raw(REFRESH_SCRIPT)}</script></body></html>`;
  return page.toString();
}

/** A section of a page with a heading. */
export function panel(id: string, title: string, content: Markup): Markup {
  return markup`<section class="source" id="${id}" aria-labelledby="${id}-title"><div class="title"><h2 id="${id}-title">${title}</h2></div>${content}</section>`;
}
