import type { Page } from '../../extract/page.ts';
import { readItem, type ItemSource } from '../../extract/read-item.ts';
import { walk } from '../../extract/walk.ts';
import { newMeter } from '../../http/client.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { differenceText, isOfValues, recordDifferences, type RecordDifference } from '../../shape/record-difference.ts';
import { fieldAt, recordKey } from '../../shape/record-key.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { CheckOptions, Finding } from './finding.ts';

/** A record of the listing, to be read alone. */
interface Sample {
  key: string;
  listed: JsonValue;
}

/** What came of it; `moving`: it says something else each time it is asked for. */
type Comparison = 'same' | 'gone' | 'moving' | { differences: RecordDifference[]; key: string };

const HINT =
  'set item, item_query and item_record of the resource so that the answer is the listed record, or `item: null`: then the listing is asked instead';

/** Whether a record that is read alone is the listed one: the first, a middle and the last of a page are tried. */
export async function itemFinding(options: CheckOptions, page: Page, item: string): Promise<Finding> {
  const samples = samplesOf(page.records, options.profile);
  if (samples.length === 0) return { check: 'item', status: 'warn', detail: 'no record with an id to ask for' };
  const compared: Comparison[] = [];
  for (const sample of samples) compared.push(await compare(options, sample));
  const other = compared.find((each) => typeof each === 'object');
  if (other !== undefined) {
    const detail = `record ${other.key} read at ${item} is not the listed one: ${differenceText(other.differences)}`;
    return { check: 'item', status: 'fail', detail, hint: HINT };
  }
  const count = (what: Comparison): number => compared.filter((each) => each === what).length;
  return count('gone') > 0
    ? notThere(count('gone'), compared.length, item)
    : agreed(count('moving'), compared.length, item);
}

function notThere(gone: number, asked: number, item: string): Finding {
  const detail = `the service answered 404 or 410 for ${gone} of ${asked} listed records at ${item}`;
  if (gone === asked) {
    const hint = 'check item: it is the path of the resource for one record; `item: null` where there is none';
    return { check: 'item', status: 'fail', detail, hint };
  }
  const hint = 'what is listed is not deleted; a record that cannot be read alone is taken from the listing';
  return { check: 'item', status: 'warn', detail, hint };
}

function agreed(moving: number, asked: number, item: string): Finding {
  if (moving === 0) {
    return { check: 'item', status: 'ok', detail: `${asked} records read alone at ${item} are the listed ones` };
  }
  const detail = `${moving} of ${asked} records say something else each time they are asked for`;
  const hint = 'nothing can be proved by them: run check again, or set `accept: [item]` if the fields are the same';
  return { check: 'item', status: 'warn', detail, hint };
}

function samplesOf(records: readonly SourceRecord[], profile: ResourceProfile): Sample[] {
  const keyed = records.flatMap(({ value }) => {
    const found = recordKey(value, profile.id);
    return 'key' in found ? [{ key: found.key, listed: value }] : [];
  });
  const chosen = [keyed.at(0), keyed.at(keyed.length >> 1), keyed.at(-1)].filter((each) => each !== undefined);
  return [...new Map(chosen.map((each) => [each.key, each])).values()];
}

/** A record that changes meanwhile is no fault: where the two differ, both are asked for once more. */
async function compare(options: CheckOptions, { key, listed }: Sample): Promise<Comparison> {
  const first = await readAlone(options, key);
  if (first !== null && recordDifferences(listed, first).length === 0) return 'same';
  const again = await listedAgain(options, key);
  if (again === null) return 'moving';
  const second = await readAlone(options, key);
  if (second === null) return 'gone';
  const differences = recordDifferences(again, second);
  if (differences.length === 0) return 'same';
  const { updated } = options.profile;
  if (updated !== null && timeOf(again, updated) !== timeOf(second, updated) && isOfValues(differences))
    return 'moving';
  const isUnsteady = [recordDifferences(listed, again), first === null ? [] : recordDifferences(first, second)].some(
    (each) => each.length > 0,
  );
  return isUnsteady && isOfValues(differences) ? 'moving' : { key, differences };
}

/** As a text; the two may be a moment apart. */
function timeOf(record: JsonValue, path: string): string {
  return JSON.stringify(fieldAt(record, path)) ?? '';
}

async function readAlone({ client, listing, profile, signal }: CheckOptions, key: string): Promise<JsonValue | null> {
  const source: ItemSource = { client, listing, profile, meter: newMeter(), signal };
  const reading = await readItem(source, key, 'incremental');
  return reading.isThere ? reading.record.value : null;
}

/** Null where the first page does not show it any more. */
async function listedAgain({ client, profile, listing, signal, clock }: CheckOptions, key: string) {
  const asked = { client, resource: profile, listing, lane: 'incremental', meter: newMeter(), signal, clock } as const;
  for await (const page of walk({ ...asked, runAhead: 0 })) {
    return samplesIn(page, profile, key);
  }
  return null;
}

function samplesIn(page: Page, profile: ResourceProfile, key: string): JsonValue | null {
  const found = page.records.find(({ value }) => {
    const keyed = recordKey(value, profile.id);
    return 'key' in keyed && keyed.key === key;
  });
  return found?.value ?? null;
}
