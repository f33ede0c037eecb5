import { createHash } from 'node:crypto';
import { formatAge, countOf, countText, NONE } from '../../observe/figures.ts';
import type {
  Dictionary,
  DictionaryColumn,
  DictionaryTable,
  SourceTables,
  TableCounts,
} from '../dictionary/read-dictionary.ts';
import { dataTable, markup, type Markup, problemNote, tabIcon, time } from './markup.ts';
import { htmlDocument, utcText } from './page-frame.ts';
import { TABLES_SCRIPT } from './script.ts';
import { STYLESHEET, TABLES_STYLESHEET } from './stylesheet.ts';

const STYLE = `${STYLESHEET}${TABLES_STYLESHEET}`;

export interface DictionaryPageOptions {
  /** Version of content-sync. */
  version: string;
  /** Time of the data, epoch milliseconds. */
  at: number;
  /** Nonce of a page of `serve`; a file has a policy of its own. */
  nonce?: string;
}

/** Renders the dictionaries of all sources as one HTML document; its only script is the search. */
export function renderDictionaryPage(
  sources: readonly SourceTables[],
  { version, at, nonce }: DictionaryPageOptions,
): string {
  const body = markup`<main class="tables"><header><h1>content-sync: tables</h1><p>as of ${time(at, utcText(at))}</p></header>
${sources.length > 1 && contents(sources)}
<div class="search" hidden><input id="search" type="search" placeholder="Find a table or column" aria-label="Find a table or column"></div>
${sources.map((source) => ('dictionary' in source ? dictionarySection(source, at) : problemSection(source)))}
<footer><p>content-sync ${version} · all times UTC</p>${
    nonce !== undefined && markup`<nav aria-label="Other pages"><a href="./">status</a></nav>`
  }</footer></main>`;
  return htmlDocument({
    title: 'Tables · content-sync',
    icon: tabIcon('quiet'),
    nonce: nonce ?? null,
    head: nonce === undefined ? policy() : null,
    style: STYLE,
    body,
    script: TABLES_SCRIPT,
  });
}

/** A file that is opened directly allows its own style and script only. */
function policy(): Markup {
  const [style, script] = [STYLE, TABLES_SCRIPT].map((text) => createHash('sha256').update(text).digest('base64'));
  return markup`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${style}'; script-src 'sha256-${script}'; img-src data:; base-uri 'none'; form-action 'none'">`;
}

function contents(sources: readonly SourceTables[]): Markup {
  const names = sources.map((each) => ('dictionary' in each ? each.dictionary.source : each.source));
  return markup`<nav class="contents" aria-label="Sources">${names.map((name) => markup`<a href="#${encodeURIComponent(name)}">${name}</a> `)}</nav>`;
}

function problemSection({ source, problem }: Extract<SourceTables, { source: string }>): Markup {
  const content = problemNote(`The tables cannot be shown: ${problem.message}`, problem);
  return markup`<section class="source stale" id="${source}" aria-labelledby="${source}-title"><div class="title"><h2 id="${source}-title">${source}</h2></div>
${content}</section>`;
}

interface CountedDictionary {
  dictionary: Dictionary;
  counts: TableCounts | null;
}

/** Tables, freshness, relations and columns of one source. A search hides `.unsearched`. */
function dictionarySection(shown: CountedDictionary, now: number): Markup {
  const { source, warehouse, tables } = shown.dictionary;
  return markup`<section class="source" id="${source}" aria-labelledby="${source}-title">
<div class="title"><h2 id="${source}-title">${source}</h2><p class="facts"><span>${warehouse}</span><span>${countOf(tables.length, 'table or view', 'tables and views')}</span></p></div>
${tables.length === 0 ? markup`<p class="empty">Nothing has been copied yet.</p>` : overview(shown)}
<div class="unsearched">${freshness(shown.dictionary, now)}
${relations(shown.dictionary)}</div>
${tables.length === 0 ? null : markup`<h3>Columns</h3>`}
${tables.map((table) => tableSection(table, shown))}</section>`;
}

function idOf(source: string, table: string): string {
  return `${source}-table-${table}`;
}

function linkTo(source: string, table: string): Markup {
  return markup`<a href="#${encodeURIComponent(idOf(source, table))}"><code>${table}</code></a>`;
}

/** The rows of a table; NONE if they are not counted. */
function rowsOf(counts: TableCounts | null, name: string): string {
  const count = counts !== null && Object.hasOwn(counts, name) ? counts[name] : undefined;
  return count === undefined ? NONE : countText(count);
}

function overview({ dictionary: { source, tables }, counts }: CountedDictionary): Markup {
  const rows = tables.map(({ name, kind, description, columns }) => [
    linkTo(source, name),
    kind,
    rowsOf(counts, name),
    columns.length,
    descriptionText(description),
  ]);
  const columns = ['Name', 'Kind', ['Rows', 'number'], ['Columns', 'number'], 'What it holds'] as const;
  const table = dataTable({ id: `${source}-tables`, label: `Tables of ${source}`, columns, rows });
  return markup`<h3>Tables and views</h3>${table}`;
}

function descriptionText(description: string | null): Markup | string {
  return description === null || description === '' ? '' : markup`<span class="text">${description}</span>`;
}

function freshness({ source, freshness: resources }: Dictionary, now: number): Markup | null {
  if (resources.length === 0) return null;
  const moment = (at: number | null) => (at === null ? 'never' : time(at, formatAge(at, now)));
  const rows = resources.map(({ resource, last_success_at, last_full_at }) => [
    resource,
    moment(last_success_at),
    moment(last_full_at),
  ]);
  const columns = ['Resource', 'Last success', 'Last full walk'];
  return markup`<h3>Freshness</h3>${dataTable({ id: `${source}-freshness`, label: `Freshness of ${source}`, columns, rows })}`;
}

function relations({ source, relations: all }: Dictionary): Markup | null {
  if (all.length === 0) return null;
  const rows = all.map(({ from, to }) => [
    markup`${linkTo(source, from.table)}<code>.${from.column}</code>`,
    markup`${linkTo(source, to.table)}<code>.${to.column}</code>`,
  ]);
  const columns = ['Column', 'References'];
  return markup`<h3>Relations</h3>${dataTable({ id: `${source}-relations`, label: `Relations of ${source}`, columns, rows })}`;
}

function tableSection(table: DictionaryTable, { dictionary: { source }, counts }: CountedDictionary): Markup {
  const { name, kind, description, columns } = table;
  const id = idOf(source, name);
  const rows = rowsOf(counts, name);
  const titles = ['Column', 'Type', 'Source', 'References', 'Since', 'Description'];
  const label = `Columns of ${name}`;
  const body = dataTable({ id: `${id}-columns`, label, columns: titles, rows: columns.map(columnCells) });
  // The live view of a table shows the same columns, so tables are folded.
  return markup`<details class="found" id="${id}"${kind === 'table' ? null : markup` open`}><summary><h4><code>${name}</code></h4> <span class="sub">${kind}${rows === NONE ? null : ` · ${rows} rows`}</span></summary>
<p class="text">${description}</p>${body}</details>`;
}

function columnCells(column: DictionaryColumn) {
  const { name, declared, source, references, first_seen, isKey, isPersonal, description } = column;
  return [
    markup`<code>${name}</code>${isKey && markup` <span class="sub">key</span>`}${isPersonal && markup` <span class="sub">personal</span>`}`,
    markup`<code>${declared}</code>`,
    source === null ? NONE : markup`<code class="path">${source}</code>`,
    references === null ? NONE : markup`<code>${references}</code>`,
    first_seen === null ? NONE : time(first_seen, new Date(first_seen).toISOString().slice(0, 10)),
    descriptionText(description),
  ];
}
