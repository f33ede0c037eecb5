// `content-sync init`: writes a working config from an address and a credential, checks it, and makes the first copy.
// Example: `init https://blog.example.com` finds Ghost there, writes config/content-sync.yaml, and copies all posts.
import { appendFileSync, chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
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
import { toYaml } from '../probe/profile.ts';
import { checkSource, findingsText, type Section, withShortTimeouts } from './check.ts';
import { type CliContext, EXIT_CODES, type ExitCode, print } from './command/context.ts';
import { silentLog } from './command/sources.ts';
import { findService, type FoundService, type NamedProfile } from './init/find-service.ts';
import { dropFailed, findCollections, type OwnProfile, ownProfileText } from './init/own-profile.ts';
import { Questions } from './init/questions.ts';
import { addressFault, serviceOptions, type ServiceOptions, withScheme } from './probe.ts';
import { syncHere } from './sync.ts';

/** Every question has an option that answers it. */
interface InitOptions extends ServiceOptions {
  url?: string;
  header?: string[];
  profile?: string;
  source?: string;
  warehouse?: string;
  config?: string;
  yes?: true;
  copy: boolean;
  force?: true;
}

const DEFAULT_CONFIG = join('config', 'content-sync.yaml');

export function initCommand(context: CliContext): Command {
  return serviceOptions(new Command('init').argument('[url]', 'Address of the content service'))
    .option('--url <url>', 'The same as an option')
    .option('--header <name=variable...>', 'Header with a secret, and the environment variable that contains it')
    .option('--path <path...>', 'Listings to copy, of a service without a shipped profile (default: detected)')
    .option(
      '--profile <name>',
      'Shipped profile, path of your own, or `probe` to find one by experiment (default: detected)',
    )
    .option('--source <name>', 'Name of the source; added to an existing config')
    .option('--warehouse <address>', `Database of the copy (default: ${DEFAULT_WAREHOUSE})`)
    .option('-c, --config <file>', `Config file to write (default: ${DEFAULT_CONFIG})`)
    .option('-y, --yes', 'Accept the default of every question')
    .option('--no-copy', 'Do not make the first copy: `backfill` or `serve` makes it later')
    .option('--force', 'Replace existing files')
    .action(async (url: string | undefined, options: InitOptions) => {
      context.errorsAsText = true;
      context.exit(await init(context, url === undefined ? options : { ...options, url }));
    });
}

async function init(context: CliContext, options: InitOptions): Promise<ExitCode> {
  const { cwd } = context;
  const { profile, force: mayReplace = false } = options;
  const config = resolve(cwd, options.config ?? DEFAULT_CONFIG);
  const existing = mayReplace ? null : readExisting(config, cwd);
  const isOwn = [options.path, options.auth, options.header, options.openapi].some((each) => each !== undefined);
  const isProbed = profile === 'probe' || (profile === undefined && isOwn);
  const given = profile === undefined || isProbed ? null : readProfile(context, profile, config);
  const questions = new Questions(context, options.yes === true);
  const address = { message: 'Address of the content service', option: '--url', refuse: addressFault };
  const url = withScheme(await questions.text(address, options.url));
  const refuse = (name: string) => refuseName(name, existing?.sources ?? []);
  const naming = { message: 'Name of the source', option: '--source', preset: sourceNameFor(url), refuse };
  const source = await questions.text(naming, options.source);
  const found = await findService(context, questions, { ...options, url, source, given, isProbed });
  const database = { message: 'Database of the copy', option: '--warehouse', preset: DEFAULT_WAREHOUSE };
  const warehouse = await questions.text(database, existing?.warehouse ?? options.warehouse);
  const [fault] = placementFindings(warehouse, [...(existing?.sources ?? []), source], false);
  if (fault !== undefined) throw new ConfigError('usage', `warehouse: ${fault.message}`);
  const added = { config, existing, source, warehouse, found, mayReplace };
  const own = await writeFiles(context, questions, added);
  const code = await checkResult(context, added, own);
  if (code !== EXIT_CODES.ok) return code;
  if (options.copy && (await questions.confirm('Copy it now?'))) return copyFirst(context, added);
  print(context, `\nNext: content-sync backfill${optionsFor(context, added)}`);
  return code;
}

interface NewSource {
  /** Absolute path. */
  config: string;
  /** Null if a new config is written. */
  existing: ReturnType<typeof readExisting>;
  source: string;
  warehouse: string;
  found: FoundService;
  mayReplace: boolean;
}

/** Writes config, profile and `.env`. Returns the account's own profile if the shipped one cannot list all its collections. */
async function writeFiles(context: CliContext, questions: Questions, parts: NewSource): Promise<OwnProfile | null> {
  const { config, existing, source, found, mayReplace } = parts;
  const { cwd } = context;
  const { variables, profile: base, probed } = found;
  const path = profilePath(parts);
  const hasOwn = packagedProfiles().includes(base) && readPackagedProfile(base).about?.collections !== undefined;
  const own = hasOwn ? { path, base, resources: {}, resourceNames: {} } : null;
  const profileText = own !== null ? ownProfileText(own) : probed !== null ? toYaml(probed) : null;
  if (profileText !== null && !mayReplace) refuseExisting(path, cwd);
  const action = existing === null ? 'Write' : `Add ${source} to`;
  const beside = profileText === null ? '' : `, and ${basename(path)} beside it`;
  if (!(await questions.confirm(`${action} ${relative(cwd, config)}${beside}?`))) {
    throw new ConfigError('usage', 'nothing was written');
  }
  mkdirSync(dirname(config), { recursive: true });
  const files = new Map([[config, configText(parts, profileText === null ? base : `./${basename(path)}`)]]);
  if (profileText !== null) files.set(path, profileText);
  for (const [file, text] of files) writeFileSync(file, text, { mode: OWNER_ONLY });
  const written = [...files.keys()];
  if (Object.keys(variables).length > 0) {
    const env = join(cwd, ENV_FILE);
    addVariables(env, variables);
    written.push(env);
  }
  // Used by the check that follows; every later command reads `.env`.
  context.env = { ...variables, ...context.env };
  print(context, `Written: ${written.map((file) => relative(cwd, file)).join(', ')}\n`);
  return own;
}

/** Where a profile of the source is written: beside the config. */
function profilePath({ config, source }: NewSource): string {
  return join(dirname(config), `${source}.profile.yaml`);
}

/** Runs `check` on the new config, and drops what fails and is not needed. */
async function checkResult(context: CliContext, added: NewSource, own: OwnProfile | null): Promise<ExitCode> {
  const { source: name, found } = added;
  const runCheck = async (): Promise<Section[]> => {
    const source = readSource(context, added);
    const chosen = { source: withShortTimeouts(source), log: silentLog(context) };
    return (await checkSource(chosen, source.resources, context)).sections;
  };
  if (own !== null) await findCollections(context, readSource(context, added), own);
  let sections = await runCheck();
  const statuses = own === null ? ['fail'] : ['fail', 'warn'];
  const isWritten = own !== null || found.probed !== null;
  if (isWritten && dropFailed(profilePath(added), sections, statuses)) sections = await runCheck();
  print(context, findingsText(name, sections).trimEnd());
  if (sections.every(({ findings }) => findings.every(({ status }) => status !== 'fail'))) return EXIT_CODES.ok;
  const next = `content-sync check${optionsFor(context, added)}`;
  print(context, `\nCorrect the profile as FAIL says${guessIn(found)}, then: ${next}`);
  return EXIT_CODES.failed;
}

/** The first line of the profile, or of a resource in it, that is a guess and matters, and what to do about it. */
function guessIn({ probed }: FoundService, resource?: string): string {
  const guesses = probed?.findings.filter(({ proved, value }) => !proved && value !== null) ?? [];
  const guess = guesses.find(({ path }) => resource === undefined || path[1] === resource);
  return guess === undefined ? '' : ` (${guess.path.join('.')} is a guess: ${guess.evidence})`;
}

/** The options by which later commands find the source. */
function optionsFor({ cwd }: CliContext, { config, existing, source }: NewSource): string {
  const path = relative(cwd, config);
  const shown = path.startsWith('..') || isAbsolute(path) ? config : path;
  return `${path === DEFAULT_CONFIG ? '' : ` --config ${shown}`}${existing === null ? '' : ` --source ${source}`}`;
}

/** Runs the first backfill, and prints how many records it copied and what shows that these are all. */
async function copyFirst(context: CliContext, added: NewSource): Promise<ExitCode> {
  const { found } = added;
  const source = readSource(context, added);
  const chosen = { source, resources: source.resources, log: silentLog(context), control: null };
  const report = await syncHere({ context, chosen, command: 'backfill', options: {}, areNamed: false });
  for (const { resource, status, inserted, unchanged, updated, error, warnings = [] } of report.resources) {
    const copied = inserted + unchanged + updated;
    const total = found.probed?.resources.find((each) => each.name === resource)?.total ?? null;
    const count = total === copied ? `${copied} of ${total} records, verified by count` : `${copied} records`;
    const why = [error, ...warnings].flatMap((each) => (each === undefined ? [] : [each.message]));
    const doubt = status === 'ok' ? '' : `; ${why.join('; ')}${guessIn(found, resource)}`;
    print(context, `${resource}: ${status}, ${count}${doubt}`);
  }
  print(context, `\nNext: content-sync ${report.status === 'ok' ? 'serve' : 'check'}${optionsFor(context, added)}`);
  return EXIT_CODES[report.status];
}

function readSource({ env, cwd, secrets }: CliContext, { config, source: name }: NewSource): SourceSettings {
  const settings = loadSettings({ path: config, env, cwd, source: name });
  secrets.push(...settings.secrets);
  const source = settings.sources[name];
  if (source === undefined) throw new Error('a config without its source');
  return source;
}

function refuseName(name: string, taken: readonly string[]): string | undefined {
  if (taken.includes(name)) return `choose another name: the config already has a source ${name}`;
  return SOURCE_NAME.test(name) ? undefined : 'expected lower-case letters, digits, - and _, beginning with a letter';
}

/** Suggests a name: `blog` for `blog.example.com`, `example` for `www.example.com`. */
function sourceNameFor(url: string): string {
  const host = URL.parse(url)?.hostname ?? '';
  const first = host.split('.').find((part) => !['www', 'api', 'cms', 'localhost'].includes(part)) ?? '';
  return SOURCE_NAME.test(first) ? first : 'content';
}

/** A shipped profile by its name, or a file, named as the config names it. Throws `ConfigError` if it cannot be used. */
function readProfile({ cwd, env }: CliContext, name: string, config: string): NamedProfile {
  const isFile = !packagedProfiles().includes(name) && existsSync(resolve(cwd, name));
  const below = relative(dirname(config), resolve(cwd, name));
  const named = !isFile ? name : below.startsWith('.') ? below : `./${below}`;
  const read = profileReader()(named, dirname(config), { env, readSecret: readSecretFile, displayPath: () => name });
  if ('missing' in read) throw new ConfigError('usage', `--profile: ${read.missing}`);
  if (read.profile === null) throw settingsError(read);
  return { name: named, profile: read.profile };
}

/** The config to which a source is added; null if it does not exist. Throws `ConfigError` if that is impossible. */
function readExisting(config: string, cwd: string) {
  if (!existsSync(config)) return null;
  const text = readFileSync(config, 'utf8');
  const document = parseDocument(text);
  const [warehouse, sources] = [document.get('warehouse'), document.get('sources')];
  if (document.errors.length === 0 && typeof warehouse === 'string' && isMap(sources)) {
    return { text, warehouse, sources: sources.items.map(({ key }) => String(key)) };
  }
  refuseExisting(config, cwd);
  return null;
}

function refuseExisting(file: string, cwd: string): void {
  const hint = 'name another --config, or add --force to replace it';
  if (existsSync(file)) throw new ConfigError('usage', `${relative(cwd, file)} exists already`, { hint });
}

/** The text of a config file, or of the existing one with the source added. */
function configText({ warehouse, source, found, existing }: NewSource, profile: string): string {
  const added = { base_url: found.baseUrl, auth: found.auth, profile };
  if (existing !== null) {
    const document = parseDocument(existing.text);
    document.setIn(['sources', source], document.createNode(added));
    return document.toString({ lineWidth: 0 });
  }
  const header = '# config/settings.md explains each setting; ${VAR} is filled in from the environment or .env.';
  return `${header}\n${stringify({ warehouse, sources: { [source]: added } }, { lineWidth: 0 })}`;
}

const OWNER_ONLY = 0o600;

/** Appends variables to a file such as `.env`, which may have others; only its owner can read it afterwards. */
export function addVariables(path: string, variables: Readonly<Record<string, string>>): void {
  const before = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const separator = before === '' || before.endsWith('\n') ? '' : '\n';
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${quoted(value)}\n`);
  appendFileSync(path, separator + lines.join(''), { mode: OWNER_ONLY });
  chmodSync(path, OWNER_ONLY);
}

/** Quotes a value as `util.parseEnv` reads it: in quotes that do not occur in it. */
function quoted(value: string): string {
  if (/^[\w./:+=@-]+$/.test(value)) return value;
  const quote = ["'", '`', '"'].find((each) => !value.includes(each));
  if (quote !== undefined && !value.includes('\n')) return `${quote}${value}${quote}`;
  throw new ConfigError('usage', 'the secret cannot be written into .env', {
    hint: 'name an environment variable with --credential-env instead',
  });
}
