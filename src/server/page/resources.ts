// The tables of resources and runs on the pages.
import {
  formatCount,
  formatNumber,
  formatDuration,
  formatDelay,
  formatPercent,
  formatRate,
  NONE,
} from '../../observe/format-values.ts';
import { isOverdue } from '../status/attention.ts';
import type { PastRun, ResourceStatus, RunningStatus, SourceStatus } from '../status/snapshot.ts';
import {
  countCell,
  dataTable,
  hintLine,
  markup,
  type Markup,
  type PageTone,
  stateWord,
  type TableColumn,
  timeAs,
} from './markup.ts';
import type { SectionView } from './page-frame.ts';

const COLUMNS: readonly TableColumn[] = [
  'Resource',
  'Freshness',
  'Now',
  'Next run',
  ['Live rows', 'number'],
  ['Deleted', 'number'],
  ['Rejected', 'number', 'records that could not become rows'],
  'Last run',
];

/** The state of each resource of a source, one row each. */
export function resourceTable({ source, resources }: SourceStatus, { now }: SectionView): Markup {
  const rows = resources.map((status) => {
    const { resource, rows: counted, rejects } = status;
    const rejected = rejects.reduce((sum, reject) => sum + reject.count, 0);
    return [
      resource,
      freshness(status, now),
      activity(status, now),
      nextRun(status, now),
      counted === null ? markup`<span class="quiet">counting…</span>` : formatNumber(counted.live),
      counted === null ? NONE : formatNumber(counted.deleted),
      formatNumber(rejected),
      lastRun(status.runs, now),
    ];
  });
  const label = `Resources of ${source}`;
  return dataTable({ id: `${source}-resources`, label, kind: 'resources', columns: COLUMNS, rows });
}

function freshness(status: ResourceStatus, now: number): Markup {
  const { last_success_at: last, running } = status;
  const [tone, word] = freshnessWord(status, now);
  const age = last === null ? (running === null ? 'never synced' : 'in progress') : timeAs('ago', last, now);
  return markup`${stateWord(tone, word)} <span class="sub">${age}</span>`;
}

function freshnessWord(status: ResourceStatus, now: number): [PageTone, string] {
  if (isOverdue(status, now)) return ['late', 'Overdue'];
  if (status.last_success_at !== null) return ['fine', 'Fresh'];
  return ['quiet', status.running === null ? 'Empty' : 'First copy'];
}

function activity(status: ResourceStatus, now: number): Markup {
  const { running, parked_until, owner, unfinished, paused, runs } = status;
  if (running !== null) return progress(running, now);
  if (paused !== null) {
    return markup`${stateWord('look', 'Paused')} <span class="sub">by ${paused.by}, ${timeAs('ago', paused.since, now)}</span>`;
  }
  if (owner !== null) return markup`${stateWord('look', 'Elsewhere')} <span class="sub">${owner.name}</span>`;
  if (parked_until !== null && parked_until > now) {
    return markup`${stateWord('look', 'Waits')} <span class="sub">service requested; ${timeAs('in', parked_until, now)}</span>`;
  }
  const last = runs[0]?.status;
  const stopped =
    unfinished &&
    markup` <span class="sub">${unfinished.mode} scan stopped at page ${formatNumber(unfinished.pages)}</span>`;
  if (last === 'failed') return markup`${stateWord('late', 'Failed')}${stopped}`;
  return markup`<span class="quiet">idle</span>${stopped}`;
}

function progress(
  { mode, pages, records, total, records_per_second: rate, eta_seconds: eta, started_at }: RunningStatus,
  now: number,
): Markup {
  const done = total === null || total === 0 ? null : Math.min(1, records / total);
  const left = eta === null ? markup`for ${timeAs('for', started_at, now)}` : `${formatDuration(eta)} left`;
  const read = total === null ? formatCount(records, 'record') : `${formatNumber(records)} of ${formatNumber(total)}`;
  const title = `${mode} scan, ${formatCount(pages, 'page')}`;
  return markup`<span class="state run" title="${title}"><b>${mode === 'full' ? 'Full scan' : 'Incremental'}</b>${done === null ? null : ` ${formatPercent(done)}`}</span>
${done === null ? null : bar(done, title)}<span class="sub">${read} · ${formatRate(rate)}/s · ${left}</span>`;
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
  const start = isNext ? timeAs('in', next_at, now) : running === null ? NONE : 'after this one';
  return markup`${start}
<span class="sub" title="cron, ${timezone}"><code>${incremental ?? full}</code></span><span class="hidden">(${crons}, ${timezone})</span>`;
}

const STATUS_TONES: Readonly<Record<PastRun['status'], PageTone>> = {
  ok: 'fine',
  partial: 'look',
  failed: 'late',
  deferred: 'look',
  interrupted: 'quiet',
  running: 'quiet',
};

function lastRun(runs: readonly PastRun[], now: number): Markup {
  const run = runs.find(({ status }) => status !== 'running');
  if (run === undefined) return markup`<span class="quiet">none yet</span>`;
  const took = run.seconds === null ? null : `, ${formatDelay(run.seconds * 1_000)}`;
  return markup`${stateWord(STATUS_TONES[run.status], run.status)} <span class="when">${timeAs('moment', run.started_at, now)}${took}</span> <span class="sub">${runResult(run)}</span>`;
}

/** What a run has changed, or the code of its error. */
export function runResult({ error, inserted, updated, deleted }: PastRun): Markup {
  if (error !== null) return markup`<code>${error.code}</code>`;
  const changes = [
    [inserted, 'new'],
    [updated, 'changed'],
    [deleted, 'deleted'],
  ] as const;
  const texts = changes.filter(([count]) => count > 0).map(([count, word]) => `${formatNumber(count)} ${word}`);
  return markup`${texts.length === 0 ? 'no change' : texts.join(' · ')}`;
}

const MAX_RUNS = 12;

const COUNTS = [
  ['Pages', 'pages'],
  ['New', 'inserted'],
  ['Changed', 'updated'],
  ['Unchanged', 'unchanged'],
  ['Deleted', 'deleted'],
  ['Held', 'held'],
  ['Rejected', 'rejected'],
  ['Requests', 'requests'],
  ['429', 'limited'],
] as const;

export function latestRunsTable({ source, resources }: SourceStatus, view: SectionView): Markup {
  const runs = resources.flatMap((resource) => resource.runs).toSorted((a, b) => b.started_at - a.started_at);
  return runsTable(source, runs.slice(0, MAX_RUNS), view);
}

/** Runs, newest first, each with its counts and its error. */
export function runsTable(source: string, runs: readonly PastRun[], { now }: SectionView): Markup {
  if (runs.length === 0) return markup`<p class="empty">No run yet: the schedule starts the first one by itself.</p>`;
  const counts = COUNTS.map(([title]) => [title, 'number'] as const);
  const columns: TableColumn[] = ['Started', 'Resource', 'Mode', 'Status', ['Took', 'number'], ...counts];
  const rows = runs.flatMap((run) => [runCells(run, now), ...errorRow(run)]);
  return dataTable({ id: `${source}-runs`, label: `Last runs of ${source}`, kind: 'runs', columns, rows });
}

function runCells(run: PastRun, now: number) {
  const { run_id, started_at, resource, mode, status, seconds } = run;
  return [
    timeAs('moment', started_at, now),
    resource,
    mode,
    markup`<span title="run ${run_id}">${stateWord(STATUS_TONES[status], status)}</span>`,
    seconds === null ? NONE : formatDelay(seconds * 1_000),
    ...COUNTS.map(([, field]) => countCell(run[field], status === 'running' ? NONE : formatNumber(run[field]))),
  ];
}

function errorRow({ error }: PastRun): Markup[] {
  if (error === null) return [];
  const text = markup`<code>${error.code}</code> ${error.message}${hintLine(error.hint)}`;
  return [markup`<tr class="why"><td></td><td colspan="${COUNTS.length + 4}">${text}</td></tr>`];
}
