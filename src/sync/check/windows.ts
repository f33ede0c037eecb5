import { walk } from '../../pagination/walk.ts';
import type { SourceRecord } from '../../model/json.ts';
import { timeZone } from '../../model/time-zone.ts';
import { fieldAt } from '../../rows/records/field-at.ts';
import { asksForEnd, type ReportWindows } from '../../config/profile/report-windows.ts';
import { listingWalk, type ExtraQuery, type RequestContext, type CheckFinding } from '../../checks/listing-walk.ts';
import { refuseOutside } from '../reports/range-checks.ts';
import {
  addDays,
  dayOf,
  dayReading,
  localDay,
  rangeQuery,
  type ReportRange,
  windowAt,
} from '../reports/report-windows.ts';

/** Pages of a window that are read at most: more say nothing else. */
const MOST_PAGES = 5;
/** Days back to a window that is over in any zone, and of which a service has its figures. */
const DAYS_BACK = 2;

/** A window that is over, and the one behind it. */
function sampleRanges({ granularity, zone }: ReportWindows, now: number): { one: ReportRange; two: ReportRange } {
  const today = localDay(now, timeZone(zone));
  const second = windowAt(addDays(today, -DAYS_BACK), granularity);
  const first = windowAt(addDays(second.start, -1), granularity);
  return {
    one: { windows: [first], from: first.start, to: first.end },
    two: { windows: [first, second], from: first.start, to: second.end },
  };
}

/** What asks a resource for something to look at: of reports two windows, of others the listing. */
export function sampleQuery({ profile, clock }: RequestContext): ExtraQuery {
  const { windows } = profile;
  if (windows === null) return {};
  const { one, two } = sampleRanges(windows, clock.now());
  const hasEnd = asksForEnd(profile);
  return rangeQuery(windows, hasEnd ? two : one, hasEnd);
}

/**
 * Whether a range lists records of its days only, and those of its last day. Throws what walking throws, and
 * `window_outside`. What totals tell, and windows that are as large as the service lists, are seen by every run.
 */
export async function windowsFinding(context: RequestContext, windows: ReportWindows): Promise<CheckFinding> {
  const { profile, clock } = context;
  const { one, two } = sampleRanges(windows, clock.now());
  const hasEnd = asksForEnd(profile);
  const reading = dayReading(profile, windows);
  const recordsOf = async (range: ReportRange) => {
    const found = { records: [] as SourceRecord[], isWhole: false };
    let pages = 0;
    for await (const page of walk(listingWalk(context, 'incremental', rangeQuery(windows, range, hasEnd)))) {
      found.records.push(...page.records);
      found.isWhole = page.next === null;
      if ((pages += 1) === MOST_PAGES) break;
    }
    refuseOutside(found.records, range, windows, reading);
    return found;
  };
  const { records, isWhole } = await recordsOf(one);
  const wider = hasEnd ? (await recordsOf(two)).records : [];
  const last = addDays(one.to, -1);
  const asked = one.from === last ? one.from : `${one.from} to ${last}`;
  const ofOne = wider.filter(({ value }) => (dayOf(fieldAt(value, windows.field), reading) ?? '') < one.to).length;
  const check = 'windows';
  if (isWhole && records.length < ofOne) {
    const detail = `asked for ${asked} the service lists ${records.length} rows, and ${ofOne} of the same days where more is asked for: it does not count the end of a range in`;
    const hint = windows.to_inclusive
      ? 'set windows.to_inclusive: false, or windows.zone'
      : 'set windows.zone, or windows.format with the time of day';
    return { check, status: 'fail', detail, hint };
  }
  if (records.length > 0)
    return { check, status: 'ok', detail: `${records.length} rows for ${asked}, all of these days` };
  const hint = 'an empty report proves nothing: check windows.field, from_param, to_param, format and zone';
  return { check, status: 'warn', detail: `nothing is listed for ${asked}`, hint };
}
