import { merge, type Fields } from './extend-profile.ts';
import { suggestion } from './file/did-you-mean.ts';
import type { SettingsFinding } from './file/fault.ts';
import { isPlainMap, partAt, pathKey, type FieldPath } from './file/field-path.ts';

/** A profile whose resources have all that they inherit. */
export interface Inheritance {
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
export function inheritResources(profile: Fields): Inheritance {
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
    : `expected one of ${known.join(', ')}, got ${JSON.stringify(base)}${suggestion(base, known)}`;
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
