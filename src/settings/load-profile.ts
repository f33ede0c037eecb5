import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { profileSchema, type Profile } from '../source/profile.ts';
import { checkValue, type Checked } from './file/check-value.ts';
import { suggestion } from './file/did-you-mean.ts';
import type { Fault, SettingsFinding } from './file/fault.ts';
import { isPlainMap, valueAt } from './file/field-path.ts';
import { interpolate, type Filled, type Surroundings } from './file/interpolate.ts';
import { secretsIn } from './file/secret-fields.ts';
import { readYamlFile, type YamlFile } from './file/yaml-file.ts';
import { extendProfile } from './extend-profile.ts';
import { packageRoot } from './package-root.ts';
import { inheritResources, type Inheritance } from './inherit-resources.ts';

/** A loaded profile; null if it has faults. */
export interface LoadedProfile {
  profile: Profile | null;
  faults: Fault[];
  /** Texts that must not be logged. */
  secrets: string[];
}

/** The surroundings that profiles are loaded in. */
export interface ProfilePlace extends Surroundings {
  /** The path of a file as a message shows it. */
  shown(path: string): string;
}

/** One file of an `extends` chain, its texts filled in. */
interface Layer {
  read: YamlFile;
  filled: Filled;
}

const BARE_NAME = /^[a-z0-9][a-z0-9_-]*$/i;

/** `loadProfile` that reads each profile only once, however many sources name it. */
export function profileReader(): typeof loadProfile {
  const known = new Map<string, ReturnType<typeof loadProfile>>();
  return (name, folder, place) => {
    const path = profilePath(name, folder);
    const loaded = known.get(path) ?? loadProfile(name, folder, place);
    known.set(path, loaded);
    return loaded;
  };
}

/**
 * Reads a profile and all that it extends. A bare name means a profile that comes with this package
 * (`config/profiles/<name>.yaml`), anything else is a path relative to `folder`.
 */
function loadProfile(name: string, folder: string, place: ProfilePlace): LoadedProfile | { missing: string } {
  const path = profilePath(name, folder);
  if (!existsSync(path)) return { missing: missingProfile(name, place.shown(path)) };
  const { layers, faults } = readChain(path, place, []);
  const secrets = layers.flatMap(({ filled }) => [...filled.secrets, ...secretsIn(filled.value, filled.paths)]);
  if (faults.length > 0) return { profile: null, faults, secrets };
  const value = layers
    .map(({ filled }) => filled.value)
    .filter(isPlainMap)
    .reduceRight((base, over) => extendProfile(base, over), {});
  const inherited = inheritResources(value);
  const checked = checkInherited(inherited, new Set(layers.flatMap(({ filled }) => [...filled.paths])));
  if (checked.findings === null) return { profile: checked.data, faults, secrets };
  return {
    profile: null,
    faults: checked.findings.map((finding) => locateInChain(layers, finding)),
    secrets,
  };
}

/** A profile that comes with this package. Throws if it has faults, which its tests do not let pass. */
export function readPackagedProfile(name: string): Profile {
  const place = { env: {}, readSecret: () => '', shown: (path: string) => path };
  const loaded = loadProfile(name, packageRoot(), place);
  if ('missing' in loaded) throw new Error(loaded.missing);
  if (loaded.profile === null) throw new Error(loaded.faults.map(({ message }) => message).join('; '));
  return loaded.profile;
}

function checkInherited(inherited: Inheritance, filled: ReadonlySet<string>): Checked<Profile> {
  if (inherited.findings.length > 0) return { data: null, findings: inherited.findings };
  const checked = checkValue(profileSchema, inherited.value, inherited.spread(filled));
  if (checked.findings === null) return checked;
  return {
    data: null,
    findings: checked.findings.map(({ path, part, message }) => ({ path: inherited.origin(path), part, message })),
  };
}

/** Names of the profiles that come with this package. */
export function packagedProfiles(): string[] {
  const files = readdirSync(join(packageRoot(), 'config', 'profiles'));
  return files
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => file.slice(0, -'.yaml'.length))
    .toSorted();
}

/** The path of a profile: in this package for a bare name, else relative to `folder`. */
export function profilePath(name: string, folder: string): string {
  return BARE_NAME.test(name) ? join(packageRoot(), 'config', 'profiles', `${name}.yaml`) : resolve(folder, name);
}

function missingProfile(name: string, shown: string): string {
  const names = packagedProfiles();
  const known = BARE_NAME.test(name) ? suggestion(name, names) : '';
  return `expected one of ${names.join(', ')} or the path of a profile, got ${JSON.stringify(name)} (no file ${shown})${known}`;
}

/** The file itself first, then each profile that it extends in turn. */
function readChain(path: string, place: ProfilePlace, above: readonly string[]): { layers: Layer[]; faults: Fault[] } {
  const { read, faults } = readYamlFile(path, place.shown(path));
  if (read === null) return { layers: [], faults };
  const filled = interpolate(read.value, place);
  const layer: Layer = { read, filled };
  const found = [...filled.findings, ...shapeFindings(filled.value)].map((finding) => read.locate(finding));
  const base = valueAt(filled.value, ['extends']);
  if (typeof base !== 'string' || base === '') return { layers: [layer], faults: found };
  const basePath = profilePath(base, dirname(path));
  const problem = baseProblem(base, basePath, [...above, path], place);
  if (problem !== null) return { layers: [layer], faults: [...found, read.locate(problem)] };
  const rest = readChain(basePath, place, [...above, path]);
  return { layers: [layer, ...rest.layers], faults: [...found, ...rest.faults] };
}

function baseProblem(
  base: string,
  path: string,
  above: readonly string[],
  place: ProfilePlace,
): SettingsFinding | null {
  const message = !existsSync(path)
    ? missingProfile(base, place.shown(path))
    : above.includes(path)
      ? `expected profiles that do not extend each other in a circle, got ${JSON.stringify(base)} again`
      : null;
  return message === null ? null : { path: ['extends'], part: 'value', message };
}

function shapeFindings(value: unknown): SettingsFinding[] {
  if (isPlainMap(value)) return [];
  return [{ path: [], part: 'value', message: 'expected a map with the fields of a profile, got something else' }];
}

/** Locates the finding in the uppermost layer that has most of its path; a list or a plain value hides lower layers. */
function locateInChain(layers: readonly Layer[], finding: SettingsFinding): Fault {
  let best = layers[0];
  let deepest = -1;
  for (const layer of layers) {
    const { depth, open } = layer.read.reach(finding.path);
    if (depth > deepest) {
      deepest = depth;
      best = layer;
    }
    if (!open && depth > 0) break;
  }
  if (best === undefined) throw new Error('a profile without any file');
  return best.read.locate(finding);
}
