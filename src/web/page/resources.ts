import { countText, durationText, NONE, percentText, rateText, countOf, tookText } from '../../observe/figures.ts';
import { ago, lasting, markup, type Markup, moment, until } from './markup.ts';
import type { SectionView } from './page-frame.ts';
import type { PastRun, SourceStatus, ResourceStatus, RunningStatus } from '../../serve/status/snapshot.ts';
import { icon, type Tone } from './icon.ts';
import { isOverdue } from '../../serve/status/attention.ts';

const COLUMNS: readonly (readonly [title: string, kind: '' | 'number', note?: string])[] = [
  ['Resource', ''],
  ['Freshness', ''],
  ['Now', ''],
  ['Next run', ''],
  ['Live rows', 'number'],
  ['Deleted', 'number'],
  ['Set aside', 'number', 'records that could not become rows'],
  ['Last run', ''],
];

/** How each resource of a source stands, a row each. */
export function resourceTable(status: SourceStatus, view: SectionView, shown = status.resources): Markup {
  const { source } = status;
  return markup`<div class="wide" id="${source}-resources" tabindex="0" role="region" aria-label="Resources of ${source}">
<table class="resources" role="table"><thead role="rowgroup"><tr role="row">${COLUMNS.map(
    ([title, kind, note]) =>
      markup`<th scope="col" role="columnheader" class="${kind}"${note === undefined ? null : markup` title="${note}"`}>${title}</th>`,
  )}</tr></thead>
<tbody role="rowgroup">${shown.map((resource) => row(resource, status, view))}</tbody></table></div>`;
}

function row(status: ResourceStatus, source: SourceStatus, { now, root }: SectionView): Markup {
  const { resource, rows, rejects } = status;
  const href = `${root}sources/${encodeURIComponent(source.source)}/${encodeURIComponent(resource)}`;
  const name = root === '../../' ? resource : markup`<a href="${href}">${resource}</a>`;
  const aside = rejects.reduce((sum, reject) => sum + reject.count, 0);
  const cells: Markup[] = [
    freshness(status, now),
    activity(status, now),
    nextRun(status, now),
    rows === null ? markup`<span class="quiet">counting…</span>` : markup`${countText(rows.live)}`,
    markup`${rows === null ? NONE : countText(rows.deleted)}`,
    markup`${countText(aside)}`,
    lastRun(status.runs, `${root}sources/${encodeURIComponent(source.source)}/runs`, now),
  ];
  return markup`<tr role="row" id="${source.source}.${resource}"><th scope="row" role="rowheader">${name}</th>${cells.map(
    (cell, at) => {
      const [title, kind] = COLUMNS[at + 1] ?? ['', ''];
      return markup`<td role="cell" class="${kind}" data-title="${title}"><div>${cell}</div></td>`;
    },
  )}</tr>`;
}

function freshness(status: ResourceStatus, now: number): Markup {
  const { last_success_at: last, running } = status;
  const [tone, word] = freshnessWord(status, now);
  const age = last === null ? (running === null ? 'never synced' : 'under way') : ago(last, now);
  return markup`<span class="state ${tone}">${icon(tone)}${word}</span> <span class="sub">${age}</span>`;
}

function freshnessWord(status: ResourceStatus, now: number): [Tone, string] {
  if (isOverdue(status, now)) return ['late', 'Overdue'];
  if (status.last_success_at !== null) return ['fine', 'Fresh'];
  return ['quiet', status.running === null ? 'Empty' : 'First copy'];
}

function activity(status: ResourceStatus, now: number): Markup {
  const { running, parked_until, owner, unfinished, paused, runs } = status;
  if (running !== null) return progress(running, now);
  if (paused !== null) {
    return markup`<span class="state look">${icon('look')}Paused</span> <span class="sub">by ${paused.by}, ${ago(paused.since, now)}</span>`;
  }
  if (owner !== null)
    return markup`<span class="state look">${icon('look')}Elsewhere</span> <span class="sub">${owner.name}</span>`;
  if (parked_until !== null && parked_until > now) {
    return markup`<span class="state look">${icon('look')}Waits</span> <span class="sub">service asked; ${until(parked_until, now)}</span>`;
  }
  const last = runs[0]?.status;
  const walk =
    unfinished &&
    markup` <span class="sub">${unfinished.mode} walk stopped at page ${countText(unfinished.pages)}</span>`;
  if (last === 'failed') return markup`<span class="state late">${icon('late')}Failed</span>${walk}`;
  return markup`<span class="quiet">idle</span>${walk}`;
}

function progress(
  { mode, pages, records, total, records_per_second: rate, eta_seconds: eta, started_at }: RunningStatus,
  now: number,
): Markup {
  const done = total === null || total === 0 ? null : Math.min(1, records / total);
  const left = eta === null ? markup`for ${lasting(started_at, now)}` : `${durationText(eta)} left`;
  const read = total === null ? countOf(records, 'record') : `${countText(records)} of ${countText(total)}`;
  const title = `${mode} walk, ${countOf(pages, 'page')}`;
  return markup`<span class="state run" title="${title}"><b>${mode === 'full' ? 'Full walk' : 'Incremental'}</b>${done === null ? null : ` ${percentText(done)}`}</span>
${done === null ? null : bar(done, title)}<span class="sub">${read} · ${rateText(rate)}/s · ${left}</span>`;
}

function bar(done: number, title: string): Markup {
  return markup`<svg class="progress" viewBox="0 0 100 4" preserveAspectRatio="none" role="progressbar"
 aria-label="${title}" aria-valuemin="0" aria-valuemax="100" aria-valuenow="${Math.round(done * 100)}">
<rect class="track" width="100" height="4"/><rect class="done" width="${Math.round(done * 1_000) / 10}" height="4"/></svg>`;
}

function nextRun({ schedule, running }: ResourceStatus, now: number): Markup {
  const { incremental, full, next_at, timezone } = schedule;
  if (incremental === null && full === null) return markup`<span class="quiet">no schedule</span>`;
  const crons = [incremental, full].filter((cron) => cron !== null).join(' and ');
  const isNext = next_at !== null && (running === null || next_at > now);
  const shown = isNext ? until(next_at, now) : running === null ? NONE : 'after this one';
  return markup`${shown}
<span class="sub" title="cron, ${timezone}"><code>${incremental ?? full}</code></span><span class="hidden">(${crons}, ${timezone})</span>`;
}

const STATUS_TONES: Readonly<Record<PastRun['status'], Tone>> = {
  ok: 'fine',
  partial: 'look',
  failed: 'late',
  deferred: 'look',
  interrupted: 'quiet',
  running: 'quiet',
};

/** A run's status as a picture and a word. */
export function runStatus(status: PastRun['status']): Markup {
  const tone = STATUS_TONES[status];
  return markup`<span class="state ${tone}">${icon(tone)}${status}</span>`;
}

function lastRun(runs: readonly PastRun[], runsHref: string, now: number): Markup {
  const run = runs.find(({ status }) => status !== 'running');
  if (run === undefined) return markup`<span class="quiet">none yet</span>`;
  const when = markup`<a href="${runsHref}/${run.run_id}">${moment(run.started_at, now)}</a>`;
  const took = run.seconds === null ? null : `, ${tookText(run.seconds)}`;
  return markup`${runStatus(run.status)} <span class="when">${when}${took}</span> <span class="sub">${resultOf(run)}</span>`;
}

/** Describes what a run did, or why it did not. */
export function resultOf({ error, inserted, updated, deleted }: PastRun): Markup {
  if (error !== null) return markup`<code>${error.code}</code>`;
  const changes = [
    [inserted, 'new'],
    [updated, 'changed'],
    [deleted, 'deleted'],
  ] as const;
  const told = changes.filter(([count]) => count > 0).map(([count, word]) => `${countText(count)} ${word}`);
  return markup`${told.length === 0 ? 'no change' : told.join(' · ')}`;
}

/** Runs that a source's table shows. */
const MOST_RUNS = 12;

export interface NamedRun extends PastRun {
  resource: string;
}

type Figure = Extract<{ [K in keyof PastRun]: PastRun[K] extends number ? K : never }[keyof PastRun], string>;

const FIGURES: readonly (readonly [title: string, figure: Figure])[] = [
  ['Pages', 'pages'],
  ['New', 'inserted'],
  ['Changed', 'updated'],
  ['Unchanged', 'unchanged'],
  ['Deleted', 'deleted'],
  ['Held', 'held'],
  ['Set aside', 'rejected'],
  ['Requests', 'requests'],
  ['429', 'limited'],
];

/** The latest runs of all resources of a source, as the overview shows them. */
export function runTable({ source, resources }: SourceStatus, view: SectionView): Markup {
  const runs = resources
    .flatMap(({ resource, runs }) => runs.map((run): NamedRun => ({ ...run, resource })))
    .toSorted((a, b) => b.started_at - a.started_at);
  return runsTable(source, runs.slice(0, MOST_RUNS), view);
}

/** Runs, the newest first, each with what it did and why it failed. */
export function runsTable(source: string, runs: readonly NamedRun[], { now, root }: SectionView): Markup {
  if (runs.length === 0) return markup`<p class="empty">No run yet: the schedule starts the first one by itself.</p>`;
  return markup`<div class="wide" id="${source}-runs" tabindex="0" role="region" aria-label="Last runs of ${source}">
<table class="runs">
<thead><tr><th scope="col">Started</th><th scope="col">Resource</th><th scope="col">Mode</th><th scope="col">Status</th>
<th scope="col" class="number">Took</th>
${FIGURES.map(([title]) => markup`<th scope="col" class="number">${title}</th>`)}</tr></thead>
<tbody>${runs.map((run, at) => [runRow(run, `${root}sources/${encodeURIComponent(source)}/runs/${run.run_id}`, now), errorRow(run, runs.slice(0, at))])}</tbody></table></div>`;
}

function runRow(run: NamedRun, href: string, now: number): Markup {
  return markup`<tr><td><a href="${href}">${moment(run.started_at, now)}</a></td><td>${run.resource}</td>
<td>${run.mode}</td><td>${runStatus(run.status)}</td><td class="number">${run.seconds === null ? NONE : tookText(run.seconds)}</td>${FIGURES.map(
    ([, figure]) =>
      markup`<td class="number${run[figure] === 0 ? ' quiet' : ''}">${run.status === 'running' ? NONE : countText(run[figure])}</td>`,
  )}</tr>`;
}

/** Why a run failed; once, where several in a row failed for the same reason. */
function errorRow({ resource, error }: NamedRun, newer: readonly NamedRun[]): Markup | null {
  if (error === null) return null;
  const next = newer.findLast((run) => run.resource === resource)?.error;
  const isTold = next?.code === error.code && next.message === error.message;
  const hint = error.hint === null ? null : markup`<br><span class="hint">→ ${error.hint}</span>`;
  const text = isTold ? markup`<span class="hint">the same</span>` : markup`${error.message}${hint}`;
  return markup`<tr class="why"><td></td><td colspan="${FIGURES.length + 4}"><code>${error.code}</code> ${text}</td></tr>`;
}
