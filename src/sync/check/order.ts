import type { Page } from '../../extract/page.ts';
import { walk } from '../../extract/walk.ts';
import { updatedTime } from '../../shape/columns/updated-time.ts';
import { filterQuery, listingWalk } from '../listing-walk.ts';
import type { RequestContext } from '../resource-context.ts';
import { descendingOrder } from '../walk/newest-first.ts';
import type { CheckFinding } from './finding.ts';

const PAGES = 2;

const HINT =
  'set incremental.query in the profile to what sorts the listing by `updated`, newest first; else set `incremental: null`';

/** Whether the listing descends by time of change, from its first two pages and the first one without that order. */
export async function orderFinding(context: RequestContext, plain: Page): Promise<CheckFinding> {
  const { profile } = context;
  const order = descendingOrder(profile, -Infinity);
  const see = order.begin();
  const times: number[] = [];
  let pages = 0;
  for await (const page of walk(listingWalk(context, 'incremental', filterQuery(profile, null)))) {
    see(page);
    times.push(...timesOf(context, page));
    if ((pages += 1) === PAGES) break;
  }
  const broken = order.broken();
  const newest = Math.max(...times);
  const isPassedBy = timesOf(context, plain).some((at) => at > newest);
  const status = profile.accept.includes('filter') ? 'warn' : 'fail';
  if (broken !== null || isPassedBy) {
    const why = broken ?? `its first record, of ${new Date(newest).toISOString()}, is not the newest`;
    return { check: 'filter', status, detail: `the listing is not newest first: ${why}`, hint: HINT };
  }
  if (new Set(times).size < 2) {
    return { check: 'filter', status: 'warn', detail: 'too few records have a time of change to show their order' };
  }
  return {
    check: 'filter',
    status: 'ok',
    detail: `${times.length} records on ${pages} pages descend by time of change`,
  };
}

function timesOf({ profile }: RequestContext, { records }: Page): number[] {
  return records.flatMap(({ value }) => updatedTime(value, profile)?.at ?? []);
}
