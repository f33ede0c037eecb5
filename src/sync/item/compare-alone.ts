import { readItem, type ItemReading, type ItemSource } from '../../extract/read-item.ts';
import { walk } from '../../extract/walk.ts';
import type { Clock } from '../../model/clock.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { isOfValues, recordDifferences, type RecordDifference } from '../../shape/records/record-difference.ts';
import { fieldAt, recordKey } from '../../shape/records/record-key.ts';
import { parseInstant } from '../../shape/columns/timestamps.ts';
import type { ResourceProfile } from '../../source/profile.ts';

/** Where a listing and its single records are asked for. */
export interface CompareSource extends ItemSource {
  clock: Pick<Clock, 'monotonic' | 'sleep'>;
  lane: Lane;
  /** Parameters with which the listing was asked for the record, besides the profile's. */
  extraQuery: Readonly<Record<string, string>>;
}

/**
 * What came of reading a listed record alone. `gone`: it is listed and not there alone. `moving`: it says something
 * else each time it is asked for, or is not listed any more, so that nothing can be told.
 */
export type Comparison =
  | { is: 'same'; value: JsonValue }
  | { is: 'gone' | 'moving' }
  | { is: 'other'; differences: RecordDifference[] };

/**
 * Compares a record of a listing's first page with what it is alone (`first`, where that was read already). A record
 * that changes meanwhile is no fault: where the two differ, both are asked for once more. Throws what asking throws.
 */
export async function compareAlone(
  source: CompareSource,
  { key, listed }: { key: string; listed: JsonValue },
  first?: JsonValue,
): Promise<Comparison> {
  const alone = first ?? valueOf(await readItem(source, key, source.lane));
  if (alone !== null && recordDifferences(listed, alone).length === 0) return { is: 'same', value: alone };
  const again = recordIn(await firstPage(source), source.profile, key)?.value ?? null;
  if (again === null) return { is: 'moving' };
  const second = valueOf(await readItem(source, key, source.lane));
  if (second === null) return { is: 'gone' };
  const differences = recordDifferences(again, second);
  if (differences.length === 0) return { is: 'same', value: second };
  const isSteady = [recordDifferences(listed, again), alone === null ? [] : recordDifferences(alone, second)].every(
    (each) => each.length === 0,
  );
  const times = [timeOf(again, source.profile), timeOf(second, source.profile)];
  const isOfTwoTimes = times[0] !== times[1] && !times.includes(null);
  const isMoving = isOfTwoTimes || (isOfValues(differences) && !isSteady);
  return isMoving ? { is: 'moving' } : { is: 'other', differences };
}

function valueOf(reading: ItemReading): JsonValue | null {
  return reading.isThere ? reading.record.value : null;
}

/** When the record last changed, in epoch milliseconds; null where it does not say. */
function timeOf(record: JsonValue, { updated }: ResourceProfile): number | null {
  const field = updated === null ? undefined : fieldAt(record, updated);
  return typeof field === 'string' || typeof field === 'number' ? (parseInstant(field)?.epochMs ?? null) : null;
}

async function firstPage({ client, profile, listing, lane, meter, signal, clock, extraQuery }: CompareSource) {
  const asked = { client, resource: profile, listing, lane, meter, signal, clock, extraQuery };
  for await (const page of walk({ ...asked, runAhead: 0 })) return page.records;
  return [];
}

export function recordIn(
  records: readonly SourceRecord[],
  profile: ResourceProfile,
  key: string,
): SourceRecord | undefined {
  return records.find(({ value }) => keyIn(value, profile) === key);
}

/** Null where the record has no usable id. */
export function keyIn(value: JsonValue, { id }: ResourceProfile): string | null {
  const found = recordKey(value, id);
  return 'key' in found ? found.key : null;
}
