// Reads the key of each record of a page, the first step of loading (`keyRecords`). If a page lists a record twice, only
// the newest one is loaded. A record without a usable key is rejected, because its row could not be found again.
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { Forgotten } from '../database/state/forgotten.ts';
import type { ChangeTime, JsonValue, SourceRecord } from '../model/json.ts';
import { updatedTime } from '../rows/columns/updated-time.ts';
import { parseJson } from '../rows/json/parse-json.ts';
import { comparedPart } from '../rows/mask-fields.ts';
import { recordsPassingFilter } from '../rows/records/as-record.ts';
import { canonicalHash, recordKey, textHash } from '../rows/records/record-key.ts';

/** A record with its key, hash and time of change, for the comparison with its row. */
export interface KeyedRecord extends SourceRecord {
  key: string;
  hash: string;
  /** When the service says that it last changed; null if that is missing or unreadable. */
  updated: ChangeTime | null;
  /** The version that is written: 1 for a new record, else one more than the stored one. */
  version: number;
}

/** Counts records that are skipped because another record of the page has the same key and other content. */
export interface KeyConflicts {
  /** Skipped because the other record changed later by the service's own clock. */
  older: number;
  /** Skipped although it is unknown which record is newer. */
  undecided: number;
  /** A key of an undecided record, and one of an older record; null if there is none. */
  example: string | null;
  olderExample: string | null;
}

const NO_KEY_CONFLICTS: KeyConflicts = { older: 0, undecided: 0, example: null, olderExample: null };

/** The latest time that a time of change may mean: a local time in the hour that a clock change repeats has two readings. */
export function latestReading({ at, latest }: ChangeTime): number {
  return latest ?? at;
}

/** A record that cannot become a row. */
export interface RejectedRecord {
  /** Null if it has no usable key. */
  key: string | null;
  reason: string;
  detail: string;
  bytes: Buffer;
}

/** The records of a page. */
export interface KeyedRecords {
  keyed: KeyedRecord[];
  rejects: RejectedRecord[];
  /** Records that the profile's filter excludes, unless another record of the page with the same key passes it. */
  filteredOut: ExcludedRecord[];
  conflicts: KeyConflicts;
}

export type ExcludedRecord = Pick<KeyedRecord, 'key' | 'updated'>;

/** Returns the records with their keys; of several with one key, the one that changed last, or the last one without times. */
export function keyRecords(records: readonly SourceRecord[], profile: ResourceProfile): KeyedRecords {
  const byKey = new Map<string, KeyedRecord>();
  /** Skipped, because another record has the same key. */
  const duplicates: KeyedRecord[] = [];
  const rejects: RejectedRecord[] = [];
  const passing = recordsPassingFilter(records);
  const compared = comparedPart(profile.fields);
  for (const record of passing) {
    const found = record.rejection === undefined ? recordKey(record.value, profile.id) : { reject: record.rejection };
    if ('reject' in found) {
      rejects.push({ key: null, ...found.reject, bytes: record.bytes });
      continue;
    }
    const keyed: KeyedRecord = {
      key: found.key,
      value: record.value,
      bytes: record.bytes,
      // If bodies are stored, the hash of the text is enough: if it differs, the bodies are compared.
      hash: profile.history === 'none' ? canonicalHash(compared(record.value)) : textHash(record.bytes),
      updated: updatedTime(record.value, profile),
      version: 1,
    };
    if (record.asSent !== undefined) keyed.asSent = record.asSent;
    const before = byKey.get(keyed.key);
    const isNewest = before === undefined || !isOlder(keyed, before);
    if (before !== undefined) duplicates.push(isNewest ? before : keyed);
    if (isNewest) byKey.set(keyed.key, keyed);
  }
  const filteredOut = passing === records ? [] : findExcluded(records, profile).filter(({ key }) => !byKey.has(key));
  return { keyed: [...byKey.values()], rejects, filteredOut, conflicts: countConflicts(duplicates, byKey) };
}

/** The keys of the records that the filter excludes. Skips a record without a usable key: it never had a row. */
function findExcluded(records: readonly SourceRecord[], profile: ResourceProfile): ExcludedRecord[] {
  return records.flatMap(({ value, isFilteredOut }) => {
    const found = isFilteredOut === true ? recordKey(value, profile.id) : null;
    return found !== null && 'key' in found ? [{ key: found.key, updated: updatedTime(value, profile) }] : [];
  });
}

/** Counts the duplicates with other content than the record that is loaded. */
function countConflicts(duplicates: readonly KeyedRecord[], kept: ReadonlyMap<string, KeyedRecord>): KeyConflicts {
  if (duplicates.length === 0) return NO_KEY_CONFLICTS;
  const conflicts = { ...NO_KEY_CONFLICTS };
  for (const record of duplicates) {
    const keptRecord = kept.get(record.key);
    if (keptRecord === undefined || record.hash === keptRecord.hash) continue;
    if (canonicalHash(record.value) === canonicalHash(keptRecord.value)) continue;
    if (isOlder(record, keptRecord)) {
      conflicts.older += 1;
      conflicts.olderExample ??= record.key;
    } else {
      conflicts.undecided += 1;
      conflicts.example ??= record.key;
    }
  }
  return conflicts;
}

function isOlder(record: KeyedRecord, than: KeyedRecord): boolean {
  return record.updated !== null && than.updated !== null && latestReading(record.updated) < than.updated.at;
}

/** Removes the records of a page that an operator had erased (`content-sync forget`), also unreadable ones. */
export function dropForgotten(
  records: readonly SourceRecord[],
  { id }: ResourceProfile,
  forgotten: Forgotten,
): { records: readonly SourceRecord[]; forgotten: number } {
  if (forgotten.count === 0) return { records, forgotten: 0 };
  const kept = records.filter((record) => {
    const found = recordKey(valueOf(record), id);
    return !('key' in found && forgotten.has(found.key));
  });
  return { records: kept, forgotten: records.length - kept.length };
}

/** Parses the bytes of a rejected record, whose value is null. */
function valueOf({ value, rejection, bytes }: SourceRecord): JsonValue {
  if (rejection === undefined) return value;
  try {
    return parseJson(bytes.toString());
  } catch {
    return null;
  }
}
