import type { Page } from '../../extract/page.ts';
import { walk } from '../../extract/walk.ts';
import { newMeter } from '../../http/client.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import { clockFinding } from './clock.ts';
import { credentialFinding } from './credential.ts';
import { fieldFindings } from './fields.ts';
import { filterFinding } from './filter.ts';
import type { CheckOptions, CheckFinding } from './finding.ts';
import { itemFinding } from './item.ts';
import { listingFinding, pageSizeFindings } from './listing.ts';
import { timesFindings } from './times-without-zone.ts';

/**
 * Tests what the profile assumes of one resource with about ten requests: its listing and a second page, the filter,
 * several records alone, and what another credential gets. Never throws for what the service does, except when interrupted.
 */
export async function checkResource(options: CheckOptions): Promise<CheckFinding[]> {
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
  const values = first.records.map(({ value }) => value);
  const findings = [
    walked,
    ...pageSizeFindings(pages, profile),
    ...fieldFindings(first.records, profile),
    clockFinding(first, options.clock),
    ...timesFindings(values, first.serverDate, profile),
  ];
  if (profile.incremental !== null) {
    const { incremental } = profile;
    findings.push(await tested('filter', options.signal, () => filterFinding(options, first, incremental)));
  }
  if (profile.item !== null && first.records.length > 0) {
    const { item } = profile;
    findings.push(await tested('item', options.signal, () => itemFinding(options, first, item)));
  }
  findings.push(await tested('credential', options.signal, () => credentialFinding(options, first)));
  return findings;
}

function walkOf({ client, profile, listing, signal, clock }: CheckOptions): Parameters<typeof walk>[0] {
  const acceptsEnd = profile.accept.includes('end');
  const options = { client, resource: profile, listing, acceptsEnd, meter: newMeter(), signal, clock };
  return { ...options, lane: 'incremental', runAhead: 1 };
}

/** Runs one test; what it throws becomes its finding. */
async function tested(check: string, signal: AbortSignal, test: () => Promise<CheckFinding>): Promise<CheckFinding> {
  try {
    return await test();
  } catch (error) {
    signal.throwIfAborted();
    const hint = error instanceof SyncError ? error.hint : undefined;
    return { check, status: 'fail', detail: messageOf(error), hint };
  }
}
