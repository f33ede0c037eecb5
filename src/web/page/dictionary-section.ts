import { formatColumnChange } from '../../model/schema-change.ts';
import { agoText, countOf, countText, momentText, NONE } from '../../observe/figures.ts';
import type { Dictionary, DictionaryColumn, DictionaryTable, RowCounts } from '../../serve/dictionary/dictionary.ts';
import { erDiagram } from './er-diagram.ts';
import { markup, type Markup, time } from './markup.ts';

interface Shown {
  dictionary: Dictionary;
  counts: RowCounts | null;
}

/** All of one source: freshness, tables, diagram, queries, columns, schema log. */
export function dictionarySection(shown: Shown, now: number): Markup {
  const { source, warehouse, tables } = shown.dictionary;
  return markup`<section class="source" id="${source}" aria-labelledby="${source}-title">
<div class="title"><h2 id="${source}-title">${source}</h2><p class="facts"><span>${warehouse}</span><span>${countOf(tables.length, 'table or view', 'tables and views')}</span></p></div>
${tables.length === 0 ? markup`<p class="empty">Nothing has been copied yet.</p>` : overview(shown)}
${freshness(shown.dictionary, now)}
${relations(shown.dictionary)}
${examples(shown.dictionary)}
${tables.length === 0 ? null : markup`<h3>Columns</h3>`}
${tables.map((table) => tableSection(table, shown))}
${schemaLog(shown.dictionary, now)}</section>`;
}

/** Names hold letters and digits of any script, and `_`. */
function idOf(source: string, table: string): string {
  return `${source}-table-${table}`;
}

function hrefOf(source: string, table: string): string {
  return `#${encodeURIComponent(idOf(source, table))}`;
}

function wide(id: string, label: string, table: Markup): Markup {
  return markup`<div class="wide" id="${id}" tabindex="0" role="region" aria-label="${label}"><table>${table}</table></div>`;
}

/** The rows of a table; NONE if they are not counted. */
function rowsOf(counts: RowCounts | null, name: string): string {
  const count = counts !== null && Object.hasOwn(counts, name) ? counts[name] : undefined;
  return count === undefined ? NONE : countText(count);
}

function overview({ dictionary: { source, tables }, counts }: Shown): Markup {
  const rows = tables.map(
    ({ name, kind, description, columns }) =>
      markup`<tr><th scope="row"><a href="${hrefOf(source, name)}"><code>${name}</code></a></th><td>${kind}</td><td class="number">${rowsOf(counts, name)}</td><td class="number">${columns.length}</td><td class="text">${description}</td></tr>`,
  );
  const head = markup`<thead><tr><th scope="col">Name</th><th scope="col">Kind</th><th scope="col" class="number">Rows</th><th scope="col" class="number">Columns</th><th scope="col">What it holds</th></tr></thead>`;
  const table = wide(`${source}-tables`, `Tables of ${source}`, markup`${head}<tbody>${rows}</tbody>`);
  return markup`<h3>Tables and views</h3>${table}`;
}

function freshness({ source, freshness: resources }: Dictionary, now: number): Markup | null {
  if (resources.length === 0) return null;
  const moment = (at: number | null): Markup | string => (at === null ? 'never' : time(at, agoText(at, now)));
  const rows = resources.map(
    ({ resource, last_success_at, last_full_at }) =>
      markup`<tr><th scope="row">${resource}</th><td>${moment(last_success_at)}</td><td>${moment(last_full_at)}</td></tr>`,
  );
  const head = markup`<thead><tr><th scope="col">Resource</th><th scope="col">Last success</th><th scope="col">Last full walk</th></tr></thead>`;
  const table = wide(`${source}-freshness`, `Freshness of ${source}`, markup`${head}<tbody>${rows}</tbody>`);
  return markup`<h3>Freshness</h3>${table}`;
}

function relations(dictionary: Dictionary): Markup | null {
  const diagram = erDiagram(dictionary, (table) => hrefOf(dictionary.source, table));
  return diagram && markup`<h3>Relations</h3>${diagram}`;
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
  const head = markup`<thead><tr><th scope="col">Column</th><th scope="col">Type</th><th scope="col">Source</th><th scope="col">References</th><th scope="col">Since</th><th scope="col">Description</th></tr></thead>`;
  const body = wide(
    `${id}-columns`,
    `Columns of ${name}`,
    markup`${head}<tbody>${columns.map((column) => columnRow(column))}</tbody>`,
  );
  // What a copied table holds, its live view shows too.
  return markup`<details id="${id}"${kind === 'table' ? null : markup` open`}><summary><h4><code>${name}</code></h4> <span class="sub">${kind}${rows === NONE ? null : ` · ${rows} rows`}</span></summary>
<p class="text">${description}</p>${body}</details>`;
}

function columnRow({
  name,
  declared,
  source,
  references,
  first_seen,
  isKey,
  isPersonal,
  description,
}: DictionaryColumn): Markup {
  const since = first_seen === null ? NONE : time(first_seen, new Date(first_seen).toISOString().slice(0, 10));
  return markup`<tr><th scope="row"><code>${name}</code>${isKey && markup` <span class="sub">key</span>`}${isPersonal && markup` <span class="sub">personal</span>`}</th><td><code>${declared}</code></td><td>${
    source === null ? NONE : markup`<code class="path">${source}</code>`
  }</td><td>${references === null ? NONE : markup`<code>${references}</code>`}</td><td>${since}</td><td class="text">${description}</td></tr>`;
}

/** A longer one is folded in. */
const LONG_LOG = 40;

function schemaLog({ source, schema_log: changes }: Dictionary, now: number): Markup | null {
  const [newest] = changes;
  if (newest === undefined) return null;
  const rows = changes.map(
    ({ changed_at, table, column, ...change }) =>
      markup`<tr><td>${time(changed_at, momentText(changed_at, now))}</td><td><code>${table}.${column}</code></td><td>${formatColumnChange(change)}</td></tr>`,
  );
  const head = markup`<thead><tr><th scope="col">When</th><th scope="col">Column</th><th scope="col">Change</th></tr></thead>`;
  const table = wide(`${source}-log`, `Schema log of ${source}`, markup`${head}<tbody>${rows}</tbody>`);
  return markup`<details id="${source}-schema-log"${changes.length > LONG_LOG ? null : markup` open`}><summary><h3>Schema log</h3> <span class="sub">${countOf(changes.length, 'change')}, the newest ${agoText(newest.changed_at, now)}</span></summary>${table}</details>`;
}
