import { readItem, type ItemReading } from '../../extract/read-item.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { comparedPart } from '../../shape/mask-fields.ts';
import { isOfValues, recordDifferences, type RecordDifference } from '../../shape/records/record-difference.ts';
import { recordKey } from '../../shape/records/record-key.ts';
import { updatedTime } from '../../shape/columns/updated-time.ts';
import { tombstoneOf } from '../../shape/tombstone.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { RequestContext } from '../resource-context.ts';
import { firstPage, type ExtraQuery } from '../listing-walk.ts';

/** How the listing was asked for the record. */
interface ListedBy {
  lane: Lane;
  extraQuery: ExtraQuery;
}

/**
 * A listed record compared with what it is alone. `gone`: it is listed and cannot be found alone. `moving`: it differs
 * each time it is asked for, or is no longer listed, so that nothing can be told.
 */
export type Comparison =
  | { is: 'same'; value: JsonValue }
  | { is: 'gone' | 'moving' }
  | { is: 'other'; differences: RecordDifference[] };

/**
 * Compares a record of a listing's first page with what it is alone (`first`, if that was read already). A record that
 * changes meanwhile is no fault: if the two differ, both are asked for once more. Throws what asking throws.
 */
export async function compareAlone(
  context: RequestContext,
  { lane, extraQuery }: ListedBy,
  { key, listed }: { key: string; listed: JsonValue },
  first?: JsonValue,
): Promise<Comparison> {
  const { profile } = context;
  const compared = comparedPart(profile.fields);
  const between = (a: JsonValue, b: JsonValue): RecordDifference[] => recordDifferences(compared(a), compared(b));
  const alone = first ?? valueOf(await readItem(context, key, lane));
  if (alone !== null && between(listed, alone).length === 0) return { is: 'same', value: alone };
  const page = await firstPage(context, lane, extraQuery);
  const again = recordIn(page?.records ?? [], profile, key)?.value ?? null;
  if (again === null) return { is: 'moving' };
  const second = valueOf(await readItem(context, key, lane));
  if (second === null) return { is: 'gone' };
  const differences = between(again, second);
  if (differences.length === 0) return { is: 'same', value: second };
  const isSteady = [between(listed, again), alone === null ? [] : between(alone, second)].every(
    (each) => each.length === 0,
  );
  const times = [timeOf(again, profile), timeOf(second, profile)];
  const isOfTwoTimes = times[0] !== times[1] && !times.includes(null);
  const isMoving = isOfTwoTimes || (isOfValues(differences) && !isSteady);
  return isMoving ? { is: 'moving' } : { is: 'other', differences };
}

/** A record that the filter leaves out is compared like any other. */
function valueOf(reading: ItemReading): JsonValue | null {
  return (reading.isThere ? reading.record : reading.leftOut)?.value ?? null;
}

/** When the record last changed, in epoch milliseconds; null if it does not say. */
function timeOf(record: JsonValue, profile: ResourceProfile): number | null {
  return updatedTime(record, profile)?.at ?? null;
}

/** The record among those of a listing, if it is there and alive. */
export function recordIn(
  records: readonly SourceRecord[],
  profile: ResourceProfile,
  key: string,
): SourceRecord | undefined {
  return records.find(({ value }) => keyIn(value, profile) === key && tombstoneOf(value, profile) === null);
}

/** Null if the record has no usable id. */
export function keyIn(value: JsonValue, { id }: ResourceProfile): string | null {
  const found = recordKey(value, id);
  return 'key' in found ? found.key : null;
}
