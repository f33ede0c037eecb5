// Loads the config file with all sources, secret files and profiles (`loadSettings`). A user who fixes a config wants to see
// all faults at once, so each step collects its faults and goes on; `loadSettings` throws them together at the end.
import { existsSync, readdirSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { ConfigError, messageOf } from '../model/errors.ts';
import { alertFindings, alertSecrets } from './alerts-schema.ts';
import { type CheckedSource, checkSource, type SourceContext, type SourceEntry } from './check-source.ts';
import { checkValue } from './file/check-value.ts';
import { interpolate, isReadableByOthers, readSecretFile } from './file/interpolate.ts';
import { holdsLiteralSecret, withSecretParts } from './file/secret-fields.ts';
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
import { profileReader } from './load-profile.ts';
import { networkSecrets, resolveNetwork } from './network.ts';
import { secretsOf } from './profile/auth.ts';
import { resolveFiles, storeFindings, storesOf } from './profile/file-fields.ts';
import { controlPath, type Settings, settingsSchema, SOURCE_NAME, type SourceSettings } from './settings.ts';
import {
  addressSecrets,
  sharingFault,
  sourceAddress,
  sourceNameFault,
  warehouseTransportFault,
} from './warehouse-address.ts';

const DEFAULT_PATH = join('config', 'content-sync.yaml');

/** Where the config file is, and the environment in which it is read. */
export interface SettingsInput {
  /** From `--config`; else `CONTENT_SYNC_CONFIG`, else `config/content-sync.yaml`. */
  path?: string | undefined;
  env: NodeJS.ProcessEnv;
  /** Base of relative paths of the config file and of the warehouse. */
  cwd: string;
  /** Loads only this source, if it exists, so that secrets of the others may be missing. Default: all sources. */
  source?: string | undefined;
  /** True if secrets that are missing are no fault. */
  secretsOptional?: boolean | undefined;
}

/**
 * Reads the config file, the files of its sources, the secret files and all profiles that they name. If sources have
 * separate files, one with faults is `refused`, and the others are loaded.
 * @throws ConfigError `settings_not_found`, or `settings_invalid` with every fault of all files, one per line:
 *   `file:line:column  field: expected …, got …`, without secrets.
 */
export function loadSettings({ path, env, cwd, source: only = '', secretsOptional = false }: SettingsInput): Settings {
  const configPath = resolve(cwd, path ?? (env['CONTENT_SYNC_CONFIG'] || DEFAULT_PATH));
  const displayPath = (file: string): string => toDisplayPath(file, cwd);
  if (!existsSync(configPath)) {
    throw new ConfigError('settings_not_found', `${displayPath(configPath)}: expected a config file, got none`, {
      hint: 'content-sync init writes one; if you have one elsewhere, name it with --config or CONTENT_SYNC_CONFIG',
    });
  }
  const { read: config, faults } = readYamlFile(configPath, displayPath(configPath));
  if (config === null) throw settingsError({ faults });
  const context: SourceContext = {
    env,
    cwd,
    secretsOptional,
    displayPath,
    readSecret: readSecretFile,
    readProfile: profileReader(),
    hasPrivacyKey: valueAt(config.value, ['privacy_key']) !== undefined,
  };
  const listed = listSources(config, context);
  const names = listed.entries.map(({ name }) => name);
  const chosen = listed.entries.filter(({ name }) => !names.includes(only) || name === only);
  const checked = chosen.map((entry) => checkSource(entry, context));
  const common = checkCommon(config, context, checked, names);
  const sources = checked.map((each) => withMoreFaults(each, common.sourceFindings));
  const usable = sources.filter((each) => each.source !== null && each.faults.length === 0);
  const commonFaults = [...listed.faults, ...common.faults, ...tlsFaults(env)];
  const isUsable = usable.length === sources.length || (listed.isFolder && usable.length > 0);
  if (common.data === null || commonFaults.length > 0 || !isUsable) {
    throw settingsError({ faults: [...commonFaults, ...sources.flatMap((each) => each.faults)] });
  }
  return deepFreeze(assembleSettings(config, { ...common, data: common.data }, sources, context));
}

interface ListedSources {
  /** True if each source has a separate file, so that a fault stops only that source. */
  isFolder: boolean;
  entries: SourceEntry[];
  faults: Fault[];
}

/** Lists the sources in the config file, or in the folder that it names. */
function listSources(config: YamlFile, context: SourceContext): ListedSources {
  const written = interpolate(valueAt(config.value, ['sources']), context).value;
  if (isPlainMap(written)) {
    const sources = valueAt(config.value, ['sources']);
    const { file, path, locate } = config;
    const entries = Object.keys(written).map((name) => {
      return { name, file, path, value: valueAt(sources, [name]), locate, faults: [] };
    });
    const message = 'expected at least one source, got a map';
    const empty = entries.length > 0 ? [] : [config.locate({ path: ['sources'], part: 'value', message })];
    return { isFolder: false, entries, faults: empty };
  }
  if (typeof written !== 'string') return { isFolder: false, entries: [], faults: [] };
  const folder = resolve(dirname(config.path), written);
  try {
    // The entries may be links, as in a mounted ConfigMap.
    const files = readdirSync(folder).filter((name) => /^[^.].*\.ya?ml$/.test(name));
    if (files.length === 0) throw new Error('at least one <name>.yaml in the folder');
    const entries = files.toSorted().map((name) => readSourceFile(join(folder, name), name, context));
    return { isFolder: true, entries, faults: [] };
  } catch (error) {
    const reason = messageOf(error).replace(/^([A-Z]+)\b.*/s, 'a readable folder ($1)');
    const fault = config.locate({ path: ['sources'], part: 'value', message: `expected ${reason}` });
    return { isFolder: true, entries: [], faults: [fault] };
  }
}

function readSourceFile(path: string, fileName: string, context: SourceContext): SourceEntry {
  const name = fileName.replace(/\.ya?ml$/, '');
  const file = context.displayPath(path);
  const locate = ({ message }: SettingsFinding): Fault => ({ file, line: 1, column: 1, field: '', message });
  const unreadable = { name, file, path, value: undefined, locate };
  if (!fileName.endsWith('.yaml') || !SOURCE_NAME.test(name)) {
    const message = `expected a file name such as blog.yaml, in lower case, got ${JSON.stringify(fileName)}`;
    return { ...unreadable, faults: [locate({ path: [], part: 'value', message })] };
  }
  const { read, faults } = readYamlFile(path, file);
  if (read === null) return { ...unreadable, faults };
  // The file is checked like an entry of the config file, whose paths have two more parts.
  return {
    ...unreadable,
    value: read.value,
    faults,
    locate: (finding) => read.locate({ ...finding, path: finding.path.slice(2) }),
  };
}

interface CheckedCommon<Data> {
  data: Data;
  /** Faults of the settings outside of sources. */
  faults: Fault[];
  /** Findings about single sources that checking them alone does not show, such as two that share a file store. */
  sourceFindings: SettingsFinding[];
  secrets: string[];
  /** True if the config file contains a secret outside of its sources. */
  holdsSecret: boolean;
}

type CommonSettings = ReturnType<typeof settingsSchema.parse>;

/** Checks all settings outside of sources, and sources against them and each other. */
function checkCommon(
  { value: whole, locate }: YamlFile,
  context: SourceContext,
  checked: readonly CheckedSource[],
  names: readonly string[],
): CheckedCommon<CommonSettings | null> {
  const written = valueAt(whole, ['sources']);
  const value = isPlainMap(written) ? replaceAt(whole, ['sources'], {}) : whole;
  const filled = interpolate(value, context);
  const { data, findings } = checkValue(settingsSchema, filled.value ?? {}, filled.paths);
  const schemaFindings = findings?.filter(
    ({ path }) => !filled.findings.some((each) => each.path.join() === path.join()),
  );
  const usable = checked.flatMap(({ name, source }) => {
    if (source === null) return [];
    const { profile, settings } = source;
    return [{ name, profile, resources: settings.resources ?? Object.keys(profile.resources) }];
  });
  const found = [
    ...filled.findings,
    ...(schemaFindings ?? []),
    ...(data === null ? [] : commonFindings(data, names, typeof written === 'string', context.env)),
    ...storeFindings(usable, context.cwd),
  ];
  return {
    data,
    faults: found.filter((finding) => !isAboutSource(finding)).map(locate),
    sourceFindings: found.filter(isAboutSource),
    secrets: filled.secrets,
    holdsSecret: holdsLiteralSecret(value, filled.paths),
  };
}

/** Finds settings that do not fit the sources or the environment. To a folder, sources may be added at any time. */
function commonFindings(
  { warehouse, alerts }: CommonSettings,
  names: readonly string[],
  isFolder: boolean,
  env: NodeJS.ProcessEnv,
): SettingsFinding[] {
  const message = warehouseTransportFault(warehouse, env);
  const transport: SettingsFinding[] = message === null ? [] : [{ path: ['warehouse'], part: 'value', message }];
  return [...placementFindings(warehouse, names, isFolder), ...transport, ...alertFindings(alerts, names)];
}

function isAboutSource({ path }: SettingsFinding): boolean {
  return path[0] === 'sources' && path.length > 1;
}

/** Checks that each source has a separate file or schema in the warehouse; `mayGrow` if sources may be added later. */
export function placementFindings(warehouse: string, sources: readonly string[], mayGrow: boolean): SettingsFinding[] {
  const shared = mayGrow || sources.length > 1 ? sharingFault(warehouse) : null;
  if (shared !== null) return [{ path: ['warehouse'], part: 'value', message: shared }];
  return sources.flatMap((name): SettingsFinding[] => {
    const message = sourceNameFault(warehouse, name, sources);
    return message === null ? [] : [{ path: ['sources', name], part: 'key', message }];
  });
}

/** Adds the findings about this source to its faults. */
function withMoreFaults(source: CheckedSource, found: readonly SettingsFinding[]): CheckedSource {
  const faults = found.filter(({ path }) => path[1] === source.name).map(source.locate);
  return { ...source, faults: [...source.faults, ...faults] };
}

/** Finds the variable that disables the check of certificates. */
function tlsFaults(env: NodeJS.ProcessEnv): Fault[] {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return [];
  const field = 'NODE_TLS_REJECT_UNAUTHORIZED';
  const message =
    'expected to be unset, got 0: certificates would not be checked; for a certificate authority of your own, set NODE_EXTRA_CA_CERTS';
  return [{ file: 'environment', line: 1, column: 1, field, message }];
}

/** Builds the settings from the checked parts. */
function assembleSettings(
  config: YamlFile,
  { data, secrets, holdsSecret }: CheckedCommon<CommonSettings>,
  checked: readonly CheckedSource[],
  { env, cwd }: SourceContext,
): Settings {
  const { warehouse, sources: _, control, privacy_key, keep_runs, ...common } = data;
  const usable = checked.filter(({ faults }) => faults.length === 0);
  const sources = usable.flatMap(({ name, source }): SourceSettings[] => {
    if (source === null) return [];
    const { http, ...settings } = source.settings;
    const { profile } = source;
    const resources = Object.keys(profile.resources).filter((one) => settings.resources?.includes(one) ?? true);
    const hash_key = settings.hash_key ?? privacy_key;
    const filesContext = { cwd, env, fileMode: common.file_mode };
    return [
      {
        ...settings,
        ...(hash_key && { hash_key }),
        ...(privacy_key && { privacy_key }),
        name,
        profile,
        resources,
        auth: settings.auth ?? { type: 'none' },
        files: resolveFiles({ ...settings, name, profile, resources }, filesContext),
        webhook: settings.webhook ?? null,
        network: resolveNetwork(http, cwd, env),
        keep_runs,
        warehouse: sourceAddress(warehouse, name, cwd),
      },
    ];
  });
  const exposing = [...(holdsSecret ? [config] : []), ...checked.filter((each) => each.holdsSecret)];
  return {
    ...common,
    path: config.path,
    sources: Object.fromEntries(sources.map((source) => [source.name, source])),
    refused: checked.filter(({ faults }) => faults.length > 0).map(({ name, faults }) => ({ name, faults })),
    exposed: [...new Set(exposing.filter(({ path }) => isReadableByOthers(path)).map(({ file }) => file))],
    control: controlPath({ control, warehouse, config: config.path, cwd, env }),
    secrets: withSecretParts([
      ...secrets,
      ...checked.flatMap((each) => each.secrets),
      ...sources.flatMap(credentialsIn),
      ...(common.serve.auth === undefined ? [] : [common.serve.auth.password]),
      ...alertSecrets(common.alerts),
      ...(privacy_key === undefined ? [] : [privacy_key]),
      ...addressSecrets(warehouse, env),
      ...(sources.some(({ files }) => storesOf(files).some(({ kind }) => kind === 's3')) ? bucketSecrets(env) : []),
    ]),
  };
}

/** Returns the credentials in the settings of a source, which must not be logged. */
function credentialsIn({ auth, webhook, ping, hash_key, network }: SourceSettings): string[] {
  return [
    ...(hash_key === undefined ? [] : [hash_key]),
    ...secretsOf(auth),
    ...(webhook?.secrets ?? []).map(({ value }) => value),
    // Anyone who knows the address of a monitor can silence it.
    ...Object.values(ping).filter((url) => url !== undefined),
    ...networkSecrets(network),
  ];
}

/** Returns the secrets of a bucket, which are only in the environment. */
function bucketSecrets(env: NodeJS.ProcessEnv): string[] {
  const { AWS_SECRET_ACCESS_KEY: key = '', AWS_SESSION_TOKEN: token = '' } = env;
  return [key, token].filter((text) => text !== '');
}

/** The path as messages show it: relative to the working directory, unless it is outside of that. */
function toDisplayPath(path: string, cwd: string): string {
  const below = relative(cwd, path);
  return below === '' || below.startsWith('..') || isAbsolute(below) ? path : below;
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
