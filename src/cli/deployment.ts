import { userInfo } from 'node:os';
import path from 'node:path';
import { Command } from 'commander';
import { loadSettings } from '../settings/load-settings.ts';
import type { Settings } from '../settings/settings.ts';
import { occurrencesOf } from '../source/cron.ts';
import { databaseAt, sharedDatabase } from '../warehouse/databases.ts';
import type { CliContext } from './command/context.ts';
import { readSettings, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { readFileSync } from 'node:fs';
import { stringify } from 'yaml';
import { ConfigError, messageOf } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { countOf } from '../observe/figures.ts';
import { packageRoot } from '../settings/load-profile.ts';
import { print } from './command/output.ts';
import { writeOwnedFiles } from './owned-files.ts';

const YAML_FILES = ['compose.yaml', 'kubernetes/deployment.yaml', 'kubernetes/cronjob.yaml'];
const SERVE_UNIT = 'systemd/content-sync.service';
/** For any number of workers, which share the work on Postgres. */
const WORKER_UNIT = 'systemd/content-sync-worker@.service';
const SYNC_UNITS = ['systemd/content-sync-sync.service', 'systemd/content-sync-sync.timer'];

/** The folder of the config in a container, and the working folder of the image. */
const CONFIG_FOLDER = '/etc/content-sync';
const DATA_FOLDER = '/var/lib/content-sync';

/** Intervals of minutes that cron and systemd can express. */
const DIVISORS_OF_AN_HOUR = [60, 30, 20, 15, 12, 10, 6, 5, 4, 3, 2];

/** `content-sync export deployment`: files that run content-sync with this config elsewhere; sends no request. */
export function deploymentCommand(context: CliContext): Command {
  return withSourceOptions(new Command('deployment'))
    .description('files to deploy with this config: docker compose, Kubernetes, systemd')
    .argument('<dir>', 'their folder; files in it that were changed by hand are left alone')
    .option('--image <name>', 'name of the container image', 'content-sync')
    .option('--force', 'also overwrite files that were changed by hand')
    .option('--json', 'print one JSON object on stdout')
    .action(async (dir: string, options: SourceOptions & ExportOptions & { image: string }) => {
      const settings = readSettings(context, options);
      const variables = findVariables(context, settings.path);
      const files = deploymentFiles(settings, variables, options.image, context);
      await exportFiles(context, dir, files, options, variables);
    });
}

/** The variables that the config and its profiles name: those without a default are required. */
function findVariables({ env, cwd }: CliContext, config: string): Variables {
  const [required, optional] = [new Set<string>(), new Set<string>()];
  const noteVariable = (name: string, hasDefault: boolean): void => void (hasDefault ? optional : required).add(name);
  loadSettings({ path: config, env, cwd, noteVariable });
  return { required: [...required].toSorted(), optional: [...optional.difference(required)].toSorted() };
}

function deploymentFiles(
  settings: Settings,
  variables: Variables,
  image: string,
  { cwd, clock }: CliContext,
): Map<string, string> {
  const addresses = Object.values(settings.sources).map(({ warehouse }) => warehouse);
  const shared = addresses.some((address) => sharedDatabase(address) !== null);
  const files = addresses.flatMap((address) => databaseAt(address).file ?? []);
  // A relative path of the warehouse is below the working folder, which is writable.
  const outside = files.map((file) => path.dirname(file)).find((each) => path.relative(cwd, each).startsWith('..'));
  const dataFolder = outside ?? DATA_FOLDER;
  const values = { ...syncTimes(settings, clock.now()), ...variables, shared };
  const yaml: TemplateValues = {
    ...values,
    image: toYaml(image),
    port: String(settings.serve.port),
    workerPort: settings.worker.port === null ? '' : String(settings.worker.port),
    configPath: toYaml(`${CONFIG_FOLDER}/${path.basename(settings.path)}`),
    configVolume: toYaml(`${path.dirname(settings.path)}:${CONFIG_FOLDER}:ro`),
    dataFolder: toYaml(dataFolder),
    dataVolume: toYaml(`data:${dataFolder}`),
  };
  const [, script = 'content-sync'] = process.argv;
  const { uid, username } = userInfo();
  const units: TemplateValues = {
    ...values,
    image,
    // All units run as one user, who owns the data and can read what the exporting user can.
    user: uid === 0 ? 'content-sync' : username,
    makeUser: uid === 0,
    program: [process.execPath, '--report-exclude-env', script].map(quoteForSystemd).join(' '),
    configFile: quoteForSystemd(path.resolve(settings.path)),
    variables: [...variables.required, ...variables.optional].join(', '),
    dataOutside: outside === undefined ? '' : quoteForSystemd(outside),
  };
  const unitFiles = [SERVE_UNIT, ...(shared ? [WORKER_UNIT] : []), ...SYNC_UNITS];
  return new Map([
    ['README.md', renderTemplate('about.md', units)],
    ...YAML_FILES.map((name) => [name, renderTemplate(name, yaml)] as const),
    ...unitFiles.map((name) => [name, renderTemplate(name, units)] as const),
  ]);
}

/** When `sync --due` is started: as often as the most frequent schedule needs, in equal parts of an hour. */
function syncTimes({ sources }: Settings, now: number): TemplateValues {
  const samples = Object.values(sources).flatMap(({ schedule: { incremental, full, resources, timezone } }) => {
    const own = Object.values(resources).map((times) => times.incremental);
    return [incremental ?? full, ...own].map((expression) => nextMinutes(expression ?? null, timezone, now));
  });
  const [most = []] = samples.toSorted((a, b) => (smallestGap(a) < smallestGap(b) ? -1 : 1));
  const minutes = DIVISORS_OF_AN_HOUR.find((each) => each <= smallestGap(most)) ?? 1;
  const [offset = 0, ...others] = new Set(most.map((each) => each % minutes));
  const start = others.length === 0 ? offset : 0;
  const cron = minutes === 60 ? `${start} * * * *` : `${start === 0 ? '*' : `${start}-59`}/${minutes} * * * *`;
  const calendar = `*:${String(start).padStart(2, '0')}${minutes === 60 ? '' : `/${minutes}`}`;
  return { minutes: String(minutes), cron: toYaml(cron), calendar };
}

const OCCURRENCES = 100;

/** The next occurrences of a cron expression, in minutes. */
function nextMinutes(expression: string | null, timezone: string, now: number): number[] {
  if (expression === null) return [];
  const occurrences = occurrencesOf(expression, timezone);
  const times: number[] = [];
  for (let at = occurrences(now); Number.isFinite(at) && times.length < OCCURRENCES; at = occurrences(at))
    times.push(Math.floor(at / 60_000));
  return times;
}

function smallestGap(times: readonly number[]): number {
  return Math.min(...times.slice(1).map((at, index) => at - (times[index] ?? 0)));
}

/** A word of a systemd command. */
function quoteForSystemd(word: string): string {
  const text = word.replaceAll('%', '%%').replaceAll('$', '$$$$');
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

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

/** Texts are written as they are; a list or a condition (false, '' and [] are none) belongs to a section. */
export type TemplateValues = Readonly<Record<string, string | boolean | readonly string[]>>;

const SECTION = /^\{\{([#^])(\w+)\}\}\n([^]*?)^\{\{\/\2\}\}\n/gm;

/** Reads a template below `config/deploy` and fills it in. */
export function renderTemplate(name: string, values: TemplateValues): string {
  return render(readFileSync(path.join(packageRoot(), 'config', 'deploy', name), 'utf8'), values);
}

/**
 * `{{name}}` is a value. `{{#name}}` to `{{/name}}`, each on a line of its own, is repeated for each `{{item}}` of a list,
 * or written if the condition holds; `{{^name}}` is written if it does not.
 */
function render(template: string, values: TemplateValues): string {
  const filled = template.replaceAll(SECTION, (_, sign: string, name: string, body: string) => {
    const value = values[name] ?? '';
    if (typeof value === 'object') return value.map((item) => render(body, { ...values, item })).join('');
    return (value !== '' && value !== false) === (sign === '#') ? render(body, values) : '';
  });
  return filled.replaceAll(/\{\{(\w+)\}\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** A text as a YAML scalar. */
export function toYaml(text: string): string {
  return stringify(text, { lineWidth: 0 }).trimEnd();
}

export interface ExportOptions {
  force?: true;
  json?: true;
}

/** Names of environment variables. */
export interface Variables {
  required: readonly string[];
  optional: readonly string[];
}

/** Writes the files, and prints what was written and which variables they expect. */
async function exportFiles(
  context: CliContext,
  dir: string,
  files: ReadonlyMap<string, string>,
  { force, json }: ExportOptions,
  variables: Variables | null = null,
): Promise<void> {
  // They hold no secret, and systemd, Docker and Prometheus read them as users of their own.
  context.umask(0o022);
  const folder = path.resolve(context.cwd, dir);
  const choice = { force: force === true, isWhole: false };
  const done = await writeOwnedFiles(folder, files, choice).catch((error: unknown) => {
    const hint = 'name a folder that this user may write to';
    throw new ConfigError('usage', `${folder} cannot be written: ${messageOf(error)}`, { hint, cause: error });
  });
  const lines = [
    `${folder}: ${countOf(done.written.length, 'file')} written, ${done.unchanged.length} unchanged`,
    ...done.kept.map((name) => `not written, because it was changed by hand: ${name}`),
    ...(done.kept.length === 0 ? [] : ['  → move your changes to a file of your own, or overwrite them with --force']),
    ...listVariables('set where it runs', variables?.required),
    ...listVariables('may be set where it runs', variables?.optional),
  ];
  const named = variables === null ? {} : { secrets: variables.required, optional: variables.optional };
  const report = { folder, ...named, ...done };
  print(context, json === true ? report : lines.map(visibleText).join('\n'));
}

function listVariables(label: string, names: readonly string[] = []): string[] {
  return names.length === 0 ? [] : [`${label}: ${names.join(', ')}`];
}
