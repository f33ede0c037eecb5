import type { JsonValue, SourceRecord } from '../model/json.ts';
import { parseJson } from '../rows/json/parse-json.ts';
import { recordKey } from '../rows/records/record-key.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { Forgotten } from '../database/state/forgotten.ts';

/** Records of a page without those that were erased, and how many these are. */
export interface RememberedRecords {
  records: readonly SourceRecord[];
  forgotten: number;
}

/** Removes the erased records of a page. A record that cannot become a row is recognised by its id as well. */
export function dropForgotten(
  records: readonly SourceRecord[],
  { id }: ResourceProfile,
  forgotten: Forgotten,
): RememberedRecords {
  if (forgotten.count === 0) return { records, forgotten: 0 };
  const kept = records.filter((record) => {
    const found = recordKey(valueOf(record), id);
    return !('key' in found && forgotten.has(found.key));
  });
  return { records: kept, forgotten: records.length - kept.length };
}

/** A rejected record has no value, but its bytes may hold one. */
function valueOf({ value, aside, bytes }: SourceRecord): JsonValue {
  if (aside === undefined) return value;
  try {
    return parseJson(bytes.toString());
  } catch {
    return null;
  }
}
