// `content-sync runs`: lists past runs, and shows one in full; reads only the warehouse.
import { type Command, Option } from 'commander';
import { timeSpan } from '../config/profile/basic-fields.ts';
import { openWarehouseToRead } from '../database/databases.ts';
import { MAX_RUN_REJECTS, readRunDetails, readRuns, type RunDetails, type RunRecord } from '../database/state/runs.ts';
import { ConfigError } from '../model/errors.ts';
import { formatColumnChange } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { visibleText } from '../model/visible-text.ts';
import { formatCount, formatNumber, formatBytes, formatDelay, NONE } from '../observe/format-values.ts';
import {
  alignedLines,
  type CliContext,
  type Paint,
  painter,
  printReport,
  toneOfStatus,
  wholeNumber,
} from './command/context.ts';
import { forEachSource, sourceCommand, type SourceOptions, whileOpen } from './command/sources.ts';

interface RunsOptions extends SourceOptions {
  failed?: true;
  since?: string;
  limit: number;
}

export function runsCommand(context: CliContext): Command {
  const limit = new Option('--limit <number>', 'Max runs of each source')
    .default(50)
    .argParser(wholeNumber('--limit', 1, 999_999));
  return sourceCommand('runs')
    .helpCommand(false)
    .argument('[resource...]', 'Only runs of these resources')
    .option('--failed', 'Only runs that are failed, partial, deferred or interrupted')
    .option('--since <time>', 'Only runs since a time (2026-11-20, 2026-11-20T08:00:00Z) or within a span (7d, 12h)')
    .addOption(limit)
    .action((names: string[], options: RunsOptions) => listRuns(context, names, options))
    .addCommand(showCommand(context));
}

async function listRuns(context: CliContext, names: readonly string[], options: RunsOptions): Promise<void> {
  const { failed, limit } = options;
  const now = context.clock.now();
  const since = options.since === undefined ? undefined : parseSince(options.since, now);
  const paint = painter(context);
  await forEachSource(context, options, names, async ({ source, resources }) => {
    const chosen = { failed, since, limit, ...(names.length === 0 ? {} : { resource: resources }) };
    const runs = await whileOpen(await openWarehouseToRead(source.warehouse, context.clock), ({ own }) =>
      readRuns(own, chosen),
    );
    const report = { source: source.name, runs: runs.map(toJson) };
    printReport(context, report, `${source.name}\n${formatRuns(runs, paint)}`);
  });
}

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const TIME = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})?$/;

/**
 * Parses `--since` into epoch milliseconds: a date or a time, in UTC if it has no zone, or a span before `now` (`7d`,
 * `12h`). Throws `ConfigError` for anything else.
 */
function parseSince(text: string, now: number): number {
  const span = timeSpan.safeParse(text);
  if (span.success) return now - span.data;
  const [isTime, zone] = TIME.exec(text) ?? [];
  const withZone = isTime === undefined || zone !== undefined ? text : `${text}Z`;
  const at = DATE.test(text) || isTime !== undefined ? Date.parse(withZone.replace(' ', 'T')) : Number.NaN;
  if (!Number.isNaN(at)) return at;
  throw new ConfigError('usage', `"${text}" is no time`, {
    hint: 'write a date (2026-11-20), a time (2026-11-20T08:00:00Z) or a span before now (7d, 12h, 30m)',
  });
}

function showCommand(context: CliContext): Command {
  return sourceCommand('show')
    .description('Show one run: counts, requests by outcome, warnings, schema changes, rejected records, the error')
    .argument('<run>', 'Run id, as `runs` and the log show it')
    .action(async (id: string, _options: object, command: Command) => {
      // The parent command reads the options that both have.
      const options: RunsOptions = command.optsWithGlobals();
      let isFound = false;
      await forEachSource(context, options, [], async ({ source }) => {
        const opened = await openWarehouseToRead(source.warehouse, context.clock);
        const parts = await whileOpen(opened, ({ own }) => readRunDetails(own, id));
        if (parts.length === 0) return;
        isFound = true;
        const report = { source: source.name, run_id: id, resources: parts.map(detailsToJson) };
        const sections = parts.map((part) => detailLines(part, painter(context)).join('\n'));
        printReport(context, report, [`${source.name}  run ${id}`, ...sections].join('\n\n'));
      });
      if (isFound) return;
      throw new ConfigError('usage', `no run has the id ${id}`, {
        hint: 'run content-sync runs to list the stored runs (keep_runs); of runs without changes only the last one is kept',
      });
    });
}

/** Converts a run for `--json`: times are UTC text. */
function toJson({ started_at, finished_at, ...rest }: RunRecord): object {
  const ended = finished_at === null ? null : timestampText(finished_at);
  const times = { started_at: timestampText(started_at), finished_at: ended };
  const seconds = finished_at === null ? null : (finished_at - started_at) / 1_000;
  return { ...rest, ...times, seconds };
}

function detailsToJson({ schema_changes, ...rest }: RunDetails): object {
  const changes = schema_changes.map(({ changed_at, ...change }) => {
    return Object.assign({ changed_at: timestampText(changed_at) }, change);
  });
  return { ...toJson(rest), schema_changes: changes };
}

const HEAD = ['run', 'resource', 'status', 'mode', 'began (UTC)', 'took', 'rows', 'requests', 'note'] as const;
const STATUS = HEAD.indexOf('status');

function formatRuns(runs: readonly RunRecord[], paint: Paint): string {
  if (runs.length === 0) return '  no such runs';
  const rows = runs.map((run) => {
    const { run_id, resource, status, mode, requests, started_at, finished_at } = run;
    const began = timestampText(started_at).slice(0, 19);
    const took = finished_at === null ? NONE : formatDelay(finished_at - started_at);
    const cells = [run_id, resource, status, mode, began, took, rowsText(run), formatNumber(requests), formatNote(run)];
    return cells.map(visibleText);
  });
  const painted = (cell: string, column: number): string =>
    column === STATUS ? paint(cell, toneOfStatus(cell.trim())) : cell;
  return alignedLines([HEAD, ...rows], painted)
    .map((line) => `  ${line}`)
    .join('\n');
}

/** Formats the counts of changed records, or of unchanged ones if none changed. */
function rowsText({ inserted, updated, deleted, held, rejected, unchanged }: RunRecord): string {
  const parts = [
    [inserted, 'new'],
    [updated, 'changed'],
    [deleted, 'deleted'],
    [held, 'held'],
    [rejected, 'rejected'],
  ] as const;
  const counts = parts.filter(([count]) => count > 0).map(([count, what]) => `${formatNumber(count)} ${what}`);
  return counts.length === 0 ? `${formatNumber(unchanged)} unchanged` : counts.join(', ');
}

function formatNote({ error, warnings }: RunRecord): string {
  return [...(error === null ? [] : [error.code]), ...warnings.map(({ code }) => code)].join('; ');
}

/** One resource's part in a run: its facts, each as lines under a title. */
function detailLines(part: RunDetails, paint: Paint): string[] {
  const { resource, command, mode, status } = part;
  const lines = runFacts(part).flatMap(([title, texts]) =>
    texts.map((text, at) => `  ${(at === 0 ? title : '').padEnd(12)}${visibleText(text)}`.trimEnd()),
  );
  return [`${visibleText(resource)}  ${paint(status, toneOfStatus(status))} (${command}, ${mode})`, ...lines];
}

function runFacts(part: RunDetails): [title: string, lines: string[]][] {
  const { error, rejects, rejected, started_at, finished_at, warnings, schema_changes } = part;
  const took = finished_at === null ? 'in progress' : `took ${formatDelay(finished_at - started_at)}`;
  const rejectLines = rejects.map(({ reason, record_id, detail, is_resolved }) => {
    const since = is_resolved ? ' (accepted since, or no longer listed)' : '';
    return `${reason}  ${record_id ?? NONE}  ${detail}${since}`;
  });
  if (rejects.length === MAX_RUN_REJECTS && rejected > MAX_RUN_REJECTS) {
    rejectLines.push(`and more, ${formatNumber(rejected)} in all: see _sync_rejects`);
  }
  return [
    ['began', [`${timestampText(started_at)} UTC, ${took}`]],
    ['records', [formatRecords(part)]],
    ['requests', [formatRequests(part)]],
    ['error', error === null ? [] : [`${error.message} [${error.code}]`, ...remedy(error.hint)]],
    ['request id', error?.request_id == null ? [] : [error.request_id]],
    ...warnings.map(({ code, message, hint, accepted }): [string, string[]] => [
      accepted === true ? 'accepted' : 'warning',
      [`${message} [${code}]`, ...remedy(hint)],
    ]),
    ['schema', schema_changes.map((change) => `${change.table}.${change.column}: ${formatColumnChange(change)}`)],
    ['rejected', rejectLines],
  ];
}

function remedy(hint: string | null): string[] {
  return hint === null ? [] : [`→ ${hint}`];
}

function formatRecords({ records, inserted, updated, unchanged, deleted, held, rejected, pages }: RunDetails): string {
  const parts = [
    `${formatNumber(inserted)} new`,
    `${formatNumber(updated)} changed`,
    `${formatNumber(unchanged)} unchanged`,
    `${formatNumber(deleted)} deleted`,
    ...(held > 0 ? [`${formatNumber(held)} deletes held`] : []),
    ...(rejected > 0 ? [`${formatNumber(rejected)} rejected`] : []),
  ];
  return `${formatNumber(records)} on ${formatCount(pages, 'page')}: ${parts.join(', ')}`;
}

function formatRequests({ requests, retries, limited, bytes, outcomes }: RunDetails): string {
  const counted = Object.entries(outcomes).map(([outcome, count]) => `${formatNumber(count)} ${outcome}`);
  const by = counted.length === 0 ? '' : `; by outcome: ${counted.join(', ')}`;
  return `${formatNumber(requests)}, ${formatNumber(retries)} retried, ${formatNumber(limited)} limited, ${formatBytes(bytes)}${by}`;
}
