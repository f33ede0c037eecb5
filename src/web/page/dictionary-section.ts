import { formatColumnChange } from '../../model/schema-change.ts';
import { agoText, countOf, countText, momentText, NONE } from '../../observe/figures.ts';
import type { Dictionary, DictionaryColumn, DictionaryTable, RowCounts } from '../../serve/dictionary/dictionary.ts';
import { markup, type Markup, time } from './markup.ts';

interface Shown {
  dictionary: Dictionary;
  counts: RowCounts | null;
}

/** All of one source: tables, freshness, relations, queries, columns, schema log. A search hides what is not of `.found`. */
export function dictionarySection(shown: Shown, now: number): Markup {
  const { source, warehouse, tables } = shown.dictionary;
  return markup`<section class="source" id="${source}" aria-labelledby="${source}-title">
<div class="title"><h2 id="${source}-title">${source}</h2><p class="facts"><span>${warehouse}</span><span>${countOf(tables.length, 'table or view', 'tables and views')}</span></p></div>
${tables.length === 0 ? markup`<p class="empty">Nothing has been copied yet.</p>` : overview(shown)}
<div class="unsearched">${freshness(shown.dictionary, now)}
${relations(shown.dictionary)}
${examples(shown.dictionary)}</div>
${tables.length === 0 ? null : markup`<h3>Columns</h3>`}
${tables.map((table) => tableSection(table, shown))}
<div class="unsearched">${schemaLog(shown.dictionary, now)}</div></section>`;
}

/** Names hold letters and digits of any script, and `_`. */
function idOf(source: string, table: string): string {
  return `${source}-table-${table}`;
}

function linkTo(source: string, table: string): Markup {
  return markup`<a href="#${encodeURIComponent(idOf(source, table))}"><code>${table}</code></a>`;
}

type Cell = Markup | string | number;

/** Titles of numbers are followed by `#`. On a narrow screen each row is a block, and each cell follows its title. */
function tableOf(id: string, label: string, titles: readonly string[], rows: readonly (readonly Cell[])[]): Markup {
  const columns = titles.map((title) => [title.replace(/ #$/, ''), title.endsWith('#') ? 'number' : ''] as const);
  const head = columns.map(
    ([title, kind]) => markup`<th scope="col" role="columnheader" class="${kind}">${title}</th>`,
  );
  const cellOf = (cell: Cell, at: number): Markup => {
    const [title, kind] = columns[at] ?? ['', ''];
    if (at === 0) return markup`<th scope="row" role="rowheader">${cell}</th>`;
    const kinds = `${kind}${cell === NONE || cell === '' ? ' none' : ''}`;
    return markup`<td role="cell" class="${kinds}" data-title="${title}"><div>${cell}</div></td>`;
  };
  const body = rows.map((row) => markup`<tr role="row">${row.map(cellOf)}</tr>`);
  return markup`<div class="wide" id="${id}" tabindex="0" role="region" aria-label="${label}"><table role="table"><thead role="rowgroup"><tr role="row">${head}</tr></thead><tbody role="rowgroup">${body}</tbody></table></div>`;
}

/** The rows of a table; NONE if they are not counted. */
function rowsOf(counts: RowCounts | null, name: string): string {
  const count = counts !== null && Object.hasOwn(counts, name) ? counts[name] : undefined;
  return count === undefined ? NONE : countText(count);
}

function overview({ dictionary: { source, tables }, counts }: Shown): Markup {
  const rows = tables.map(({ name, kind, description, columns }) => [
    linkTo(source, name),
    kind,
    rowsOf(counts, name),
    columns.length,
    textOf(description),
  ]);
  const titles = ['Name', 'Kind', 'Rows #', 'Columns #', 'What it holds'];
  return markup`<h3>Tables and views</h3>${tableOf(`${source}-tables`, `Tables of ${source}`, titles, rows)}`;
}

function textOf(description: string | null): Cell {
  return description === null || description === '' ? '' : markup`<span class="text">${description}</span>`;
}

function freshness({ source, freshness: resources }: Dictionary, now: number): Markup | null {
  if (resources.length === 0) return null;
  const moment = (at: number | null): Cell => (at === null ? 'never' : time(at, agoText(at, now)));
  const rows = resources.map(({ resource, last_success_at, last_full_at }) => [
    resource,
    moment(last_success_at),
    moment(last_full_at),
  ]);
  const titles = ['Resource', 'Last success', 'Last full walk'];
  return markup`<h3>Freshness</h3>${tableOf(`${source}-freshness`, `Freshness of ${source}`, titles, rows)}`;
}

function relations({ source, relations: all }: Dictionary): Markup | null {
  if (all.length === 0) return null;
  const rows = all.map(({ from, to }) => [
    markup`${linkTo(source, from.table)}<code>.${from.column}</code>`,
    markup`${linkTo(source, to.table)}<code>.${to.column}</code>`,
  ]);
  const titles = ['Column', 'References'];
  return markup`<h3>Relations</h3>${tableOf(`${source}-relations`, `Relations of ${source}`, titles, rows)}`;
}

function examples({ source, examples: queries }: Dictionary): Markup | null {
  if (queries.length === 0) return null;
  const shown = queries.map(
    ({ title, sql }, at) =>
      markup`<div class="query"><h4>${title}</h4><pre id="${source}-query-${at}" tabindex="0"><code>${lines(sql)}</code></pre></div>`,
  );
  return markup`<h3>Queries to begin with</h3>${shown}`;
}

/** What is put into markup stands on one line: a line break would be made visible. */
function lines(text: string): Markup[] {
  return text.split('\n').map((line, at) => (at === 0 ? markup`${line}` : markup`\n${line}`));
}

function tableSection(table: DictionaryTable, { dictionary: { source }, counts }: Shown): Markup {
  const { name, kind, description, columns } = table;
  const id = idOf(source, name);
  const rows = rowsOf(counts, name);
  const titles = ['Column', 'Type', 'Source', 'References', 'Since', 'Description'];
  const body = tableOf(`${id}-columns`, `Columns of ${name}`, titles, columns.map(columnCells));
  // What a copied table holds, its live view shows too.
  return markup`<details class="found" id="${id}"${kind === 'table' ? null : markup` open`}><summary><h4><code>${name}</code></h4> <span class="sub">${kind}${rows === NONE ? null : ` · ${rows} rows`}</span></summary>
<p class="text">${description}</p>${body}</details>`;
}

function columnCells(column: DictionaryColumn): Cell[] {
  const { name, declared, source, references, first_seen, isKey, isPersonal, description } = column;
  return [
    markup`<code>${name}</code>${isKey && markup` <span class="sub">key</span>`}${isPersonal && markup` <span class="sub">personal</span>`}`,
    markup`<code>${declared}</code>`,
    source === null ? NONE : markup`<code class="path">${source}</code>`,
    references === null ? NONE : markup`<code>${references}</code>`,
    first_seen === null ? NONE : time(first_seen, new Date(first_seen).toISOString().slice(0, 10)),
    textOf(description),
  ];
}

/** A longer one is folded in. */
const LONG_LOG = 40;

function schemaLog({ source, schema_log: changes }: Dictionary, now: number): Markup | null {
  const [newest] = changes;
  if (newest === undefined) return null;
  const rows = changes.map(({ changed_at, table, column, ...change }) => [
    time(changed_at, momentText(changed_at, now)),
    markup`<code>${table}.${column}</code>`,
    textOf(formatColumnChange(change)),
  ]);
  const table = tableOf(`${source}-log`, `Schema log of ${source}`, ['When', 'Column', 'Change'], rows);
  return markup`<details id="${source}-schema-log"${changes.length > LONG_LOG ? null : markup` open`}><summary><h3>Schema log</h3> <span class="sub">${countOf(changes.length, 'change')}, the newest ${agoText(newest.changed_at, now)}</span></summary>${table}</details>`;
}
