import { countText, NONE, agoText, countOf, momentText, durationText, bytesText } from '../../observe/figures.ts';
import { markup, type Markup, time } from './markup.ts';
import type { SourceStatus, RefusedStatus, StatusSnapshot } from '../../serve/status/snapshot.ts';
import { icon, tabIcon } from './icon.ts';
import { REFRESH_SCRIPT, RELOAD_SECONDS } from './refresh.ts';
import { resourceTable, runTable } from './resources.ts';
import { trafficPlots } from './traffic.ts';
import { attentionOf, headlineOf, type Attention } from '../../serve/status/attention.ts';
import { STYLESHEET } from './stylesheet.ts';
import { raw } from 'hono/html';

/** The status page as a whole HTML document; `nonce` is what its Content-Security-Policy allows. */
export function renderStatusPage(snapshot: StatusSnapshot, nonce: string): string {
  const found = attentionOf(snapshot);
  const headline = headlineOf(snapshot, found);
  const title = `${found.length === 0 ? '' : `(${found.length}) `}content-sync`;
  const picture = tabIcon(headline.tone);
  const page = markup`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">
<link rel="icon" href="${picture}">
<noscript><meta http-equiv="refresh" content="${RELOAD_SECONDS}"></noscript>
<style nonce="${nonce}">${raw(STYLESHEET)}</style></head>
<body><p id="lost" role="alert" hidden></p>
<main data-title="${title}" data-icon="${picture}">${pageHead(snapshot)}
<section class="summary ${headline.tone}" aria-labelledby="headline">${icon(headline.tone)}<h2 id="headline">${headline.text}</h2></section>
${found.length === 0 ? null : attentionList(found, snapshot.sources.length > 1)}
${snapshot.sources.map((source) => sourceSection(source, snapshot.at))}
${snapshot.refused.map(refusedSection)}
${pageFoot(snapshot)}</main>
<script nonce="${nonce}">${raw(REFRESH_SCRIPT)}</script></body></html>`;
  return page.toString();
}

function pageHead({ at, stopping }: StatusSnapshot): Markup {
  return markup`<header><h1>content-sync</h1>${stopping && markup`<b class="stopping">stopping</b>`}
<p>as of <time id="as-of" datetime="${new Date(at).toISOString()}">${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC</time></p></header>`;
}

function attentionList(found: readonly Attention[], namesSource: boolean): Markup {
  return markup`<ul class="attention" aria-label="What needs attention">${found.map(
    (one) =>
      markup`<li class="${one.severity}">${icon(one.severity)}<div>${nameOf(one, namesSource)} ${one.what}${
        one.next === null ? null : markup`<span class="hint"> → ${one.next}</span>`
      }${one.command === null ? null : markup`<code class="command">${one.command}</code>`}</div></li>`,
  )}</ul>`;
}

function nameOf({ source, resource }: Attention, namesSource: boolean): Markup | null {
  if (source === '') return null;
  const name = resource === null ? source : namesSource ? `${source} · ${resource}` : resource;
  return markup`<a href="#${encodeURIComponent(resource === null ? source : `${source}.${resource}`)}">${name}</a>`;
}

function sourceSection(source: SourceStatus, now: number): Markup {
  const { problem } = source.warehouse;
  return markup`<section class="source${problem === null ? '' : ' stale'}" id="${source.source}" aria-labelledby="${source.source}-title">
<div class="title"><h2 id="${source.source}-title">${source.source}</h2>
${factLine(source, now)}</div>
${
  problem &&
  markup`<p class="problem">${icon('down')}<span>The warehouse cannot be read: ${problem.message}
<code>${problem.code}</code>${problem.hint === null ? null : markup`<br><span class="hint">→ ${problem.hint}</span>`}</span></p>`
}
<h3 class="hidden">Resources</h3>${resourceTable(source, now)}
<h3 class="hidden">Last hour</h3>${trafficPlots(source, now)}
${sourceNotes(source, now)}
<details id="${source.source}-history" open><summary><h3>Last runs</h3></summary>${runTable(source, now)}</details></section>`;
}

/** A source that is not there, with every line that has to be corrected. */
function refusedSection({ source, problem }: RefusedStatus): Markup {
  const lines = problem.message.split('\n').map((line) => markup`<br><code>${line}</code>`);
  return markup`<section class="source stale" id="${source}" aria-labelledby="${source}-title">
<div class="title"><h2 id="${source}-title">${source}</h2></div>
<p class="problem">${icon('down')}<span>Its settings cannot be used:${lines}${
    problem.hint === null ? null : markup`<br><span class="hint">→ ${problem.hint}</span>`
  }</span></p></section>`;
}

function factLine({ base_url, api, warehouse }: SourceStatus, now: number): Markup {
  const { address, file_bytes, wal_bytes, read_at } = warehouse;
  const sizes = [
    ...(file_bytes === null ? [] : [bytesText(file_bytes)]),
    ...(wal_bytes === null || wal_bytes === 0 ? [] : [`WAL ${bytesText(wal_bytes)}`]),
  ];
  const read = read_at === null ? null : markup`<span>read ${time(read_at, momentText(read_at, now))}</span>`;
  return markup`<p class="facts"><span>${base_url}</span>${api.lifetime && markup`<span>${api.version}, ${lifetimeShort(api.lifetime)}</span>`}<span>${address}</span>
${sizes.length === 0 ? null : markup`<span>${sizes.join(' + ')}</span>`}${warehouse.problem && read}</p>`;
}

function lifetimeShort({ days_left, deprecated, about }: NonNullable<SourceStatus['api']['lifetime']>): string {
  if (days_left !== null) return days_left < 0 ? 'past its end' : `${countOf(days_left, 'day')} left`;
  return deprecated === null ? `about its end: ${about ?? 'nothing more'}` : 'deprecated';
}

function pageFoot({ version, at, started_at }: StatusSnapshot): Markup {
  return markup`<footer><p>content-sync ${version} · running for ${durationText((at - started_at) / 1_000)} · all times UTC</p>
<nav aria-label="Other pages, and the same for programs"><a href="tables">tables</a> <a href="status.json">status.json</a> <a href="metrics">metrics</a>
<a href="readyz">readyz</a></nav></footer>`;
}

/** Things that a person may want to look into, a box each; empty boxes are left out. */
function sourceNotes(source: SourceStatus, now: number): Markup | null {
  const notes = [heldDeletes(source, now), rejects(source, now), schemaChanges(source, now)].filter(
    (note) => note !== null,
  );
  return notes.length === 0 ? null : markup`<div class="notes">${notes}</div>`;
}

function box(id: string, title: string, content: Markup, isOpen: boolean): Markup {
  return markup`<details id="${id}"${isOpen ? markup` open` : null}><summary><h4>${title}</h4></summary>${content}</details>`;
}

function heldDeletes({ source, resources }: SourceStatus, now: number): Markup | null {
  const held = resources.filter(({ suspects }) => suspects.held > 0);
  if (held.length === 0) return null;
  const rows = held.map(({ resource, rows, suspects: { held, held_since, held_why } }) => {
    const of = rows === null ? null : ` of ${countText(rows.live)} live rows`;
    const since = held_since === null ? null : markup`, since ${time(held_since, momentText(held_since, now))}`;
    const name = `--source ${source} ${resource}`;
    return markup`<li><b>${resource}</b>: ${countText(held)}${of}${since}${held_why && markup`<br><span class="hint">${held_why}</span>`}
<pre><code>content-sync deletes list ${name}
content-sync deletes confirm ${name}   # they are gone
content-sync deletes discard ${name}   # they are not</code></pre></li>`;
  });
  const total = held.reduce((sum, { suspects }) => sum + suspects.held, 0);
  return box(`${source}-held`, `Held deletes: ${countText(total)}`, markup`<ul>${rows}</ul>`, true);
}

function rejects({ source, resources }: SourceStatus, now: number): Markup | null {
  const rows = resources.flatMap(({ resource, rejects }) => rejects.map((reject) => ({ resource, ...reject })));
  if (rows.length === 0) return null;
  const total = rows.reduce((sum, { count }) => sum + count, 0);
  const table = markup`<div class="wide" id="${source}-rejects-table" tabindex="0" role="region" aria-label="Records of ${source} set aside"><table>
<thead><tr><th scope="col">Resource</th><th scope="col">Reason</th><th scope="col" class="number">Records</th><th scope="col">Last seen</th><th scope="col">For example</th></tr></thead>
<tbody>${rows.map(
    ({ resource, reason, count, last_seen_at, example }) =>
      markup`<tr><td>${resource}</td><td><code>${reason}</code></td><td class="number">${countText(count)}</td><td>${
        last_seen_at === null ? NONE : time(last_seen_at, agoText(last_seen_at, now))
      }</td><td class="text">${example}</td></tr>`,
  )}</tbody></table></div>`;
  return box(`${source}-rejects`, `Set aside: ${countOf(total, 'record')}`, table, true);
}

function schemaChanges({ source, schema_changes: changes }: SourceStatus, now: number): Markup | null {
  const [newest] = changes;
  if (newest === undefined) return null;
  const table = markup`<div class="wide" id="${source}-schema-table" tabindex="0" role="region" aria-label="Schema changes of ${source}"><table>
<thead><tr><th scope="col">When</th><th scope="col">Column</th><th scope="col">Change</th></tr></thead>
<tbody>${changes.map(
    ({ changed_at, table, column, from, to }) =>
      markup`<tr><td>${time(changed_at, momentText(changed_at, now))}</td><td><code>${table}.${column}</code></td><td>${
        from === null ? markup`new, <code>${to}</code>` : markup`<code>${from}</code> → <code>${to}</code>`
      }</td></tr>`,
  )}</tbody></table></div>`;
  const title = `Last schema changes, the newest ${agoText(newest.changed_at, now)}`;
  return box(`${source}-schema`, title, table, false);
}
