import path from 'node:path';
import { Command } from 'commander';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import { visibleText } from '../../../model/visible-text.ts';
import { countOf } from '../../../observe/figures.ts';
import type { CliContext } from '../../command/context.ts';
import { print } from '../../command/output.ts';
import { readSettings, withSourceOptions, type SourceOptions } from '../../command/sources.ts';
import { writeOwnedFiles, type WrittenFiles } from '../owned-files.ts';
import { composeFile } from './compose.ts';
import { deployedConfig, type DeployedConfig } from './deployed-config.ts';
import { cronJobFile, deploymentFile } from './kubernetes.ts';
import { serviceUnit, syncTimer, syncUnit, type UnitPlace } from './systemd.ts';

type Options = SourceOptions & { force?: true; json?: true };

/** `content-sync export deployment`: files that run content-sync with this config elsewhere; asks nobody. */
export function deploymentCommand(context: CliContext): Command {
  return withSourceOptions(new Command('deployment'))
    .description('files to deploy with this config: docker compose, Kubernetes, systemd')
    .argument('<dir>', 'their folder; files in it that were changed by hand are left alone')
    .option('--force', 'write the files whatever stands in their places')
    .option('--json', 'print one JSON object on stdout')
    .action(async (dir: string, options: Options) => {
      const config = deployedConfig(readSettings(context, options), context.cwd);
      const folder = path.resolve(context.cwd, dir);
      const choice = { force: options.force === true, isWhole: false };
      const done = await writeOwnedFiles(folder, deploymentFiles(config, thisProgram()), choice).catch(
        (error: unknown) => {
          throw new ConfigError('usage', `${folder} cannot be written: ${messageOf(error)}`, {
            hint: 'name a folder that this user may write to',
            cause: error,
          });
        },
      );
      print(
        context,
        options.json === true ? { folder, secrets: config.names, ...done } : summary(folder, config, done),
      );
    });
}

/** The files by their paths. Pure. */
function deploymentFiles(config: DeployedConfig, place: UnitPlace): Map<string, string> {
  return new Map([
    ['compose.yaml', composeFile(config)],
    ['kubernetes/deployment.yaml', deploymentFile(config)],
    ['kubernetes/cronjob.yaml', cronJobFile(config)],
    ['systemd/content-sync.service', serviceUnit(config, place, 'serve')],
    ...(config.isShared
      ? ([['systemd/content-sync-worker@.service', serviceUnit(config, place, 'worker')]] as const)
      : []),
    ['systemd/content-sync-sync.service', syncUnit(config, place)],
    ['systemd/content-sync-sync.timer', syncTimer()],
  ]);
}

function thisProgram(): UnitPlace {
  const [, script = 'content-sync'] = process.argv;
  return { command: [process.execPath, '--report-exclude-env', script] };
}

function summary(folder: string, { names }: DeployedConfig, { written, unchanged, kept }: WrittenFiles): string {
  const lines = [
    `${folder}: ${countOf(written.length, 'file')} written, ${unchanged.length} as they were`,
    ...kept.map((name) => `left alone, because it was changed by hand: ${name}`),
    ...(kept.length === 0 ? [] : ['  → move your changes to a file of your own, or write them over with --force']),
    ...(names.length === 0 ? [] : [`to be set where it runs: ${names.join(', ')}`]),
  ];
  return lines.map(visibleText).join('\n');
}
