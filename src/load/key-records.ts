// Reads the key of each record of a page (`keyRecords`). Of several records with one key it keeps the newest, and it rejects
// records without a usable key, which could not be found again.
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { Forgotten } from '../database/state/forgotten.ts';
import type { JsonValue, SourceRecord, ChangeTime } from '../model/json.ts';
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

/** The latest time that the text may mean: a local time in a repeated hour has two readings. */
export function latestReading({ at, latest }: ChangeTime): number {
  return latest ?? at;
}

/** A record that cannot become a row. */
export interface RejectedRecord {
  /** Null if it has no usable one. */
  key: string | null;
  reason: string;
  detail: string;
  bytes: Buffer;
}

/** The records of a page with keys, those that are rejected, and those that the filter excludes. */
export interface KeyedRecords {
  keyed: KeyedRecord[];
  rejects: RejectedRecord[];
  /** Records that the profile's filter excludes, unless another record of the page with the same key passes it. */
  filteredOut: ExcludedRecord[];
  conflicts: KeyConflicts;
}

/** A record that the profile's filter excludes. */
export type ExcludedRecord = Pick<KeyedRecord, 'key' | 'updated'>;

/**
 * Returns the records with their keys. Of several with one key it keeps the newest by the service's own clock, or the
 * last if they have no times. Rejects a record without a usable key.
 */
export function keyRecords(records: readonly SourceRecord[], profile: ResourceProfile): KeyedRecords {
  const byKey = new Map<string, KeyedRecord>();
  /** Records that are skipped because another one has the same key. */
  const copies: KeyedRecord[] = [];
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
      // With stored bodies the hash of the text as sent is enough: if it differs, the bodies are compared.
      hash: profile.history === 'none' ? canonicalHash(compared(record.value)) : textHash(record.bytes),
      updated: updatedTime(record.value, profile),
      version: 1,
    };
    if (record.asSent !== undefined) keyed.asSent = record.asSent;
    const before = byKey.get(keyed.key);
    const isNewest = before === undefined || !isOlder(keyed, before);
    if (before !== undefined) copies.push(isNewest ? before : keyed);
    if (isNewest) byKey.set(keyed.key, keyed);
  }
  const filteredOut = passing === records ? [] : findExcluded(records, profile).filter(({ key }) => !byKey.has(key));
  return { keyed: [...byKey.values()], rejects, filteredOut, conflicts: countConflicts(copies, byKey) };
}

/** The keys of the records that the filter excludes. Skips a record without a usable key: it never had a row. */
function findExcluded(records: readonly SourceRecord[], profile: ResourceProfile): ExcludedRecord[] {
  return records.flatMap(({ value, isFilteredOut }) => {
    const found = isFilteredOut === true ? recordKey(value, profile.id) : null;
    return found !== null && 'key' in found ? [{ key: found.key, updated: updatedTime(value, profile) }] : [];
  });
}

/** Counts the skipped records with other content than the one that was kept. */
function countConflicts(copies: readonly KeyedRecord[], kept: ReadonlyMap<string, KeyedRecord>): KeyConflicts {
  if (copies.length === 0) return NO_KEY_CONFLICTS;
  const conflicts = { ...NO_KEY_CONFLICTS };
  for (const record of copies) {
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

/** Removes the erased records of a page, including those among its rejects. */
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
