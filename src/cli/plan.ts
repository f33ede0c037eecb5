import { Argument, Command } from 'commander';
import { openProbe, type Probe } from '../app.ts';
import { newMeter } from '../http/client.ts';
import { visibleText } from '../model/visible-text.ts';
import { bytesText, countOf, countText, durationText } from '../observe/figures.ts';
import { averageRequests } from '../state/runs.ts';
import { forecastResource, type ResourceForecast } from '../sync/forecast.ts';
import type { SyncCommand } from '../sync/plan.ts';
import { runsAhead, type RunsAhead } from '../trigger/schedule/runs-ahead.ts';
import { databaseAt } from '../warehouse/databases.ts';
import type { WarehouseReader } from '../warehouse/reading.ts';
import { impatiently } from './check.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES, type ExitCode } from './command/exit-code.ts';
import { findWarehouse } from './command/find-warehouse.ts';
import { print } from './command/output.ts';
import { forEachSource, type ChosenSource, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { whileOpen } from './command/with-app.ts';

/** What thirty days of the schedule take. Null is not known. */
interface MonthForecast {
  runs: RunsAhead;
  requests: number | null;
  /** What an incremental run takes: the mean of those that were made, or the least that one can take. */
  requests_per_incremental: { requests: number; by: 'runs' | 'least' };
}

interface PlanReport {
  source: string;
  command: SyncCommand;
  resources: (ResourceForecast & { month: MonthForecast })[];
  /** Of all resources together; null as soon as one of them is not known. */
  requests: number | null;
  records: number | null;
  transfer_bytes: number | null;
  disk_bytes: number | null;
  /** Of files that are copied too; null if there are none. Their requests are not among `requests`. */
  files: { requests: number | null; bytes: number | null } | null;
  /** The limit that is known, and the part of it that is used; null if the service tells none. */
  limit: { requests_per_second: number; share: number } | null;
  /** At the limit; null if there is none to reckon with. */
  minutes: number | null;
  month: { requests: number | null; percent_of_limit: number | null };
  /** Requests that this forecast took. */
  asked: number;
}

const DAY_SECONDS = 86_400;
const MONTH_DAYS = 30;

/** `content-sync plan`: what will the next run take? Asks for one page of each listing, and writes nothing. */
export function planCommand(context: CliContext): Command {
  return withSourceOptions(new Command('plan'))
    .addArgument(new Argument('[run]', 'the run that is meant').choices(['backfill', 'sync']).default('sync'))
    .argument('[resource...]', 'only these resources of the profile')
    .option('--json', 'print one JSON object per source on stdout; null is not known')
    .action(async (run: SyncCommand, names: string[], options: SourceOptions & { json?: true }) => {
      await forEachSource(context, options, names, async (chosen) => {
        const report = await planSource(context, chosen, run);
        print(context, options.json === true ? report : planText(report).trimEnd());
        return exitCodeOf(report);
      });
    });
}

/** What would be refused is a fault of the settings. */
function exitCodeOf({ resources }: PlanReport): ExitCode {
  return resources.some(({ is_refused }) => is_refused) ? EXIT_CODES.usage : EXIT_CODES.ok;
}

/** What the next run of a source takes, by one page of each listing. */
export async function planSource(
  context: CliContext,
  chosen: Omit<ChosenSource, 'control'>,
  command: SyncCommand,
): Promise<PlanReport> {
  const { clock, secrets } = context;
  const { reader } = await findWarehouse(chosen.source, clock);
  try {
    const source = impatiently(chosen.source);
    const opened = await openProbe({ source, log: chosen.log, clock, secrets }, reader);
    return await whileOpen(opened, (probe) => planned(context, probe, { ...chosen, source }, { command, reader }));
  } finally {
    await reader?.close();
  }
}

async function planned(
  { clock, signal }: CliContext,
  probe: Probe,
  { source, resources: names }: Omit<ChosenSource, 'control'>,
  { command, reader }: { command: SyncCommand; reader: WarehouseReader | null },
): Promise<PlanReport> {
  const { client, listing, governor, credential } = probe;
  const { costs } = databaseAt(source.warehouse);
  const meter = newMeter();
  const from = clock.now();
  const countRuns = runsAhead(source.name, source.schedule, from, from + MONTH_DAYS * DAY_SECONDS * 1_000);
  const resources: PlanReport['resources'] = [];
  for (const resource of names) {
    const profile = probe.source.profile.resources[resource];
    if (profile === undefined) continue;
    signal.throwIfAborted();
    const context = { client, listing, profile, meter, signal, clock };
    const own = reader?.own ?? null;
    const files = source.files.kept[resource] ?? [];
    const forecast = await forecastResource(context, { command, resource, credential, own, costs, files });
    const runs = countRuns(resource, profile.incremental !== null);
    const mean = own === null ? null : await averageRequests(own, resource, 'incremental');
    resources.push({ ...forecast, month: monthOf(forecast, runs, mean) });
  }
  const { allowedPerSecond: perSecond } = governor.figures();
  const limit = perSecond === null ? null : { requests_per_second: perSecond, share: source.rate.share };
  const requests = sumOf(resources.map(({ walk }) => walk.requests));
  const month = sumOf(resources.map((each) => each.month.requests));
  const inMonth = perSecond === null ? null : perSecond * MONTH_DAYS * DAY_SECONDS;
  return {
    source: source.name,
    command,
    resources,
    // Who is asking is asked once per run.
    requests: requests === null || probe.source.profile.identity === null ? requests : requests + 1,
    records: sumOf(resources.map(({ walk }) => walk.records)),
    transfer_bytes: sumOf(resources.map(({ walk }) => walk.transfer_bytes)),
    disk_bytes: sumOf(resources.map(({ copy }) => copy.disk_bytes)),
    files: filesOf(resources),
    limit,
    minutes:
      limit === null || requests === null ? null : rounded(requests / (limit.requests_per_second * limit.share) / 60),
    month: {
      requests: month,
      percent_of_limit: month === null || inMonth === null ? null : rounded((month / inMonth) * 100),
    },
    asked: meter.requests,
  };
}

function filesOf(resources: PlanReport['resources']): PlanReport['files'] {
  const all = resources.flatMap(({ files }) => files ?? []);
  if (all.length === 0) return null;
  return { requests: sumOf(all.map(({ requests }) => requests)), bytes: sumOf(all.map(({ bytes }) => bytes)) };
}

function monthOf({ whole }: ResourceForecast, runs: RunsAhead, mean: number | null): MonthForecast {
  const each = { requests: mean ?? 1, by: mean === null ? 'least' : 'runs' } as const;
  const full = runs.full === 0 ? 0 : whole.requests === null ? null : runs.full * whole.requests;
  const requests = full === null ? null : Math.round(full + runs.incremental * each.requests);
  return { runs, requests, requests_per_incremental: each };
}

function sumOf(counts: readonly (number | null)[]): number | null {
  return counts.reduce((sum, count) => (sum === null || count === null ? null : sum + count), 0);
}

/** To three figures. */
function rounded(count: number): number {
  return Number(count.toPrecision(3));
}

const UNKNOWN = 'unknown';

/** The run itself, in two lines; what is not known says so. */
export function planSummary(report: PlanReport): string[] {
  const { source, command, limit, minutes } = report;
  const pace =
    limit === null
      ? 'minutes unknown: the service tells no limit (rate.requests_per_second says one)'
      : `${minutes === null ? UNKNOWN : durationText(minutes * 60)} at ${limit.requests_per_second.toFixed(1)} requests/s, of which ${Math.round(limit.share * 100)} % are used`;
  return [
    `${source}: ${command} takes ${counted(report.requests, 'request')}, ${pace}`,
    `  reads ${counted(report.records, 'record')}, ${sized(report.transfer_bytes)} over the network; all of it takes ${sized(report.disk_bytes)} of disk`,
  ];
}

function planText(report: PlanReport): string {
  const { month, asked } = report;
  const share = month.percent_of_limit === null ? '' : `, ${month.percent_of_limit} % of the limit`;
  const lines = [
    ...planSummary(report),
    `  30 days of the schedule: ${counted(month.requests, 'request')}${share}`,
    ...(report.files === null
      ? []
      : [`  files: ${counted(report.files.requests, 'more request')}, ${sized(report.files.bytes)} into their store`]),
    ...report.resources.flatMap(resourceLines),
    `  asked for this: ${countOf(asked, 'request')}`,
  ];
  return lines.map((line) => `${visibleText(line)}\n`).join('');
}

function resourceLines({ resource, walk, copy, files, month, notes }: PlanReport['resources'][number]): string[] {
  const { runs, requests_per_incremental: each } = month;
  const least = each.by === 'least' && runs.incremental > 0 ? ' at least, while nothing changes' : '';
  return [
    `  ${resource} (${walk.mode}): ${counted(walk.requests, 'request')}, ${counted(walk.records, 'record')}; copied whole: ${counted(copy.rows, 'row')}, ${counted(copy.child_rows, 'child row')}, ${sized(copy.disk_bytes)}`,
    `    in 30 days ${countText(runs.full)} full and ${countText(runs.incremental)} incremental runs: ${counted(month.requests, 'request')}${least}`,
    ...(files === null ? [] : [`    files: ${counted(files.requests, 'file')} to fetch, ${sized(files.bytes)}`]),
    ...notes.map((note) => `    ${note}`),
  ];
}

function counted(count: number | null, one: string): string {
  return count === null ? `${UNKNOWN} ${one}s` : countOf(count, one);
}

function sized(bytes: number | null): string {
  return bytes === null ? UNKNOWN : bytesText(bytes);
}
