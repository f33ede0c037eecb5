import { SyncError } from '../../model/errors.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { fieldAt, recordKey } from '../../shape/records/record-key.ts';
import { asRecord } from '../../shape/records/as-record.ts';
import { selectRecord } from '../../shape/records/select-records.ts';
import { tombstoneOf } from '../../shape/tombstone.ts';
import type { ChangeFeed } from '../../source/change-feed.ts';
import type { ResourceProfile } from '../../source/profile.ts';

/** What one answer of a feed says of its records, the last word of each. */
export interface FeedChanges {
  /** Whole records; one without a usable key is set aside when it is loaded. */
  records: SourceRecord[];
  /** Records that the feed names as deleted, and its own time of that (UTC text). */
  gone: { key: string; at: string | null }[];
  /** Keys of records that are to be read alone. */
  named: string[];
}

type Change = { record: SourceRecord } | { gone: string | null } | { named: true };

/** The part of a resource's profile by which the entries of its feed are read. */
type FedResource = Pick<ResourceProfile, 'id' | 'times' | 'unwrap' | 'filter'> & Partial<Pick<ResourceProfile, 'mask'>>;

/**
 * A record that the filter leaves out is gone. Throws `SyncError` (`bad_feed_entry`) for an entry that says of no record
 * what became of it. Pure.
 */
export function changesIn(entries: readonly SourceRecord[], feed: ChangeFeed, profile: FedResource): FeedChanges {
  const byKey = new Map<string, Change>();
  const unkeyed: SourceRecord[] = [];
  for (const sent of entries) {
    const entry = asRecord(sent, { unwrap: profile.unwrap });
    if (!isMeant(entry.value, feed)) continue;
    const change = changeOf({ ...entry, sent: sent.value }, feed, profile);
    const isLeftOut = 'record' in change && change.record.isLeftOut === true;
    const inside = 'record' in change && feed.id === null ? change.record : entry;
    const found = recordKey(inside.value, feed.id ?? profile.id);
    if ('key' in found) {
      // Behind all that was said before.
      byKey.delete(found.key);
      byKey.set(found.key, isLeftOut ? { gone: null } : change);
    } else if (isLeftOut) continue;
    else if ('record' in change) unkeyed.push(change.record);
    else throw nameless(found.reject.detail);
  }
  const changes = [...byKey];
  return {
    records: [...unkeyed, ...changes.flatMap(([, change]) => ('record' in change ? [change.record] : []))],
    gone: changes.flatMap(([key, change]) => ('gone' in change ? [{ key, at: change.gone }] : [])),
    named: changes.flatMap(([key, change]) => ('named' in change ? [key] : [])),
  };
}

/** True if the entry is about records of this resource. */
export function isMeant(value: JsonValue, { filter }: Pick<ChangeFeed, 'filter'>): boolean {
  return filter.every(({ field, in: values }) => {
    const found = fieldAt(value, field);
    if (found === undefined || found === null) return false;
    const text = typeof found === 'string' ? found : JSON.stringify(found);
    return values.some((one) => String(one) === text);
  });
}

/** `sent` is the entry's value as it came, which its record is selected from. */
function changeOf(
  { value, bytes, sent }: SourceRecord & { sent: JsonValue },
  { record, deleted }: ChangeFeed,
  { times, ...sight }: FedResource,
): Change {
  const tombstone = tombstoneOf(value, { deleted, times });
  if (tombstone !== null) return { gone: tombstone.at };
  const found = record === null ? null : selectRecord(bytes, sent, record);
  return found === null ? { named: true } : { record: asRecord(found, sight) };
}

function nameless(detail: string): SyncError {
  return new SyncError('bad_feed_entry', `An entry of the feed names no record: ${detail}`, {
    recovery: 'stop',
    hint: 'Set incremental.id in the profile to where an entry names the id of its record.',
  });
}
