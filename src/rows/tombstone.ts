import type { JsonValue } from '../model/json.ts';
import { zoneAt, type ZonesByPath } from '../model/time-zone.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { parseInstant } from './columns/timestamps.ts';
import { isExact } from './json/exact-number.ts';
import { fieldAt } from './records/field-at.ts';

/** A field by which a service says that a record is deleted. */
export interface DeletedField {
  /** Dotted path. */
  field: string;
  /** The values that say so; without them every value that is not null, false, 0 or empty does. */
  in?: readonly (string | number | boolean)[] | undefined;
  /** Dotted path of the time of the delete; without it, `field` if that is a time. */
  at?: string | undefined;
}

/** A record that the service lists as deleted. */
export interface Tombstone {
  /** The service's own time of the delete, as our tables hold times (UTC); null if it says none. */
  at: string | null;
}

/** The profile fields that distinguish tombstones from records. */
export interface TombstoneFields {
  deleted: DeletedField | readonly DeletedField[] | null;
  /** Zones of local times by path. */
  times: ZonesByPath;
}

/** The tombstone that a record is, by the first of the profile's fields that says so; null for a live record. */
export function tombstoneOf(value: JsonValue, { deleted, times }: TombstoneFields): Tombstone | null {
  if (deleted === null) return null;
  const fields: readonly DeletedField[] = 'field' in deleted ? [deleted] : deleted;
  const found = fields.find((each) => saysDeleted(fieldAt(value, each.field), each.in));
  return found === undefined ? null : { at: timeAt(value, found.at ?? found.field, times) };
}

function saysDeleted(found: JsonValue | undefined, values: DeletedField['in']): boolean {
  if (found === undefined || found === null) return false;
  const text = textOf(found);
  if (values !== undefined) return text !== null && values.some((value) => String(value) === text);
  if (text === null) return !Array.isArray(found) || found.length > 0;
  return !NOT_DELETED.has(text) && !/^000[01]-/.test(text);
}

/** Besides the zero times of some languages, which begin with the year 0 or 1. */
const NOT_DELETED: ReadonlySet<string> = new Set(['', '0', 'false']);

/** Null for objects and arrays. */
function textOf(value: Exclude<JsonValue, null>): string | null {
  if (isExact(value)) return value.rawJSON;
  return typeof value === 'object' ? null : String(value);
}

/** A smaller number is a flag and no Unix time. */
const EARLIEST_MS = Date.parse('1980-01-01T00:00:00Z');

function timeAt(value: JsonValue, path: string, times: TombstoneFields['times']): string | null {
  const instant = parseInstant(fieldAt(value, path), zoneAt(times, path));
  return instant === null || instant.epochMs < EARLIEST_MS ? null : timestampText(instant.epochMs);
}
