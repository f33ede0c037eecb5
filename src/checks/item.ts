// Tests whether a record that is fetched individually (`item` of the profile) equals the record in the listing.
// Example: `/posts/7` returns post 7 with a text in another language: then rows must not be made of it.
import { keyIn } from '../rows/records/record-key.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { JsonValue, SourceRecord } from '../model/json.ts';
import type { Lane } from '../model/vocabulary.ts';
import { type ItemReading, readItem } from '../pagination/read-item.ts';
import { tombstoneOf, updatedTime } from '../rows/columns/updated-time.ts';
import { comparedPart } from '../rows/mask-fields.ts';
import {
  differenceText,
  differOnlyInValues,
  type RecordDifference,
  recordDifferences,
} from '../rows/records/record-difference.ts';
import { type CheckFinding, fail, firstPage, ok, type RequestContext, warn } from './listing-scan.ts';
import { type ExtraQuery } from '../pagination/requests/filter-query.ts';

/**
 * A listed record compared with the record fetched individually. `more`: the same, with further fields. `gone`: it is
 * listed and cannot be found individually. `moving`: it differs each time, or is no longer listed, so that nothing is
 * known.
 */
export type Comparison =
  | { is: 'same'; value: JsonValue }
  | { is: 'gone' | 'moving' }
  | { is: 'more' | 'other'; differences: RecordDifference[] };

/**
 * Compares a record of a listing's first page with the record fetched individually (`first`, if that was read already).
 * If the two differ, both are requested once more, because a record may change meanwhile. Throws what a request throws.
 */
export async function compareWithItem(
  context: RequestContext,
  { lane, extraQuery }: { lane: Lane; extraQuery: ExtraQuery },
  { key, listed }: { key: string; listed: JsonValue },
  first?: JsonValue,
): Promise<Comparison> {
  const { profile } = context;
  const toCompared = comparedPart(profile.fields);
  const judge = (a: JsonValue, b: JsonValue) => judgeRecord(toCompared(a), toCompared(b), b);
  const alone = first ?? fetchedValue(await readItem(context, key, lane));
  const early = alone === null ? null : judge(listed, alone);
  if (early !== null && early.is !== 'other') return early;
  const page = await firstPage(context, lane, extraQuery);
  const again = recordIn(page?.records ?? [], profile, key)?.value ?? null;
  if (again === null) return { is: 'moving' };
  const second = fetchedValue(await readItem(context, key, lane));
  if (second === null) return { is: 'gone' };
  const judged = judge(again, second);
  if (judged.is !== 'other') return judged;
  const isSteady = judge(listed, again).is === 'same' && (alone === null || judge(alone, second).is === 'same');
  const times = [again, second].map((record) => updatedTime(record, profile)?.at ?? null);
  const isOfTwoTimes = times[0] !== times[1] && !times.includes(null);
  const isMoving = isOfTwoTimes || (differOnlyInValues(judged.differences) && !isSteady);
  return isMoving ? { is: 'moving' } : judged;
}

/** Compares two readings of one record; `value` is what counts as read. Pure. */
export function judgeRecord(
  listed: JsonValue,
  alone: JsonValue,
  value = alone,
): Extract<Comparison, { is: 'same' | 'more' | 'other' }> {
  const differences = recordDifferences(listed, alone);
  if (differences.length === 0) return { is: 'same', value };
  return { is: differences.every((each) => each.listed === null) ? 'more' : 'other', differences };
}

/** A record that the profile's filter leaves out is compared like any other. */
function fetchedValue(reading: ItemReading): JsonValue | null {
  return (reading.isThere ? reading.record : reading.excluded)?.value ?? null;
}

/** The record among those of a listing, if it is there and not a tombstone. */
export function recordIn(
  records: readonly SourceRecord[],
  profile: ResourceProfile,
  key: string,
): SourceRecord | undefined {
  return records.find(({ value }) => keyIn(value, profile) === key && tombstoneOf(value, profile) === null);
}

const HINT =
  'set item, item_query and item_record of the resource so that the answer is the listed record, or `item: null`: then the listing is asked instead';

/** Whether a record fetched individually is the listed one: the first, a middle and the last of a page are tried. */
export async function itemFinding(
  context: RequestContext,
  records: readonly SourceRecord[],
  item: string,
): Promise<CheckFinding> {
  const check = 'item';
  const samples = chooseSamples(records, context.profile);
  const asked = samples.length;
  if (asked === 0) return warn(check, 'no record with an id to ask for');
  const counts = { gone: 0, moving: 0, same: 0, more: 0 };
  let further = '';
  for (const sample of samples) {
    const compared = await compareWithItem(context, { lane: 'incremental', extraQuery: {} }, sample);
    const difference = 'differences' in compared ? differenceText(compared.differences) : '';
    if (compared.is === 'other')
      return fail(check, `record ${sample.key} read at ${item} is not the listed one: ${difference}`, HINT);
    counts[compared.is] += 1;
    if (compared.is === 'more') further = `, with further fields (${difference})`;
  }
  const { gone, moving } = counts;
  if (gone > 0) {
    const hint = 'what is listed is not deleted; a record that cannot be read alone is taken from the listing';
    const none = 'check item: it is the path of the resource for one record; `item: null` where there is none';
    const detail = `the service answered 404 or 410 for ${gone} of ${asked} listed records at ${item}`;
    return gone === asked ? fail(check, detail, none) : warn(check, detail, hint);
  }
  if (moving > 0) {
    const hint = 'nothing can be proved by them: run check again, or set `accept: [item]` if the fields are the same';
    return warn(check, `${moving} of ${asked} records say something else each time they are asked for`, hint);
  }
  const hint = 'rows are made of the listed fields: a changed record is read in the listing';
  const detail = `${asked} records read alone at ${item} are the listed ones${further}`;
  return ok(check, detail, further === '' ? undefined : hint);
}

function chooseSamples(records: readonly SourceRecord[], profile: ResourceProfile) {
  const keyed = records.flatMap(({ value }) => {
    const key = keyIn(value, profile);
    return key === null || tombstoneOf(value, profile) !== null ? [] : [{ key, listed: value }];
  });
  const chosen = [keyed.at(0), keyed.at(keyed.length >> 1), keyed.at(-1)].filter((each) => each !== undefined);
  return [...new Map(chosen.map((each) => [each.key, each])).values()];
}
