import { fieldPathText } from '../../model/body-path.ts';
import type { JsonValue, Updated } from '../../model/json.ts';
import type { Column } from '../../model/table.ts';
import { zoneAt, type TimeZone, type ZonesByPath } from '../../model/time-zone.ts';
import { fieldAt } from '../records/field-at.ts';
import { pathText } from './source-path.ts';
import { parseInstant } from './timestamps.ts';

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
