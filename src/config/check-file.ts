import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { z } from 'zod';
import { messageOf } from '../model/errors.ts';
import { crossCheck } from './cross-check.ts';
import { checkValue } from './file/check-value.ts';
import { holdsLiteralSecret, interpolate, isReadableByOthers, type Surroundings } from './file/interpolate.ts';
import {
  type Fault,
  type FieldPath,
  isPlainMap,
  pathKey,
  readYamlFile,
  type SettingsFinding,
  valueAt,
  type LocatedValue,
} from './file/yaml-file.ts';
import type { LoadedProfile, ProfilePlace } from './load-profile.ts';
import type { Profile } from './profile/profile.ts';
import { namedSourceSchema, SOURCE_NAME, type SourcesFile } from './settings.ts';
import { isLoopback } from './warehouse-address.ts';

/** The outcome of a check; `data` is null if the file does not fit its schema. */
export interface CheckedFile<T> {
  data: T | null;
  faults: Fault[];
  /** By the name of the source. */
  profiles: Map<string, Profile>;
  /** Texts from secret files and profiles that must not be logged. */
  secrets: string[];
  /** True if the file itself contains a secret. */
  holdsSecret: boolean;
  /** Fields of its profiles under a former name, as shown to a person. */
  deprecated: string[];
}

/** What surrounds the file, and the settings for all sources that the check of one source's file needs. */
export interface CheckPlace extends Surroundings {
  hasPrivacyKey?: boolean;
}

/** Loads a profile by name or path; `missing` is the message if it does not exist. */
export type ReadProfile = (name: string) => LoadedProfile | { missing: string };

/** Fills in the placeholders of a file, checks it, and loads each profile it names, even if other fields are wrong. */
export function checkFile<T extends { sources: SourcesFile | string; privacy_key?: string | undefined }>(
  schema: z.ZodType<T>,
  { value, locate }: LocatedValue,
  surroundings: CheckPlace,
  readProfile: ReadProfile,
): CheckedFile<T> {
  const filled = interpolate(value, surroundings);
  const { data, findings } = checkValue(schema, filled.value ?? {}, filled.paths);
  const loaded = loadProfiles(filled.value, filled.unset, readProfile);
  // A field whose variable is not set is reported once, and not also because its placeholder is no URL.
  const isSet = ({ path }: SettingsFinding): boolean =>
    !filled.unset.has(pathKey(path)) && !filled.unset.has(pathKey([...path, 'value']));
  const formal = (findings ?? []).filter(isSet);
  const sources = data === null || typeof data.sources === 'string' ? {} : data.sources;
  const crossed = [
    ...crossCheck(sources, loaded.profiles, surroundings.hasPrivacyKey === true || hasPrivacyKey(data)).filter(isSet),
    ...insecureFindings(sources, loaded.profiles),
  ];
  const all = [...filled.findings, ...formal, ...crossed, ...loaded.findings];
  const faults = [...all.map(locate), ...loaded.faults];
  const secrets = [...filled.secrets, ...loaded.secrets];
  const holdsSecret = holdsLiteralSecret(value, filled.paths);
  return { data, faults, profiles: loaded.profiles, secrets, holdsSecret, deprecated: loaded.deprecated };
}

function hasPrivacyKey(data: { privacy_key?: string | undefined } | null): boolean {
  return data?.privacy_key !== undefined;
}

interface LoadedProfiles extends Omit<CheckedFile<never>, 'data' | 'holdsSecret'> {
  findings: SettingsFinding[];
}

function loadProfiles(value: unknown, unset: ReadonlySet<string>, readProfile: ReadProfile): LoadedProfiles {
  const loaded: LoadedProfiles = {
    profiles: new Map(),
    findings: [],
    faults: [],
    secrets: [],
    deprecated: [],
  };
  const sources = valueAt(value, ['sources']);
  for (const source of Object.keys(isPlainMap(sources) ? sources : {})) {
    const path = ['sources', source, 'profile'];
    const name = valueAt(value, path);
    if (typeof name !== 'string' || name === '' || unset.has(pathKey(path))) continue;
    const result = readProfile(name);
    if ('missing' in result) {
      loaded.findings.push({ path, part: 'value', message: result.missing });
      continue;
    }
    if (result.profile !== null) loaded.profiles.set(source, result.profile);
    loaded.faults.push(...result.faults);
    loaded.secrets.push(...result.secrets);
    loaded.deprecated.push(...result.deprecated);
  }
  return loaded;
}

/** A file of the folder. A file with faults may have a source all the same. */
export interface CheckedSourceFile {
  name: string;
  /** As shown to a person. */
  file: string;
  source: { settings: SourcesFile[string]; profile: Profile } | null;
  faults: Fault[];
  secrets: string[];
  /** True if the file itself contains a secret, and other users may read it. */
  isExposed: boolean;
  deprecated: string[];
}

/** Reads every source of a folder, in the order of their names. Ignores hidden files, folders and other kinds of files. */
export function readSourceFolder(
  folder: string,
  place: ProfilePlace & CheckPlace,
  readProfile: ReadProfile,
): { files: CheckedSourceFile[] } | { problem: string } {
  const names = fileNames(folder);
  if ('problem' in names) return names;
  if (names.found.length === 0) return { problem: `expected at least one <name>.yaml in the folder` };
  return { files: names.found.map((name) => readSource(join(folder, name), name, place, readProfile)) };
}

function fileNames(folder: string): { found: string[] } | { problem: string } {
  try {
    // In a mounted ConfigMap the files are links, so the kind of an entry is not checked.
    const found = readdirSync(folder).filter((name) => /^[^.].*\.ya?ml$/.test(name));
    return { found: found.toSorted() };
  } catch (error) {
    return { problem: `expected a readable folder (${messageOf(error).replace(/^(\w+).*/s, '$1')})` };
  }
}

function readSource(
  path: string,
  fileName: string,
  place: ProfilePlace & CheckPlace,
  readProfile: ReadProfile,
): CheckedSourceFile {
  const name = fileName.replace(/\.ya?ml$/, '');
  const file = place.shown(path);
  const unreadable = { name, file, source: null, secrets: [], isExposed: false, deprecated: [] };
  if (!fileName.endsWith('.yaml') || !SOURCE_NAME.test(name)) {
    const message = `expected a file name such as blog.yaml, in lower case, got ${JSON.stringify(fileName)}`;
    return { ...unreadable, faults: [{ file, line: 1, column: 1, field: '', message }] };
  }
  const { read, faults } = readYamlFile(path, file);
  if (read === null) return { ...unreadable, faults };
  // Checked as if it stood in the config file, so that the same rules hold for its fields.
  const value = { sources: { [name]: read.value } };
  const locate: typeof read.locate = (finding) => read.locate({ ...finding, path: finding.path.slice(2) });
  const checked = checkFile(namedSourceSchema, { value, locate }, place, readProfile);
  const settings = checked.data?.sources[name];
  const profile = checked.profiles.get(name);
  const source = settings === undefined || profile === undefined ? null : { settings, profile };
  const isExposed = checked.holdsSecret && isReadableByOthers(path);
  const { faults: found, secrets, deprecated } = checked;
  return { name, file, source, faults: found, secrets, isExposed, deprecated };
}

/** Addresses to which a source's credential would be sent without encryption, unless `allow_insecure` says so. */
function insecureFindings(sources: SourcesFile, profiles: ReadonlyMap<string, Profile>): SettingsFinding[] {
  return Object.entries(sources).flatMap(([name, source]): SettingsFinding[] => {
    if (source.allow_insecure) return [];
    return credentialUrls(source, profiles.get(name)).flatMap(({ path, url }): SettingsFinding[] => {
      const { protocol, hostname } = new URL(url);
      if (protocol === 'https:' || isLoopback(hostname)) return [];
      const message = `expected https, because the credential would cross the network unencrypted, got http (in a network that you trust, set sources.${name}.allow_insecure: true)`;
      return [{ path: ['sources', name, ...path], part: 'value', message }];
    });
  });
}

/** Where the credential goes, by the field of the source that says so. */
function credentialUrls(
  { base_url, auth }: SourcesFile[string],
  profile: Profile | undefined,
): { path: FieldPath; url: string }[] {
  if (auth === undefined || auth.type === 'none') return [];
  const base = { path: ['base_url'], url: base_url };
  if (auth.type !== 'oauth') return [base];
  if (auth.token_url !== undefined) return [base, { path: ['auth', 'token_url'], url: auth.token_url }];
  const inProfile = (profile?.auth ?? []).flatMap((scheme) =>
    scheme.type === 'oauth' ? (scheme.token_url ?? []) : [],
  );
  return [base, ...inProfile.map((url) => ({ path: ['profile'], url }))];
}

/** The fault of an environment in which no certificate would be checked. */
export function tlsFaults(env: NodeJS.ProcessEnv): Fault[] {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return [];
  const field = 'NODE_TLS_REJECT_UNAUTHORIZED';
  const message =
    'expected to be unset, got 0: certificates would not be checked; for a certificate authority of your own, set NODE_EXTRA_CA_CERTS';
  return [{ file: 'environment', line: 1, column: 1, field, message }];
}
