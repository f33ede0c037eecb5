import { readItem } from '../../extract/read-item.ts';
import { walk } from '../../extract/walk.ts';
import type { JsonValue } from '../../model/json.ts';
import { fieldChanges, fieldTypes } from '../../shape/columns/field-types.ts';
import type { Profile } from '../../source/profile.ts';
import {
  keyIn,
  listingWalk,
  type RequestContext,
  samplePartition,
  failure,
  type CheckFinding,
} from '../../checks/listing-walk.ts';
import { checkResource } from './check-resource.ts';

/** Pages of each version that are compared. */
const PAGES = 2;
/** Records that are asked for alone, where the listing of the other version does not show them. */
const MOST_ASKED = 5;
const MOST_NAMED = 8;

/** The first pages of a listing, by the records' keys. */
interface Sample {
  records: ReadonlyMap<string, JsonValue>;
  total: number | null;
  /** True if there are no further pages. */
  isWhole: boolean;
}

/**
 * The differences of one resource between the version that the profile asks for and another one, by the first pages of
 * both; and what the profile assumes that the other one does not keep. `fail`: it breaks the copy. Never throws for what
 * the service does, except when interrupted.
 */
export async function compareVersions(
  present: RequestContext,
  other: RequestContext,
  resources: Profile['resources'],
): Promise<CheckFinding[]> {
  try {
    const partition = present.profile.partitions === null ? null : await samplePartition(present, resources);
    const before = await sampleOf({ ...present, partition });
    const after = await sampleOf({ ...other, partition });
    const broken = (await checkResource(other, resources, 'identified')).filter(({ status }) => status === 'fail');
    return [
      ...broken,
      ...fieldFindings(before, after),
      await recordsFinding(before, after, other),
      ...totalFindings(before, after),
    ];
  } catch (error) {
    present.signal.throwIfAborted();
    return [failure('listing', error)];
  }
}

async function sampleOf(context: RequestContext): Promise<Sample> {
  const records = new Map<string, JsonValue>();
  let sample: Sample = { records, total: null, isWhole: true };
  let pages = 0;
  for await (const page of walk(listingWalk(context, 'incremental'))) {
    for (const { value } of page.records) {
      const key = keyIn(value, context.profile);
      if (key !== null) records.set(key, value);
    }
    sample = { records, total: page.total ?? sample.total, isWhole: page.next === null };
    pages += 1;
    if (pages === PAGES) break;
  }
  return sample;
}

/** By the records that both have; by all of them where there are none. */
function fieldFindings(before: Sample, after: Sample): CheckFinding[] {
  const shared = [...before.records.keys()].filter((key) => after.records.has(key));
  const of = ({ records }: Sample): JsonValue[] => {
    const values = [...records].filter(
      ([key]) => shared.length === 0 || (after.records.has(key) && before.records.has(key)),
    );
    return values.map(([, value]) => value);
  };
  const { gone, emptied, added, retyped } = fieldChanges(fieldTypes(of(before)), fieldTypes(of(after)));
  const found: (CheckFinding | null)[] = [
    listed('fields gone', 'fail', gone),
    listed('fields that are null now', 'fail', emptied),
    listed('types changed', 'fail', retyped),
    listed('new fields', 'ok', added),
  ];
  const differences = found.filter((finding) => finding !== null);
  const compared = `compared by ${shared.length === 0 ? 'other records, because none is in both' : `${shared.length} records`}`;
  if (differences.length > 0) {
    return differences.map(({ check, status, detail }) => ({ check, status, detail: `${detail} (${compared})` }));
  }
  return [{ check: 'fields', status: shared.length === 0 ? 'warn' : 'ok', detail: `the same, ${compared}` }];
}

function listed(check: string, status: CheckFinding['status'], names: readonly string[]): CheckFinding | null {
  if (names.length === 0) return null;
  const more = names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : '';
  return { check, status, detail: `${names.slice(0, MOST_NAMED).join(', ')}${more}` };
}

/** Whether the records of the first pages are there in the other version: listed, or to be read alone. */
async function recordsFinding(before: Sample, after: Sample, other: RequestContext): Promise<CheckFinding> {
  const check = 'records';
  const unlisted = [...before.records.keys()].filter((key) => !after.records.has(key));
  if (unlisted.length === 0) {
    return { check, status: 'ok', detail: `all ${before.records.size} of the first pages are listed` };
  }
  const some = `${unlisted.length} of ${before.records.size} records of the first pages are not listed`;
  const such = `such as ${unlisted.slice(0, 3).join(', ')}`;
  if (after.isWhole) return { check, status: 'fail', detail: `${some}, ${such}` };
  const hint = 'the order or the ids may differ: compare them by hand';
  if (other.profile.item === null)
    return { check, status: 'warn', detail: `${some} on its first pages, ${such}`, hint };
  const missing: string[] = [];
  for (const key of unlisted.slice(0, MOST_ASKED)) {
    if (!(await readItem(other, key, 'incremental')).isThere) missing.push(key);
  }
  const asked = Math.min(unlisted.length, MOST_ASKED);
  if (missing.length > 0) {
    const detail = `${some} on its first pages, and ${missing.length} of ${asked} are not there when read alone: ${missing.join(', ')}`;
    return { check, status: 'fail', detail };
  }
  return {
    check,
    status: 'warn',
    detail: `${some} on its first pages; the ${asked} that were read alone are there`,
    hint,
  };
}

function totalFindings({ total: before }: Sample, { total: after }: Sample): CheckFinding[] {
  if (before === null && after === null) return [];
  const isLess = before !== null && after !== null && after < before;
  const status = before === after ? 'ok' : isLess ? 'fail' : 'warn';
  return [
    {
      check: 'total',
      status,
      detail: before === after ? String(after) : `${after ?? 'none'}, was ${before ?? 'none'}`,
    },
  ];
}
