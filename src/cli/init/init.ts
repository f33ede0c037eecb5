import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { Command } from 'commander';
import { openProbe } from '../../app.ts';
import { ConfigError } from '../../model/errors.ts';
import { packagedProfiles, readPackagedProfile } from '../../settings/load-profile.ts';
import { loadSettings } from '../../settings/load-settings.ts';
import { SOURCE_NAME, type SourceSettings } from '../../settings/settings.ts';
import { USUAL_WAREHOUSE } from '../../settings/warehouse-address.ts';
import { checkSource, findingsText, impatiently, type Section } from '../check.ts';
import type { CliContext } from '../command/context.ts';
import { EXIT_CODES, type ExitCode } from '../command/exit-code.ts';
import { print } from '../command/output.ts';
import { silentLog } from '../command/sources.ts';
import { whileOpen } from '../command/with-app.ts';
import { estimateBackfill, estimateText } from './estimate.ts';
import { findService, type FoundService } from './find-service.ts';
import { OwnProfile } from './own-profile.ts';
import { openQuestions, type Questions } from './questions.ts';
import { configText, refuseExisting, writeFiles } from './write-files.ts';

/** Options of `content-sync init`: every question has one. */
interface InitOptions {
  url?: string;
  credentialEnv?: string;
  user?: string;
  profile?: string;
  source?: string;
  warehouse?: string;
  config?: string;
  yes?: true;
  force?: true;
}

const DEFAULT_CONFIG = join('config', 'content-sync.yaml');

/** `content-sync init`: from an address and a credential to a config that works. */
export function initCommand(context: CliContext): Command {
  return new Command('init')
    .option('--url <url>', 'address of the content service')
    .option('--credential-env <name>', 'environment variable that holds the credential')
    .option('--user <name>', 'user name or client id, for credentials that have one')
    .option('--profile <name>', 'a shipped profile, or `probe` to find one by experiment; else it is recognised')
    .option('--source <name>', 'name of the source in the config')
    .option('--warehouse <address>', `where the copy is kept (else ${USUAL_WAREHOUSE})`)
    .option('-c, --config <file>', `config file to write (else ${DEFAULT_CONFIG})`)
    .option('-y, --yes', 'take the usual answer to every question that has one')
    .option('--force', 'replace files that are there')
    .action(async (options: InitOptions) => {
      context.exit(await init(context, options));
    });
}

async function init(context: CliContext, options: InitOptions): Promise<ExitCode> {
  const { cwd } = context;
  const config = resolve(cwd, options.config ?? DEFAULT_CONFIG);
  const mayReplace = options.force === true;
  refuseExisting([config], cwd, mayReplace);
  if (options.profile !== undefined) refuseProfile(options.profile);
  const questions = openQuestions(context, options.yes === true);
  const address = { message: 'Address of your content service', option: '--url', refuse: refuseAddress };
  const url = withScheme(await questions.text(address, options.url));
  const naming = { message: 'A name for it', option: '--source', preset: nameFor(url), refuse: refuseName };
  const source = await questions.text(naming, options.source);
  const found = await findService(context, questions, { ...options, url, source });
  const place = { message: 'Where the copy is kept', option: '--warehouse', preset: USUAL_WAREHOUSE };
  const warehouse = await questions.text(place, options.warehouse);
  const own = await write(context, questions, { config, source, warehouse, found, mayReplace });
  return tryOut(context, config, own);
}

interface Writing {
  config: string;
  source: string;
  warehouse: string;
  found: FoundService;
  mayReplace: boolean;
}

/** Returns the profile of the account's own, if the shipped one cannot know all its collections. */
async function write(context: CliContext, questions: Questions, writing: Writing): Promise<OwnProfile | null> {
  const { config, source, warehouse, found, mayReplace } = writing;
  const { baseUrl, auth, variables, profile, profileText } = found;
  const name = `${source}.profile.yaml`;
  const path = join(dirname(config), name);
  const isProbed = profileText !== null;
  const hasOwn = !isProbed && readPackagedProfile(profile).about?.collections !== undefined;
  if (isProbed || hasOwn) refuseExisting([path], context.cwd, mayReplace);
  const shown = relative(context.cwd, config);
  if (!(await questions.confirm(`Write ${shown}${isProbed || hasOwn ? `, and ${name} beside it` : ''}?`))) {
    throw new ConfigError('usage', 'nothing was written');
  }
  const named = isProbed || hasOwn ? `./${name}` : profile;
  const text = configText({ warehouse, source, baseUrl, auth, profile: named });
  const written = writeFiles(
    { config, text, profile: isProbed ? { name, text: profileText } : null, variables },
    context.cwd,
  );
  // Read by what follows, as `.env` is by every later command.
  context.env = { ...variables, ...context.env };
  const own = hasOwn ? new OwnProfile(path, profile) : null;
  own?.write();
  print(context, `Written: ${[...written, ...(own === null ? [] : [relative(context.cwd, path)])].join(', ')}\n`);
  return own;
}

/** Runs `check` on what was written, and tells what a backfill would take. */
async function tryOut(context: CliContext, config: string, own: OwnProfile | null): Promise<ExitCode> {
  await own?.findCollections(context, readSource(context, config));
  let source = readSource(context, config);
  let sections = await checked(context, source);
  if (own?.dropFilters(sections) === true) {
    source = readSource(context, config);
    sections = await checked(context, source);
  }
  print(context, findingsText(source.name, sections).trimEnd());
  const given = relative(context.cwd, config) === DEFAULT_CONFIG ? '' : ` --config ${shownPath(context, config)}`;
  if (sections.some(({ findings }) => findings.some(({ status }) => status === 'fail'))) {
    print(context, `\nSet right in the profile what FAIL says, then: content-sync check${given}`);
    return EXIT_CODES.failed;
  }
  print(context, `\n${await estimate(context, source)}\nNext: content-sync backfill${given}`);
  return EXIT_CODES.ok;
}

function readSource(context: CliContext, config: string): SourceSettings {
  const settings = loadSettings({ path: config, env: context.env, cwd: context.cwd });
  context.secrets.push(...settings.secrets);
  const [source] = Object.values(settings.sources);
  if (source === undefined) throw new Error('a config without its source');
  return source;
}

async function checked(context: CliContext, source: SourceSettings): Promise<Section[]> {
  const chosen = { source: impatiently(source), log: silentLog(context) };
  return (await checkSource(chosen, source.resources, context)).sections;
}

async function estimate(context: CliContext, source: SourceSettings): Promise<string> {
  const { clock, secrets } = context;
  const opened = await openProbe({ source, clock, secrets, log: silentLog(context) }, null);
  return whileOpen(opened, async (probe) => {
    const estimates = await estimateBackfill(probe, context);
    return estimateText(estimates, probe.governor.figures().allowedPerSecond);
  });
}

function shownPath({ cwd }: CliContext, path: string): string {
  const below = relative(cwd, path);
  return below.startsWith('..') || isAbsolute(below) ? path : below;
}

const NO_ADDRESS = 'expected an address such as https://cms.example.com, without user name and parameters';

/** People leave the scheme out; only this machine is asked without encryption. */
function withScheme(address: string): string {
  if (/^[a-z]+:\/\//i.test(address)) return address;
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:|\/|$)/.test(address) ? `http://${address}` : `https://${address}`;
}

function refuseAddress(address: string): string | undefined {
  // A scheme that is misspelt is no host with a port.
  if (/^[a-z][a-z+.-]*:(?!\/\/|\d)/i.test(address)) return NO_ADDRESS;
  const url = URL.parse(withScheme(address));
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:';
  const isPlain = url !== null && isHttp && url.username === '' && url.search === '' && url.hash === '';
  return isPlain ? undefined : NO_ADDRESS;
}

function refuseName(name: string): string | undefined {
  return SOURCE_NAME.test(name) ? undefined : 'expected lower-case letters, digits, - and _, beginning with a letter';
}

function refuseProfile(name: string): void {
  if (name === 'probe' || packagedProfiles().includes(name)) return;
  throw new ConfigError('usage', `there is no shipped profile "${name}"`, {
    hint: `there are ${packagedProfiles().join(', ')}; or \`probe\``,
  });
}

/** The first part of the host that says something: `blog` of `blog.example.com`, `example` of `www.example.com`. */
function nameFor(url: string): string {
  const host = URL.parse(url)?.hostname ?? '';
  const first = host.split('.').find((part) => !['www', 'api', 'cms', 'localhost'].includes(part)) ?? '';
  return SOURCE_NAME.test(first) ? first : 'content';
}
