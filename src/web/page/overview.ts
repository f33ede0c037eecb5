import { countOf, countText, NONE, percentText } from '../../observe/figures.ts';
import type { Attention } from '../../serve/status/attention.ts';
import type { ResourceStatus, StatusSnapshot } from '../../serve/status/snapshot.ts';
import { icon, type Tone } from './icon.ts';
import { ago, markup, type Markup, until } from './markup.ts';
import { addressOf, type OverviewChoice, type Sort } from './overview-choice.ts';
import { resultOf } from './resources.ts';
import { chosenRows, sourceRows, type SourceRow } from './source-row.ts';
import { sparkline } from './sparkline.ts';

/** How a source stands, in a word. */
const WORDS: Readonly<Record<Tone, string>> = {
  down: 'Broken',
  late: 'Late',
  look: 'Look',
  quiet: 'First copy',
  fine: 'Fresh',
};

/** All sources at a glance, in the order of the settings: each keeps its place however it stands. */
export function sourceMap(snapshot: StatusSnapshot, found: readonly Attention[]): Markup {
  const tiles = sourceRows(snapshot, found).map(
    ({ source, tone }) =>
      markup`<a class="${tone}" href="${hrefOf(source)}" title="${source}: ${WORDS[tone]}">${icon(tone)}<span>${source}</span></a>`,
  );
  return markup`<nav class="map" aria-label="All sources">${tiles}</nav>`;
}

function hrefOf(source: string): string {
  return `sources/${encodeURIComponent(source)}`;
}

interface ColumnTitle {
  title: string;
  /** Null for one that it cannot be sorted by. */
  sort: Sort | null;
  kind?: string;
  note?: string;
}

const COLUMNS: readonly ColumnTitle[] = [
  { title: 'State', sort: 'state' },
  { title: 'Source', sort: 'name' },
  { title: 'Fresh', sort: 'fresh', note: 'the oldest success among its resources' },
  { title: 'Now', sort: null },
  { title: 'Next', sort: 'next' },
  { title: 'Live rows', sort: 'rows', kind: 'number' },
  { title: 'Changes', sort: 'changes', kind: 'number', note: 'of the last hour' },
  { title: 'Requests', sort: 'requests', kind: 'number', note: 'of the last hour' },
  { title: 'What', sort: null },
];

/** More than a person reads: a page stays small however many sources there are. */
const MOST_ROWS = 250;

/** A row for each of many sources, the worst first unless the reader wants it otherwise. */
export function overviewTable(snapshot: StatusSnapshot, found: readonly Attention[], choice: OverviewChoice): Markup {
  const all = sourceRows(snapshot, found);
  const rows = chosenRows(all, choice);
  const titles = COLUMNS.map((column) => columnTitle(column, choice));
  const shown = rows.slice(0, MOST_ROWS);
  const left = rows.length - shown.length;
  const more = left > 0 && markup`<p class="sub">and ${countText(left)} more: find them by their names</p>`;
  const none = markup`<tr><td class="empty" colspan="${COLUMNS.length}">No source is like that. <a href="./" data-here>Show all</a></td></tr>`;
  return markup`<section class="source overview" aria-labelledby="overview-title"><div class="title"><h2 id="overview-title">Sources</h2>
${choiceForm(choice, all.length, rows.length)}</div>
<table class="sources"><thead><tr>${titles}</tr></thead><tbody>${rows.length === 0 ? none : shown.map((row) => sourceRow(row, snapshot.at))}</tbody></table>${more}</section>`;
}

/** Works without a script as well. */
function choiceForm(choice: OverviewChoice, all: number, shown: number): Markup {
  const sort = `${choice.isReversed ? '-' : ''}${choice.sort}`;
  const checked = choice.trouble ? markup` checked` : null;
  return markup`<form class="choice" method="get" action="./" role="search"><input type="hidden" name="sort" value="${sort}">
<label for="find">Find <input id="find" type="search" name="find" value="${choice.find}" maxlength="80" placeholder="name of a source or resource"></label>
<label for="only"><input id="only" type="checkbox" name="only" value="trouble"${checked}> only what needs attention</label>
<noscript><button>Show</button></noscript><span class="sub">${shown === all ? countOf(all, 'source') : `${countText(shown)} of ${countOf(all, 'source')}`}</span></form>`;
}

function columnTitle({ title, sort, kind = '', note }: ColumnTitle, choice: OverviewChoice): Markup {
  if (sort === null) return markup`<th scope="col" class="${kind}">${title}</th>`;
  const isSorted = choice.sort === sort;
  const address = addressOf({ ...choice, sort, isReversed: isSorted && !choice.isReversed });
  const order = isSorted ? markup` aria-sort="${choice.isReversed ? 'descending' : 'ascending'}"` : null;
  return markup`<th scope="col" class="${kind}"${order}><a id="sort-${sort}" href="${address}" data-here${note === undefined ? null : markup` title="${note}"`}>${title}${isSorted && (choice.isReversed ? ' ↑' : ' ↓')}</a></th>`;
}

function sourceRow(row: SourceRow, now: number): Markup {
  const { source, status, tone, freshAt, nextAt, rows, changes, requests } = row;
  const spark = status === null ? null : sparkline(status.limit.minutes.map((minute) => minute.requests));
  return markup`<tr><td><span class="state ${tone}">${icon(tone)}${WORDS[tone]}</span></td><th scope="row"><a href="${hrefOf(source)}">${source}</a></th><td>${freshAt === null ? NONE : ago(freshAt, now)}</td><td>${nowOf(row, now)}</td><td>${nextAt === null ? NONE : until(nextAt, now)}</td><td class="number">${rows === null ? NONE : countText(rows)}</td><td class="number">${countText(changes)}</td><td class="number spark">${spark}${countText(requests)}</td>${whatOf(row)}</tr>`;
}

/** What goes on in a source. */
function nowOf({ running, status }: SourceRow, now: number): Markup {
  const [first] = running;
  if (first?.running) {
    const { records, total, mode } = first.running;
    const done = total === null || total === 0 ? null : percentText(Math.min(1, records / total));
    const more = running.length === 1 ? null : ` +${running.length - 1}`;
    return markup`<b class="state run">${mode === 'full' ? 'Full' : 'Incremental'} ${done ?? countText(records)}${more}</b>`;
  }
  const paused = status?.resources.filter((one) => one.paused !== null).length ?? 0;
  if (paused > 0) return markup`<span class="state look">Paused</span>`;
  const parked = status?.resources.find((one) => isParked(one, now));
  return parked === undefined
    ? markup`<span class="quiet">${status === null ? NONE : 'idle'}</span>`
    : markup`<span class="state look">Waits</span>`;
}

function isParked({ parked_until }: ResourceStatus, now: number): boolean {
  return parked_until !== null && parked_until > now;
}

/** The worst that is wrong, or what the last run did. */
function whatOf({ found, status }: SourceRow): Markup {
  const [worst] = found;
  if (worst !== undefined) {
    const about = worst.resource === null ? '' : `${worst.resource}: `;
    const more = found.length === 1 ? '' : ` (+${found.length - 1})`;
    return markup`<td class="what" title="${worst.next}"><div>${about}${worst.what}${more}</div></td>`;
  }
  const runs = status?.resources.flatMap(({ runs }) => runs.slice(0, 1)) ?? [];
  const last = runs.toSorted((a, b) => b.started_at - a.started_at)[0];
  const idle = status?.warehouse.read_at === null ? 'waiting to be opened' : 'no run yet';
  return markup`<td class="what quiet"><div>${last === undefined ? idle : resultOf(last)}</div></td>`;
}
