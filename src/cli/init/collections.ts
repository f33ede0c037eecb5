import type { JsonObject, JsonValue } from '../../model/json.ts';
import { fieldAt, isObject, meets } from '../../shape/records/field-at.ts';
import type { Profile } from '../../source/profile.ts';

/** What a profile of an account's own says of its collections. */
export interface OwnCollections {
  /** Fields of each resource by its name. */
  resources: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Resources by the name that webhooks use, where that is another one. */
  resourceNames: Readonly<Record<string, string>>;
  /** Names that cannot be part of a path, or become the name of another collection's resource. */
  refused: readonly string[];
}

/** A name that stays one segment of a path and is no placeholder of a template. */
const COLLECTION_NAME = /^[\p{L}\p{N}_][\p{L}\p{N} _.~-]*$/u;

type Place = NonNullable<NonNullable<Profile['about']>['collections']>;

/** The collections in an answer of the service, by what the profile says of them; null if there is no list in it. */
export function ownCollections(place: Place, answer: JsonValue): OwnCollections | null {
  const listed = fieldAt(answer, place.records);
  if (!Array.isArray(listed)) return null;
  const resources: Record<string, Record<string, unknown>> = {};
  const resourceNames: Record<string, string> = {};
  const refused: string[] = [];
  for (const entry of listed.filter(isObject).filter((each) => meets(each, place.where))) {
    const name = textAt(entry, place.name);
    if (name === null || place.leave_out.some((pattern) => fits(pattern, name))) continue;
    const resource = resourceNameOf(name);
    if (!COLLECTION_NAME.test(name) || Object.hasOwn(resources, resource)) {
      refused.push(name);
      continue;
    }
    const further = place.also.filter(({ where }) => meets(entry, where)).map((each) => each.resource);
    resources[resource] = filled(Object.assign({}, place.resource, ...further), name);
    const event = place.event_name === undefined ? null : textAt(entry, place.event_name);
    if (event !== null && event !== resource) resourceNames[event] = resource;
  }
  return { resources, resourceNames, refused };
}

function textAt(entry: JsonObject, path: string): string | null {
  const value = fieldAt(entry, path);
  return typeof value === 'string' && value !== '' ? value : null;
}

function fits(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

/** As names of resources, and so of tables, are written. */
function resourceNameOf(name: string): string {
  const plain = name.toLowerCase().replaceAll(/[^a-z0-9_]+/g, '_');
  return plain.replace(/^[^a-z]+/, '').slice(0, 40) || 'records';
}

/** The fields with `{name}` in their texts replaced, on every level. */
function filled(fields: Readonly<Record<string, unknown>>, name: string): Record<string, unknown> {
  const fill = (value: unknown): unknown => {
    if (typeof value === 'string') return value.replaceAll('{name}', name);
    if (Array.isArray(value)) return value.map(fill);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, below]) => [key, fill(below)]));
  };
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, fill(value)]));
}
