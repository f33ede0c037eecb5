import { existsSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { ConfigError } from '../model/errors.ts';
import { alertFindings, alertSecrets } from './alerts-schema.ts';
import { type CheckedFile, checkFile, readSourceFolder, type SourceFile, tlsFaults } from './check-file.ts';
import { placementFindings } from './cross-check.ts';
import { filesOf, storeFindings, storesOf, withUsualStore } from './file-stores.ts';
import { isReadableByOthers, readSecretFile, withSecretParts } from './file/interpolate.ts';
import {
  type Fault,
  isPlainMap,
  readYamlFile,
  replaceAt,
  settingsError,
  type SettingsFinding,
  valueAt,
  type YamlFile,
} from './file/yaml-file.ts';
import { type ProfilePlace, profileReader } from './load-profile.ts';
import { networkFindings, networkOf, networkSecrets } from './network.ts';
import { secretsOf } from './profile/auth.ts';
import {
  controlPath,
  folderSettingsSchema,
  type RefusedSource,
  type Settings,
  type SettingsFile,
  settingsSchema,
  type SourceSettings,
  type SourcesFile,
} from './settings.ts';
import { addressSecrets, sourceAddress, warehouseTransportFault } from './warehouse-address.ts';

const DEFAULT_PATH = join('config', 'content-sync.yaml');

/** The surroundings that settings are loaded in. */
export interface SettingsPlace {
  /** From `--config`; else `CONTENT_SYNC_CONFIG`, else `config/content-sync.yaml`. */
  path?: string | undefined;
  env: NodeJS.ProcessEnv;
  /** Relative paths of the config file and of the warehouse start here. */
  cwd: string;
  /** The only source to read, if the config has it: nothing that the others need has to be there. All of them if absent. */
  source?: string | undefined;
  /** True if secrets that are missing are no fault. */
  secretsOptional?: boolean | undefined;
}

/**
 * Reads the config file, the files of its sources, the secret files and all profiles that they name.
 * @throws ConfigError `settings_not_found`, or `settings_invalid` with every fault of all files in one message,
 *   one per line: `file:line:column  field: expected …, got …`. It contains no secret. A source that has a file of
 *   its own, and faults in it, is `refused` alone as long as another one can be used.
 */
export function loadSettings(settingsPlace: SettingsPlace): Settings {
  const { path, env, cwd, source: only, secretsOptional = false } = settingsPlace;
  const configPath = resolve(cwd, path ?? (env['CONTENT_SYNC_CONFIG'] || DEFAULT_PATH));
  const shown = (file: string): string => shownPath(file, cwd);
  if (!existsSync(configPath)) {
    throw new ConfigError('settings_not_found', `${shown(configPath)}: expected a config file, got none`, {
      hint: 'content-sync init writes one; if you have one elsewhere, name it with --config or CONTENT_SYNC_CONFIG',
    });
  }
  const { read, faults } = readYamlFile(configPath, shown(configPath));
  if (read === null) throw settingsError({ faults });
  const readers = { readSecret: readSecretFile, readProfile: profileReader() };
  const place: ConfigPlace = { env, cwd, only, secretsOptional, shown, ...readers };
  const isFolder = typeof valueAt(read.value, ['sources']) === 'string';
  const loaded = (isFolder ? readFolder : readWhole)(read, place);
  const all = [...loaded.faults, ...tlsFaults(env)];
  if (loaded.settings === null || all.length > 0) throw settingsError({ faults: all });
  return deepFreeze(loaded.settings);
}

interface ConfigPlace extends ProfilePlace {
  env: NodeJS.ProcessEnv;
  cwd: string;
  /** Name of the only source to read. */
  only: string | undefined;
  readProfile: ReturnType<typeof profileReader>;
}

interface Loaded {
  settings: Settings | null;
  faults: Fault[];
}

/** All sources in one file: a fault of one stops all of them. */
function readWhole(file: YamlFile, place: ConfigPlace): Loaded {
  const readProfile = (name: string) => place.readProfile(name, dirname(file.path), place);
  const all = valueAt(file.value, ['sources']);
  const names = isPlainMap(all) ? Object.keys(all) : [];
  const { only = '' } = place;
  const value = names.includes(only)
    ? replaceAt(file.value, ['sources'], { [only]: valueAt(all, [only]) })
    : file.value;
  const checked = checkFile(settingsSchema, { ...file, value }, place, readProfile);
  const { data, profiles } = checked;
  if (data === null) return { settings: null, faults: checked.faults };
  const found = [
    ...warehouseFindings(data.warehouse, names, false, place.env),
    ...Object.entries(data.sources).flatMap((source) => wayFindings(source, place)),
    ...alertFindings(data.alerts, names),
    ...storeFindings(Object.entries(data.sources), profiles, place.cwd),
  ];
  const faults = [...checked.faults, ...found.map((finding) => file.locate(finding))];
  if (faults.length > 0) return { settings: null, faults };
  const exposed = exposedFile(file, checked);
  const parts = {
    ...data,
    profiles,
    refused: [],
    secrets: checked.secrets,
    exposed,
    deprecated: checked.deprecated,
  };
  return { settings: assemble(file.path, parts, place), faults };
}

/** A file per source: a fault of one stops only that source. */
function readFolder(file: YamlFile, place: ConfigPlace): Loaded {
  const checked = checkFile(folderSettingsSchema, file, place, () => ({ missing: '' }));
  if (checked.data === null) return { settings: null, faults: checked.faults };
  const folder = resolve(dirname(file.path), checked.data.sources);
  const folderPlace = { ...place, hasPrivacyKey: checked.data.privacy_key !== undefined };
  const read = readSourceFolder(folder, folderPlace, (name) => place.readProfile(name, folder, place));
  const all = 'files' in read ? read.files : [];
  const names = all.map(({ name }) => name);
  const sources = names.includes(place.only ?? '') ? all.filter(({ name }) => name === place.only) : all;
  const readable = sources.flatMap(({ name, source }) => (source === null ? [] : [{ name, ...source }]));
  const found = [
    ...warehouseFindings(checked.data.warehouse, names, true, place.env),
    ...storeFindings(
      readable.map(({ name, settings }) => [name, settings]),
      new Map(readable.map(({ name, profile }) => [name, profile])),
      place.cwd,
    ),
    ...sources.flatMap(({ name, source }) => (source === null ? [] : wayFindings([name, source.settings], place))),
  ];
  const files = sources.map((each) => withOwnFaults(each, found));
  const faults = [
    ...checked.faults,
    ...alertFindings(checked.data.alerts, names).map((finding) => file.locate(finding)),
    ...found.filter(({ path }) => path[0] === 'warehouse').map((finding) => file.locate(finding)),
    ...('problem' in read ? [file.locate({ path: ['sources'], part: 'value', message: read.problem })] : []),
  ];
  const good = files.flatMap(({ name, source, faults: own }) =>
    source === null || own.length > 0 ? [] : [{ name, ...source }],
  );
  if (faults.length > 0 || good.length === 0) {
    return { settings: null, faults: [...faults, ...files.flatMap((each) => each.faults)] };
  }
  const parts = {
    ...checked.data,
    sources: Object.fromEntries(good.map(({ name, settings }) => [name, settings])),
    profiles: new Map(good.map(({ name, profile }) => [name, profile])),
    refused: files.filter((each) => each.faults.length > 0).map(({ name, faults: own }) => ({ name, faults: own })),
    secrets: [...checked.secrets, ...files.flatMap(({ secrets }) => secrets)],
    exposed: [...exposedFile(file, checked), ...files.filter(({ isExposed }) => isExposed).map((each) => each.file)],
    deprecated: files.flatMap(({ deprecated }) => deprecated),
  };
  return { settings: assemble(file.path, parts, place), faults };
}

/** Checks the warehouse's address against the names of the sources; `isOpen` if sources may be added at any time. */
function warehouseFindings(
  warehouse: string,
  sources: readonly string[],
  isOpen: boolean,
  env: NodeJS.ProcessEnv,
): SettingsFinding[] {
  const message = warehouseTransportFault(warehouse, env);
  const insecure: SettingsFinding[] = message === null ? [] : [{ path: ['warehouse'], part: 'value', message }];
  return [...placementFindings(warehouse, sources, isOpen), ...insecure];
}

function wayFindings([name, { http }]: [string, SourcesFile[string]], { cwd }: ConfigPlace): SettingsFinding[] {
  return networkFindings(http, cwd, ['sources', name, 'http']);
}

function exposedFile({ path, file }: YamlFile, { holdsSecret }: CheckedFile<unknown>): string[] {
  return holdsSecret && isReadableByOthers(path) ? [file] : [];
}

/** Adds those findings that concern this source. */
function withOwnFaults(source: SourceFile, found: readonly SettingsFinding[]): SourceFile {
  const own = found.filter(({ path }) => path[0] === 'sources' && path[1] === source.name);
  const faults = own.map(({ message }): Fault => ({ file: source.file, line: 1, column: 1, field: '', message }));
  return { ...source, faults: [...source.faults, ...faults] };
}

interface Parts extends Omit<SettingsFile, 'sources'>, Pick<CheckedFile<never>, 'profiles' | 'secrets'> {
  sources: SourcesFile;
  refused: readonly RefusedSource[];
  exposed: readonly string[];
  deprecated: readonly string[];
}

function assemble(path: string, parts: Parts, { env, cwd }: ConfigPlace): Settings {
  const { warehouse, profiles, refused, exposed, file_mode, serve, worker, alerts, log, memory } = parts;
  const { keep_runs, privacy_key } = parts;
  const sources = Object.entries(parts.sources).map(([name, source]): [string, SourceSettings] => {
    const declared = profiles.get(name);
    if (declared === undefined) throw new Error(`no profile was loaded for ${name}`);
    const profile = withUsualStore(declared, source.files);
    const resources = Object.keys(profile.resources).filter((one) => source.resources?.includes(one) ?? true);
    const webhook = source.webhook ?? null;
    const { auth = { type: 'none' } } = source;
    const { http, ...rest } = source;
    const hash_key = source.hash_key ?? privacy_key;
    const keys = { ...(hash_key && { hash_key }), ...(privacy_key && { privacy_key }) };
    const files = filesOf({ ...source, name, profile, resources }, { cwd, env, fileMode: file_mode });
    const own = { auth, name, profile, resources, files, webhook, network: networkOf(http, cwd, env) };
    return [name, { ...rest, ...own, ...keys, keep_runs, warehouse: sourceAddress(warehouse, name, cwd) }];
  });
  const ways = sources.flatMap(([, { network }]) => networkSecrets(network));
  const secrets = withSecretParts([
    ...parts.secrets,
    ...credentialsIn(parts),
    ...ways,
    ...addressSecrets(warehouse, env),
    ...(sources.some(([, { files }]) => storesOf(files).some(({ kind }) => kind === 's3')) ? bucketSecrets(env) : []),
  ]);
  return {
    path,
    sources: Object.fromEntries(sources),
    refused,
    exposed,
    deprecated: [...new Set(parts.deprecated)],
    file_mode,
    serve,
    worker,
    alerts,
    control: controlPath({ control: parts.control, warehouse, config: path, cwd, env }),
    log,
    memory,
    secrets,
  };
}

/** Credentials in the settings, as texts that must not be written. */
function credentialsIn({
  sources,
  serve,
  alerts,
  privacy_key,
}: Pick<SettingsFile, 'sources' | 'serve' | 'alerts' | 'privacy_key'>): string[] {
  const found = [...(serve.auth === undefined ? [] : [serve.auth.password]), ...alertSecrets(alerts)];
  if (privacy_key !== undefined) found.push(privacy_key);
  for (const { auth, webhook, ping, hash_key } of Object.values(sources)) {
    if (hash_key !== undefined) found.push(hash_key);
    found.push(...(auth === undefined ? [] : secretsOf(auth)));
    for (const { value } of webhook?.secrets ?? []) found.push(value);
    // Anyone who knows the address of a monitor can silence it.
    for (const url of Object.values(ping)) if (url !== undefined) found.push(url);
  }
  return found;
}

/** What signs requests to a bucket, which the environment alone holds. */
function bucketSecrets(env: NodeJS.ProcessEnv): string[] {
  const { AWS_SECRET_ACCESS_KEY: key = '', AWS_SESSION_TOKEN: token = '' } = env;
  return [key, token].filter((text) => text !== '');
}

function shownPath(path: string, cwd: string): string {
  const below = relative(cwd, path);
  return below === '' || below.startsWith('..') || isAbsolute(below) ? path : below;
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
