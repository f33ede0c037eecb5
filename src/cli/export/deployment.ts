import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import type { Settings } from '../../settings/settings.ts';
import { databaseAt, sharedDatabase } from '../../warehouse/databases.ts';
import type { CliContext } from '../command/context.ts';
import { readSettings, withSourceOptions, type SourceOptions } from '../command/sources.ts';
import { exportFiles, renderTemplate, toYaml, type ExportOptions, type TemplateValues } from './template-files.ts';

const YAML_FILES = ['compose.yaml', 'kubernetes/deployment.yaml', 'kubernetes/cronjob.yaml'];
const SERVE_UNIT = 'systemd/content-sync.service';
/** For any number of workers, which share the work on Postgres. */
const WORKER_UNIT = 'systemd/content-sync-worker@.service';
const SYNC_UNITS = ['systemd/content-sync-sync.service', 'systemd/content-sync-sync.timer'];

/** The folder of the config in a container, and the working folder of the image. */
const CONFIG_FOLDER = '/etc/content-sync';
const DATA_FOLDER = '/var/lib/content-sync';

/** `content-sync export deployment`: files that run content-sync with this config elsewhere; sends no request. */
export function deploymentCommand(context: CliContext): Command {
  return withSourceOptions(new Command('deployment'))
    .description('files to deploy with this config: docker compose, Kubernetes, systemd')
    .argument('<dir>', 'their folder; files in it that were changed by hand are left alone')
    .option('--force', 'also overwrite files that were changed by hand')
    .option('--json', 'print one JSON object on stdout')
    .action(async (dir: string, options: SourceOptions & ExportOptions) => {
      const settings = readSettings(context, options);
      const names = findVariables(settings.path);
      await exportFiles(context, dir, deploymentFiles(settings, names, context.cwd), options, names);
    });
}

function deploymentFiles(settings: Settings, names: readonly string[], cwd: string): Map<string, string> {
  const addresses = Object.values(settings.sources).map(({ warehouse }) => warehouse);
  const shared = addresses.some((address) => sharedDatabase(address) !== null);
  const files = addresses.flatMap((address) => databaseAt(address).file ?? []);
  // A relative path of the warehouse is below the working folder, which is writable.
  const outside = files.map((file) => path.dirname(file)).find((each) => path.relative(cwd, each).startsWith('..'));
  const dataFolder = outside ?? DATA_FOLDER;
  const values = { shared, names };
  const yaml: TemplateValues = {
    ...values,
    port: String(settings.serve.port),
    workerPort: settings.worker.port === null ? '' : String(settings.worker.port),
    configPath: toYaml(`${CONFIG_FOLDER}/${path.basename(settings.path)}`),
    configVolume: toYaml(`${path.dirname(settings.path)}:${CONFIG_FOLDER}:ro`),
    dataFolder: toYaml(dataFolder),
    dataVolume: toYaml(`data:${dataFolder}`),
  };
  const [, script = 'content-sync'] = process.argv;
  const units: TemplateValues = {
    ...values,
    program: [process.execPath, '--report-exclude-env', script].map(quoteForSystemd).join(' '),
    configFile: quoteForSystemd(path.resolve(settings.path)),
    secrets: names.join(', '),
    dataOutside: outside === undefined ? '' : quoteForSystemd(outside),
  };
  const unitFiles = [SERVE_UNIT, ...(shared ? [WORKER_UNIT] : []), ...SYNC_UNITS];
  return new Map([
    ...YAML_FILES.map((name) => [name, renderTemplate(name, yaml)] as const),
    ...unitFiles.map((name) => [name, renderTemplate(name, units)] as const),
  ]);
}

/** A word of a systemd command. */
function quoteForSystemd(word: string): string {
  const text = word.replaceAll('%', '%%').replaceAll('$', '$$$$');
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}/g;

/** The variables that the config and all YAML files next to it read, sorted; one too many does no harm. */
function findVariables(config: string): string[] {
  const folder = path.dirname(config);
  const others = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.ya?ml$/.test(name) && !name.includes('node_modules'))
    .map((name) => path.join(folder, name))
    .filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true);
  const texts = [...new Set([config, ...others])].map((file) => readFileSync(file, 'utf8'));
  const found = texts.flatMap((text) => {
    const withoutComments = text.replaceAll(/(?:^|\s)#.*$/gm, '');
    return [...withoutComments.matchAll(VARIABLE)].map(([, name = '']) => name);
  });
  return [...new Set(found)].toSorted();
}
