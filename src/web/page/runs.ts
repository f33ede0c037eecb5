import { countText, durationText, NONE, momentText } from '../../observe/figures.ts';
import { markup, type Markup, time } from './markup.ts';
import { runStatus } from './resources.ts';
import type { PastRun, SourceStatus } from '../../serve/status/snapshot.ts';

/** Runs that a source's table shows. */
const MOST_RUNS = 12;

interface NamedRun extends PastRun {
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

/** The latest runs of all resources of a source, the newest first, each with what it did and why it failed. */
export function runTable({ source, resources }: SourceStatus, now: number): Markup {
  const runs = resources
    .flatMap(({ resource, runs }) => runs.map((run): NamedRun => ({ ...run, resource })))
    .toSorted((a, b) => b.started_at - a.started_at)
    .slice(0, MOST_RUNS);
  if (runs.length === 0) return markup`<p class="empty">No run yet: the schedule starts the first one by itself.</p>`;
  return markup`<div class="wide" id="${source}-runs" tabindex="0" role="region" aria-label="Last runs of ${source}">
<table class="runs">
<thead><tr><th scope="col">Started</th><th scope="col">Resource</th><th scope="col">Mode</th><th scope="col">Status</th>
<th scope="col" class="number">Took</th>
${FIGURES.map(([title]) => markup`<th scope="col" class="number">${title}</th>`)}</tr></thead>
<tbody>${runs.map((run, at) => [row(run, now), errorRow(run, runs.slice(0, at))])}</tbody></table></div>`;
}

function row(run: NamedRun, now: number): Markup {
  return markup`<tr><td>${time(run.started_at, momentText(run.started_at, now))}</td><td>${run.resource}</td>
<td>${run.mode}</td><td>${runStatus(run.status)}</td><td class="number">${run.seconds === null ? NONE : durationText(run.seconds)}</td>${FIGURES.map(
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
