// The overview page: a few sources in full, or one row for each of many.
import { formatCount, formatNumber, NONE } from '../../observe/format-values.ts';
import { findProblems, buildHeadline, type Attention } from '../status/attention.ts';
import type { SourceStatus, StatusSnapshot } from '../status/snapshot.ts';
import { columnHead, timeAs, markup, type Markup, type PageTone, stateWord } from './markup.ts';
import { renderInFrame, sectionView } from './page-frame.ts';
import { runResult } from './resources.ts';
import { attentionList, groupFindings, refusedSection, sourceSection, summary } from './source-section.ts';

/** Up to this many sources are shown in full. If there are more, each has a row here and a separate page. */
const MAX_FULL_SOURCES = 6;
/** With more sources, further findings are only shown in the rows. */
const MAX_FINDINGS = 8;

export function renderStatusPage(snapshot: StatusSnapshot, nonce: string): string {
  const found = findProblems(snapshot);
  const headline = buildHeadline(snapshot, found);
  const title = `${found.length === 0 ? '' : `(${found.length}) `}content-sync`;
  const count = snapshot.sources.length + snapshot.refused.length;
  const isFew = count <= MAX_FULL_SOURCES;
  const frame = { title, tone: headline.tone, source: null, snapshot };
  const content = markup`${summary(headline)}
${findingList(found, count, isFew)}
${isFew ? fewSources(snapshot) : sourceTable(snapshot, found)}`;
  return renderInFrame(frame, nonce, content);
}

function findingList(found: readonly Attention[], sources: number, isFew: boolean): Markup | null {
  if (found.length === 0) return null;
  const groups = groupFindings(found);
  const listed = (isFew ? groups : groups.slice(0, MAX_FINDINGS)).flat();
  const left = found.length - listed.length;
  const text = `and ${left} more: the table below shows the worst of each source`;
  const more = left === 0 ? null : markup`<li class="more"><div>${text}</div></li>`;
  return attentionList(listed, '', sources > 1, more);
}

function fewSources(snapshot: StatusSnapshot): Markup {
  const { sources, refused } = snapshot;
  if (sources.length + refused.length === 0)
    return markup`<section class="source"><p class="empty">There is no source. Add one under <code>sources</code> in the config, then restart this process.</p></section>`;
  const view = sectionView(snapshot, '');
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
    const findings = bySource.get(status.source) ?? [];
    const successes = status.resources.map(({ last_success_at }) => last_success_at ?? -Infinity);
    const freshAt = successes.length === 0 || successes.includes(-Infinity) ? null : Math.min(...successes);
    const tone = findings[0]?.severity ?? (freshAt === null ? 'quiet' : 'fine');
    return { source: status.source, status, tone, found: findings, freshAt };
  });
  const refusedRows = refused.map(({ source }): SourceRow => {
    return { source, status: null, tone: 'down', found: bySource.get(source) ?? [], freshAt: null };
  });
  // By the worst finding, then by the number of findings.
  const rankOf = ({ tone, found: all }: SourceRow): number => TONES.indexOf(tone) * 1_000 - Math.min(999, all.length);
  return [...rows, ...refusedRows].toSorted((a, b) => rankOf(a) - rankOf(b) || (a.source < b.source ? -1 : 1));
}

const COLUMNS = [
  ['State'],
  ['Source'],
  ['Fresh', '', 'the oldest success among its resources'],
  ['Now'],
  ['Live rows', 'number'],
  ['What'],
] as const;

function sourceTable(snapshot: StatusSnapshot, found: readonly Attention[]): Markup {
  const rows = sourceRows(snapshot, found).map((row) => sourceRow(row, snapshot.at));
  return markup`<section class="source" aria-labelledby="overview-title"><div class="title"><h2 id="overview-title">${formatCount(rows.length, 'source')}</h2></div>
<table class="sources"><thead><tr>${COLUMNS.map(columnHead)}</tr></thead><tbody>${rows}</tbody></table></section>`;
}

function sourceRow(row: SourceRow, now: number): Markup {
  const { source, tone, freshAt, status } = row;
  const rows = status?.resources.reduce((sum, resource) => sum + (resource.rows?.live ?? Number.NaN), 0) ?? Number.NaN;
  return markup`<tr><td>${stateWord(tone, TONE_WORDS[tone])}</td><th scope="row"><a href="sources/${encodeURIComponent(source)}">${source}</a></th><td>${freshAt === null ? NONE : timeAs('ago', freshAt, now)}</td><td>${activityWord(status, now)}</td><td class="number">${Number.isNaN(rows) ? NONE : formatNumber(rows)}</td>${whatCell(row)}</tr>`;
}

function activityWord(status: SourceStatus | null, now: number): string {
  if (status === null) return NONE;
  if (status.resources.some(({ running }) => running !== null)) return 'running';
  if (status.resources.some(({ paused }) => paused !== null)) return 'paused';
  const isWaiting = status.resources.some(({ parked_until: until }) => until !== null && until > now);
  return isWaiting ? 'waits' : 'idle';
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
  return markup`<td class="what quiet"><div>${last === undefined ? idle : runResult(last)}</div></td>`;
}
