import { zoneNameAt } from '../model/time-zone.ts';
import { hasUncompared } from '../source/field-settings.ts';
import type { ResourceProfile } from '../source/profile.ts';

/** All that a walk needs of a record besides its source; a partial record holds nothing else. */
export interface PlainFields {
  /** The name of the field that is its key. */
  id: string;
  /** That of its time of change; null if none tells it. */
  updated: string | null;
}

/**
 * Fields by a name of their own, and times that are moments whoever reads them. Null if a walk needs more of its records:
 * they are to be unwrapped, filtered, masked or put together, or a field of theirs says that they are deleted or which
 * page comes next.
 */
export function plainFields(profile: ResourceProfile): PlainFields | null {
  const { id, updated, page } = profile;
  const isRead =
    profile.unwrap.length > 0 ||
    profile.filter.length > 0 ||
    profile.key_field !== null ||
    profile.mask !== null ||
    hasUncompared(profile.fields);
  const isJoined = profile.parts !== null || profile.partitions !== null;
  const isAsked = profile.deleted !== null || page.style === 'keyset';
  if (isRead || isJoined || isAsked || typeof id !== 'string' || !NAME.test(id)) return null;
  if (updated === null) return { id, updated };
  const isMoment = typeof updated === 'string' && NAME.test(updated) && zoneNameAt(profile.times, updated) === null;
  return isMoment ? { id, updated } : null;
}

/** A path of one step. */
const NAME = /^\w+$/;
