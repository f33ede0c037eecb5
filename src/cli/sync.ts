import { Command } from 'commander';
import type { SyncCommand } from '../sync/plan.ts';
import type { RunReport } from '../sync/report.ts';
import type { CliContext } from './context.ts';
import { exitCodeOfStatus } from './exit-code.ts';
import { forEachSource, type ChosenSource } from './open-sources.ts';
import { summaryText } from './run-summary.ts';
import { withSourceOptions, type SourceOptions } from './source-options.ts';
import { watchRun } from './watch-run.ts';
import { withApp } from './with-app.ts';

interface RunOptions extends SourceOptions {
  json?: true;
  restart?: true;
}

/** `content-sync backfill`: every page of every resource; resumes where an earlier one stopped. */
export function backfillCommand(context: CliContext): Command {
  return runCommand('backfill', context).option(
    '--restart',
    'throw away the copied tables of the resources and copy them anew',
  );
}

/** `content-sync sync`: what changed since the last time. */
export function syncCommand(context: CliContext): Command {
  return runCommand('sync', context);
}

function runCommand(name: SyncCommand, context: CliContext): Command {
  return withSourceOptions(new Command(name))
    .argument('[resource...]', 'only these resources of the profile')
    .option('--json', 'print one JSON object per source on stdout at the end')
    .action(async (names: string[], options: RunOptions) => {
      await forEachSource(context, options, names, async (chosen) => {
        const report = await runSource(name, context, chosen, options);
        print(context, report, options);
        return exitCodeOfStatus(report.status);
      });
    });
}

function runSource(
  command: SyncCommand,
  context: CliContext,
  { source, resources, log }: ChosenSource,
  options: RunOptions,
): Promise<RunReport> {
  return withApp(context, { source, log }, async (app) => {
    const live = options.logLevel === undefined;
    const watch = watchRun({ context, log, app, resources, live });
    const restart = options.restart === true;
    return app
      .sync({ command, resources, restart, signal: context.signal, watcher: watch.watcher })
      .finally(() => watch.finish());
  });
}

/** A person at either end of the process is told how it ended; a program reads the log, or asks for JSON. */
function print({ stdout, stderr }: CliContext, report: RunReport, { json }: RunOptions): void {
  if (json === true) stdout.write(`${JSON.stringify(report)}\n`);
  else if (stdout.isTTY === true || stderr.isTTY === true) stdout.write(summaryText(report));
}
