import type { Page } from '../../extract/page.ts';
import { walk } from '../../extract/walk.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import type { RequestContext } from '../resource-context.ts';
import { listingWalk } from '../listing-walk.ts';
import { credentialFinding } from './credential.ts';
import { filterFinding } from './filter.ts';
import type { CheckFinding } from './finding.ts';
import { itemFinding } from './item.ts';
import { clockFinding, fieldFindings, listingFinding, pageSizeFindings } from './listing.ts';
import { timesFindings } from './times-without-zone.ts';

/**
 * Tests what the profile assumes of one resource with about ten requests: its listing and a second page, the filter,
 * several records alone, and what another credential gets. `isIdentified`: the identity path was seen to answer this
 * credential only. Never throws for what the service does, except when interrupted.
 */
export async function checkResource(context: RequestContext, isIdentified: boolean): Promise<CheckFinding[]> {
  const { profile, signal } = context;
  const pages: Page[] = [];
  const walked = await tested('listing', signal, async () => {
    for await (const page of walk({ ...listingWalk(context, 'incremental'), runAhead: 1 })) {
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
    clockFinding(first, context.clock),
    ...timesFindings(values, first.serverDate, profile),
  ];
  if (profile.incremental !== null) {
    const { incremental } = profile;
    findings.push(await tested('filter', signal, () => filterFinding(context, first, incremental)));
  }
  if (profile.item !== null && first.records.length > 0) {
    const { item } = profile;
    findings.push(await tested('item', signal, () => itemFinding(context, first, item)));
  }
  findings.push(await tested('credential', signal, () => credentialFinding(context, first, isIdentified)));
  return findings;
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
