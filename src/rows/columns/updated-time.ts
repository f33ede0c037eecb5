// Reads from a record when it last changed, and whether it is a tombstone.
import { fieldPathText } from '../../model/body-path.ts';
import type { JsonValue, Updated } from '../../model/json.ts';
import type { Column } from '../../model/table.ts';
import { type TimeZone, zoneAt, type ZonesByPath } from '../../model/time-zone.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { isExact } from '../json/parse-json.ts';
import { fieldAt } from '../records/as-record.ts';
import { parseInstant } from './cells.ts';
import { pathText } from './column-name.ts';

/** Where a record says when it last changed: of several fields the first that is not null counts. */
export interface UpdatedBy {
  updated: string | readonly string[] | null;
  /** Zones of local times by field; all fields of `updated` have the same one. Absent: UTC. */
  times?: ZonesByPath;
}

/** When the service says that a record last changed; null if it does not say so in a way that we can read. */
export function updatedTime(record: JsonValue, by: UpdatedBy): Updated | null {
  const value = firstOf(record, updatedPaths(by));
  const instant = parseInstant(value, updatedZone(by));
  if (instant === null) return null;
  const { epochMs: at, latestMs: latest } = instant;
  // A number by its digits.
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return latest === undefined ? { text, at } : { text, at, latest };
}

function firstOf(record: JsonValue, paths: readonly string[]): JsonValue | undefined {
  for (const path of paths) {
    const value = fieldAt(record, path);
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

/** The fields by priority; empty if no field has the time of a record's last change. */
export function updatedPaths({ updated }: UpdatedBy): readonly string[] {
  if (updated === null) return [];
  return typeof updated === 'string' ? [updated] : updated;
}

/** The zone of local times of change; null if they are UTC. */
export function updatedZone(by: UpdatedBy): TimeZone | null {
  return zoneAt(by.times ?? {}, updatedPaths(by)[0] ?? null);
}

/** The columns of these fields in the same order; a field that never had a value has none. */
export function updatedColumns(columns: readonly Column[], by: UpdatedBy): Column[] {
  return updatedPaths(by).flatMap(
    (path) => columns.find((column) => pathText(column.path) === fieldPathText(path)) ?? [],
  );
}

/**
 * The zone in which the warehouse's cells of these columns are to be read: a column of moments holds them in UTC, any
 * other what the service wrote. If one column is of another type, timestamps come with their `Z`.
 */
export function storedZone(columns: readonly Column[], by: UpdatedBy): TimeZone | null {
  return columns.every(({ type }) => type === 'timestamp') ? null : updatedZone(by);
}

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
interface TombstoneFields {
  deleted: DeletedField | readonly DeletedField[] | null;
  times: ZonesByPath;
}

/** The tombstone that a record is, by the first of the profile's fields that says so; null for a live record. */
export function tombstoneOf(value: JsonValue, { deleted, times }: TombstoneFields): Tombstone | null {
  if (deleted === null) return null;
  const fields: readonly DeletedField[] = 'field' in deleted ? [deleted] : deleted;
  const found = fields.find((each) => isDeletedValue(fieldAt(value, each.field), each.in));
  return found === undefined ? null : { at: readTime(value, found.at ?? found.field, times) };
}

function isDeletedValue(found: JsonValue | undefined, values: DeletedField['in']): boolean {
  if (found === undefined || found === null) return false;
  const text = scalarText(found);
  if (values !== undefined) return text !== null && values.some((value) => String(value) === text);
  if (text === null) return !Array.isArray(found) || found.length > 0;
  return !NOT_DELETED.has(text) && !/^000[01]-/.test(text);
}

/** Besides the zero times of some languages, which begin with the year 0 or 1. */
const NOT_DELETED: ReadonlySet<string> = new Set(['', '0', 'false']);

/** Null for objects and arrays. */
function scalarText(value: Exclude<JsonValue, null>): string | null {
  if (isExact(value)) return value.rawJSON;
  return typeof value === 'object' ? null : String(value);
}

/** A smaller number is a flag and no Unix time. */
const EARLIEST_MS = Date.parse('1980-01-01T00:00:00Z');

function readTime(value: JsonValue, path: string, times: TombstoneFields['times']): string | null {
  const instant = parseInstant(fieldAt(value, path), zoneAt(times, path));
  return instant === null || instant.epochMs < EARLIEST_MS ? null : timestampText(instant.epochMs);
}
