import { countOf, countText, NONE, percentText } from '../../observe/figures.ts';
import { attentionOf, headlineOf, type Attention, type Headline } from '../status/attention.ts';
import type { RefusedStatus, ResourceStatus, SourceStatus, StatusSnapshot } from '../status/snapshot.ts';
import { reloadButton } from './controls.ts';
import { ago, icon, markup, until, type Markup, type Tone } from './markup.ts';
import { framed, sectionView, type PageView } from './page-frame.ts';
import { resultOf } from './resources.ts';
import { attentionList, groupFindings, refusedSection, sourceSection, summary } from './source-section.ts';

/** So many sources are shown with all that is known of them; of more, each has a row, and a page of its own. */
const FEW_SOURCES = 6;
/** What needs attention of many sources at once stands in their rows. */
const MOST_FINDINGS = 8;

/** What a reader wants to see of many sources. */
interface OverviewChoice {
  /** Only sources whose name, or that of a resource, holds it; '' for all. */
  find: string;
  /** Only sources that need attention. */
  trouble: boolean;
}

const LONGEST_NAME = 80;

/** Reads the query of the page's address; whatever it does not know counts as not there. */
function choiceOf(asked: URLSearchParams): OverviewChoice {
  const find = (asked.get('find') ?? '').trim().slice(0, LONGEST_NAME);
  return { find, trouble: asked.get('only') === 'trouble' };
}

/**
 * The status page as a whole HTML document: all that is known of a few sources, or a table of many as the `query` wants
 * to see them.
 */
export function renderStatusPage(snapshot: StatusSnapshot, view: PageView, query = new URLSearchParams()): string {
  const found = attentionOf(snapshot);
  const headline: Headline = headlineOf(snapshot, found);
  const title = `${found.length === 0 ? '' : `(${found.length}) `}content-sync`;
  const count = snapshot.sources.length + snapshot.refused.length;
  const isFew = count <= FEW_SOURCES;
  const frame = { title, tone: headline.tone, path: '', trail: [], snapshot };
  const rows = isFew ? [] : sourceRows(snapshot, found);
  const content = markup`${summary(headline)}
${shownFindings(found, count, isFew)}
${reloadButton(view.token !== null)}
${isFew ? fewSources(snapshot, view) : overviewTable(rows, snapshot.at, choiceOf(query))}`;
  return framed(frame, view, content);
}

function shownFindings(found: readonly Attention[], sources: number, isFew: boolean): Markup | null {
  if (found.length === 0) return null;
  const groups = groupFindings(found);
  const shown = (isFew ? groups : groups.slice(0, MOST_FINDINGS)).flat();
  const left = found.length - shown.length;
  const more =
    left === 0
      ? null
      : markup`<li class="more"><div>and ${left} more: each source's worst stands in the table below</div></li>`;
  return attentionList(shown, '', sources > 1, more);
}

function fewSources(snapshot: StatusSnapshot, page: PageView): Markup[] {
  const view = sectionView(snapshot, '', page);
  if (snapshot.sources.length + snapshot.refused.length === 0) {
    return [
      markup`<section class="source"><p class="empty">No source is kept. Put one under <code>sources</code> in the config, and have it read again: <code>content-sync reload</code>.</p></section>`,
    ];
  }
  return [...snapshot.sources.map((source) => sourceSection(source, view)), ...snapshot.refused.map(refusedSection)];
}

/** A source in one row of many. */
interface SourceRow {
  source: string;
  /** Null if its settings cannot be used. */
  status: SourceStatus | null;
  tone: Tone;
  /** What needs attention, the worst first. */
  found: readonly Attention[];
  /** The oldest success among its resources; null if one of them has none. */
  freshAt: number | null;
  nextAt: number | null;
  /** Null until all were counted. */
  rows: number | null;
  changes: number;
  requests: number;
  running: readonly ResourceStatus[];
}

/** All sources, in the order of the settings. */
function sourceRows({ sources, refused }: StatusSnapshot, found: readonly Attention[]): SourceRow[] {
  const bySource = Map.groupBy(found, ({ source }) => source);
  return [
    ...sources.map((status) => rowOf(status, bySource.get(status.source) ?? [])),
    ...refused.map((one) => refusedRow(one, bySource.get(one.source) ?? [])),
  ];
}

function rowOf(status: SourceStatus, found: readonly Attention[]): SourceRow {
  const { resources, changes, limit } = status;
  const successes = resources.map(({ last_success_at }) => last_success_at);
  const isKnown = resources.length > 0 && !successes.includes(null);
  const freshAt = isKnown ? Math.min(...successes.filter((at) => at !== null)) : null;
  const nexts = resources.map(({ schedule }) => schedule.next_at).filter((at) => at !== null);
  const counts = resources.map(({ rows }) => rows?.live ?? null);
  return {
    source: status.source,
    status,
    found,
    tone: found[0]?.severity ?? (freshAt === null ? 'quiet' : 'fine'),
    freshAt,
    nextAt: nexts.length === 0 ? null : Math.min(...nexts),
    rows: counts.includes(null) ? null : counts.reduce<number>((sum, count) => sum + (count ?? 0), 0),
    changes: changes.by_webhook + changes.by_schedule,
    requests: limit.requests,
    running: resources.filter(({ running }) => running !== null),
  };
}

function refusedRow({ source }: RefusedStatus, found: readonly Attention[]): SourceRow {
  const nothing = { freshAt: null, nextAt: null, rows: null, changes: 0, requests: 0, running: [] };
  return { source, status: null, tone: 'down', found, ...nothing };
}

/** How a source stands, in a word; the worst first. */
const WORDS: Readonly<Record<Tone, string>> = {
  down: 'Broken',
  late: 'Late',
  look: 'Look',
  quiet: 'First copy',
  fine: 'Fresh',
};
const TONES = Object.keys(WORDS);

type ColumnTitle = readonly [title: string, kind?: string, note?: string];

const COLUMNS: readonly ColumnTitle[] = [
  ['State'],
  ['Source'],
  ['Fresh', '', 'the oldest success among its resources'],
  ['Now'],
  ['Next'],
  ['Live rows', 'number'],
  ['Changes', 'number', 'of the last hour'],
  ['Requests', 'number', 'of the last hour'],
  ['What'],
];

/** Those that the reader wants to see, the worst first. */
function chosenRows(rows: readonly SourceRow[], { find, trouble }: OverviewChoice): SourceRow[] {
  const wanted = find.toLowerCase();
  return rows
    .filter((row) => (!trouble || row.found.length > 0) && isFound(row, wanted))
    .toSorted((a, b) => rankOf(a) - rankOf(b) || (a.source < b.source ? -1 : 1));
}

function rankOf({ tone, found }: SourceRow): number {
  return TONES.indexOf(tone) * 1_000 - Math.min(999, found.length);
}

function isFound({ source, status }: SourceRow, wanted: string): boolean {
  if (wanted === '' || source.includes(wanted)) return true;
  return status?.resources.some(({ resource }) => resource.includes(wanted)) ?? false;
}

function hrefOf(source: string): string {
  return `sources/${encodeURIComponent(source)}`;
}

/** More than a person reads: a page stays small however many sources there are. */
const MOST_ROWS = 250;

/** A row for each of many sources. */
function overviewTable(all: readonly SourceRow[], now: number, choice: OverviewChoice): Markup {
  const rows = chosenRows(all, choice);
  const titles = COLUMNS.map(columnTitle);
  const shown = rows.slice(0, MOST_ROWS);
  const left = rows.length - shown.length;
  const more = left > 0 && markup`<p class="sub">and ${countText(left)} more: find them by their names</p>`;
  const none = markup`<tr><td class="empty" colspan="${COLUMNS.length}">No source is like that. <a href="./" data-here>Show all</a></td></tr>`;
  return markup`<section class="source overview" aria-labelledby="overview-title"><div class="title"><h2 id="overview-title">Sources</h2>
${choiceForm(choice, all.length, rows.length)}</div>
<table class="sources"><thead><tr>${titles}</tr></thead><tbody>${rows.length === 0 ? none : shown.map((row) => sourceRow(row, now))}</tbody></table>${more}</section>`;
}

/** Works without a script as well. */
function choiceForm(choice: OverviewChoice, all: number, shown: number): Markup {
  const checked = choice.trouble ? markup` checked` : null;
  return markup`<form class="choice" method="get" action="./" role="search">
<label for="find">Find <input id="find" type="search" name="find" value="${choice.find}" maxlength="80" placeholder="name of a source or resource"></label>
<label for="only"><input id="only" type="checkbox" name="only" value="trouble"${checked}> only what needs attention</label>
<noscript><button>Show</button></noscript><span class="sub">${shown === all ? countOf(all, 'source') : `${countText(shown)} of ${countOf(all, 'source')}`}</span></form>`;
}

function columnTitle([title, kind = '', note]: ColumnTitle): Markup {
  return markup`<th scope="col" class="${kind}"${note === undefined ? null : markup` title="${note}"`}>${title}</th>`;
}

function sourceRow(row: SourceRow, now: number): Markup {
  const { source, tone, freshAt, nextAt, rows, changes, requests } = row;
  return markup`<tr><td><span class="state ${tone}">${icon(tone)}${WORDS[tone]}</span></td><th scope="row"><a href="${hrefOf(source)}">${source}</a></th><td>${freshAt === null ? NONE : ago(freshAt, now)}</td><td>${nowOf(row, now)}</td><td>${nextAt === null ? NONE : until(nextAt, now)}</td><td class="number">${rows === null ? NONE : countText(rows)}</td><td class="number">${countText(changes)}</td><td class="number">${countText(requests)}</td>${whatOf(row)}</tr>`;
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
  const resources = status?.resources ?? [];
  if (resources.some(({ paused }) => paused !== null)) return markup`<span class="state look">Paused</span>`;
  return resources.some(({ parked_until: parked }) => parked !== null && parked > now)
    ? markup`<span class="state look">Waits</span>`
    : markup`<span class="quiet">${status === null ? NONE : 'idle'}</span>`;
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
