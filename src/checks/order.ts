import type { Page } from '../pagination/page.ts';
import { walk } from '../pagination/walk.ts';
import type { JsonValue } from '../model/json.ts';
import { updatedTime, updatedZone } from '../rows/columns/updated-time.ts';
import { recordKey } from '../rows/records/record-key.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import { type CheckFinding, filterQuery, listingWalk, type RequestContext } from './listing-walk.ts';
import { momentOf } from './since.ts';

/** Follows the order of a listing that is to descend by time of change. */
interface DescendingOrder {
  /**
   * Begins a listing. What it returns takes its pages: true if all of one changed before the moment from which changes
   * are wanted, or if the order does not hold.
   */
  begin: () => (page: Pick<Page, 'records'>) => boolean;
  /** How the order was broken, as a sentence without its final period; null if it holds. */
  broken: () => string | null;
}

/** Null if the profile does not say that the listing is newest first. */
export function orderOf(
  profile: ResourceProfile,
  { walk_since }: { walk_since: string | null },
): DescendingOrder | null {
  if (!isNewestFirst(profile)) return null;
  const since = walk_since === null ? -Infinity : momentOf(walk_since, updatedZone(profile));
  return descendingOrder(profile, since);
}

export function isNewestFirst({ incremental }: Pick<ResourceProfile, 'incremental'>): boolean {
  return incremental?.mode === 'newest_first';
}

/** `since` in epoch milliseconds; -Infinity if all is wanted. */
function descendingOrder(profile: ResourceProfile, since: number): DescendingOrder {
  /** What was pushed on by changes at the head comes again, and is newer than what it comes behind. */
  let met = new Set<string>();
  let last = { key: '', at: Infinity };
  let broken: string | null = null;
  const follow = (value: JsonValue): number => {
    const found = recordKey(value, profile.id);
    const at = updatedTime(value, profile)?.at;
    const key = 'key' in found ? found.key : 'without an id';
    if (at === undefined) {
      broken ??= `the record ${key} has no time of change`;
      return Infinity;
    }
    if (met.has(key)) return at;
    met.add(key);
    if (at > last.at) broken ??= `the record ${key} (${textOf(at)}) comes behind ${last.key} (${textOf(last.at)})`;
    last = { key, at };
    return at;
  };
  return {
    begin: () => {
      met = new Set();
      last = { key: '', at: Infinity };
      return ({ records }) => {
        const times = records.map(({ value }) => follow(value));
        // All is walked instead; unless that is accepted, and this walk is all there is.
        if (broken !== null) return since > -Infinity && !profile.accept.includes('filter');
        return times.length > 0 && times.every((at) => at < since);
      };
    },
    broken: () => broken,
  };
}

function textOf(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** Pages whose order is compared. */
const PAGES = 2;

const HINT =
  'set incremental.query in the profile to what sorts the listing by `updated`, newest first; else set `incremental: null`';

/** Whether the listing descends by time of change, from its first two pages and `plain`, the first one without that order. */
export async function orderFinding(context: RequestContext, plain: Page): Promise<CheckFinding> {
  const check = 'filter';
  const { profile } = context;
  const order = descendingOrder(profile, -Infinity);
  const follow = order.begin();
  const times: number[] = [];
  let pages = 0;
  for await (const page of walk(listingWalk(context, 'incremental', filterQuery(profile, null)))) {
    follow(page);
    times.push(...timesIn(page, profile));
    if ((pages += 1) === PAGES) break;
  }
  const newest = Math.max(...times);
  const isPassedBy = timesIn(plain, profile).some((at) => at > newest);
  const why = order.broken() ?? (isPassedBy ? `its first record, of ${textOf(newest)}, is not the newest` : null);
  if (why !== null) {
    const status = profile.accept.includes('filter') ? 'warn' : 'fail';
    return { check, status, detail: `the listing is not newest first: ${why}`, hint: HINT };
  }
  if (new Set(times).size < 2) {
    return { check, status: 'warn', detail: 'too few records have a time of change to show their order' };
  }
  return { check, status: 'ok', detail: `${times.length} records on ${pages} pages descend by time of change` };
}

function timesIn({ records }: Page, profile: ResourceProfile): number[] {
  return records.flatMap(({ value }) => updatedTime(value, profile)?.at ?? []);
}
