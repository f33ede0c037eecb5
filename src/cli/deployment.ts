// `content-sync export deployment` and `export monitoring`: files that run and watch content-sync elsewhere.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import { packageRoot } from '../config/load-profile.ts';
import type { Settings } from '../config/settings.ts';
import { type CliContext, printReport } from './command/context.ts';
import { readSettings } from './command/sources.ts';
import { writeOwnedFiles, writtenText } from './owned-files.ts';

interface Options {
  config?: string;
  image?: string;
  force?: true;
  json?: true;
}

const CONFIG_FOLDER = '/etc/content-sync';

/** `content-sync export deployment`: files that run content-sync with this config elsewhere; sends no request. */
export function deploymentCommand(context: CliContext): Command {
  return templatesCommand(context, 'deployment')
    .description('Write files that deploy this config: docker compose, Kubernetes, systemd')
    .option('--image <name>', 'Name of the container image', 'content-sync');
}

/** `content-sync export monitoring`: rules for Prometheus and a dashboard for Grafana; sends no request. */
export function monitoringCommand(context: CliContext): Command {
  return templatesCommand(context, 'monitoring').description(
    'Write rules and a scrape config for Prometheus, and a dashboard for Grafana',
  );
}

function templatesCommand(context: CliContext, templates: string): Command {
  return new Command(templates)
    .argument('<dir>', 'Folder for the files; those that were changed by hand are not overwritten')
    .option('-c, --config <file>', 'Config file (default: CONTENT_SYNC_CONFIG or config/content-sync.yaml)')
    .option('--force', 'Overwrite files that were changed by hand')
    .option('--json', 'Print one JSON object')
    .action((dir: string, options: Options) => writeTemplates(context, templates, dir, options));
}

/** Writes the files below `config/deploy/<templates>`, with the values of this config, and reports them. */
async function writeTemplates(context: CliContext, templates: string, dir: string, options: Options): Promise<void> {
  const values = valuesOf(readSettings(context, options), options.image ?? '');
  const from = path.join(packageRoot(), 'config', 'deploy', templates);
  const names = readdirSync(from, { recursive: true, encoding: 'utf8' }).filter((name) => path.extname(name) !== '');
  const files = names.toSorted().map((name): [string, string] => {
    return [name === 'about.md' ? 'README.md' : name, filled(path.join(from, name), values)];
  });
  // They hold no secret, and systemd, Docker and Prometheus read them as users of their own.
  context.umask(0o022);
  const folder = path.resolve(context.cwd, dir);
  const choice = { force: options.force === true, isWhole: false };
  const done = await writeOwnedFiles(folder, new Map(files), choice);
  printReport(context, { folder, ...done }, writtenText(folder, done));
}

function valuesOf({ path: file, serve, worker }: Settings, image: string): Readonly<Record<string, string | number>> {
  const config = path.resolve(file);
  const [, script = 'content-sync'] = process.argv;
  return {
    image,
    port: serve.port,
    workerPort: worker.port ?? 8081,
    target: `localhost:${serve.port}`,
    workerTarget: `localhost:${worker.port ?? 8081}`,
    configFile: config,
    configUnit: quoteForSystemd(config),
    configPath: `${CONFIG_FOLDER}/${path.basename(config)}`,
    configVolume: `${path.dirname(config)}:${CONFIG_FOLDER}:ro`,
    program: [process.execPath, '--report-exclude-env', script].map(quoteForSystemd).join(' '),
  };
}

/** A template with its values; in YAML as JSON writes them, which YAML reads. */
function filled(file: string, values: Readonly<Record<string, string | number>>): string {
  const isYaml = /\.ya?ml$/.test(file);
  return readFileSync(file, 'utf8').replaceAll(/\{\{(\w+)\}\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : isYaml ? JSON.stringify(value) : String(value);
  });
}

function quoteForSystemd(word: string): string {
  const text = word.replaceAll('%', '%%').replaceAll('$', '$$$$');
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
