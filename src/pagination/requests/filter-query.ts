// Builds the parameters that request only what changed: `filterQuery` from the time that `sinceValue` computes. Example:
// after the newest change at 12:00, with a look-back of 10 minutes, the filter `param: since` in Unix seconds is sent as
// `?since=1767613800`, which is 11:50.
import { fillTemplate, parsePlace, type TemplateValues } from '../../config/profile/basic-fields.ts';
import {
  filterName,
  filterTemplates,
  type IncrementalProfile,
  hasOffset,
  isNamedFormat,
  type NamedFormat,
  parsePattern,
  patternStep,
  writePattern,
} from '../../config/profile/incremental.ts';
import { timeZone, type TimeZone } from '../../model/time-zone.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { formatPlaceValue, type PlaceValue, type PlaceValues } from '../page-styles/page-position.ts';
import { keyParts } from '../read-item.ts';
import type { ScanOptions } from '../scan-pages.ts';
import { updatedZone } from '../../rows/columns/updated-time.ts';
import { isLocalTime, parseInstant } from '../../rows/columns/cells.ts';

/** Parameters of a scan in addition to those of the profile. */
export type ExtraQuery = Pick<ScanOptions, 'extraQuery' | 'values'>;

/**
 * The parameters that request what changed since a time of `sinceValue`; none for the whole listing. A sort by time of
 * change is part of every scan, so that each scan verifies it.
 */
export function filterQuery(profile: ResourceProfile, since: string | null): ExtraQuery {
  const { incremental } = profile;
  if (incremental?.mode === 'newest_first') return { extraQuery: fillFilter(incremental, {}) };
  if (since === null || incremental === null) return {};
  return filterSince(incremental, formatSince(since, incremental, updatedZone(profile)));
}

/** The parameters of the filter for a time as the service takes it. Throws `SyncError` for one that cannot be sent. */
export function filterSince(incremental: IncrementalProfile, since: string): ExtraQuery {
  const values = { since };
  return { extraQuery: fillFilter(incremental, values), values };
}

function fillFilter(incremental: IncrementalProfile, values: TemplateValues): PlaceValues {
  const filled: Record<string, PlaceValue> = {};
  for (const [place, value] of filterTemplates(incremental)) {
    const { in: part } = parsePlace(place);
    const text = fillTemplate(value, values, part === 'template' ? 'query' : part);
    // A Unix time that is all of a field in a JSON body is a number there.
    const isNumber = part === 'body' && /^\{\w+\}$/.test(value) && /^\d+$/.test(text ?? '');
    if (text !== null) filled[place] = isNumber ? Number(text) : text;
  }
  return filled;
}

/** The filter as users read it: `updated_since=2026-11-20T12:00:00Z`. */
export function filterText(incremental: IncrementalProfile, { extraQuery = {}, values }: ExtraQuery): string {
  const name = filterName(incremental);
  return `${name}=${formatPlaceValue(extraQuery[name] ?? values?.['since'] ?? '')}`;
}

/** The query for the partition that the record with this key comes from. */
export function withPartition(profile: ResourceProfile, key: string, query: ExtraQuery): ExtraQuery {
  const { partition } = keyParts(profile, key);
  return partition === null ? query : { ...query, values: { ...query.values, partition } };
}

/** When the cursor was first seen, and when the last scan began, by the service's clock in epoch milliseconds. */
interface CursorAge {
  first: number;
  last: number;
}

interface FilterTimeFormat {
  format: string;
  zone?: string | null;
}

/**
 * Returns the time from which changes are requested: the cursor less the look-back, in a form that `toEpochMs` reads (a
 * date pattern is applied later, by `formatSince`). Null if the cursor is not a time: then everything must be scanned.
 *
 * The look-back finds records that were committed late or share a time with the cursor. Once a scan has covered a whole
 * look-back after the cursor was first seen, the result is the time just after the cursor, so that records which a bulk
 * update gave one time are not fetched again and again. A format in steps of a minute or more always has the look-back,
 * and starts a step earlier, because a service may round to the day.
 *
 * A cursor without a zone is read in `zone`; the format `as_sent` writes the result like it, or like `like`.
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

/** Formats a time of `sinceValue` for the request. */
export function formatSince(since: string, form: FilterTimeFormat, zone: TimeZone | null = null): string {
  return isNamedFormat(form.format) ? since : formatTime(toEpochMs(since), form, since, zone);
}

/**
 * Formats a time as the service's filter takes it; `as_sent` writes it like `like`, a time of the service. A time
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

const FORMATS: Readonly<Record<NamedFormat, (epochMs: number, like: string) => string>> = {
  iso: (epochMs) => new Date(epochMs).toISOString(),
  epoch_s: (epochMs) => String(Math.floor(epochMs / 1_000)),
  epoch_ms: (epochMs) => String(epochMs),
  as_sent: (epochMs, like) => {
    if (!isNumber(like)) {
      const fraction = fractionDigits(like);
      // As many digits as the service writes, which may compare texts.
      return FORMATS.iso(epochMs, like).replace(
        /\.(\d+)/,
        fraction === 0 ? '' : `.$1${'0'.repeat(Math.max(0, fraction - 3))}`,
      );
    }
    // Unix seconds have ten digits until the year 2286.
    const digits = like.split('.', 1)[0]?.length ?? 0;
    if (digits <= 11) return like.includes('.') ? (epochMs / 1_000).toFixed(3) : FORMATS.epoch_s(epochMs, like);
    return digits > 14 ? `${epochMs}000` : FORMATS.epoch_ms(epochMs, like);
  },
};
