import { listingUrl } from '../../extract/listing-url.ts';
import type { Page } from '../../extract/page.ts';
import { newMeter } from '../../http/client.ts';
import { recordKey } from '../../shape/record-key.ts';
import type { CheckOptions, Finding } from './finding.ts';

/** Whether one record can be read alone. */
export async function itemFinding(options: CheckOptions, page: Page, item: string): Promise<Finding> {
  const { profile, listing, client, signal } = options;
  const key = page.records.map((record) => recordKey(record.value, profile.id)).find((found) => 'key' in found);
  if (key === undefined || !('key' in key))
    return { check: 'item', status: 'warn', detail: 'no record with an id to ask for' };
  const path = item.replaceAll('{id}', encodeURIComponent(key.key));
  await client.get({ url: listingUrl(listing, { path, query: {} }), lane: 'incremental', meter: newMeter(), signal });
  return { check: 'item', status: 'ok', detail: `one record can be read at ${item}` };
}
