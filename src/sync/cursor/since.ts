import type { TimeZone } from '../../model/time-zone.ts';
import { isLocalTime, parseInstant } from '../../shape/columns/timestamps.ts';
import type { IncrementalProfile } from '../../source/incremental.ts';

/** By the service's clock, in epoch milliseconds: when the cursor was first seen, and when the last walk began. */
interface Looks {
  first: number;
  last: number;
}

/**
 * The value of the incremental parameter: the cursor less the overlap, written as the profile says. The overlap
 * re-reads what was committed late and what shares a moment with the cursor; unchanged rows cost nothing. Once a walk
 * has looked a whole overlap after the cursor was first seen, it is the moment after the cursor: a bulk update that
 * gave a hundred thousand records one time is not fetched again for ever.
 * Null if the cursor is not a moment that we can read: then everything must be walked.
 *
 * A cursor without a zone is read in `zone`, and goes back without one in the same form if it is written `as_sent`.
 */
export function sinceValue(
  cursor: string,
  incremental: IncrementalProfile,
  looks: Looks | null,
  zone: TimeZone | null = null,
): string | null {
  const at = momentOf(cursor, zone);
  if (at === -Infinity) return null;
  const isPast = looks !== null && isSettled(at, incremental.overlap, looks);
  const from = isPast ? at + stepOf(incremental, cursor) : at - incremental.overlap;
  return writtenMoment(from, incremental.format, cursor, zone);
}

/**
 * Epoch milliseconds of a moment as a service writes it, a Unix time as text too, a time without a zone read in `zone`
 * (UTC where there is none); -Infinity if it is none.
 */
export function momentOf(text: string, zone: TimeZone | null = null): number {
  return parseInstant(isNumber(text) ? Number(text) : text, zone)?.epochMs ?? -Infinity;
}

/** A moment as the incremental parameter takes it; `as_sent` writes it in the form of `like`, a time of the service. */
export function writtenMoment(
  epochMs: number,
  format: IncrementalProfile['format'],
  like: string,
  zone: TimeZone | null = null,
): string {
  const isLocal = zone !== null && format === 'as_sent' && isLocalTime(like);
  return isLocal ? localText(epochMs, like, zone) : FORMATS[format](epochMs, like);
}

function isNumber(text: string): boolean {
  return /^\d+(\.\d+)?$/.test(text);
}

/**
 * Local time in the form of the cursor, cut off as that is. Of an hour that is there twice, when clocks are put back,
 * the service's filter may take either: then the walk starts before both.
 */
function localText(epochMs: number, cursor: string, zone: TimeZone): string {
  const local = zone.toLocal(epochMs);
  const text = new Date(local - zone.spread(local)).toISOString();
  const [date, clock] = [text.slice(0, 10), text.slice(11, cursor.includes('.') ? 23 : Math.min(cursor.length, 19))];
  return `${date}${cursor.charAt(10)}${clock}`;
}

/** Nothing that the overlap allows for can still come at or before the cursor: the last walk would have seen it. */
function isSettled(cursor: number, overlap: number, { first, last }: Looks): boolean {
  return last - first >= overlap && last - cursor >= overlap + roundness(cursor);
}

/** A service whose times are rounded down to the hour still writes this hour's time when most of it has passed. */
function roundness(epochMs: number): number {
  return ROUND_UNITS_MS.find((unit) => epochMs % unit === 0) ?? 0;
}

const ROUND_UNITS_MS = [86_400_000, 3_600_000, 60_000, 1_000] as const;

/** The smallest step that the written form can show. */
function stepOf({ format }: IncrementalProfile, cursor: string): number {
  if (format !== 'as_sent') return format === 'epoch_s' ? 1_000 : 1;
  return cursor.includes('.') || (isNumber(cursor) && cursor.length > 11) ? 1 : 1_000;
}

type Format = (epochMs: number, like: string) => string;

const iso: Format = (epochMs) => new Date(epochMs).toISOString();
const epochSeconds: Format = (epochMs) => String(Math.floor(epochMs / 1_000));
const epochMilliseconds: Format = (epochMs) => String(epochMs);

const FORMATS: Readonly<Record<IncrementalProfile['format'], Format>> = {
  iso,
  epoch_s: epochSeconds,
  epoch_ms: epochMilliseconds,
  as_sent: (epochMs, like) => {
    if (!isNumber(like)) return like.includes('.') ? iso(epochMs, like) : iso(epochMs, like).replace(/\.\d+/, '');
    // Unix seconds have ten digits until the year 2286.
    return (like.length > 11 ? epochMilliseconds : epochSeconds)(epochMs, like);
  },
};
