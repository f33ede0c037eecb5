import type { OlderPolicy } from '../../load/difference.ts';
import { openPageLoader, type PageOutcome } from '../../load/page-loader.ts';
import type { SourceRecord } from '../../model/json.ts';
import { forgetSuspects } from '../../state/suspects.ts';
import type { ResourceContext } from '../resource-context.ts';

/** A record of the service, and when it was asked for (local epoch milliseconds). */
export interface FoundRecord {
  record: SourceRecord;
  requestedAt: number;
}

/** Loads one record like any other, and forgets that it was suspected to be gone. Throws what loading throws. */
export async function loadRecord(
  context: ResourceContext,
  key: string,
  { record, requestedAt }: FoundRecord,
  policy: OlderPolicy,
): Promise<PageOutcome> {
  const { warehouse, owned } = context;
  // Opened anew each time, because a walk may have changed the tables meanwhile; that costs one small query.
  const loader = await openPageLoader(context, policy);
  return loader.load({ records: [record], requestedAt }, () => forgetSuspects(warehouse.own, owned.resource, [key]));
}
