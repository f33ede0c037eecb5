import type { z } from 'zod';
import type { Profile } from '../source/profile.ts';
import { crossCheck } from './cross-check.ts';
import { checkValue } from './file/check-value.ts';
import type { Fault, SettingsFinding } from './file/fault.ts';
import { isPlainMap, pathKey, valueAt } from './file/field-path.ts';
import { interpolate, type Surroundings } from './file/interpolate.ts';
import { holdsLiteralSecret } from './file/secret-fields.ts';
import type { LoadedProfile } from './load-profile.ts';
import type { SourcesFile } from './settings.ts';
import { insecureFindings } from './transport.ts';

/** A file with sources, or with one of them, before it is checked. */
export interface UncheckedFile {
  value: unknown;
  locate: (finding: SettingsFinding) => Fault;
}

/** The outcome of a check; `data` is null if the file does not fit its schema. */
export interface CheckedFile<T> {
  data: T | null;
  faults: Fault[];
  /** By the name of the source. */
  profiles: Map<string, Profile>;
  /** Texts from secret files and profiles that must not be logged. */
  secrets: string[];
  /** True if a secret stands in the file itself. */
  holdsSecret: boolean;
}

/** Loads a profile by its name or path; `missing` is the message if there is none. */
export type ReadProfile = (name: string) => LoadedProfile | { missing: string };

/** Fills in and checks a file, and loads each profile that it names, even if other fields are at fault. */
export function checkFile<T extends { sources: SourcesFile | string }>(
  schema: z.ZodType<T>,
  { value, locate }: UncheckedFile,
  surroundings: Surroundings,
  readProfile: ReadProfile,
): CheckedFile<T> {
  const filled = interpolate(value, surroundings);
  const unfilled = new Set(filled.findings.map((finding) => pathKey(finding.path)));
  const { data, findings } = checkValue(schema, filled.value ?? {}, filled.paths);
  const loaded = loadProfiles(filled.value, unfilled, readProfile);
  // A field whose variable is not set is reported once, and not also because its placeholder is no URL.
  const formal = (findings ?? []).filter((one) => !unfilled.has(pathKey(one.path)));
  const sources = data === null || typeof data.sources === 'string' ? {} : data.sources;
  const crossed = [...crossCheck(sources, loaded.profiles), ...insecureFindings(sources)];
  const all = [...filled.findings, ...formal, ...crossed, ...loaded.findings];
  const faults = [...all.map(locate), ...loaded.faults];
  const secrets = [...filled.secrets, ...loaded.secrets];
  const holdsSecret = holdsLiteralSecret(value, filled.paths);
  return { data, faults, profiles: loaded.profiles, secrets, holdsSecret };
}

interface LoadedProfiles extends Omit<CheckedFile<never>, 'data' | 'holdsSecret'> {
  findings: SettingsFinding[];
}

function loadProfiles(value: unknown, unfilled: ReadonlySet<string>, readProfile: ReadProfile): LoadedProfiles {
  const loaded: LoadedProfiles = { profiles: new Map(), findings: [], faults: [], secrets: [] };
  const sources = valueAt(value, ['sources']);
  for (const source of Object.keys(isPlainMap(sources) ? sources : {})) {
    const path = ['sources', source, 'profile'];
    const name = valueAt(value, path);
    if (typeof name !== 'string' || name === '' || unfilled.has(pathKey(path))) continue;
    const result = readProfile(name);
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
