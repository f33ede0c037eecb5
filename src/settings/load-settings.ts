import { existsSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { ConfigError } from '../model/errors.ts';
import type { Profile } from '../source/profile.ts';
import { checkValue } from './check-value.ts';
import { crossFindings } from './cross-check.ts';
import { valueAt } from './explain.ts';
import type { Fault, Finding } from './fault.ts';
import { pathKey, renderFaults } from './fault.ts';
import { interpolate } from './interpolate.ts';
import type { LoadedProfile, ProfilePlace } from './load-profile.ts';
import { loadProfile } from './load-profile.ts';
import { packageRoot } from './package-root.ts';
import { readSecretFile } from './secret-file.ts';
import { withParts } from './secret-parts.ts';
import type { Settings, SettingsFile, SourceSettings } from './settings.ts';
import { settingsSchema } from './settings.ts';
import { readYamlFile } from './yaml-file.ts';

const DEFAULT_PATH = join('config', 'content-sync.yaml');

/** What the settings are read from. */
export interface SettingsPlace {
  /** From `--config`; else `CONTENT_SYNC_CONFIG`, else `config/content-sync.yaml`. */
  path?: string | undefined;
  env: NodeJS.ProcessEnv;
  /** Relative paths of the config file and of the warehouse start here. */
  cwd: string;
}

/**
 * Reads the config file, the secret files and all profiles that it names.
 * @throws ConfigError `settings_not_found`, or `settings_invalid` with every fault of all files in one message,
 *   one per line: `file:line:column  field: expected …, got …`. No secret stands in it.
 */
export function loadSettings({ path, env, cwd }: SettingsPlace): Settings {
  const configPath = resolve(cwd, path ?? (env['CONTENT_SYNC_CONFIG'] || DEFAULT_PATH));
  const place: ProfilePlace = { env, readSecret: readSecretFile, shown: (file) => shownPath(file, cwd) };
  if (!existsSync(configPath)) throw notFound(place.shown(configPath));
  const { settings, faults } = read(configPath, cwd, place);
  const all = [...faults, ...tlsFaults(env)];
  if (settings === null || all.length > 0) throw invalid(all);
  return deepFreeze(settings);
}

function read(path: string, cwd: string, place: ProfilePlace): { settings: Settings | null; faults: Fault[] } {
  const { read: file, faults } = readYamlFile(path, place.shown(path));
  if (file === null) return { settings: null, faults };
  const filled = interpolate(file.value, place);
  const unfilled = new Set(filled.findings.map((finding) => pathKey(finding.path)));
  const checked = checkValue(settingsSchema, filled.value ?? {}, filled.paths);
  const loaded = loadProfiles(filled.value, unfilled, dirname(path), place);
  // A field whose variable is not set is said to be so, not also that its placeholder is no URL.
  const findings = [...filled.findings, ...(checked.findings ?? []).filter((one) => !unfilled.has(pathKey(one.path)))];
  if (checked.data !== null) findings.push(...crossFindings(checked.data, loaded.profiles));
  const all = [...[...findings, ...loaded.findings].map((finding) => file.locate(finding)), ...loaded.faults];
  if (checked.data === null || all.length > 0) return { settings: null, faults: all };
  const secrets = withParts([...filled.secrets, ...loaded.secrets, ...credentials(checked.data)]);
  return { settings: { path, ...assemble(checked.data, loaded.profiles, cwd), secrets }, faults: [] };
}

interface LoadedProfiles {
  profiles: Map<string, Profile>;
  findings: Finding[];
  faults: Fault[];
  secrets: string[];
}

/** Loads each profile that the config names, also where other fields of the config are at fault. */
function loadProfiles(value: unknown, unfilled: ReadonlySet<string>, folder: string, place: ProfilePlace) {
  const loaded: LoadedProfiles = { profiles: new Map(), findings: [], faults: [], secrets: [] };
  const sources = valueAt(value, ['sources']);
  for (const source of Object.keys(typeof sources === 'object' && sources !== null ? sources : {})) {
    const path = ['sources', source, 'profile'];
    const name = valueAt(value, path);
    if (typeof name !== 'string' || name === '' || unfilled.has(pathKey(path))) continue;
    const result: LoadedProfile | { missing: string } = loadProfile(name, folder, place);
    if ('missing' in result) {
      loaded.findings.push({ path, part: 'value', message: result.missing });
      continue;
    }
    if (result.profile !== null) loaded.profiles.set(source, result.profile);
    loaded.faults.push(...result.faults);
    loaded.secrets.push(...result.secrets);
  }
  return loaded;
}

function assemble(file: SettingsFile, profiles: ReadonlyMap<string, Profile>, cwd: string) {
  const sources = Object.entries(file.sources).map(([name, source]): [string, SourceSettings] => {
    const profile = profiles.get(name);
    if (profile === undefined) throw new Error(`no profile was loaded for ${name}`);
    const resources = Object.keys(profile.resources).filter((one) => source.resources?.includes(one) ?? true);
    const path = resolve(cwd, file.warehouse.slice('sqlite:'.length).replaceAll('{source}', name));
    const webhook = source.webhook ?? null;
    return [name, { ...source, name, profile, resources, webhook, warehouse: `sqlite:${path}` }];
  });
  return { sources: Object.fromEntries(sources), serve: file.serve, log: file.log };
}

function credentials({ sources, serve }: SettingsFile): string[] {
  const found = serve.auth === undefined ? [] : [serve.auth.password];
  for (const { auth, webhook, ping } of Object.values(sources)) {
    found.push(auth.type === 'api_key' ? auth.key : auth.client_secret);
    for (const { value } of webhook?.secrets ?? []) found.push(value);
    // Who knows the address of a monitor can silence it.
    for (const url of Object.values(ping)) if (url !== undefined) found.push(url);
  }
  return found;
}

function tlsFaults(env: NodeJS.ProcessEnv): Fault[] {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return [];
  const field = 'NODE_TLS_REJECT_UNAUTHORIZED';
  const message =
    'expected to be unset, got 0: certificates would not be checked; for an authority of your own set NODE_EXTRA_CA_CERTS';
  return [{ file: 'environment', line: 1, column: 1, field, message }];
}

function shownPath(path: string, cwd: string): string {
  const below = relative(cwd, path);
  return below === '' || below.startsWith('..') || isAbsolute(below) ? path : below;
}

function notFound(shown: string): ConfigError {
  const example = join(packageRoot(), 'config', 'content-sync.example.yaml');
  return new ConfigError('settings_not_found', `${shown}: expected a config file, got none`, {
    hint: `Copy ${example} to ${DEFAULT_PATH} and fill it in, or name your own file with --config.`,
  });
}

function invalid(faults: readonly Fault[]): ConfigError {
  return new ConfigError('settings_invalid', renderFaults(faults), {
    hint: 'Correct the lines above; `content-sync config schema` prints what an editor needs to help with it.',
  });
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
