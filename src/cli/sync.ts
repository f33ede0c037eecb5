// `content-sync backfill` and `content-sync sync`: run in this process, or have a running `serve` do it.
import type { Command } from 'commander';
import { findParent } from '../config/profile/request-fields.ts';
import type { Settings, SourceSettings } from '../config/settings.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { pausedError, readPauses } from '../database/state/server-state.ts';
import { SyncError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import type { App } from '../server/app.ts';
import { toSyncError } from '../server/controls/control-request.ts';
import { logRuns } from '../server/log-runs.ts';
import { createPings } from '../server/ping.ts';
import { computeDue, resourceTimes } from '../server/schedule/due.ts';
import type { SyncCommand } from '../sync/plan.ts';
import { NO_NOTES, overallStatus, type RunReport } from '../sync/report.ts';
import { type CliContext, EXIT_CODES, print } from './command/context.ts';
import {
  type ChosenSource,
  findServe,
  forEachSource,
  sourceCommand,
  type SourceOptions,
  withApp,
} from './command/sources.ts';
import { summaryText, watchRun } from './command/watch-run.ts';

interface SyncOptions extends SourceOptions {
  restart?: true;
  due?: true;
}

/** `content-sync backfill`: every page of every resource; resumes where an earlier one stopped. */
export function backfillCommand(context: CliContext): Command {
  return runCommand('backfill', context).option(
    '--restart',
    'Drop the copied tables of the resources and copy them again',
  );
}

/** `content-sync sync`: what changed since the last time, or what is due by the schedule. */
export function syncCommand(context: CliContext): Command {
  return runCommand('sync', context).option(
    '--due',
    'Only what is due by the schedule of the config, full syncs included; for your own cron',
  );
}

function runCommand(command: SyncCommand, context: CliContext): Command {
  return sourceCommand(command)
    .argument('[resource...]', 'Only these resources of the profile')
    .action(async (names: string[], options: SyncOptions) => {
      const synced: SyncedSource[] = [];
      await forEachSource(context, options, names, async (chosen, settings) => {
        const request = { context, chosen, command, options, areNamed: names.length > 0 };
        let report = await syncByServe(request);
        if (report === null) {
          synced.push({ chosen, settings });
          report = await syncHere(request);
        }
        printRun(context, report);
        return EXIT_CODES[report.status];
      }).finally(() => reportAlerts(context, synced));
    });
}

/** One run of a command for one source. */
interface CommandRun {
  context: CliContext;
  chosen: ChosenSource;
  command: SyncCommand;
  options: SyncOptions;
  /** True if the resources were named on the command line: then a paused one is an error. */
  areNamed: boolean;
}

/**
 * Has a running `serve` sync the resources and waits for the end. Null if none runs, or if it does not have the source.
 * Throws the errors of the requests, and `SyncError('interrupted')` on Ctrl-C: the syncs continue in that case.
 */
async function syncByServe({ context, chosen, command, options, areNamed }: CommandRun): Promise<RunReport | null> {
  const { source, log } = chosen;
  // A `serve` follows its own schedule, and does not restart copies.
  const isLocal = options.restart === true || options.due === true;
  const serve = isLocal ? null : await findServe(chosen);
  if (serve === null) return null;
  const leaving = new AbortController();
  const signal = AbortSignal.any([context.signal, leaving.signal]);
  const mode = command === 'sync' ? 'incremental' : 'full';
  const paused: SyncError[] = [];
  const syncOne = async (resource: string): Promise<RunReport> => {
    try {
      const { answer, report } = await serve.send({ action: 'sync', source: source.name, resource, mode }, signal);
      if (report === null) throw toSyncError(answer);
      log.info({ resource }, `requested from the running serve: ${answer.message}`);
      if (context.stderr.isTTY === true) context.stderr.write(`${visibleText(`${resource}: ${answer.message}`)}\n`);
      const ended = await report;
      for (const each of ended.resources) logRuns(log, context.clock, 'info').ended(each, NO_NOTES, null);
      return ended;
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'paused' || areNamed) throw error;
      log.warn({ resource, hint: error.hint }, error.message);
      paused.push(error);
      return { source: source.name, run_id: '', status: 'ok', resources: [] };
    }
  };
  try {
    const report = await syncTogether(source, chosen.resources, syncOne);
    if (report.resources.length === 0 && paused.length > 0) throw paused[0];
    return report;
  } catch (error) {
    if (error instanceof SyncError && error.code === 'unknown_source') return null;
    if (!context.signal.aborted) throw error;
    throw new SyncError('interrupted', 'detached: the sync continues in the running serve', {
      recovery: 'stop',
      hint: 'content-sync status shows its progress; content-sync control pause stops it',
    });
  } finally {
    // If one request failed, the others are not waited for.
    leaving.abort();
  }
}

/** Runs the command in this process. Closes the warehouse before the last pings, because a monitor may respond slowly. */
export async function syncHere({ context, chosen, command, options, areNamed }: CommandRun): Promise<RunReport> {
  const { source, resources, log } = chosen;
  const pings = createPings(source.ping, log);
  const { begin, watcher, retried, finish } = watchRun(context, log, options.logLevel === undefined);
  try {
    return await withApp(context, { ...chosen, retried }, async (app) => {
      const commands = options.due === true ? await dueCommands(app, context, chosen) : command;
      const wanted =
        typeof commands === 'string' ? resources : resources.filter((each) => Object.hasOwn(commands, each));
      const unpaused = await unlessPaused(app, chosen, wanted, areNamed);
      begin(unpaused, app.rateLimiter);
      const { signal } = context;
      const request = { command: commands, resources: unpaused, signal, watcher, files: true };
      const work = (): Promise<RunReport> => app.sync({ ...request, restart: options.restart === true });
      return (unpaused.length === 0 ? work() : pings.around(unpaused, work)).finally(finish);
    });
  } finally {
    await pings.close();
  }
}

/** Returns the resources that are not paused. Throws if a named one is paused, or all are. */
async function unlessPaused(
  { warehouse }: App,
  { source, log }: ChosenSource,
  resources: readonly string[],
  areNamed: boolean,
): Promise<string[]> {
  const pauses = await readPauses(warehouse.own);
  const unpaused = resources.filter((resource) => !pauses.has(resource));
  for (const resource of resources) {
    if (unpaused.includes(resource)) continue;
    const error = pausedError(source.name, resource);
    if (areNamed || unpaused.length === 0) throw error;
    log.warn({ resource, hint: error.hint }, error.message);
  }
  return unpaused;
}

/**
 * Computes from the stored state of each resource which commands are due by the schedule. Prints a line if none is due,
 * because silence may also be an error.
 */
async function dueCommands(
  app: App,
  { clock, stdout, stderr }: CliContext,
  { resources, log }: ChosenSource,
): Promise<Record<string, SyncCommand>> {
  const { name: source, profile, schedule } = app.source;
  const now = clock.now();
  const commands: Record<string, SyncCommand> = {};
  let nextAt = Infinity;
  for (const resource of resources) {
    const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
    // The caller chooses the time: a call at the exact time of an occurrence finds it due.
    const times = { ...resourceTimes({ source, resource, hasFilter }, schedule), jitter: 0 };
    const stored = await readCheckpoint(app.warehouse.own, resource);
    const due = computeDue({ times, stored, now, watchedSince: now });
    // Also if the service requested a wait: the run then says so, and sends nothing.
    if (due.command !== null) commands[resource] = due.command;
    nextAt = Math.min(nextAt, due.nextAt ?? Infinity);
  }
  if (Object.keys(commands).length > 0) return commands;
  const next = nextAt === Infinity ? null : new Date(nextAt).toISOString();
  log.info({ next }, 'nothing is due');
  if (stdout.isTTY === true || stderr.isTTY === true) {
    stderr.write(`${source}: nothing is due; ${next === null ? 'nothing is scheduled' : `next at ${next}`}\n`);
  }
  return commands;
}

/** Prints the result on a terminal or as JSON; other programs read the log. */
function printRun(context: CliContext, report: RunReport): void {
  const isWatched = context.stdout.isTTY === true || context.stderr.isTTY === true;
  if (context.json === true) print(context, report);
  else if (isWatched) print(context, summaryText(report));
}

/** A source that this process has synced itself; a running `serve` reports what it has synced. */
interface SyncedSource {
  chosen: ChosenSource;
  settings: Settings;
}

/** Reports at the end of a command, unless it was interrupted. Waits some seconds at most; never throws. */
async function reportAlerts(context: CliContext, synced: readonly SyncedSource[]): Promise<void> {
  const [first] = synced;
  if (first === undefined || context.signal.aborted || Object.keys(first.settings.alerts).length === 0) return;
  const { log } = first.chosen;
  try {
    const { alertSettings, reportAlertsOnce } = await import('../server/alerts/alerts.ts');
    const sources = synced.map(({ chosen }) => chosen.source);
    await reportAlertsOnce({ ...context, ...alertSettings(first.settings), sources, log });
  } catch (error) {
    log.warn({ error }, 'alerts could not be reported');
  }
}

/** Syncs resources in parallel, as one report; a resource whose listings are per record of a parent comes after it. */
async function syncTogether(
  source: SourceSettings,
  resources: readonly string[],
  syncOne: (resource: string) => Promise<RunReport>,
): Promise<RunReport> {
  const reportsByName = new Map<string, Promise<RunReport>>();
  const begin = (resource: string): Promise<RunReport> => {
    const parent = findParent(source.profile.resources[resource]);
    const ofParent =
      parent !== null && resources.includes(parent) ? (reportsByName.get(parent) ?? begin(parent)) : null;
    const inProgress = reportsByName.get(resource);
    if (inProgress !== undefined) return inProgress;
    // If the parent fails, its resource is synced all the same, with the rows of the parent as they are.
    const report =
      ofParent === null ? syncOne(resource) : ofParent.catch(() => undefined).then(() => syncOne(resource));
    reportsByName.set(resource, report);
    return report;
  };
  const reports = await Promise.all(resources.map(begin));
  const status = overallStatus(reports.map((report) => report.status));
  const runId = reports.find(({ run_id }) => run_id !== '')?.run_id ?? '';
  return { source: source.name, run_id: runId, status, resources: reports.flatMap((report) => report.resources) };
}
