import type { JsonValue } from '../../model/json.ts';
import { fieldAt, isObject } from '../../shape/records/field-at.ts';
import type { Profile } from '../../source/profile.ts';

/** The value at a dotted path as text, JSON where it is not a string; undefined where it is absent or null. */
export function textAt(body: JsonValue | undefined, path: string): string | undefined {
  const value = body === undefined ? undefined : fieldAt(body, path);
  return value === undefined || value === null ? undefined : jsonText(value);
}

/** The text that a rule looks for words in; `…` stands for a value too deep to be written. */
export function jsonText(value: JsonValue): string {
  try {
    return typeof value === 'string' ? value : JSON.stringify(value);
  } catch {
    return '…';
  }
}

/** Says whether a body holds records, or is one, by the places and keys that the profile's resources name. */
export function recordFinder(profile: Pick<Profile, 'resources'>): (body: JsonValue) => boolean {
  const resources = Object.values(profile.resources);
  const places = [...new Set(resources.map((resource) => resource.records))].filter((place) => place !== '');
  const keys = [...new Set(resources.flatMap((resource) => [resource.id].flat()))];
  return (body) => {
    if (!isObject(body)) return Array.isArray(body);
    return places.some((place) => isFilled(fieldAt(body, place))) || keys.some((key) => Object.hasOwn(body, key));
  };
}

function isFilled(value: JsonValue | undefined): boolean {
  return Array.isArray(value) ? value.length > 0 : isObject(value) && Object.keys(value).length > 0;
}
