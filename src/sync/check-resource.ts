import type { ListingTarget } from '../extract/listing-url.ts';
import { listingUrl } from '../extract/listing-url.ts';
import type { Page } from '../extract/page.ts';
import { walk } from '../extract/walk.ts';
import { newMeter, type ApiClient } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError, messageOf } from '../model/errors.ts';
import type { SourceRecord } from '../model/json.ts';
import { fieldAt } from '../shape/field-at.ts';
import { recordKey } from '../shape/record-key.ts';
import { selectRecords } from '../shape/select-records.ts';
import { parseInstant } from '../shape/timestamps.ts';
import type { IncrementalProfile, ResourceProfile } from '../source/profile.ts';
import { timesFindings } from './times-without-zone.ts';

/** One thing that was tested against the live service. */
export interface Finding {
  check: string;
  status: 'ok' | 'warn' | 'fail';
  detail: string;
  hint?: string | undefined;
}

export interface CheckOptions {
  resource: string;
  profile: ResourceProfile;
  listing: ListingTarget;
  client: ApiClient;
  clock: Clock;
  signal: AbortSignal;
}

/** Beyond this the service's clock and ours differ by more than a slow answer explains. */
const CLOCK_SKEW_MS = 30_000;
/** A moment by which no service has changed anything yet. */
const FAR_AHEAD_MS = 366 * 86_400_000;

/**
 * Tests what the profile assumes of one resource with at most four requests: its listing, a second page, the filter
 * and one record alone. Never throws for what the service does, except when interrupted.
 */
export async function checkResource(options: CheckOptions): Promise<Finding[]> {
  const { profile } = options;
  const pages: Page[] = [];
  const walked = await tested('listing', options.signal, async () => {
    for await (const page of walk(walkOf(options))) {
      pages.push(page);
      if (pages.length === 2) break;
    }
    return listingFinding(pages, profile);
  });
  const [first] = pages;
  if (first === undefined) return [walked];
  const findings = [walked, ...fieldFindings(first.records, profile), clockFinding(first, options.clock)];
  findings.push(
    ...timesFindings(
      first.records.map(({ value }) => value),
      first.serverDate,
      profile,
    ),
  );
  if (profile.incremental !== null) {
    const { incremental } = profile;
    findings.push(await tested('filter', options.signal, () => filterFinding(options, first, incremental)));
  }
  if (profile.item !== null && first.records.length > 0) {
    const { item } = profile;
    findings.push(await tested('item', options.signal, () => itemFinding(options, first, item)));
  }
  return findings;
}

function walkOf({ client, profile, listing, signal, clock }: CheckOptions): Parameters<typeof walk>[0] {
  return { client, resource: profile, listing, lane: 'incremental', meter: newMeter(), signal, runAhead: 1, clock };
}

/** Runs one test; what it throws becomes its finding. */
async function tested(check: string, signal: AbortSignal, test: () => Promise<Finding>): Promise<Finding> {
  try {
    return await test();
  } catch (error) {
    signal.throwIfAborted();
    const hint = error instanceof SyncError ? error.hint : undefined;
    return { check, status: 'fail', detail: messageOf(error), hint };
  }
}

function listingFinding(pages: readonly Page[], profile: ResourceProfile): Finding {
  const [first, second] = pages;
  const told = first?.total ?? null;
  const total = told === null ? '' : `, ${told} in all by the service's word`;
  const count = first?.records.length ?? 0;
  const more = second === undefined ? 'one page' : `a second page with ${second.records.length}`;
  const detail = `page style ${profile.page.style}: ${count} records, ${more}${total}`;
  if (count > 0) return { check: 'listing', status: 'ok', detail };
  return {
    check: 'listing',
    status: 'warn',
    detail,
    hint: 'an empty listing proves nothing: check that the credential may see this resource',
  };
}

function fieldFindings(records: readonly SourceRecord[], profile: ResourceProfile): Finding[] {
  if (records.length === 0) return [];
  const keys = records.map((record) => recordKey(record.value, profile.id));
  const bad = keys.find((key) => 'reject' in key);
  const distinct = new Set(keys.map((key) => ('key' in key ? key.key : key)));
  const idName = [profile.id].flat().join(', ');
  const fields: Finding[] = [];
  if (bad !== undefined && 'reject' in bad) {
    const hint = `the fields there are: ${namesIn(records[0])}; name the right one as \`id\` in the profile`;
    fields.push({ check: 'id', status: 'fail', detail: bad.reject.detail, hint });
  } else if (distinct.size < records.length) {
    const hint = 'records that share an id become one row: name the fields that tell them apart as `id`';
    fields.push({ check: 'id', status: 'fail', detail: `${idName} repeats within a page`, hint });
  } else {
    fields.push({ check: 'id', status: 'ok', detail: `${idName} is there and unique on the page` });
  }
  return profile.updated === null ? fields : [...fields, updatedFinding(records, profile.updated)];
}

function updatedFinding(records: readonly SourceRecord[], path: string): Finding {
  const readable = records.filter(({ value }) => {
    const field = fieldAt(value, path);
    return (typeof field === 'string' || typeof field === 'number') && parseInstant(field) !== null;
  }).length;
  const detail = `${path} is a time in ${readable} of ${records.length} records`;
  if (readable === records.length) return { check: 'updated', status: 'ok', detail };
  const hint =
    "the cursor then follows the service's clock; if another field holds the time of change, name it as `updated`";
  return { check: 'updated', status: 'warn', detail: `${detail}; the fields are ${namesIn(records[0])}`, hint };
}

function clockFinding(page: Page, clock: Clock): Finding {
  if (page.serverDate === null) {
    return { check: 'clock', status: 'warn', detail: "the answers have no Date, so the service's clock is not known" };
  }
  const skew = Math.round((page.serverDate - clock.now()) / 1_000);
  if (Math.abs(skew) * 1_000 <= CLOCK_SKEW_MS)
    return { check: 'clock', status: 'ok', detail: `within ${Math.abs(skew) + 1} s` };
  const detail = `the service's clock is ${Math.abs(skew)} s ${skew > 0 ? 'ahead of' : 'behind'} this machine's`;
  return {
    check: 'clock',
    status: 'warn',
    detail,
    hint: "cursors follow the service's clock, so nothing is lost by it",
  };
}

/** Asks for what changed after a time that has not come yet: whoever answers with records ignores the filter. */
async function filterFinding(options: CheckOptions, page: Page, incremental: IncrementalProfile): Promise<Finding> {
  const ahead = (page.serverDate ?? options.clock.now()) + FAR_AHEAD_MS;
  const moment = incremental.format === 'epoch_s' ? Math.floor(ahead / 1_000) : ahead;
  const value = incremental.format.startsWith('epoch') ? String(moment) : new Date(ahead).toISOString();
  const url = listingUrl(options.listing, options.profile, { [incremental.param]: value });
  const answer = await options.client.get({ url, lane: 'incremental', meter: newMeter(), signal: options.signal });
  const records = selectRecords(answer.bytes, answer.json, options.profile.records)?.length ?? 0;
  const name = incremental.param;
  if (records === 0) return { check: 'filter', status: 'ok', detail: `${name} leaves out what did not change` };
  return {
    check: 'filter',
    status: page.records.length === 0 ? 'warn' : 'fail',
    detail: `${name}=${value} still lists ${records} records: the service ignores it`,
    hint: 'set `incremental: null` in the profile: then every sync walks fully and writes only what changed',
  };
}

async function itemFinding(options: CheckOptions, page: Page, item: string): Promise<Finding> {
  const { profile, listing, client, signal } = options;
  const key = page.records.map((record) => recordKey(record.value, profile.id)).find((found) => 'key' in found);
  if (key === undefined || !('key' in key))
    return { check: 'item', status: 'warn', detail: 'no record with an id to ask for' };
  const path = item.replaceAll('{id}', encodeURIComponent(key.key));
  await client.get({ url: listingUrl(listing, { path, query: {} }), lane: 'incremental', meter: newMeter(), signal });
  return { check: 'item', status: 'ok', detail: `one record can be read at ${item}` };
}

function namesIn(record: SourceRecord | undefined): string {
  const value = record?.value;
  return typeof value === 'object' && value !== null ? Object.keys(value).slice(0, 20).join(', ') : 'none';
}
