import path from 'node:path';
import { Command } from 'commander';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import { visibleText } from '../../../model/visible-text.ts';
import { countOf } from '../../../observe/figures.ts';
import type { CliContext } from '../../command/context.ts';
import { print } from '../../command/output.ts';
import { readSettings, type SourceOptions } from '../../command/sources.ts';
import { writeOwnedFiles } from '../owned-files.ts';
import { monitoringFiles } from './monitoring-files.ts';

type Options = Pick<SourceOptions, 'config'> & { force?: true; json?: true };

/** `content-sync export monitoring`: rules for Prometheus and a dashboard for Grafana; asks nobody. */
export function monitoringCommand(context: CliContext): Command {
  return new Command('monitoring')
    .description('rules and a scrape config for Prometheus, and a dashboard for Grafana')
    .argument('<dir>', 'their folder; files in it that were changed by hand are left alone')
    .option('-c, --config <file>', 'config file (else CONTENT_SYNC_CONFIG, else config/content-sync.yaml)')
    .option('--force', 'write the files whatever stands in their places')
    .option('--json', 'print one JSON object on stdout')
    .action(async (dir: string, options: Options) => {
      const files = monitoringFiles(readSettings(context, options));
      const folder = path.resolve(context.cwd, dir);
      const choice = { force: options.force === true, isWhole: false };
      const done = await writeOwnedFiles(folder, files, choice).catch((error: unknown) => {
        throw new ConfigError('usage', `${folder} cannot be written: ${messageOf(error)}`, {
          hint: 'name a folder that this user may write to',
          cause: error,
        });
      });
      const lines = [
        `${folder}: ${countOf(done.written.length, 'file')} written, ${done.unchanged.length} as they were`,
        ...done.kept.map((name) => `left alone, because it was changed by hand: ${name}`),
        ...(done.kept.length === 0
          ? []
          : ['  → move your changes to a file of your own, or write them over with --force']),
      ];
      print(context, options.json === true ? { folder, ...done } : lines.map(visibleText).join('\n'));
    });
}
