// Compares a record of a listing with the same record fetched alone, field by field (`recordDifferences`), and describes the
// differences. Many services leave out fields in listings, so that one form must not replace the other.
import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../json/parse-json.ts';
import { isObject } from './as-record.ts';
import { sameJson } from './record-key.ts';

/** The kind of a JSON value. */
export type JsonKind = 'null' | 'boolean' | 'number' | 'text' | 'list' | 'object';

/** A field in which the individually fetched record (`alone`) differs from the listed one; equal kinds for other values. */
export interface RecordDifference {
  /** Dotted, `[]` for the elements of a list; '' for the record itself. */
  path: string;
  /** The kind of the field in each of the two; null if the record has no such field there. */
  listed: JsonKind | null;
  alone: JsonKind | null;
}

/** Deeper levels are not compared: such a record is rejected in any case. */
const MAX_LEVELS = 40;
/** Fields named in a sentence. */
const MAX_NAMED = 6;

function kindOf(value: JsonValue): JsonKind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  if (typeof value === 'string') return 'text';
  if (typeof value === 'boolean') return 'boolean';
  return typeof value === 'number' || isExact(value) ? 'number' : 'object';
}

/** Returns the outermost fields in which the two differ; empty if they are equal. */
export function recordDifferences(listed: JsonValue, alone: JsonValue): RecordDifference[] {
  return [...differencesAt('', listed, alone, 0)];
}

function* differencesAt(
  path: string,
  listed: JsonValue | undefined,
  alone: JsonValue | undefined,
  level: number,
): Generator<RecordDifference> {
  const kinds = {
    listed: listed === undefined ? null : kindOf(listed),
    alone: alone === undefined ? null : kindOf(alone),
  };
  if (kinds.listed !== kinds.alone) yield { path, ...kinds };
  else if (level >= MAX_LEVELS) return;
  else if (isObject(listed) && isObject(alone)) {
    for (const key of new Set([...Object.keys(listed), ...Object.keys(alone)])) {
      yield* differencesAt(
        path === '' ? key : `${path}.${key}`,
        ownField(listed, key),
        ownField(alone, key),
        level + 1,
      );
    }
  } else if (Array.isArray(listed) && Array.isArray(alone)) {
    if (listed.length !== alone.length) yield { path, ...kinds };
    else for (const [at, value] of listed.entries()) yield* differencesAt(`${path}[]`, value, alone[at], level + 1);
  } else if (listed !== undefined && alone !== undefined && !sameJson(listed, alone)) yield { path, ...kinds };
}

function ownField(value: Readonly<Record<string, JsonValue>>, key: string): JsonValue | undefined {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

/** True if only values differ, in fields of the same kinds. */
export function differOnlyInValues(differences: readonly RecordDifference[]): boolean {
  return differences.every(({ listed, alone }) => listed === alone);
}

/** Describes the differences as a sentence without a full stop, for the user who corrects the profile. */
export function differenceText(differences: readonly RecordDifference[]): string {
  const parts = [
    ['only in the listing', differences.filter(({ alone }) => alone === null)],
    ['only when read alone', differences.filter(({ listed }) => listed === null)],
    ['with another value', differences.filter(({ listed, alone }) => listed === alone)],
  ] as const;
  const named = parts.flatMap(([what, found]) => (found.length === 0 ? [] : [`${listNames(found)} ${what}`]));
  const others = differences.filter(({ listed, alone }) => listed !== alone && listed !== null && alone !== null);
  const kinds = firstDifferences(others).map(
    ({ path, listed, alone }) =>
      `${path} is ${describeKind(listed)} in the listing and ${describeKind(alone)} when read alone`,
  );
  return [...named, ...kinds].join('; ');
}

function describeKind(kind: JsonKind | null): string {
  return kind === null || kind === 'null' ? String(kind) : `${kind === 'object' ? 'an' : 'a'} ${kind}`;
}

function firstDifferences(differences: readonly RecordDifference[]): RecordDifference[] {
  const byPath = new Map(differences.map((each) => [each.path, each]));
  return [...byPath.values()].slice(0, MAX_NAMED);
}

function listNames(differences: readonly RecordDifference[]): string {
  const names = new Set(differences.map(({ path }) => path));
  const more = names.size - MAX_NAMED;
  return [...names].slice(0, MAX_NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** The kinds of the fields of records on all levels, by dotted path; `[]` for the elements of a list. */
export type FieldKinds = Map<string, Set<JsonKind>>;

export function fieldKindsOf(value: JsonValue): FieldKinds {
  const outline: FieldKinds = new Map();
  addKinds(outline, '', value, 0);
  return outline;
}

function addKinds(outline: FieldKinds, path: string, value: JsonValue, level: number): void {
  const kinds = outline.get(path) ?? new Set();
  outline.set(path, kinds.add(kindOf(value)));
  if (level >= MAX_LEVELS) return;
  if (Array.isArray(value)) for (const each of value) addKinds(outline, `${path}[]`, each, level + 1);
  else if (isObject(value)) {
    for (const [key, field] of Object.entries(value)) {
      addKinds(outline, path === '' ? key : `${path}.${key}`, field, level + 1);
    }
  }
}

/** Adds further fields and kinds in place. */
export function addFieldKinds(outline: FieldKinds, by: FieldKinds): void {
  for (const [path, kinds] of by) outline.set(path, (outline.get(path) ?? new Set()).union(kinds));
}

/**
 * Returns the first field because of which an individually fetched record must not replace the listed one; null if there
 * is none. `verified` are the fields that were equal in both. The record may have only these, of the same kinds or null. A
 * field that was stored before (`stored`, null if unknown) may only be missing if it is among them.
 */
export function findUnverifiedField(
  verified: FieldKinds,
  reading: FieldKinds,
  stored: FieldKinds | null,
): string | null {
  for (const [path, kinds] of reading) {
    const known = verified.get(path);
    if (known === undefined) return path;
    for (const kind of kinds) if (kind !== 'null' && !known.has(kind)) return path;
  }
  for (const path of stored?.keys() ?? []) if (!reading.has(path) && !verified.has(path)) return path;
  return null;
}
