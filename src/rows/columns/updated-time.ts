// Reads from a record when it last changed (`updatedTime`), such as `updated_at`, and whether the service marks it as
// deleted (`tombstoneOf`), such as by `status: trash`.
import { fieldPathText } from '../../model/body-path.ts';
import type { JsonValue, ChangeTime } from '../../model/json.ts';
import type { Column } from '../../model/table.ts';
import { type TimeZone, zoneAt, type ZonesByPath } from '../../model/time-zone.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { isExact } from '../json/parse-json.ts';
import { fieldAt } from '../records/as-record.ts';
import { parseInstant } from './cells.ts';
import { pathText } from './column-name.ts';

/** The fields with the time of a record's last change: the first that is not null counts. */
export interface UpdatedBy {
  updated: string | readonly string[] | null;
  /** Zones of local times by field; all fields of `updated` have the same one. Absent: UTC. */
  times?: ZonesByPath;
}

/** Reads when a record last changed; null if that is missing or unreadable. */
export function updatedTime(record: JsonValue, by: UpdatedBy): ChangeTime | null {
  const value = firstFilledField(record, updatedPaths(by));
  const instant = parseInstant(value, updatedZone(by));
  if (instant === null) return null;
  const { epochMs: at, latestMs: latest } = instant;
  // A number by its digits.
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return latest === undefined ? { text, at } : { text, at, latest };
}

function firstFilledField(record: JsonValue, paths: readonly string[]): JsonValue | undefined {
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
 * The zone of local times in the cells of these columns; null if all are timestamps, which are stored in UTC. Other types
 * hold what the service wrote; timestamps among them are read with a `Z`.
 */
export function storedZone(columns: readonly Column[], by: UpdatedBy): TimeZone | null {
  return columns.every(({ type }) => type === 'timestamp') ? null : updatedZone(by);
}

/** A field that marks a record as deleted. */
export interface DeletedField {
  /** Dotted path. */
  field: string;
  /** The values that mean deleted; if absent, every value that is not null, false, 0 or empty. */
  in?: readonly (string | number | boolean)[] | undefined;
  /** Dotted path of the time of the delete; without it, `field` if that is a time. */
  at?: string | undefined;
}

/** A record that the service lists as deleted. */
export interface Tombstone {
  /** The service's own time of the delete, UTC; null if there is none. */
  at: string | null;
}

/** The profile fields that distinguish tombstones from records. */
interface TombstoneFields {
  deleted: DeletedField | readonly DeletedField[] | null;
  times: ZonesByPath;
}

/** Returns the tombstone by the first field that marks the record as deleted; null for a live record. */
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

/** Values of live records, besides zero times of some languages, which begin with the year 0 or 1. */
const NOT_DELETED: ReadonlySet<string> = new Set(['', '0', 'false']);

/** Null for objects and arrays. */
function scalarText(value: Exclude<JsonValue, null>): string | null {
  if (isExact(value)) return value.rawJSON;
  return typeof value === 'object' ? null : String(value);
}

/** An earlier time is a flag, such as 1, and no Unix time. */
const EARLIEST_MS = Date.parse('1980-01-01T00:00:00Z');

function readTime(value: JsonValue, path: string, times: TombstoneFields['times']): string | null {
  const instant = parseInstant(fieldAt(value, path), zoneAt(times, path));
  return instant === null || instant.epochMs < EARLIEST_MS ? null : timestampText(instant.epochMs);
}
