// Computes the time from which changes are requested, and formats it as the service's filter takes it.
import {
  hasOffset,
  isNamedFormat,
  type NamedFormat,
  parsePattern,
  patternStep,
  writePattern,
} from '../config/profile/incremental.ts';
import { timeZone, type TimeZone } from '../model/time-zone.ts';
import { isLocalTime, parseInstant } from '../rows/columns/cells.ts';

/** By the service's clock, in epoch milliseconds: when the cursor was first seen, and when the last scan began. */
interface CursorAge {
  first: number;
  last: number;
}

/** How a filter takes a time. */
interface FilterTimeFormat {
  format: string;
  zone?: string | null;
}

/**
 * The time from which changes are requested: the cursor less the look-back, in a form that `momentOf` reads; a date
 * pattern is only applied when it is sent (`sentMoment`). The look-back re-reads what was committed late and what shares a
 * time with the cursor; unchanged rows cost nothing. Once a scan has looked a whole look-back after the cursor was first
 * seen, it is the time after the cursor: a bulk update that gave a hundred thousand records one time is not fetched
 * again for ever. A format that shows minutes or less never leaves the look-back out, and begins one of its steps before
 * it, because a service may take all of a day for one.
 * Null if the cursor is not a time that we can read: then everything must be scanned.
 *
 * A cursor without a zone is read in `zone`, and goes back without one in the same form if it is written `as_sent`: in
 * that of `like`, where the cursor was not written by the service.
 */
export function sinceValue(
  cursor: string,
  incremental: FilterTimeFormat & { lookback: number },
  age: CursorAge | null,
  zone: TimeZone | null = null,
  like = cursor,
): string | null {
  const at = toEpochMs(cursor, zone);
  if (at === -Infinity) return null;
  const step = formatStepMs(incremental.format, cursor);
  const isFine = step <= 1_000;
  // A cursor with microseconds is within its millisecond: a request from there rounds down.
  const isPast =
    isFine &&
    fractionDigits(cursor) <= 3 &&
    !/^\d{15,}/.test(cursor) &&
    age !== null &&
    isLookbackOver(at, { lookback: incremental.lookback, step }, age);
  const from = isPast ? at + step : at - incremental.lookback - (isFine ? 0 : step);
  return isNamedFormat(incremental.format) ? formatTime(from, incremental, like, zone) : new Date(from).toISOString();
}

/**
 * Epoch milliseconds of a time as a service writes it, a Unix time as text too, a time without a zone read in `zone`
 * (UTC without one); -Infinity for any other text.
 */
export function toEpochMs(text: string, zone: TimeZone | null = null): number {
  return parseInstant(isNumber(text) ? Number(text) : text, zone)?.epochMs ?? -Infinity;
}

/** A time of `sinceValue` as the request has it. */
export function formatSince(since: string, form: FilterTimeFormat, zone: TimeZone | null = null): string {
  return isNamedFormat(form.format) ? since : formatTime(toEpochMs(since), form, since, zone);
}

/**
 * A time as the service's filter takes it; `as_sent` writes it in the form of `like`, a time of the service. A time
 * without a zone is one of `zone`, unless the filter has a zone of its own.
 */
export function formatTime(
  epochMs: number,
  { format, zone: own }: FilterTimeFormat,
  like: string,
  zone: TimeZone | null = null,
): string {
  const local = typeof own === 'string' ? timeZone(own) : zone;
  if (!isNamedFormat(format)) return formatPattern(epochMs, format, local);
  const isLocal = local !== null && format === 'as_sent' && isLocalTime(like);
  return isLocal ? formatLocal(epochMs, like, local) : FORMATS[format](epochMs, like);
}

function fractionDigits(text: string): number {
  return /\.(\d+)/.exec(text)?.[1]?.length ?? 0;
}

function isNumber(text: string): boolean {
  return /^\d+(\.\d+)?$/.test(text);
}

function formatPattern(epochMs: number, pattern: string, zone: TimeZone | null): string {
  const parts = parsePattern(pattern) ?? [];
  if (zone === null) return writePattern(parts, epochMs);
  const offset = Math.round((zone.toLocal(epochMs) - epochMs) / 60_000);
  return writePattern(parts, hasOffset(parts) ? zone.toLocal(epochMs) : earliestLocal(epochMs, zone), offset);
}

/** Local time in the form of the cursor, cut off as that is. */
function formatLocal(epochMs: number, cursor: string, zone: TimeZone): string {
  const text = new Date(earliestLocal(epochMs, zone)).toISOString();
  const [date, clock] = [text.slice(0, 10), text.slice(11, cursor.includes('.') ? 23 : Math.min(cursor.length, 19))];
  return `${date}${cursor.charAt(10)}${clock}`;
}

/**
 * Of an hour that is there twice, when clocks are put back, the service's filter may take either: then the scan starts
 * before both.
 */
function earliestLocal(epochMs: number, zone: TimeZone): number {
  const local = zone.toLocal(epochMs);
  return local - zone.spread(local);
}

/**
 * True if nothing that the look-back allows for can still come before the time after the cursor, because the last scan
 * would have seen it.
 */
function isLookbackOver(
  cursor: number,
  { lookback, step }: { lookback: number; step: number },
  { first, last }: CursorAge,
): boolean {
  return last - first >= lookback && last - cursor >= lookback + Math.max(roundingMs(cursor), step === 1 ? 0 : step);
}

/** A service whose times are rounded down to the hour still writes this hour's time when most of it has passed. */
function roundingMs(epochMs: number): number {
  return ROUND_UNITS_MS.find((unit) => epochMs % unit === 0) ?? 0;
}

const ROUND_UNITS_MS = [86_400_000, 3_600_000, 60_000, 1_000] as const;

/** The smallest difference in milliseconds that a format can write; `as_sent` writes like `cursor`. */
export function formatStepMs(format: string, cursor = ''): number {
  if (!isNamedFormat(format)) return patternStep(parsePattern(format) ?? []);
  if (format !== 'as_sent') return format === 'epoch_s' ? 1_000 : 1;
  return cursor.includes('.') || (isNumber(cursor) && cursor.length > 11) ? 1 : 1_000;
}

type Format = (epochMs: number, like: string) => string;

const iso: Format = (epochMs) => new Date(epochMs).toISOString();
const epochSeconds: Format = (epochMs) => String(Math.floor(epochMs / 1_000));
const epochMilliseconds: Format = (epochMs) => String(epochMs);

const FORMATS: Readonly<Record<NamedFormat, Format>> = {
  iso,
  epoch_s: epochSeconds,
  epoch_ms: epochMilliseconds,
  as_sent: (epochMs, like) => {
    if (!isNumber(like)) {
      const fraction = fractionDigits(like);
      // As many digits as the service writes, which may compare texts.
      return iso(epochMs, like).replace(/\.(\d+)/, fraction === 0 ? '' : `.$1${'0'.repeat(Math.max(0, fraction - 3))}`);
    }
    // Unix seconds have ten digits until the year 2286.
    const digits = like.split('.', 1)[0]?.length ?? 0;
    if (digits <= 11) return like.includes('.') ? (epochMs / 1_000).toFixed(3) : epochSeconds(epochMs, like);
    return digits > 14 ? `${epochMs}000` : epochMilliseconds(epochMs, like);
  },
};
