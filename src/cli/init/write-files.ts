import { appendFileSync, chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { isMap, parseDocument, stringify } from 'yaml';
import { ConfigError } from '../../model/errors.ts';
import { ENV_FILE } from '../../settings/env-file.ts';

const OWNER_ONLY = 0o600;

/** Files that a newcomer gets. */
export interface NewFiles {
  /** Absolute path of the config file. */
  config: string;
  /** Its text. */
  text: string;
  /** A profile beside it, by its name; null if the shipped one says all. */
  profile: { name: string; text: string } | null;
  /** Variables that go into `.env` of the folder in which content-sync is started. */
  variables: Readonly<Record<string, string>>;
}

/** What a config that is there already says. */
export interface ExistingConfig {
  text: string;
  warehouse: string;
  /** Names of its sources. */
  sources: readonly string[];
}

/** The config to which a source is added; null if there is none. Throws `ConfigError` (`file_exists`) if none can be. */
export function readExisting(config: string, cwd: string): ExistingConfig | null {
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
export function refuseExisting(files: readonly string[], cwd: string, mayReplace: boolean): void {
  const there = files.filter((file) => existsSync(file));
  if (mayReplace || there.length === 0) return;
  throw new ConfigError('file_exists', `${there.map((file) => relative(cwd, file)).join(' and ')} is there already`, {
    hint: 'give another --config, or --force to replace it',
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

/** Appended: what stands in the file is somebody's. */
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
    hint: 'name a variable of your environment with --credential-env in its place',
  });
}

/** The parts of a config with one source. */
export interface ConfigParts {
  warehouse: string;
  source: string;
  baseUrl: string;
  auth: Readonly<Record<string, string>>;
  profile: string;
  /** Text of the config to which the source is added. */
  existing?: string | undefined;
}

/** The text of a config file, short and with a word on what else there is. */
export function configText({ warehouse, source, baseUrl, auth, profile, existing }: ConfigParts): string {
  const settings = { warehouse, sources: { [source]: { base_url: baseUrl, auth, profile } } };
  if (existing !== undefined) {
    const document = parseDocument(existing);
    document.setIn(['sources', source], document.createNode(settings.sources[source]));
    return document.toString({ lineWidth: 0 });
  }
  return [
    '# Settings of content-sync; config/README.md explains each, and ${VAR} is filled in from the environment or .env.',
    stringify(settings, { lineWidth: 0 }),
  ].join('\n');
}
