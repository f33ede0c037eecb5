import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type Profile, profileSchema } from './profile/profile.ts';
import { type Checked, checkValue } from './file/check-value.ts';
import {
  type Fault,
  type FieldPath,
  isPlainMap,
  partAt,
  pathKey,
  replaceAt,
  type SettingsFinding,
  valueAt,
} from './file/fault.ts';
import { type Filled, interpolate, type Surroundings } from './file/interpolate.ts';
import { secretsIn } from './file/secret-fields.ts';
import { readYamlFile, type YamlFile } from './file/yaml-file.ts';

/** A loaded profile; null if it has faults. */
export interface LoadedProfile {
  profile: Profile | null;
  faults: Fault[];
  /** Texts that must not be logged. */
  secrets: string[];
  /** Fields under a former name, each with its file and line, as shown to a person. */
  deprecated: string[];
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
  deprecated: string[];
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
  const deprecated = layers.flatMap((layer) => layer.deprecated);
  if (faults.length > 0) return { profile: null, faults, secrets, deprecated };
  const value = layers
    .map(({ filled }) => filled.value)
    .filter(isPlainMap)
    .reduceRight((base, over) => extendProfile(base, over), {});
  const inherited = inheritResources(value);
  const checked = checkInherited(inherited, new Set(layers.flatMap(({ filled }) => [...filled.paths])));
  if (checked.findings === null) return { profile: checked.data, faults, secrets, deprecated };
  return {
    profile: null,
    faults: checked.findings.map((finding) => locateInChain(layers, finding)),
    secrets,
    deprecated,
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
  return `expected one of ${packagedProfiles().join(', ')} or the path of a profile, got ${JSON.stringify(name)} (no file ${shown})`;
}

/** The file itself first, then each profile that it extends in turn. */
function readChain(path: string, place: ProfilePlace, above: readonly string[]): { layers: Layer[]; faults: Fault[] } {
  const { read, faults } = readYamlFile(path, place.shown(path));
  if (read === null) return { layers: [], faults };
  const { value, renamed } = withCurrentNames(read.value);
  const filled = interpolate(value, place);
  const layer: Layer = { read, filled, deprecated: renamed.map((field) => renderDeprecated(read.locate(field))) };
  const found = [...filled.findings, ...shapeFindings(filled.value)].map((finding) => read.locate(finding));
  const base = valueAt(filled.value, ['extends']);
  if (typeof base !== 'string' || base === '') return { layers: [layer], faults: found };
  const basePath = profilePath(base, dirname(path));
  const problem = baseProblem(base, basePath, [...above, path], place);
  if (problem !== null) return { layers: [layer], faults: [...found, read.locate(problem)] };
  const rest = readChain(basePath, place, [...above, path]);
  return { layers: [layer, ...rest.layers], faults: [...found, ...rest.faults] };
}

/** Gives the fields that have a former name (`overlap`) their current one; a map that has both keeps both. */
function withCurrentNames(value: unknown): { value: unknown; renamed: SettingsFinding[] } {
  const resources = valueAt(value, ['resources']);
  const names = isPlainMap(resources) ? Object.keys(resources) : [];
  const renamed: SettingsFinding[] = [];
  let current = value;
  for (const resource of [['defaults'], ...names.map((name) => ['resources', name])]) {
    for (const part of ['incremental', 'delete_feed']) {
      const path = [...resource, part];
      const fields = valueAt(value, path);
      if (!isPlainMap(fields) || fields['overlap'] === undefined || fields['lookback'] !== undefined) continue;
      const { overlap: lookback, ...others } = fields;
      current = replaceAt(current, path, { ...others, lookback });
      const message = 'deprecated: write lookback instead of overlap';
      renamed.push({ path: [...path, 'overlap'], part: 'key', message });
    }
  }
  return { value: current, renamed };
}

function renderDeprecated({ file, line, field, message }: Fault): string {
  return `${file}:${line}  ${field}: ${message}`;
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

/** A profile whose resources have all that they inherit. */
interface Inheritance {
  value: Fields;
  /** Resources that extend one that is not there, or each other in a circle. */
  findings: SettingsFinding[];
  /** Where the profile has the value that stands at a path of `value`. */
  origin(path: FieldPath): FieldPath;
  /** The same set of paths (see `pathKey`), and where else their values stand in `value`. */
  spread(paths: ReadonlySet<string>): ReadonlySet<string>;
}

/**
 * Gives each resource the fields of the profile's `defaults`, over them those of the resource that it `extends`, over
 * them its own: as a profile over the one that it extends. In the texts of a resource `{resource}` becomes its name.
 */
function inheritResources(profile: Fields): Inheritance {
  const { defaults = {}, resources } = profile;
  const named = isPlainMap(resources) ? resources : {};
  const ways = new Map(Object.keys(named).map((name) => [name, wayOf(named, name)]));
  const findings = Array.from(ways, ([name, way]) => findingOf(named, name, way)).filter((one) => one !== null);
  const inherited = Object.entries(named).map(([name, own]) => {
    if (!isPlainMap(own) || !isPlainMap(defaults)) return [name, own];
    const layers = (ways.get(name) ?? []).map((one) => named[one]).filter(isPlainMap);
    return [
      name,
      withName(
        layers.reduceRight<Fields>((below, over) => merge(below, over), defaults),
        name,
      ),
    ];
  });
  if (partAt(defaults, 'extends') !== undefined) findings.push(NO_BASE);
  return {
    value: isPlainMap(resources) ? { ...profile, resources: Object.fromEntries(inherited) } : profile,
    findings,
    origin: (path) => originOf(profile, ways, path),
    spread: (paths) => spreadOver(ways, paths),
  };
}

const NO_BASE: SettingsFinding = {
  path: ['defaults', 'extends'],
  part: 'key',
  message: 'expected no extends here: defaults hold for every resource, and extend none',
};

/** The resource and those that it extends, the nearest first; ends before a name that is not there or comes again. */
function wayOf(named: Fields, name: string): string[] {
  const way: string[] = [];
  for (let at: unknown = name; typeof at === 'string' && Object.hasOwn(named, at) && !way.includes(at);) {
    way.push(at);
    at = partAt(named[at], 'extends');
  }
  return way;
}

function findingOf(named: Fields, name: string, way: readonly string[]): SettingsFinding | null {
  const last = way.at(-1) ?? name;
  const base = partAt(named[last], 'extends');
  if (typeof base !== 'string') return null;
  const known = Object.keys(named).filter((one) => one !== last);
  const message = Object.hasOwn(named, base)
    ? `expected resources that do not extend each other in a circle, got ${JSON.stringify(base)} again`
    : `expected one of ${known.join(', ')}, got ${JSON.stringify(base)}`;
  return { path: ['resources', last, 'extends'], part: 'value', message };
}

function withName(value: Fields, name: string): Fields {
  const named = (one: unknown): unknown => {
    if (typeof one === 'string') return one.replaceAll('{resource}', name);
    if (Array.isArray(one)) return one.map(named);
    return isPlainMap(one) ? Object.fromEntries(Object.entries(one).map(([key, below]) => [key, named(below)])) : one;
  };
  return Object.fromEntries(Object.entries(value).map(([key, below]) => [key, named(below)]));
}

/** Of the places that a resource has its fields from, the one that has most of the path; the nearest if several have. */
function originOf(profile: Fields, ways: ReadonlyMap<string, readonly string[]>, path: FieldPath): FieldPath {
  const [top, name, ...below] = path;
  const way = top === 'resources' && typeof name === 'string' ? (ways.get(name) ?? []) : [];
  let best = path;
  let deepest = -1;
  for (const place of [...way.map((one) => ['resources', one]), ...(way.length === 0 ? [] : [['defaults']])]) {
    const depth = depthOf(place.reduce<unknown>(partAt, profile), below);
    if (depth <= deepest) continue;
    deepest = depth;
    best = [...place, ...below];
  }
  return best;
}

function depthOf(value: unknown, path: FieldPath): number {
  let at = value;
  for (const [depth, part] of path.entries()) {
    at = partAt(at, part);
    if (at === undefined) return depth;
  }
  return path.length;
}

function spreadOver(ways: ReadonlyMap<string, readonly string[]>, paths: ReadonlySet<string>): ReadonlySet<string> {
  const spread = new Set(paths);
  for (const [name, way] of ways) {
    const places = [...way.map((one) => pathKey(['resources', one, ''])), pathKey(['defaults', ''])];
    for (const path of paths) {
      const place = places.find((one) => path.startsWith(one));
      if (place !== undefined) spread.add(pathKey(['resources', name, path.slice(place.length)]));
    }
  }
  return spread;
}

/** The fields of a part of a profile, unchecked. */
export type Fields = Record<string, unknown>;

/** Fields that say of what kind a map is: a map of another kind replaces the base's instead of extending it. */
const KIND_FIELDS = ['style', 'type', 'mode'];

/** What stands below is one thing: of two filters, each in several parameters, half of each would be none. */
const WHOLE_FIELDS = 'incremental';

/**
 * Applies a profile to the one that it extends: maps are merged, texts, numbers and lists replaced. A resource that is
 * set to null is left out, and a `page` of another style replaces the base's page as a whole.
 */
export function extendProfile(base: Fields, over: Fields): Fields {
  const merged = merge(base, over);
  const resources = merged['resources'];
  if (!isPlainMap(resources)) return merged;
  return { ...merged, resources: Object.fromEntries(Object.entries(resources).filter(([, value]) => value !== null)) };
}

/**
 * One map over another: maps are merged, anything else is replaced; so is a map of another kind. `field` is the name of
 * the map itself.
 */
function merge(base: Fields, over: Fields, field = ''): Fields {
  const merged: Fields = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = base[key];
    const goesOn = field !== WHOLE_FIELDS && isPlainMap(below) && isPlainMap(value) && isSameKind(below, value);
    merged[key] = goesOn ? merge(below, value, key) : value;
  }
  return merged;
}

function isSameKind(below: Fields, value: Fields): boolean {
  return KIND_FIELDS.every((field) => value[field] === undefined || value[field] === below[field]);
}

/** The folder of this package, which holds `config/`; found from `src/` as well as from `dist/src/`. */
export function packageRoot(from = import.meta.dirname): string {
  if (existsSync(join(from, 'package.json'))) return from;
  const above = dirname(from);
  if (above === from) throw new Error('package.json of content-sync not found above its own code');
  return packageRoot(above);
}
