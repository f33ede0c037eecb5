import { formatColumnChange } from '../../model/schema-change.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { visibleText } from '../../model/visible-text.ts';
import { bytesText, countOf, countText, delayText, NONE } from '../../observe/figures.ts';
import { MOST_REJECTS, type RunDetails, type RunRecord } from '../../state/run-history.ts';
import { toneOfStatus, type Paint } from '../command/colour.ts';
import { alignedLines } from '../command/output.ts';

const HEAD = ['run', 'resource', 'status', 'mode', 'began (UTC)', 'took', 'rows', 'requests', 'note'] as const;
const STATUS = HEAD.indexOf('status');

/** The history for a person: a line for each row of it. */
export function runsTable(runs: readonly RunRecord[], paint: Paint): string {
  if (runs.length === 0) return '  no such runs';
  const cells = runs.map((run) =>
    [
      run.run_id,
      run.resource,
      run.status,
      run.mode,
      timestampText(run.started_at).slice(0, 19),
      tookText(run),
      rowsText(run),
      countText(run.all_requests),
      noteOf(run),
    ].map(visibleText),
  );
  const painted = (cell: string, column: number): string =>
    column === STATUS ? paint(cell, toneOfStatus(cell.trim())) : cell;
  return alignedLines([HEAD, ...cells], painted)
    .map((line) => `  ${line}`)
    .join('\n');
}

function tookText({ started_at, finished_at }: RunRecord): string {
  return finished_at === null ? NONE : delayText(finished_at - started_at);
}

/** What became of records; `unchanged` where nothing did. */
function rowsText({ inserted, updated, deleted, held, rejected, unchanged }: RunRecord): string {
  const parts = [
    [inserted, 'new'],
    [updated, 'changed'],
    [deleted, 'deleted'],
    [held, 'held'],
    [rejected, 'set aside'],
  ] as const;
  const said = parts.filter(([count]) => count > 0).map(([count, what]) => `${countText(count)} ${what}`);
  return said.length === 0 ? `${countText(unchanged)} unchanged` : said.join(', ');
}

function noteOf({ error, warnings, runs, first_started_at }: RunRecord): string {
  const since = timestampText(first_started_at).slice(0, 19);
  return [
    ...(runs > 1 ? [`${countText(runs)} runs since ${since} that changed nothing`] : []),
    ...(error === null ? [] : [error.code]),
    ...warnings.map(({ code }) => code),
  ].join('; ');
}

/** One run for a person: what there is to know of each resource's part in it. */
export function detailsText(
  { source, run_id }: { source: string; run_id: string },
  parts: readonly RunDetails[],
  paint: Paint,
): string {
  return [`${source}  run ${run_id}`, ...parts.flatMap((part) => ['', ...partLines(part, paint)])].join('\n');
}

function partLines(part: RunDetails, paint: Paint): string[] {
  const { resource, command, mode, status } = part;
  const titled = [
    ...timeLines(part),
    ['records', recordsText(part)],
    ['requests', requestsText(part)],
    ...errorLines(part),
    ...part.warnings.flatMap(({ code, message, hint, accepted }) => [
      [accepted === true ? 'accepted' : 'warning', `${message} [${code}]`],
      ['', `→ ${hint}`],
    ]),
    ...part.schema_changes.map(({ table, column, ...change }, at) => [
      at === 0 ? 'schema' : '',
      `${table}.${column}: ${formatColumnChange(change)}`,
    ]),
    ...rejectLines(part),
  ];
  const lines = titled.map(([title = '', text = '']) => `  ${title.padEnd(12)}${visibleText(text)}`.trimEnd());
  return [`${visibleText(resource)}  ${paint(status, toneOfStatus(status))} (${command}, ${mode})`, ...lines];
}

function timeLines({ started_at, finished_at, runs, first_started_at, ...part }: RunDetails): string[][] {
  const took = finished_at === null ? 'is under way' : `took ${delayText(finished_at - started_at)}`;
  const began = ['began', `${timestampText(started_at)} UTC, ${took}`];
  if (runs === 1) return [began];
  const before = `${countText(runs)} runs that changed nothing, the first at ${timestampText(first_started_at)} UTC`;
  const sum = `${countOf(part.all_requests, 'request')}, ${bytesText(part.all_bytes)}`;
  return [began, ['stands for', `${before}: ${sum} in all`]];
}

function recordsText({ records, inserted, updated, unchanged, deleted, held, rejected, pages }: RunDetails): string {
  const parts = [
    `${countText(inserted)} new`,
    `${countText(updated)} changed`,
    `${countText(unchanged)} unchanged`,
    `${countText(deleted)} deleted`,
    ...(held > 0 ? [`${countText(held)} deletes held`] : []),
    ...(rejected > 0 ? [`${countText(rejected)} set aside`] : []),
  ];
  return `${countText(records)} on ${countOf(pages, 'page')}: ${parts.join(', ')}`;
}

function requestsText({ requests, retries, limited, bytes, outcomes, runs }: RunDetails): string {
  const counted = Object.entries(outcomes).map(([outcome, count]) => `${countText(count)} ${outcome}`);
  const by = counted.length === 0 ? '' : `; by outcome${runs > 1 ? ', of all runs' : ''}: ${counted.join(', ')}`;
  return `${countText(requests)}, ${countText(retries)} retried, ${countText(limited)} limited, ${bytesText(bytes)}${by}`;
}

function errorLines({ error }: RunDetails): string[][] {
  if (error === null) return [];
  return [
    ['error', `${error.message} [${error.code}]`],
    ...(error.hint === null ? [] : [['', `→ ${error.hint}`]]),
    ...(error.request_id === null ? [] : [['request id', error.request_id]]),
  ];
}

function rejectLines({ rejects, rejected }: RunDetails): string[][] {
  const lines = rejects.map(({ reason, record_id, detail, is_resolved }, at) => [
    at === 0 ? 'set aside' : '',
    `${reason}  ${record_id ?? NONE}  ${detail}${is_resolved ? ' (came in well since, or is no longer listed)' : ''}`,
  ]);
  const isCut = rejects.length === MOST_REJECTS && rejected > MOST_REJECTS;
  return isCut ? [...lines, ['', `and more, of ${countText(rejected)}: all stand in _sync_rejects`]] : lines;
}
