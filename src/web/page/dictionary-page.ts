import { createHash } from 'node:crypto';
import { raw } from 'hono/html';
import type { SourceTables } from '../../serve/dictionary/table-reader.ts';
import { dictionarySection } from './dictionary-section.ts';
import { tabIcon } from './icon.ts';
import { markup, type Markup, time } from './markup.ts';
import { STYLESHEET } from './stylesheet.ts';
import { TABLES_STYLESHEET } from './tables-stylesheet.ts';

export interface DictionaryPageOptions {
  /** Of content-sync. */
  version: string;
  /** The moment that the page is of, epoch milliseconds. */
  at: number;
  /** What the policy of a page of `serve` allows; a file of its own has a policy by itself. */
  nonce?: string;
}

const STYLE = `${STYLESHEET}${TABLES_STYLESHEET}`;

/** The dictionaries of all sources as one HTML document without scripts, which loads nothing. */
export function renderDictionaryPage(
  sources: readonly SourceTables[],
  { version, at, nonce }: DictionaryPageOptions,
): string {
  const style =
    nonce === undefined ? markup`<style>${raw(STYLE)}</style>` : markup`<style nonce="${nonce}">${raw(STYLE)}</style>`;
  const page = markup`<!doctype html>
<html lang="en"><head><meta charset="utf-8">${nonce === undefined && policy()}<title>Tables · content-sync</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">
<link rel="icon" href="${tabIcon('quiet')}">${style}</head>
<body><main class="tables"><header><h1>content-sync: tables</h1>
<p>as of ${time(at, `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`)}</p></header>
${sources.length > 1 && contents(sources)}
${sources.map((source) => ('dictionary' in source ? dictionarySection(source, at) : problemSection(source)))}
<footer><p>content-sync ${version} · all times UTC</p>${
    nonce !== undefined && markup`<nav aria-label="Other pages"><a href="./">status</a></nav>`
  }</footer></main></body></html>`;
  return page.toString();
}

/** Of a file that is opened by itself: its own style, and nothing else. */
function policy(): Markup {
  const hash = createHash('sha256').update(STYLE).digest('base64');
  return markup`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'">`;
}

function contents(sources: readonly SourceTables[]): Markup {
  const names = sources.map((each) => ('dictionary' in each ? each.dictionary.source : each.source));
  return markup`<nav class="contents" aria-label="Sources">${names.map((name) => markup`<a href="#${encodeURIComponent(name)}">${name}</a> `)}</nav>`;
}

function problemSection({ source, problem }: Extract<SourceTables, { source: string }>): Markup {
  return markup`<section class="source stale" id="${source}" aria-labelledby="${source}-title"><div class="title"><h2 id="${source}-title">${source}</h2></div>
<p class="problem"><span>The tables cannot be shown: ${problem.message} <code>${problem.code}</code>${
    problem.hint === null ? null : markup`<br><span class="hint">→ ${problem.hint}</span>`
  }</span></p></section>`;
}
