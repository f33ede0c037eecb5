import { countOf, countText, NONE, formatPercent } from '../../observe/figures.ts';
import { attentionOf, headlineOf, type Attention } from '../status/attention.ts';
import type { ResourceStatus, SourceStatus, StatusSnapshot } from '../status/snapshot.ts';
import { reloadButton } from './controls.ts';
import { columnHead, timeAs, icon, markup, type Markup, type PageTone } from './markup.ts';
import { framed, sectionView, type PageView } from './page-frame.ts';
import { resultOf } from './resources.ts';
import { attentionList, groupFindings, refusedSection, sourceSection, summary } from './source-section.ts';

/** Up to this many sources are shown in full; of more, each has a row here and a page of its own. */
const MAX_FULL_SOURCES = 6;
/** With more sources, further findings are only shown in the rows. */
const MAX_FINDINGS = 8;
const MAX_ROWS = 250;
const MAX_SEARCH_LENGTH = 80;

/** Which of many sources are shown. */
interface SourceFilter {
  /** Part of the name of a source or resource; '' for all. */
  find: string;
  /** True for only those that need attention. */
  hasTrouble: boolean;
}

/** Renders the status page: a few sources in full, or a table of many, filtered by the query of its address. */
export function renderStatusPage(snapshot: StatusSnapshot, view: PageView, query = new URLSearchParams()): string {
  const found = attentionOf(snapshot);
  const headline = headlineOf(snapshot, found);
  const title = `${found.length === 0 ? '' : `(${found.length}) `}content-sync`;
  const count = snapshot.sources.length + snapshot.refused.length;
  const isFew = count <= MAX_FULL_SOURCES;
  const find = (query.get('find') ?? '').trim().slice(0, MAX_SEARCH_LENGTH);
  const filter = { find, hasTrouble: query.get('only') === 'trouble' };
  const frame = { title, tone: headline.tone, path: '', trail: [], snapshot };
  const content = markup`${summary(headline)}
${findingList(found, count, isFew)}
${reloadButton(view.may)}
${isFew ? fewSources(snapshot, view) : sourceTable(snapshot, found, filter)}`;
  return framed(frame, view, content);
}

function findingList(found: readonly Attention[], sources: number, isFew: boolean): Markup | null {
  if (found.length === 0) return null;
  const groups = groupFindings(found);
  const shown = (isFew ? groups : groups.slice(0, MAX_FINDINGS)).flat();
  const left = found.length - shown.length;
  const more =
    left === 0
      ? null
      : markup`<li class="more"><div>and ${left} more: the table below shows the worst of each source</div></li>`;
  return attentionList(shown, '', sources > 1, more);
}

function fewSources(snapshot: StatusSnapshot, page: PageView): Markup {
  const { sources, refused } = snapshot;
  if (sources.length + refused.length === 0)
    return markup`<section class="source"><p class="empty">There is no source. Add one under <code>sources</code> in the config, then reload it: <code>content-sync reload</code>.</p></section>`;
  const view = sectionView(snapshot, '', page);
  return markup`${sources.map((source) => sourceSection(source, view))}${refused.map(refusedSection)}`;
}

interface SourceRow {
  source: string;
  /** Null if its settings cannot be used. */
  status: SourceStatus | null;
  tone: PageTone;
  /** What needs attention, the worst first. */
  found: readonly Attention[];
  /** The oldest success among its resources; null if one of them has none. */
  freshAt: number | null;
}

/** The worst tone comes first. */
const TONE_WORDS: Readonly<Record<PageTone, string>> = {
  down: 'Broken',
  late: 'Late',
  look: 'Look',
  quiet: 'First copy',
  fine: 'Fresh',
};
const TONES = Object.keys(TONE_WORDS);

/** Returns the rows of all sources, the worst first. */
function sourceRows({ sources, refused }: StatusSnapshot, found: readonly Attention[]): SourceRow[] {
  const bySource = Map.groupBy(found, ({ source }) => source);
  const rows = sources.map((status): SourceRow => {
    const own = bySource.get(status.source) ?? [];
    const successes = status.resources.map(({ last_success_at }) => last_success_at ?? -Infinity);
    const freshAt = successes.length === 0 || successes.includes(-Infinity) ? null : Math.min(...successes);
    const tone = own[0]?.severity ?? (freshAt === null ? 'quiet' : 'fine');
    return { source: status.source, status, tone, found: own, freshAt };
  });
  const refusedRows = refused.map(({ source }): SourceRow => ({
    source,
    status: null,
    tone: 'down',
    found: bySource.get(source) ?? [],
    freshAt: null,
  }));
  return [...rows, ...refusedRows].toSorted((a, b) => rankOf(a) - rankOf(b) || (a.source < b.source ? -1 : 1));
}

function rankOf({ tone, found }: SourceRow): number {
  return TONES.indexOf(tone) * 1_000 - Math.min(999, found.length);
}

function matches({ source, status, found }: SourceRow, { find, hasTrouble }: SourceFilter): boolean {
  if (hasTrouble && found.length === 0) return false;
  const names = [source, ...(status?.resources.map(({ resource }) => resource) ?? [])];
  return names.some((name) => name.includes(find.toLowerCase()));
}

const COLUMNS: readonly (readonly [title: string, kind?: string, note?: string])[] = [
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

function sourceTable(snapshot: StatusSnapshot, found: readonly Attention[], filter: SourceFilter): Markup {
  const all = sourceRows(snapshot, found);
  const rows = all.filter((row) => matches(row, filter));
  const left = rows.length - MAX_ROWS;
  const more = left > 0 && markup`<p class="sub">and ${countText(left)} more: find them by their names</p>`;
  const none = markup`<tr><td class="empty" colspan="${COLUMNS.length}">No source matches. <a href="./">Show all</a></td></tr>`;
  const body = rows.length === 0 ? none : rows.slice(0, MAX_ROWS).map((row) => sourceRow(row, snapshot.at));
  return markup`<section class="source overview" aria-labelledby="overview-title"><div class="title"><h2 id="overview-title">Sources</h2>
${filterForm(filter, all.length, rows.length)}</div>
<table class="sources"><thead><tr>${COLUMNS.map(columnHead)}</tr></thead><tbody>${body}</tbody></table>${more}</section>`;
}

function filterForm({ find, hasTrouble }: SourceFilter, all: number, shown: number): Markup {
  return markup`<form class="choice" method="get" action="./" role="search">
<label for="find">Find <input id="find" type="search" name="find" value="${find}" maxlength="80" placeholder="name of a source or resource"></label>
<label for="only"><input id="only" type="checkbox" name="only" value="trouble"${hasTrouble && markup` checked`}> only what needs attention</label>
<button>Show</button><span class="sub">${shown === all ? countOf(all, 'source') : `${countText(shown)} of ${countOf(all, 'source')}`}</span></form>`;
}

function sourceRow(row: SourceRow, now: number): Markup {
  const { source, tone, freshAt, status } = row;
  const resources = status?.resources ?? [];
  const nextTimes = resources.map(({ schedule }) => schedule.next_at ?? Infinity);
  const next = Math.min(...nextTimes);
  const rowCounts = resources.map(({ rows }) => rows?.live ?? Number.NaN);
  const rows = status === null ? Number.NaN : rowCounts.reduce((sum, count) => sum + count, 0);
  const changes = status === null ? 0 : status.changes.by_webhook + status.changes.by_schedule;
  return markup`<tr><td><span class="state ${tone}">${icon(tone)}${TONE_WORDS[tone]}</span></td><th scope="row"><a href="sources/${encodeURIComponent(source)}">${source}</a></th><td>${freshAt === null ? NONE : timeAs('ago', freshAt, now)}</td><td>${activityCell(status, now)}</td><td>${next === Infinity ? NONE : timeAs('in', next, now)}</td><td class="number">${Number.isNaN(rows) ? NONE : countText(rows)}</td><td class="number">${countText(changes)}</td><td class="number">${countText(status?.limit.requests ?? 0)}</td>${whatCell(row)}</tr>`;
}

function activityCell(status: SourceStatus | null, now: number): Markup {
  if (status === null) return markup`<span class="quiet">${NONE}</span>`;
  const running = status.resources.flatMap((resource) => resource.running ?? []);
  const [first] = running;
  if (first !== undefined) {
    const { records, total, mode } = first;
    const done = total === null || total === 0 ? countText(records) : formatPercent(Math.min(1, records / total));
    const more = running.length === 1 ? null : ` +${running.length - 1}`;
    return markup`<b class="state run">${mode === 'full' ? 'Full' : 'Incremental'} ${done}${more}</b>`;
  }
  if (status.resources.some(({ paused }) => paused !== null)) return markup`<span class="state look">Paused</span>`;
  const waits = ({ parked_until: until }: ResourceStatus): boolean => until !== null && until > now;
  return status.resources.some(waits)
    ? markup`<span class="state look">Waits</span>`
    : markup`<span class="quiet">idle</span>`;
}

/** The worst finding, or the result of the last run. */
function whatCell({ found, status }: SourceRow): Markup {
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
