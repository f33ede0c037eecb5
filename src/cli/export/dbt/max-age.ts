import type { SourceSettings } from '../../../settings/settings.ts';
import { timesOf } from '../../../trigger/schedule/due.ts';
import type { MaxAge } from './described-source.ts';

const HOUR_MS = 3_600_000;
/** The longest gap of a schedule is found in so many runs, or so many days. */
const MAX_RUNS = 1_000;
const MAX_DAYS_MS = 400 * 24 * HOUR_MS;
const MIN_GAP_MS = HOUR_MS / 2;
const UNSCHEDULED_MS = 12 * HOUR_MS;

/** A warning after two of the longest gaps between runs, so that one run may be missed, an error after six. */
export function maxAge({ name, profile, schedule }: SourceSettings, resource: string, from: number): MaxAge {
  const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
  const { incremental, full } = timesOf({ source: name, resource, hasFilter }, schedule);
  let gap = 0;
  let at = from;
  for (let run = 0; run < MAX_RUNS && at < from + MAX_DAYS_MS; run += 1) {
    const next = Math.min(incremental?.(at) ?? Infinity, full?.(at) ?? Infinity);
    if (next === Infinity) break;
    // The first gap is cut off at its beginning.
    if (run > 0) gap = Math.max(gap, next - at);
    at = next;
  }
  const longest = gap === 0 ? UNSCHEDULED_MS : Math.max(MIN_GAP_MS, gap);
  return { warn_after: period(2 * longest), error_after: period(6 * longest) };
}

/** In whole days if it is more than one: a clock change makes no difference. */
function period(ms: number): MaxAge['warn_after'] {
  const hours = Math.ceil(ms / HOUR_MS);
  return hours < 24 ? { count: hours, period: 'hour' } : { count: Math.round(hours / 24), period: 'day' };
}
