import { userInfo } from 'node:os';
import path from 'node:path';
import { Command } from 'commander';
import { loadSettings } from '../../settings/load-settings.ts';
import type { Settings } from '../../settings/settings.ts';
import { occurrencesOf } from '../../source/cron.ts';
import { databaseAt, sharedDatabase } from '../../warehouse/databases.ts';
import type { CliContext } from '../command/context.ts';
import { readSettings, withSourceOptions, type SourceOptions } from '../command/sources.ts';
import {
  exportFiles,
  renderTemplate,
  toYaml,
  type ExportOptions,
  type TemplateValues,
  type Variables,
} from './template-files.ts';

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
