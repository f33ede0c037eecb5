import { createHash } from 'node:crypto';
import { raw } from 'hono/html';
import type { SourceTables } from '../../serve/dictionary/table-reader.ts';
import { dictionarySection } from './dictionary-section.ts';
import { tabIcon } from './icon.ts';
import { markup, type Markup, time } from './markup.ts';
import { STYLESHEET } from './stylesheet.ts';
import { TABLES_SCRIPT, TABLES_STYLESHEET } from './tables-stylesheet.ts';

export interface DictionaryPageOptions {
  /** Of content-sync. */
  version: string;
  /** The moment that the page is of, epoch milliseconds. */
  at: number;
  /** What the policy of a page of `serve` allows; a file of its own has a policy by itself. */
  nonce?: string;
}

const STYLE = `${STYLESHEET}${TABLES_STYLESHEET}`;

/** The dictionaries of all sources as one HTML document, which loads nothing; its one script is the search. */
export function renderDictionaryPage(
  sources: readonly SourceTables[],
  { version, at, nonce }: DictionaryPageOptions,
): string {
  const allowed = nonce === undefined ? null : markup` nonce="${nonce}"`;
  const page = markup`<!doctype html>
<html lang="en"><head><meta charset="utf-8">${nonce === undefined && policy()}<title>Tables · content-sync</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">
<link rel="icon" href="${tabIcon('quiet')}"><style${allowed}>${raw(STYLE)}</style></head>
<body><main class="tables"><header><h1>content-sync: tables</h1>
<p>as of ${time(at, `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`)}</p></header>
${sources.length > 1 && contents(sources)}
<div class="search" hidden><input id="search" type="search" placeholder="Find a table or column" aria-label="Find a table or column"></div>
${sources.map((source) => ('dictionary' in source ? dictionarySection(source, at) : problemSection(source)))}
<footer><p>content-sync ${version} · all times UTC</p>${
    nonce !== undefined && markup`<nav aria-label="Other pages"><a href="./">status</a></nav>`
  }</footer></main><script${allowed}>${raw(TABLES_SCRIPT)}</script></body></html>`;
  return page.toString();
}

/** Of a file that is opened by itself: its own style and script, and nothing else. */
function policy(): Markup {
  const [style, script] = [STYLE, TABLES_SCRIPT].map((text) => createHash('sha256').update(text).digest('base64'));
  return markup`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${style}'; script-src 'sha256-${script}'; img-src data:; base-uri 'none'; form-action 'none'">`;
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
