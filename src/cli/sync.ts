import { Command } from 'commander';
import type { SyncCommand } from '../sync/plan.ts';
import type { RunReport } from '../sync/report.ts';
import type { CliContext } from './context.ts';
import { exitCodeOfStatus, worstExitCode } from './exit-code.ts';
import { chosenResources, forEachSource, withSourceOptions, type SourceOptions } from './open-sources.ts';
import { summaryText } from './run-summary.ts';
import { watchRun } from './watch-run.ts';

interface RunOptions extends SourceOptions {
  json?: true;
  restart?: true;
}

/** `content-sync backfill`: every page of every resource; resumes where an earlier one stopped. */
export function backfillCommand(context: CliContext): Command {
  return runCommand('backfill', context)
    .description('copy everything; resumes at the page where an earlier run stopped, and writes only what changed')
    .option('--restart', 'throw away the copied tables of the resources and copy them anew');
}

/** `content-sync sync`: what changed since the last time. */
export function syncCommand(context: CliContext): Command {
  return runCommand('sync', context).description(
    'bring in what changed since the last run; a resource that was never copied whole is backfilled',
  );
}

function runCommand(name: SyncCommand, context: CliContext): Command {
  return withSourceOptions(new Command(name))
    .argument('[resource...]', 'only these resources of the profile')
    .option('--json', 'print one JSON object per source on stdout at the end')
    .action(async (names: string[], options: RunOptions) => {
      const reports = await forEachSource(context, options, async ({ app, log }) => {
        const resources = chosenResources(app.source, names);
        const watch = watchRun({ context, log, app, resources });
        try {
          const restart = options.restart === true;
          return await app.sync({ command: name, resources, restart, signal: context.signal, watcher: watch.watcher });
        } finally {
          watch.finish();
        }
      });
      for (const report of reports) print(context, report, options);
      context.exit(worstExitCode(reports.map((report) => exitCodeOfStatus(report.status))));
    });
}

function print(context: CliContext, report: RunReport, options: RunOptions): void {
  if (options.json === true) context.stdout.write(`${JSON.stringify(report)}\n`);
  else if (context.stderr.isTTY === true) context.stdout.write(summaryText(report));
}
