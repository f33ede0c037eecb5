import { Command } from 'commander';
import type { Settings } from '../../settings/settings.ts';
import type { CliContext } from '../command/context.ts';
import { readSettings, type SourceOptions } from '../command/sources.ts';
import { exportFiles, renderTemplate, toYaml, type ExportOptions } from './template-files.ts';

/** The files by the names of their templates. */
const FILES = {
  'content-sync.rules.yml': 'content-sync.rules.yml',
  'scrape.yml': 'scrape.yml',
  'content-sync-dashboard.json': 'content-sync-dashboard.json',
  'about.md': 'README.md',
};

/** `content-sync export monitoring`: rules for Prometheus and a dashboard for Grafana; sends no request. */
export function monitoringCommand(context: CliContext): Command {
  return new Command('monitoring')
    .description('rules and a scrape config for Prometheus, and a dashboard for Grafana')
    .argument('<dir>', 'their folder; files in it that were changed by hand are left alone')
    .option('-c, --config <file>', 'config file (else CONTENT_SYNC_CONFIG, else config/content-sync.yaml)')
    .option('--force', 'also overwrite files that were changed by hand')
    .option('--json', 'print one JSON object on stdout')
    .action(async (dir: string, options: Pick<SourceOptions, 'config'> & ExportOptions) => {
      const values = scrapeValues(readSettings(context, options));
      const files = new Map(
        Object.entries(FILES).map(([template, name]) => [name, renderTemplate(`monitoring/${template}`, values)]),
      );
      await exportFiles(context, dir, files, options);
    });
}

/** Prometheus reads the password from a file of its own. */
function scrapeValues({ serve, worker }: Pick<Settings, 'serve' | 'worker'>) {
  return {
    target: toYaml(`${toTarget(serve.host)}:${serve.port}`),
    workerTarget: worker.port === null ? '' : toYaml(`${toTarget(worker.host)}:${worker.port}`),
    user: serve.auth === undefined ? '' : toYaml(serve.auth.user),
  };
}

/** A process that listens on all addresses is reached by its own. */
function toTarget(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}
