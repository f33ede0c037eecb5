/** More deletes than this within a sweep, or within 24 hours, are held until a person decides. */
export interface DeleteLimits {
  max_rows: number;
  /** Part of the live rows, 0..1. */
  max_part: number;
}

/** How many deletes are asked for, and what they are measured against. */
export interface DeleteVolume {
  /** Rows that would be deleted now. */
  asked: number;
  /** Rows that are live now. */
  live: number;
  /** Rows deleted in the last 24 hours for which no person has given their word. */
  recent: number;
}

/**
 * Why so many deletes are too many, as a sentence; null where they may go on. They are too many where they and those of
 * the last 24 hours are more than either limit of the rows that were live before.
 */
export function tooMany(limits: DeleteLimits, { asked, live, recent }: DeleteVolume): string | null {
  const before = live + recent;
  // In a product such as 0.07 * 100 the last digit is off.
  const part = Math.floor(limits.max_part * before + 1e-9);
  const allowed = Math.min(limits.max_rows, part);
  if (asked + recent <= allowed) return null;
  const already = recent === 0 ? '' : `, after ${recent} in the last 24 h`;
  const limit = allowed === part ? `max_part ${limits.max_part}` : `max_rows ${limits.max_rows}`;
  return `${asked} of ${live} live rows would be deleted${already}: more than ${allowed} (deletes.${limit})`;
}
