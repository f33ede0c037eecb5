import { listingUrl } from '../../extract/listing-url.ts';
import type { Page } from '../../extract/page.ts';
import { newMeter } from '../../http/client.ts';
import { selectRecords } from '../../shape/select-records.ts';
import type { IncrementalProfile } from '../../source/profile.ts';
import type { CheckOptions, Finding } from './finding.ts';

/** A moment by which no service has changed anything yet. */
const FAR_AHEAD_MS = 366 * 86_400_000;

/** Asks for what changed after a time that has not come yet: whoever answers with records ignores the filter. */
export async function filterFinding(
  options: CheckOptions,
  page: Page,
  incremental: IncrementalProfile,
): Promise<Finding> {
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
