import type { Page } from '../../extract/page.ts';
import { walk, type WalkOptions } from '../../extract/walk.ts';
import type { RequestContext } from '../resource-context.ts';
import { listingWalk } from '../listing-walk.ts';
import { samplePartition } from './sample-partition.ts';
import { credentialFinding } from './credential.ts';
import { describedFields } from './fields.ts';
import { filterFinding } from './filter.ts';
import { orderFinding } from './order.ts';
import { failure, type CheckFinding } from './finding.ts';
import { clockFinding, fieldFindings, listingFinding, pageSizeFindings } from './listing.ts';
import { sampleQuery, windowsFinding } from './windows.ts';
import { timesFindings } from './times-without-zone.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { differenceText } from '../../shape/records/record-difference.ts';
import { tombstoneOf } from '../../shape/tombstone.ts';
import type { Profile, ResourceProfile } from '../../source/profile.ts';
import { compareAlone, keyIn } from '../item/compare-alone.ts';

/**
 * Tests what the profile assumes of one resource with about ten requests: its listing and a second page, the filter,
 * several records alone, and what another credential gets. `credential`: whether the identity path was seen to answer
 * this one only, or none is sent. Never throws for what the service does, except when interrupted.
 */
export async function checkResource(
  asked: RequestContext,
  resources: Profile['resources'],
  credential: 'identified' | 'unproved' | 'none',
): Promise<CheckFinding[]> {
  const { profile, signal } = asked;
  const pages: Page[] = [];
  let context = asked;
  const walked = await tested('listing', signal, async () => {
    if (profile.partitions !== null) context = { ...asked, partition: await samplePartition(asked, resources) };
    if (profile.partitions !== null && context.partition === null) return NO_PARENT;
    for await (const page of twoPages(context)) pages.push(page);
    return listingFinding(pages, profile);
  });
  const [first] = pages;
  if (first === undefined) return [walked];
  const values = first.records.map(({ value }) => value);
  const findings = [
    walked,
    ...pageSizeFindings(pages, profile),
    ...fieldFindings(first.records, profile),
    clockFinding(first, context.clock),
    ...timesFindings(values, first.serverDate, profile),
    ...describedFields(first.records, profile),
  ];
  if (profile.incremental !== null) {
    const { incremental } = profile;
    const isSorted = incremental.mode === 'newest_first';
    const finding = () => (isSorted ? orderFinding(context, first) : filterFinding(context, first, incremental));
    findings.push(await tested('filter', signal, finding));
  }
  const { windows } = profile;
  if (windows !== null) findings.push(await tested('windows', signal, () => windowsFinding(context, windows)));
  if (profile.item !== null && first.records.length > 0) {
    const { item } = profile;
    findings.push(await tested('item', signal, () => itemFinding(context, first, item)));
  }
  if (credential !== 'none') {
    const isIdentified = credential === 'identified';
    findings.push(await tested('credential', signal, () => credentialFinding(context, first, isIdentified)));
  }
  return findings;
}

/** The first page and the one after it. Where the walk is cut short, it has no end, but its numbers are tried. */
async function* twoPages(context: RequestContext): AsyncGenerator<Page> {
  const asked = { ...listingWalk(context, 'incremental', sampleQuery(context)), numbering: { isProved: false } };
  let pages = 0;
  let isCut = false;
  const isEnough: WalkOptions['isEnough'] = () => (page) => (isCut = (pages += 1) === 2 && page.next !== null);
  for await (const page of walk({ ...asked, isEnough })) yield isCut ? { ...page, end: null } : page;
}

const NO_PARENT: CheckFinding = {
  check: 'listing',
  status: 'warn',
  detail: 'the service lists no record of the parent, so there is no listing to ask for',
};

/** Runs one test; what it throws becomes its finding. */
async function tested(check: string, signal: AbortSignal, test: () => Promise<CheckFinding>): Promise<CheckFinding> {
  try {
    return await test();
  } catch (error) {
    signal.throwIfAborted();
    return failure(check, error);
  }
}

/** A record of the listing, to be read alone. */
interface Sample {
  key: string;
  listed: JsonValue;
}

const HINT =
  'set item, item_query and item_record of the resource so that the answer is the listed record, or `item: null`: then the listing is asked instead';

/** Whether a record that is read alone is the listed one: the first, a middle and the last of a page are tried. */
async function itemFinding(context: RequestContext, page: Page, item: string): Promise<CheckFinding> {
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
    return key === null || tombstoneOf(value, profile) !== null ? [] : [{ key, listed: value }];
  });
  const chosen = [keyed.at(0), keyed.at(keyed.length >> 1), keyed.at(-1)].filter((each) => each !== undefined);
  return [...new Map(chosen.map((each) => [each.key, each])).values()];
}
