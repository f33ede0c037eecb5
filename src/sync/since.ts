import { parseInstant } from '../shape/timestamps.ts';
import type { IncrementalProfile } from '../source/profile.ts';

/**
 * The value of the incremental parameter: the cursor less the overlap, written as the profile says. The overlap
 * re-reads what was committed late and what shares a moment with the cursor; unchanged rows cost nothing.
 * Null where the cursor is not a moment that we can read: then everything must be walked.
 */
export function sinceValue(cursor: string, incremental: IncrementalProfile): string | null {
  const isNumber = /^\d+(\.\d+)?$/.test(cursor);
  const instant = parseInstant(isNumber ? Number(cursor) : cursor);
  if (instant === null) return null;
  const from = instant.epochMs - incremental.overlap;
  return FORMATS[incremental.format](from, cursor, isNumber);
}

type Format = (epochMs: number, cursor: string, isNumber: boolean) => string;

const iso: Format = (epochMs) => new Date(epochMs).toISOString();
const epochSeconds: Format = (epochMs) => String(Math.floor(epochMs / 1_000));
const epochMilliseconds: Format = (epochMs) => String(epochMs);

const FORMATS: Readonly<Record<IncrementalProfile['format'], Format>> = {
  iso,
  epoch_s: epochSeconds,
  epoch_ms: epochMilliseconds,
  as_sent: (epochMs, cursor, isNumber) => {
    if (!isNumber) return cursor.includes('.') ? iso(epochMs, cursor, false) : iso(epochMs, cursor, false).replace(/\.\d+/, '');
    // Unix seconds have ten digits until the year 2286.
    return (cursor.length > 11 ? epochMilliseconds : epochSeconds)(epochMs, cursor, true);
  },
};
