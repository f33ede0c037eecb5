// Loads a profile (`loadProfile`). `extends: family-odata` makes a profile inherit the fields of another one; a resource may
// extend another resource, and all resources inherit `defaults`. The fields are merged here, and then checked. A fault is
// reported with the file and line from which the wrong field comes.
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { checkValue } from './file/check-value.ts';
import { interpolate, type InterpolationContext } from './file/interpolate.ts';
import { secretsIn } from './file/secret-fields.ts';
import {
  type Fault,
  type FieldPath,
  isPlainMap,
  mapTexts,
  partAt,
  readYamlFile,
  replaceAt,
  type SettingsFinding,
  valueAt,
  type YamlFile,
} from './file/yaml-file.ts';
import { type Profile, profileSchema } from './profile/profile.ts';

/** A loaded profile; null if it has faults. */
export interface LoadedProfile {
  profile: Profile | null;
  faults: Fault[];
  /** Texts that must not be logged. */
  secrets: string[];
}

/** The environment in which profiles are loaded. */
export interface ProfileContext extends InterpolationContext {
  /** The path of a file as messages show it. */
  displayPath(path: string): string;
}

/** The fields of a part of a profile, unchecked. */
export type ProfileFields = Record<string, unknown>;

/** One file of a chain of profiles that extend each other; the extending file comes first. */
interface Layer {
  file: YamlFile;
  fields: ProfileFields;
}

const BARE_NAME = /^[a-z0-9][a-z0-9_-]*$/i;

/** Returns a `loadProfile` that reads each profile only once, however many sources use it. */
export function profileReader(): typeof loadProfile {
  const cache = new Map<string, ReturnType<typeof loadProfile>>();
  return (name, folder, context) => {
    const path = profilePath(name, folder);
    const loaded = cache.get(path) ?? loadProfile(name, folder, context);
    cache.set(path, loaded);
    return loaded;
  };
}

/**
 * Reads a profile and all that it extends. A bare name is a shipped profile (`config/profiles/<name>.yaml`), anything
 * else a path relative to `folder`.
 */
function loadProfile(name: string, folder: string, context: ProfileContext): LoadedProfile | { missing: string } {
  const path = profilePath(name, folder);
  if (!existsSync(path)) return { missing: missingProfile(name, context.displayPath(path)) };
  const { layers, faults } = readLayers(path, context, []);
  if (faults.length > 0) return { profile: null, faults, secrets: [] };
  const extended = mergeLayers(layers);
  const inherited = inheritResources(extended);
  const filled = interpolate(inherited.value, context);
  const secrets = [...filled.secrets, ...secretsIn(filled.value, filled.paths)];
  const checked = checkValue(profileSchema, filled.value, filled.paths);
  // Findings of a later step may be consequences of earlier ones.
  const findings = [inherited.findings, filled.findings, checked.findings ?? []].find((all) => all.length > 0) ?? [];
  const located = findings.map((finding) => locateInLayers(layers, extended, finding));
  return { profile: located.length === 0 ? checked.data : null, faults: located, secrets };
}

/** Shipped profiles name no variables and no secret files. */
const SHIPPED_CONTEXT: ProfileContext = { env: {}, readSecret: () => '', displayPath: (path) => path };

/** Reads a shipped profile. */
export function readPackagedProfile(name: string): Profile {
  const loaded = loadProfile(name, packageRoot(), SHIPPED_CONTEXT);
  if ('missing' in loaded) throw new Error(loaded.missing);
  if (loaded.profile === null) throw new Error(loaded.faults.map(({ message }) => message).join('; '));
  return loaded.profile;
}

/** Prefix of shipped profiles that only have `defaults`, such as those of all OData services. */
const FAMILY = 'family-';

/** Returns the names of the shipped profiles, without the families, which have no resources. */
export function packagedProfiles(): string[] {
  return shippedNames().filter((name) => !name.startsWith(FAMILY));
}

function shippedNames(): string[] {
  const files = readdirSync(join(packageRoot(), 'config', 'profiles'));
  return files.flatMap((file) => (file.endsWith('.yaml') ? [file.slice(0, -'.yaml'.length)] : [])).toSorted();
}

/** Returns the path of a profile: in this package for a bare name, else relative to `folder`. */
function profilePath(name: string, folder: string): string {
  return BARE_NAME.test(name) ? join(packageRoot(), 'config', 'profiles', `${name}.yaml`) : resolve(folder, name);
}

function missingProfile(name: string, displayPath: string): string {
  return `expected one of ${packagedProfiles().join(', ')} or the path of a profile, got ${JSON.stringify(name)} (no file ${displayPath})`;
}

/** Returns the fields of the first file, and those that it inherits from the others. */
function mergeLayers(layers: readonly Layer[]): ProfileFields {
  return layers.map(({ fields }) => fields).reduceRight((base, over) => extendProfile(base, over), {});
}

/** Reads the file, the profile that it extends, and so on; `above` are the files that extend this one. */
function readLayers(
  path: string,
  context: ProfileContext,
  above: readonly string[],
): { layers: Layer[]; faults: Fault[] } {
  const { read: file, faults } = readYamlFile(path, context.displayPath(path));
  if (file === null) return { layers: [], faults };
  if (!isPlainMap(file.value)) {
    const message = 'expected a map with the fields of a profile, got something else';
    return { layers: [], faults: [file.locate({ path: [], part: 'value', message })] };
  }
  const fields = withCurrentNames(file.value, (field) => file.locate(field));
  const layer: Layer = { file, fields };
  const { value: base } = interpolate(fields['extends'], context);
  if (typeof base !== 'string' || base === '') return { layers: [layer], faults: [] };
  const basePath = profilePath(base, dirname(path));
  const refuse = (message: string) => {
    return { layers: [layer], faults: [file.locate({ path: ['extends'], part: 'value', message })] };
  };
  if (!existsSync(basePath)) return refuse(missingProfile(base, context.displayPath(basePath)));
  if ([...above, path].includes(basePath)) {
    return refuse(`expected profiles that do not extend each other in a circle, got ${JSON.stringify(base)} again`);
  }
  const rest = readLayers(basePath, context, [...above, path]);
  return { layers: [layer, ...rest.layers], faults: rest.faults };
}

/**
 * Renames fields that have a former name (`overlap`) and warns of it once per process; a map that has both names keeps
 * both, and the check refuses the former one.
 */
function withCurrentNames(profile: ProfileFields, locate: (finding: SettingsFinding) => Fault): ProfileFields {
  const names = isPlainMap(profile['resources']) ? Object.keys(profile['resources']) : [];
  let current: unknown = profile;
  for (const resource of [['defaults'], ...names.map((name) => ['resources', name])]) {
    for (const part of ['incremental', 'delete_feed']) {
      const path = [...resource, part];
      const fields = valueAt(profile, path);
      if (!isPlainMap(fields) || fields['overlap'] === undefined || fields['lookback'] !== undefined) continue;
      const { overlap: lookback, ...others } = fields;
      current = replaceAt(current, path, { ...others, lookback });
      const { file, line, field } = locate({ path: [...path, 'overlap'], part: 'key', message: '' });
      const code = 'CONTENT_SYNC_OVERLAP';
      process.emitWarning(`${file}:${line}  ${field}: write lookback instead of overlap`, 'DeprecationWarning', code);
    }
  }
  return isPlainMap(current) ? current : profile;
}

/**
 * Locates a finding in the file from which its value comes. That is the file with the longest part of the path; if several
 * have it, the extending one, whose value wins.
 */
function locateInLayers(layers: readonly Layer[], profile: ProfileFields, finding: SettingsFinding): Fault {
  const path = findOrigin(profile, finding.path);
  const depths = layers.map(({ file }) => file.depthOf(path));
  const layer = layers[depths.indexOf(Math.max(...depths))];
  if (layer === undefined) throw new Error('a profile without any file');
  return layer.file.locate({ ...finding, path });
}

/**
 * Gives each resource the fields of the profile's `defaults`, of the resource that it `extends`, and of itself, of which
 * the later ones win. `{resource}` in its texts becomes its name. Finds resources that extend a missing one or each other.
 */
function inheritResources(profile: ProfileFields): { value: ProfileFields; findings: SettingsFinding[] } {
  const { defaults = {}, resources } = profile;
  if (!isPlainMap(resources)) return { value: profile, findings: [] };
  const findings = Object.keys(resources).flatMap((name) => extendsFinding(resources, name) ?? []);
  if (partAt(defaults, 'extends') !== undefined) findings.push(DEFAULTS_EXTEND);
  const inherited = Object.entries(resources).map(([name, resource]) => {
    if (!isPlainMap(resource) || !isPlainMap(defaults)) return [name, resource];
    const layers = resourceAncestors(resources, name).map((one) => resources[one]);
    const fields = layers.filter(isPlainMap).reduceRight<ProfileFields>((base, over) => merge(base, over), defaults);
    return [name, mapTexts(fields, (text) => text.replaceAll(RESOURCE_NAME, () => name))];
  });
  return { value: { ...profile, resources: Object.fromEntries(inherited) }, findings };
}

const DEFAULTS_EXTEND: SettingsFinding = {
  path: ['defaults', 'extends'],
  part: 'key',
  message: 'expected no extends here, because defaults apply to every resource',
};

/** Returns the resource and those that it extends, nearest first, up to a name that is missing or repeated. */
function resourceAncestors(resources: ProfileFields, name: string): string[] {
  const names: string[] = [];
  for (let at: unknown = name; typeof at === 'string' && Object.hasOwn(resources, at) && !names.includes(at);) {
    names.push(at);
    at = partAt(resources[at], 'extends');
  }
  return names;
}

function extendsFinding(resources: ProfileFields, name: string): SettingsFinding | null {
  const last = resourceAncestors(resources, name).at(-1) ?? name;
  const base = partAt(resources[last], 'extends');
  if (typeof base !== 'string') return null;
  const known = Object.keys(resources).filter((one) => one !== last);
  const message = Object.hasOwn(resources, base)
    ? `expected resources that do not extend each other in a circle, got ${JSON.stringify(base)} again`
    : `expected one of ${known.join(', ')}, got ${JSON.stringify(base)}`;
  return { path: ['resources', last, 'extends'], part: 'value', message };
}

/** Does not match `${resource}`, a variable of the environment. */
const RESOURCE_NAME = /(?<!\$)\{resource\}/g;

/**
 * Returns the path from which a resource inherits the value at `path`, such as `defaults.page` for `resources.posts.page`:
 * the path of which the longest part exists.
 */
function findOrigin(profile: ProfileFields, path: FieldPath): FieldPath {
  const [top, name, ...below] = path;
  const { resources } = profile;
  if (top !== 'resources' || typeof name !== 'string' || !isPlainMap(resources)) return path;
  const origins = [...resourceAncestors(resources, name).map((one) => ['resources', one]), ['defaults']];
  const depths = origins.map((origin) => existingDepth(valueAt(profile, origin), below));
  return [...(origins[depths.indexOf(Math.max(...depths))] ?? []), ...below];
}

function existingDepth(value: unknown, path: FieldPath): number {
  const missing = path.findIndex((_, at) => valueAt(value, path.slice(0, at + 1)) === undefined);
  return missing === -1 ? path.length : missing;
}

/** Fields that give the kind of a map, such as `style` of a page; a map of another kind replaces that of the base. */
const KIND_FIELDS = ['style', 'type', 'mode'];

/** The maps in this field are replaced and not merged: a filter with some parameters of the base would be wrong. */
const REPLACED_FIELD = 'incremental';

/**
 * Applies a profile to the one that it extends: maps are merged, scalars and lists replaced. A resource that is null is
 * removed, and a `page` of another style replaces that of the base.
 */
export function extendProfile(base: ProfileFields, over: ProfileFields): ProfileFields {
  const merged = merge(base, over);
  const resources = merged['resources'];
  if (!isPlainMap(resources)) return merged;
  return { ...merged, resources: Object.fromEntries(Object.entries(resources).filter(([, value]) => value !== null)) };
}

/** Merges maps of one kind and replaces everything else. `field` is the name of the map itself. */
function merge(base: ProfileFields, over: ProfileFields, field = ''): ProfileFields {
  const merged: ProfileFields = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const inherited = base[key];
    const isMerged =
      field !== REPLACED_FIELD && isPlainMap(inherited) && isPlainMap(value) && isSameKind(inherited, value);
    merged[key] = isMerged ? merge(inherited, value, key) : value;
  }
  return merged;
}

function isSameKind(base: ProfileFields, over: ProfileFields): boolean {
  return KIND_FIELDS.every((field) => over[field] === undefined || over[field] === base[field]);
}

/**
 * Shortens the profile of a probed service: it extends a family and contains only what differs. Returns the same fields if
 * no family has its list of records and its pages, or if loading the shorter form would give another profile.
 */
export function extendFamily(fields: ProfileFields, profile: Profile): ProfileFields {
  const { resources, ...others } = fields;
  const names = Object.keys(isPlainMap(resources) ? resources : {});
  const withoutFields = { resources: Object.fromEntries(names.map((name) => [name, {}])) };
  for (const name of shippedNames().filter((each) => each.startsWith(FAMILY))) {
    const family = mergeLayers(readLayers(profilePath(name, ''), SHIPPED_CONTEXT, []).layers);
    const inherited = inheritResources(extendProfile(family, withoutFields)).value;
    const differing = names.map((each) => {
      const path = ['resources', each];
      return [each, subtract(valueAt(inherited, path), valueAt(fields, path))] as const;
    });
    // Services of one family page in the same way, but with pages of different sizes.
    const isMember = differing.some(([, { records, page = {} }]) => {
      return records === undefined && Object.keys(page ?? {}).every((field) => field === 'size');
    });
    const shorter = { extends: name, ...subtract(inherited, others), resources: Object.fromEntries(differing) };
    const loaded = profileSchema.safeParse(inheritResources(extendProfile(family, shorter)).value).data;
    const isEqual = isDeepStrictEqual(loaded, { ...profile, extends: name, defaults: loaded?.defaults });
    if (isMember && isEqual) return shorter;
  }
  return fields;
}

/** The inverse of `merge`: what a map that extends `base` must contain so that it becomes `fields`. */
function subtract(base: unknown, fields: unknown): ProfileFields {
  const differing = Object.entries(isPlainMap(fields) ? fields : {}).flatMap(([key, value]) => {
    const inherited = partAt(base, key);
    if (isDeepStrictEqual(inherited, value)) return [];
    const isMerged = isPlainMap(inherited) && isPlainMap(value) && isSameKind(inherited, value);
    return [[key, isMerged ? subtract(inherited, value) : value]];
  });
  return Object.fromEntries(differing);
}

/** The folder of this package, which contains `config/`; found from `src/` and from `dist/src/`. */
export function packageRoot(from = import.meta.dirname): string {
  if (existsSync(join(from, 'package.json'))) return from;
  const above = dirname(from);
  if (above === from) throw new Error('package.json of content-sync not found above its own code');
  return packageRoot(above);
}
