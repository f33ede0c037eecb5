import type { SourceRecord } from '../model/json.ts';
import { canonicalHash, textHash } from '../shape/records/fingerprint.ts';
import { recordKey } from '../shape/records/record-key.ts';
import { updatedTime, type Updated } from '../shape/columns/updated-time.ts';
import type { HistoryPolicy } from '../model/vocabulary.ts';
import type { ResourceProfile } from '../source/profile.ts';

/** A record that has a key, with what is needed to tell whether it is new, changed or old. */
export interface KeyedRecord extends SourceRecord {
  key: string;
  hash: string;
  /** When the service says it last changed; null if it does not say so in a way that we can read. */
  updated: Updated | null;
  /** The version that it becomes when it is written: 1, or one more than what `difference` finds stored. */
  version: number;
}

/** Records of a page that have the key of another one on it and say something else: one of them can become the row. */
export interface KeyClashes {
  /** Left out for a newer state of their record, by the service's own clock. */
  older: number;
  /** Left out although nothing says which of them is right: maybe they are no states of one record at all. */
  undecided: number;
  /** A key of the undecided; null if there are none. */
  example: string | null;
}

const NO_CLASHES: KeyClashes = { older: 0, undecided: 0, example: null };

/** A time is older than another only if it is so whichever moment it means. */
export function latestOf({ at, latest }: Updated): number {
  return latest ?? at;
}

/** A record that cannot become a row. */
export interface SetAside {
  key: string | null;
  reason: string;
  detail: string;
  bytes: Buffer;
}

/**
 * Gives each record its key. Of several with one key the newest by the service's own clock stays, else the last;
 * a record without a usable key is set aside.
 */
export function keyRecords(
  records: readonly SourceRecord[],
  profile: ResourceProfile,
): { keyed: KeyedRecord[]; setAside: SetAside[]; clashes: KeyClashes } {
  const byKey = new Map<string, KeyedRecord>();
  const leftOut: KeyedRecord[] = [];
  const setAside: SetAside[] = [];
  for (const record of records) {
    const found = recordKey(record.value, profile.id);
    if ('reject' in found) {
      setAside.push({ key: null, ...found.reject, bytes: record.bytes });
      continue;
    }
    const keyed: KeyedRecord = {
      key: found.key,
      value: record.value,
      bytes: record.bytes,
      hash: hashOf(record, profile.history),
      updated: updatedTime(record.value, profile),
      version: 1,
    };
    const before = byKey.get(keyed.key);
    const stays = before === undefined || !isOlder(keyed, before);
    if (before !== undefined) leftOut.push(stays ? before : keyed);
    if (stays) byKey.set(keyed.key, keyed);
  }
  return { keyed: [...byKey.values()], setAside, clashes: clashesOf(leftOut, byKey) };
}

/** Copies that say the same are none. */
function clashesOf(leftOut: readonly KeyedRecord[], kept: ReadonlyMap<string, KeyedRecord>): KeyClashes {
  if (leftOut.length === 0) return NO_CLASHES;
  const clashes = { ...NO_CLASHES };
  for (const record of leftOut) {
    const stays = kept.get(record.key);
    if (stays === undefined || saysTheSame(record, stays)) continue;
    if (isOlder(record, stays)) {
      clashes.older += 1;
    } else {
      clashes.undecided += 1;
      clashes.example ??= record.key;
    }
  }
  return clashes;
}

function saysTheSame(a: KeyedRecord, b: KeyedRecord): boolean {
  return a.hash === b.hash || canonicalHash(a.value) === canonicalHash(b.value);
}

/**
 * Where bodies are kept, the hash of the source will do: one that only looks different is compared with the stored
 * body. Without bodies the hash itself must not depend on the order of keys.
 */
function hashOf(record: SourceRecord, history: HistoryPolicy): string {
  return history === 'none' ? canonicalHash(record.value) : textHash(record.bytes);
}

function isOlder(record: KeyedRecord, than: KeyedRecord): boolean {
  return record.updated !== null && than.updated !== null && latestOf(record.updated) < than.updated.at;
}
