import type { JsonObject } from '../../model/json.ts';
import { keyOf } from '../stage.ts';
import { changeOf } from './times.ts';

/** What is known of a listing without a filter, as a filter is judged by it. */
export interface PlainListing {
  records: readonly JsonObject[];
  id: string;
  updated: readonly string[];
}

/** A filter by days, or one that reads another zone, lists records that changed so long before the moment. */
const MOST_EARLIER_MS = 48 * 3_600_000;
const DAY_MS = 86_400_000;

/**
 * A moment that tells a filter that works from one that does not: some records are later, on the same day if possible,
 * because a service that compares texts of two forms errs within a day only. Null if no record has a time.
 */
export function tellingMoment({ records, updated }: PlainListing): number | null {
  const all = records.map((record) => changeOf(record, updated)).filter((at) => at !== null);
  const times = [...new Set(all)].toSorted((a, b) => a - b);
  const latest = times.at(-1);
  if (latest === undefined) return null;
  if (times.length === 1) return latest - 1_000;
  const usual = Math.max(0, times.length - 1 - Math.max(1, Math.floor(times.length / 10)));
  const isTelling = (at: number): boolean => dayOf(times[at] ?? 0) === dayOf(times[at + 1] ?? Infinity);
  for (let at = usual; at >= 0; at -= 1) if (isTelling(at)) return times[at] ?? null;
  return times[usual] ?? null;
}

function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** Why the records since a moment are not those that changed since; null if they are. `isWhole`: no page follows. */
export function middleFault(
  plain: PlainListing,
  moment: number,
  listed: readonly JsonObject[],
  isWhole: boolean,
): string | null {
  const early = listed.filter((record) => (changeOf(record, plain.updated) ?? moment) < moment - MOST_EARLIER_MS);
  if (early.length > 0) return `${early.length} of ${listed.length} are earlier`;
  const later = plain.records.filter((record) => (changeOf(record, plain.updated) ?? -Infinity) > moment);
  if (listed.length === 0 && later.length > 0) return `none, though ${later.length} are later`;
  const keys = new Set(listed.map((record) => keyOf(record, plain.id)));
  const lacking = isWhole ? later.filter((record) => !keys.has(keyOf(record, plain.id))) : [];
  return lacking.length === 0 ? null : `${lacking.length} later ones are left out`;
}

/** True for records whose times of change never rise, as far as they tell an order at all. */
export function isNewestFirst({ records, updated }: PlainListing): boolean {
  const times = records.map((record) => changeOf(record, updated));
  if (times.some((at) => at === null) || new Set(times).size < 3) return false;
  return times.every((at, index) => index === 0 || (at ?? 0) <= (times[index - 1] ?? 0));
}

/** Ways of writing a moment, in the order in which they are tried. */
export const FORMATS = ['as_sent', 'yyyy-MM-dd HH:mm:ss', 'epoch_s', 'epoch_ms'] as const;

export type MomentFormat = (typeof FORMATS)[number];

/** A moment as a filter takes it; `as_sent` in the form of `like`, a time of the service. */
export function momentText(epochMs: number, format: MomentFormat, like: string): string {
  const iso = new Date(epochMs).toISOString();
  if (format === 'epoch_ms') return String(epochMs);
  if (format === 'epoch_s') return String(Math.floor(epochMs / 1_000));
  if (format === 'yyyy-MM-dd HH:mm:ss') return iso.slice(0, 19).replace('T', ' ');
  if (/^\d+(\.\d+)?$/.test(like)) return like.length > 11 ? String(epochMs) : String(Math.floor(epochMs / 1_000));
  return like.includes('.') ? iso : iso.replace(/\.\d+/, '');
}
