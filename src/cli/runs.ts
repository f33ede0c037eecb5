// `content-sync runs`: lists past runs, and shows one in full; reads only the warehouse.
import { type Command, Option } from 'commander';
import { timeSpan } from '../config/profile/basic-fields.ts';
import { openWarehouseToRead } from '../database/databases.ts';
import { MAX_RUN_REJECTS, readRunDetails, readRuns, type RunDetails, type RunRecord } from '../database/state/runs.ts';
import { ConfigError } from '../model/errors.ts';
import { formatColumnChange } from '../model/table.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { visibleText } from '../model/visible-text.ts';
import { countOf, countText, formatBytes, formatDelay, NONE } from '../observe/figures.ts';
import { alignedLines, type CliContext, type Paint, painter, printReport, toneOfStatus } from './command/context.ts';
import { forEachSource, sourceCommand, type SourceOptions, whileOpen } from './command/sources.ts';

interface RunsOptions extends SourceOptions {
  failed?: true;
  since?: string;
  limit: number;
}

export function runsCommand(context: CliContext): Command {
  const limit = new Option('--limit <number>', 'Max runs of each source').default(50).argParser(parseLimit);
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
    printReport(context, report, `${source.name}\n${runsTable(runs, paint)}`);
  });
}

function showCommand(context: CliContext): Command {
  return sourceCommand('show')
    .description('Show one run: counts, requests by outcome, warnings, schema changes, rejected records, the error')
    .argument('<run>', 'Run id, as `runs` and the log show it')
    .action(async (id: string, _own: object, command: Command) => {
      // The parent command reads the options that both have.
      const options: RunsOptions = command.optsWithGlobals();
      let isFound = false;
      await forEachSource(context, options, [], async ({ source }) => {
        const opened = await openWarehouseToRead(source.warehouse, context.clock);
        const parts = await whileOpen(opened, ({ own }) => readRunDetails(own, id));
        if (parts.length === 0) return;
        isFound = true;
        const run = { source: source.name, run_id: id };
        const report = { ...run, resources: parts.map(detailsToJson) };
        printReport(context, report, detailsText(run, parts, painter(context)));
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

export function parseLimit(text: string): number {
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit > 0) return limit;
  throw new ConfigError('usage', `--limit must be a whole number from 1 to 999999, not "${text}"`);
}

const HEAD = ['run', 'resource', 'status', 'mode', 'began (UTC)', 'took', 'rows', 'requests', 'note'] as const;
const STATUS = HEAD.indexOf('status');

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
      countText(run.requests),
      formatNote(run),
    ].map(visibleText),
  );
  const painted = (cell: string, column: number): string =>
    column === STATUS ? paint(cell, toneOfStatus(cell.trim())) : cell;
  return alignedLines([HEAD, ...cells], painted)
    .map((line) => `  ${line}`)
    .join('\n');
}

function tookText({ started_at, finished_at }: RunRecord): string {
  return finished_at === null ? NONE : formatDelay(finished_at - started_at);
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
  const counts = parts.filter(([count]) => count > 0).map(([count, what]) => `${countText(count)} ${what}`);
  return counts.length === 0 ? `${countText(unchanged)} unchanged` : counts.join(', ');
}

function formatNote({ error, warnings }: RunRecord): string {
  return [...(error === null ? [] : [error.code]), ...warnings.map(({ code }) => code)].join('; ');
}

/** Formats one run, with a section for each resource. */
function detailsText(
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
  const written = isTime === undefined || zone !== undefined ? text : `${text}Z`;
  const at = DATE.test(text) || isTime !== undefined ? Date.parse(written.replace(' ', 'T')) : Number.NaN;
  if (!Number.isNaN(at)) return at;
  throw new ConfigError('usage', `"${text}" is no time`, {
    hint: 'write a date (2026-11-20), a time (2026-11-20T08:00:00Z) or a span before now (7d, 12h, 30m)',
  });
}

/** A fact about one resource's part in a run, as lines under a title. */
interface RunFact {
  title: string;
  lines: string[];
}

function runFacts(part: RunDetails): RunFact[] {
  const { error, rejects, rejected } = part;
  const began = `${timestampText(part.started_at)} UTC, ${formatDuration(part)}`;
  const facts: RunFact[] = [
    { title: 'began', lines: [began] },
    { title: 'records', lines: [formatRecords(part)] },
    { title: 'requests', lines: [formatRequests(part)] },
    { title: 'error', lines: error === null ? [] : [`${error.message} [${error.code}]`, ...remedy(error.hint)] },
    { title: 'request id', lines: error?.request_id == null ? [] : [error.request_id] },
    ...part.warnings.map(({ code, message, hint, accepted }) => {
      return { title: accepted === true ? 'accepted' : 'warning', lines: [`${message} [${code}]`, ...remedy(hint)] };
    }),
    {
      title: 'schema',
      lines: part.schema_changes.map((change) => `${change.table}.${change.column}: ${formatColumnChange(change)}`),
    },
    {
      title: 'rejected',
      lines: rejects.map(
        ({ reason, record_id, detail, is_resolved }) =>
          `${reason}  ${record_id ?? NONE}  ${detail}${is_resolved ? ' (accepted since, or no longer listed)' : ''}`,
      ),
    },
  ];
  if (rejects.length === MAX_RUN_REJECTS && rejected > MAX_RUN_REJECTS)
    facts.at(-1)?.lines.push(`and more, ${countText(rejected)} in all: see _sync_rejects`);
  return facts.filter(({ lines }) => lines.length > 0);
}

function formatDuration({ started_at, finished_at }: RunDetails): string {
  return finished_at === null ? 'in progress' : `took ${formatDelay(finished_at - started_at)}`;
}

function remedy(hint: string | null): string[] {
  return hint === null ? [] : [`→ ${hint}`];
}

function formatRecords({ records, inserted, updated, unchanged, deleted, held, rejected, pages }: RunDetails): string {
  const parts = [
    `${countText(inserted)} new`,
    `${countText(updated)} changed`,
    `${countText(unchanged)} unchanged`,
    `${countText(deleted)} deleted`,
    ...(held > 0 ? [`${countText(held)} deletes held`] : []),
    ...(rejected > 0 ? [`${countText(rejected)} rejected`] : []),
  ];
  return `${countText(records)} on ${countOf(pages, 'page')}: ${parts.join(', ')}`;
}

function formatRequests({ requests, retries, limited, bytes, outcomes }: RunDetails): string {
  const counted = Object.entries(outcomes).map(([outcome, count]) => `${countText(count)} ${outcome}`);
  const by = counted.length === 0 ? '' : `; by outcome: ${counted.join(', ')}`;
  return `${countText(requests)}, ${countText(retries)} retried, ${countText(limited)} limited, ${formatBytes(bytes)}${by}`;
}
