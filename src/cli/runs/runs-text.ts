import { timestampText } from '../../model/timestamp-text.ts';
import { visibleText } from '../../model/visible-text.ts';
import { countText, delayText, NONE } from '../../observe/figures.ts';
import { runFacts } from '../../serve/status/source-details.ts';
import type { RunDetails, RunRecord } from '../../state/run-history.ts';
import { type Paint, toneOfStatus } from '../command/colour.ts';
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
  const lines = runFacts(part).flatMap(({ title, lines: texts }) =>
    texts.map((text, at) => `  ${(at === 0 ? title : '').padEnd(12)}${visibleText(text)}`.trimEnd()),
  );
  return [`${visibleText(resource)}  ${paint(status, toneOfStatus(status))} (${command}, ${mode})`, ...lines];
}
