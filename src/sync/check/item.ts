import type { Page } from '../../extract/page.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { differenceText } from '../../shape/records/record-difference.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import { compareAlone, keyIn } from '../item/compare-alone.ts';
import type { RequestContext } from '../resource-context.ts';
import type { CheckFinding } from './finding.ts';

/** A record of the listing, to be read alone. */
interface Sample {
  key: string;
  listed: JsonValue;
}

const HINT =
  'set item, item_query and item_record of the resource so that the answer is the listed record, or `item: null`: then the listing is asked instead';

/** Whether a record that is read alone is the listed one: the first, a middle and the last of a page are tried. */
export async function itemFinding(context: RequestContext, page: Page, item: string): Promise<CheckFinding> {
  const samples = samplesOf(page.records, context.profile);
  if (samples.length === 0) return { check: 'item', status: 'warn', detail: 'no record with an id to ask for' };
  const found = { gone: 0, moving: 0, same: 0 };
  for (const sample of samples) {
    const compared = await compareAlone(context, { lane: 'incremental', extraQuery: {} }, sample);
    if (compared.is === 'other') {
      const detail = `record ${sample.key} read at ${item} is not the listed one: ${differenceText(compared.differences)}`;
      return { check: 'item', status: 'fail', detail, hint: HINT };
    }
    found[compared.is] += 1;
  }
  return found.gone > 0 ? notThere(found.gone, samples.length, item) : agreed(found.moving, samples.length, item);
}

function notThere(gone: number, asked: number, item: string): CheckFinding {
  const detail = `the service answered 404 or 410 for ${gone} of ${asked} listed records at ${item}`;
  if (gone === asked) {
    const hint = 'check item: it is the path of the resource for one record; `item: null` where there is none';
    return { check: 'item', status: 'fail', detail, hint };
  }
  const hint = 'what is listed is not deleted; a record that cannot be read alone is taken from the listing';
  return { check: 'item', status: 'warn', detail, hint };
}

function agreed(moving: number, asked: number, item: string): CheckFinding {
  if (moving === 0) {
    return { check: 'item', status: 'ok', detail: `${asked} records read alone at ${item} are the listed ones` };
  }
  const detail = `${moving} of ${asked} records say something else each time they are asked for`;
  const hint = 'nothing can be proved by them: run check again, or set `accept: [item]` if the fields are the same';
  return { check: 'item', status: 'warn', detail, hint };
}

function samplesOf(records: readonly SourceRecord[], profile: ResourceProfile): Sample[] {
  const keyed = records.flatMap(({ value }) => {
    const key = keyIn(value, profile);
    return key === null ? [] : [{ key, listed: value }];
  });
  const chosen = [keyed.at(0), keyed.at(keyed.length >> 1), keyed.at(-1)].filter((each) => each !== undefined);
  return [...new Map(chosen.map((each) => [each.key, each])).values()];
}
