import { appendFileSync, chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { Command } from 'commander';
import { isMap, parseDocument, stringify } from 'yaml';
import { ENV_FILE } from '../config/env-file.ts';
import { readSecretFile } from '../config/file/interpolate.ts';
import { settingsError } from '../config/file/yaml-file.ts';
import { packagedProfiles, profileReader, readPackagedProfile } from '../config/load-profile.ts';
import { loadSettings, placementFindings } from '../config/load-settings.ts';
import { SOURCE_NAME, type SourceSettings } from '../config/settings.ts';
import { DEFAULT_WAREHOUSE } from '../config/warehouse-address.ts';
import { ConfigError } from '../model/errors.ts';
import { checkSource, findingsText, type Section, withShortTimeouts } from './check.ts';
import { type CliContext, EXIT_CODES, type ExitCode } from './command/context.ts';
import { print } from './command/output.ts';
import { silentLog } from './command/sources.ts';
import { findService, type FoundService, type Recognised } from './init/find-service.ts';
import { dropFilters, findCollections, type OwnProfile, ownProfileText } from './init/own-profile.ts';
import { openQuestions, type Questions } from './init/questions.ts';

/** Options of `content-sync init`: every question has one. */
interface InitOptions {
  url?: string;
  credentialEnv?: string;
  user?: string;
  auth?: string;
  path?: string[];
  profile?: string;
  source?: string;
  warehouse?: string;
  config?: string;
  yes?: true;
  force?: true;
}

const DEFAULT_CONFIG = join('config', 'content-sync.yaml');

/** `content-sync init`: writes a working config from an address and a credential. */
export function initCommand(context: CliContext): Command {
  return new Command('init')
    .option('--url <url>', 'Address of the content service')
    .option('--credential-env <name>', 'Environment variable that contains the credential')
    .option('--user <name>', 'User name or client id, for credentials that have one')
    .option(
      '--auth <form>',
      'How the credential is sent: bearer, basic, header:<name> or query:<name> (default: detected)',
    )
    .option('--path <path...>', 'Listings to copy, of a service without a shipped profile (default: detected)')
    .option(
      '--profile <name>',
      'Shipped profile, path of your own, or `probe` to find one by experiment (default: detected)',
    )
    .option('--source <name>', 'Name of the source; added to an existing config')
    .option('--warehouse <address>', `Database of the copy (default: ${DEFAULT_WAREHOUSE})`)
    .option('-c, --config <file>', `Config file to write (default: ${DEFAULT_CONFIG})`)
    .option('-y, --yes', 'Accept the default of every question')
    .option('--force', 'Replace existing files')
    .action(async (options: InitOptions) => {
      context.exit(await init(context, options));
    });
}

async function init(context: CliContext, options: InitOptions): Promise<ExitCode> {
  const { cwd } = context;
  const config = resolve(cwd, options.config ?? DEFAULT_CONFIG);
  const mayReplace = options.force === true;
  const existing = mayReplace ? null : readExisting(config, cwd);
  const { profile, path, auth } = options;
  const isSearched = profile === 'probe' || (profile === undefined && (path !== undefined || auth !== undefined));
  const given = profile === undefined || isSearched ? null : readProfile(context, profile, config);
  const questions = openQuestions(context, options.yes === true);
  const address = { message: 'Address of the content service', option: '--url', refuse: refuseAddress };
  const url = withScheme(await questions.text(address, options.url));
  const naming = {
    message: 'Name of the source',
    option: '--source',
    preset: nameFor(url),
    refuse: refuseName(existing),
  };
  const source = await questions.text(naming, options.source);
  const found = await findService(context, questions, { ...options, url, source, given, isSearched });
  const place = { message: 'Database of the copy', option: '--warehouse', preset: DEFAULT_WAREHOUSE };
  const warehouse = await questions.text(place, existing?.warehouse ?? options.warehouse);
  refusePlace(warehouse, [...(existing?.sources ?? []), source]);
  const own = await write(context, questions, { config, existing, source, warehouse, found, mayReplace });
  return tryOut(context, { config, source, isOnly: existing === null, own });
}

interface Writing {
  config: string;
  /** The config to which the source is added; null if a new one is written. */
  existing: ExistingConfig | null;
  source: string;
  warehouse: string;
  found: FoundService;
  mayReplace: boolean;
}

/** Returns the profile of the account's own, if the shipped one cannot know all its collections. */
async function write(context: CliContext, questions: Questions, writing: Writing): Promise<OwnProfile | null> {
  const { config, existing, source, warehouse, found, mayReplace } = writing;
  const { baseUrl, auth, variables, profile, profileText } = found;
  const name = `${source}.profile.yaml`;
  const path = join(dirname(config), name);
  const isShipped = packagedProfiles().includes(profile);
  const hasOwn = isShipped && readPackagedProfile(profile).about?.collections !== undefined;
  const own = hasOwn ? { path, base: profile, resources: {}, resourceNames: {} } : null;
  const beside = own === null ? profileText : ownProfileText(own);
  if (beside !== null) refuseExisting([path], context.cwd, mayReplace);
  const shown = relative(context.cwd, config);
  const question = `${existing === null ? 'Write' : `Add ${source} to`} ${shown}${beside === null ? '' : `, and ${name} beside it`}?`;
  if (!(await questions.confirm(question))) throw new ConfigError('usage', 'nothing was written');
  const named = beside === null ? profile : `./${name}`;
  const text = configText({ warehouse, source, baseUrl, auth, profile: named, existing: existing?.text });
  const written = writeFiles(
    { config, text, profile: beside === null ? null : { name, text: beside }, variables },
    context.cwd,
  );
  // Read by what follows, as `.env` is by every later command.
  context.env = { ...variables, ...context.env };
  print(context, `Written: ${written.join(', ')}\n`);
  return own;
}

/** Runs `check` on what was written. */
async function tryOut(
  context: CliContext,
  { config, source: name, isOnly, own }: { config: string; source: string; isOnly: boolean; own: OwnProfile | null },
): Promise<ExitCode> {
  if (own !== null) await findCollections(context, readSource(context, config, name), own);
  let source = readSource(context, config, name);
  let sections = await checked(context, source);
  if (own !== null && dropFilters(own, sections)) {
    source = readSource(context, config, name);
    sections = await checked(context, source);
  }
  print(context, findingsText(source.name, sections).trimEnd());
  const isUsual = relative(context.cwd, config) === DEFAULT_CONFIG;
  const given = `${isUsual ? '' : ` --config ${shownPath(context, config)}`}${isOnly ? '' : ` --source ${name}`}`;
  if (sections.some(({ findings }) => findings.some(({ status }) => status === 'fail'))) {
    print(context, `\nCorrect the profile as FAIL says, then: content-sync check${given}`);
    return EXIT_CODES.failed;
  }
  print(context, `\nNext: content-sync backfill${given}`);
  return EXIT_CODES.ok;
}

function readSource(context: CliContext, config: string, name: string): SourceSettings {
  const settings = loadSettings({ path: config, env: context.env, cwd: context.cwd, source: name });
  context.secrets.push(...settings.secrets);
  const source = settings.sources[name];
  if (source === undefined) throw new Error('a config without its source');
  return source;
}

async function checked(context: CliContext, source: SourceSettings): Promise<Section[]> {
  const chosen = { source: withShortTimeouts(source), log: silentLog(context) };
  return (await checkSource(chosen, source.resources, context)).sections;
}

function shownPath({ cwd }: CliContext, path: string): string {
  const below = relative(cwd, path);
  return below.startsWith('..') || isAbsolute(below) ? path : below;
}

const NO_ADDRESS = 'expected an address such as https://cms.example.com, without user name and parameters';

/** Adds a missing scheme: http for this machine, https for any other. */
function withScheme(address: string): string {
  if (/^[a-z]+:\/\//i.test(address)) return address;
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:|\/|$)/.test(address) ? `http://${address}` : `https://${address}`;
}

function refuseAddress(address: string): string | undefined {
  // A misspelt scheme would be read as a host with a port.
  if (/^[a-z][a-z+.-]*:(?!\/\/|\d)/i.test(address)) return NO_ADDRESS;
  const url = URL.parse(withScheme(address));
  const isHttp = url?.protocol === 'https:' || url?.protocol === 'http:';
  const isPlain = url !== null && isHttp && url.username === '' && url.search === '' && url.hash === '';
  return isPlain ? undefined : NO_ADDRESS;
}

function refuseName(existing: ExistingConfig | null) {
  return (name: string): string | undefined => {
    if (existing?.sources.includes(name) === true)
      return `choose another name: the config already has a source ${name}`;
    return SOURCE_NAME.test(name) ? undefined : 'expected lower-case letters, digits, - and _, beginning with a letter';
  };
}

/** Each of several sources needs its own place in the warehouse. */
function refusePlace(warehouse: string, sources: readonly string[]): void {
  const [fault] = placementFindings(warehouse, sources, false);
  if (fault !== undefined) throw new ConfigError('usage', `warehouse: ${fault.message}`);
}

/** A shipped profile by its name, or a file, named as the config names it. Throws `ConfigError` if it cannot be used. */
function readProfile({ cwd, env }: CliContext, name: string, config: string): Recognised {
  const isFile = !packagedProfiles().includes(name) && existsSync(resolve(cwd, name));
  const below = relative(dirname(config), resolve(cwd, name));
  const named = !isFile ? name : below.startsWith('.') ? below : `./${below}`;
  const read = profileReader()(named, dirname(config), { env, readSecret: readSecretFile, shown: () => name });
  if ('missing' in read) throw new ConfigError('usage', `--profile: ${read.missing}`);
  if (read.profile === null) throw settingsError(read);
  return { name: named, profile: read.profile };
}

/** The first part of the host that says something: `blog` of `blog.example.com`, `example` of `www.example.com`. */
function nameFor(url: string): string {
  const host = URL.parse(url)?.hostname ?? '';
  const first = host.split('.').find((part) => !['www', 'api', 'cms', 'localhost'].includes(part)) ?? '';
  return SOURCE_NAME.test(first) ? first : 'content';
}

const OWNER_ONLY = 0o600;

/** The files that `init` writes. */
interface NewFiles {
  /** Absolute path of the config file. */
  config: string;
  /** Its text. */
  text: string;
  /** A profile in the same folder; null if the shipped one is enough. */
  profile: { name: string; text: string } | null;
  /** Variables that go into `.env` of the folder in which content-sync is started. */
  variables: Readonly<Record<string, string>>;
}

/** An existing config. */
interface ExistingConfig {
  text: string;
  warehouse: string;
  /** Names of its sources. */
  sources: readonly string[];
}

/** The config to which a source is added; null if it does not exist. Throws `ConfigError` (`file_exists`) if that is impossible. */
function readExisting(config: string, cwd: string): ExistingConfig | null {
  if (!existsSync(config)) return null;
  const text = readFileSync(config, 'utf8');
  const document = parseDocument(text);
  const [warehouse, sources] = [document.get('warehouse'), document.get('sources')];
  if (document.errors.length > 0 || typeof warehouse !== 'string' || !isMap(sources)) {
    refuseExisting([config], cwd, false);
    return null;
  }
  return { text, warehouse, sources: sources.items.map(({ key }) => String(key)) };
}

/** Throws `ConfigError` (`file_exists`) for files that are there already. */
function refuseExisting(files: readonly string[], cwd: string, mayReplace: boolean): void {
  const there = files.filter((file) => existsSync(file));
  if (mayReplace || there.length === 0) return;
  throw new ConfigError('file_exists', `${there.map((file) => relative(cwd, file)).join(' and ')} exists already`, {
    hint: 'name another --config, or add --force to replace it',
  });
}

/** Writes them, readable for their owner only, and returns their paths as a person reads them. */
export function writeFiles({ config, text, profile, variables }: NewFiles, cwd: string): string[] {
  mkdirSync(dirname(config), { recursive: true });
  const written = [config];
  writeFileSync(config, text, { mode: OWNER_ONLY });
  if (profile !== null) {
    const path = join(dirname(config), profile.name);
    writeFileSync(path, profile.text, { mode: OWNER_ONLY });
    written.push(path);
  }
  if (Object.keys(variables).length > 0) {
    addVariables(join(cwd, ENV_FILE), variables);
    written.push(join(cwd, ENV_FILE));
  }
  return written.map((path) => relative(cwd, path));
}

/** Appends, because the file may have variables of the user. */
function addVariables(path: string, variables: Readonly<Record<string, string>>): void {
  const before = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const separator = before === '' || before.endsWith('\n') ? '' : '\n';
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${quoted(value)}\n`);
  appendFileSync(path, separator + lines.join(''), { mode: OWNER_ONLY });
  chmodSync(path, OWNER_ONLY);
}

/** As `util.parseEnv` reads it back: in quotes that the value does not hold. */
function quoted(value: string): string {
  if (/^[\w./:+=@-]+$/.test(value)) return value;
  const quote = ["'", '`', '"'].find((each) => !value.includes(each));
  if (quote !== undefined && !value.includes('\n')) return `${quote}${value}${quote}`;
  throw new ConfigError('usage', 'the secret cannot be written into .env', {
    hint: 'name an environment variable with --credential-env instead',
  });
}

/** The parts of a config with one source. */
interface ConfigParts {
  warehouse: string;
  source: string;
  baseUrl: string;
  auth: FoundService['auth'];
  profile: string;
  /** Text of the config to which the source is added. */
  existing?: string | undefined;
}

/** The text of a config file with a comment on its documentation. */
function configText({ warehouse, source, baseUrl, auth, profile, existing }: ConfigParts): string {
  const settings = { warehouse, sources: { [source]: { base_url: baseUrl, auth, profile } } };
  if (existing !== undefined) {
    const document = parseDocument(existing);
    document.setIn(['sources', source], document.createNode(settings.sources[source]));
    return document.toString({ lineWidth: 0 });
  }
  return [
    '# Settings of content-sync; config/settings.md explains each, and ${VAR} is filled in from the environment or .env.',
    stringify(settings, { lineWidth: 0 }),
  ].join('\n');
}
