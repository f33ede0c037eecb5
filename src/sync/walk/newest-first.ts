import type { Page } from '../../extract/page.ts';
import type { JsonValue } from '../../model/json.ts';
import { updatedTime, updatedZone } from '../../shape/columns/updated-time.ts';
import { recordKey } from '../../shape/records/record-key.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { momentOf } from '../cursor/since.ts';

/** Follows the order of a listing that is to descend by time of change. */
export interface DescendingOrder {
  /**
   * Begins a listing. What it returns takes its pages: true if all of one changed before the moment from which changes
   * are wanted, or if the order does not hold.
   */
  begin: () => (page: Pick<Page, 'records'>) => boolean;
  /** How the order was broken, as a sentence without its final period; null if it holds. */
  broken: () => string | null;
}

/** Null if the profile does not say that the listing is newest first. */
export function orderOf(profile: ResourceProfile, { walk_since }: CheckpointRow): DescendingOrder | null {
  if (!isNewestFirst(profile)) return null;
  const since = walk_since === null ? -Infinity : momentOf(walk_since, updatedZone(profile));
  return descendingOrder(profile, since);
}

export function isNewestFirst({ incremental }: Pick<ResourceProfile, 'incremental'>): boolean {
  return incremental?.mode === 'newest_first';
}

/** `since` in epoch milliseconds; -Infinity if all is wanted. */
export function descendingOrder(profile: ResourceProfile, since: number): DescendingOrder {
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
