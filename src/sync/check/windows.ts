import { walk } from '../../extract/walk.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { timeZone } from '../../model/time-zone.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import { asksForEnd, type ReportWindows } from '../../source/report-windows.ts';
import { listingWalk, type ExtraQuery, type RequestContext, type CheckFinding } from '../../checks/listing-walk.ts';
import { compareTotals, refuseOutside } from '../reports/range-contents.ts';
import { dayOf, dayReading, addDays, localDay, windowAt } from '../reports/report-days.ts';
import { rangeQuery, type ReportRange } from '../reports/report-ranges.ts';

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

interface Answer {
  records: SourceRecord[];
  body: JsonValue;
  isWhole: boolean;
}

/** Whether a range lists what is of its days, all of it, and as many as its totals say. Throws what walking throws, and `window_outside`. */
export async function windowsFinding(context: RequestContext, windows: ReportWindows): Promise<CheckFinding> {
  const { profile, clock } = context;
  const { one, two } = sampleRanges(windows, clock.now());
  const hasEnd = asksForEnd(profile);
  const reading = dayReading(profile, windows);
  const answer = await answerFor(context, windows, one, hasEnd);
  refuseOutside(answer.records, one, { windows, reading });
  const wider = hasEnd ? await answerFor(context, windows, two, hasEnd) : null;
  if (wider !== null) refuseOutside(wider.records, two, { windows, reading });
  const last = addDays(one.to, -1);
  const asked = one.from === last ? one.from : `${one.from} to ${last}`;
  const ofOne = (wider?.records ?? []).filter(
    ({ value }) => (dayOf(fieldAt(value, windows.field), reading) ?? '') < one.to,
  );
  if (answer.records.length < ofOne.length && answer.isWhole) return endFinding(asked, answer, ofOne.length, windows);
  if (answer.records.length === 0) {
    const hint = 'an empty report proves nothing: check windows.field, from_param, to_param, format and zone';
    return { check: 'windows', status: 'warn', detail: `nothing is listed for ${asked}`, hint };
  }
  return answerFinding(asked, answer, windows);
}

function endFinding(asked: string, { records }: Answer, more: number, windows: ReportWindows): CheckFinding {
  const detail = `asked for ${asked} the service lists ${records.length} rows, and ${more} of the same days where more is asked for: it does not count the end of a range in`;
  const hint = windows.to_inclusive
    ? 'set windows.to_inclusive: false, or windows.zone'
    : 'set windows.zone, or windows.format with the time of day';
  return { check: 'windows', status: 'fail', detail, hint };
}

function answerFinding(asked: string, { records, body, isWhole }: Answer, windows: ReportWindows): CheckFinding {
  const rows = `${records.length} rows for ${asked}, all of these days`;
  if (windows.most !== null && records.length >= windows.most) {
    const detail = `${rows}; as many as the service lists for one query: there may be more`;
    return { check: 'windows', status: 'warn', detail, hint: 'nothing smaller than a window can be asked for' };
  }
  const differs = isWhole ? compareTotals(windows.totals, body, records) : [];
  if (differs.length > 0) {
    const sums = differs.map(({ field, told, counted }) => `${field}: ${counted} counted, ${told ?? 'nothing'} told`);
    const hint =
      'set windows.totals to where the sums of the range stand; set windows.most if the service leaves rows out';
    return { check: 'windows', status: 'fail', detail: `${rows}, but ${sums.join(', ')}`, hint };
  }
  const fields = Object.keys(windows.totals);
  const sums = fields.length === 0 || !isWhole ? '' : `, with the sums of ${fields.join(' and ')} that it tells`;
  return { check: 'windows', status: 'ok', detail: `${rows}${sums}` };
}

async function answerFor(
  context: RequestContext,
  windows: ReportWindows,
  range: ReportRange,
  hasEnd: boolean,
): Promise<Answer> {
  const found: Answer = { records: [], body: null, isWhole: false };
  let pages = 0;
  for await (const page of walk(listingWalk(context, 'incremental', rangeQuery(windows, range, hasEnd)))) {
    found.records.push(...page.records);
    found.body = page.answer?.json ?? null;
    found.isWhole = page.next === null;
    pages += 1;
    if (pages === MOST_PAGES) break;
  }
  return found;
}
