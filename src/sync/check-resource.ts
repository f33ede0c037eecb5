// `content-sync check`: tests what the profile says of one resource against the live service.
import { credentialFinding } from '../checks/credential.ts';
import { filterFinding, orderFinding } from '../checks/filter.ts';
import { itemFinding } from '../checks/item.ts';
import {
  type CheckFinding,
  type ExtraQuery,
  fail,
  failure,
  listingScan,
  ok,
  type RequestContext,
  samplePartition,
  warn,
} from '../checks/listing-scan.ts';
import {
  fieldFindings,
  hiddenFields,
  listingFinding,
  requestAsOthers,
  requestWithoutParameters,
} from '../checks/listing.ts';
import { timesFindings } from '../checks/times.ts';
import type { ReportWindows } from '../config/profile/incremental.ts';
import type { Profile } from '../config/profile/profile.ts';
import { sendsRangeEnd } from '../config/profile/resource.ts';
import type { SourceRecord } from '../model/json.ts';
import { timeZone } from '../model/time-zone.ts';
import type { Page } from '../pagination/page.ts';
import { type ScanOptions, scanPages } from '../pagination/scan-pages.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { refuseOutside } from './reports/read-range.ts';
import {
  addDays,
  dayOf,
  dayReading,
  localDay,
  rangeQuery,
  type ReportRange,
  windowAt,
} from './reports/report-windows.ts';

/**
 * Tests what the profile assumes of one resource with about ten requests: its listing and a second page, the filter,
 * several records alone, and what another credential gets. `credential`: `identified` if the identity path was seen to
 * answer this one only, `unproved` if not, `none` if none is sent. Never throws for what the service does, except when
 * interrupted.
 */
export async function checkResource(
  request: RequestContext,
  resources: Profile['resources'],
  credential: 'identified' | 'unproved' | 'none',
): Promise<CheckFinding[]> {
  const { profile, signal } = request;
  const pages: Page[] = [];
  let context = request;
  const listed = await runTest('listing', signal, async () => {
    if (profile.partitions !== null) context = { ...request, partition: await samplePartition(request, resources) };
    if (profile.partitions !== null && context.partition === null) return NO_PARENT;
    for await (const page of twoPages(context)) pages.push(page);
    const isEmpty = pages[0]?.records.length === 0;
    return listingFinding(
      pages,
      profile,
      isEmpty ? await requestWithoutParameters(context, sampleQuery(context)) : undefined,
    );
  });
  const [first] = pages;
  if (first === undefined) return [listed];
  const values = first.records.map(({ value }) => value);
  const findings = [
    listed,
    ...fieldFindings(first.records, profile),
    ...timesFindings(values, profile),
    ...hiddenFields(first.records, profile),
  ];
  if (profile.incremental !== null) {
    const { incremental } = profile;
    const isSorted = incremental.mode === 'newest_first';
    const finding = () => (isSorted ? orderFinding(context, first) : filterFinding(context, first, incremental));
    findings.push(await runTest('filter', signal, finding));
  }
  const { windows } = profile;
  if (windows !== null) findings.push(await runTest('windows', signal, () => windowsFinding(context, windows)));
  if (profile.item !== null && first.records.length > 0) {
    const { item } = profile;
    findings.push(await runTest('item', signal, () => itemFinding(context, first.records, item)));
  }
  if (credential !== 'none') {
    const isIdentified = credential === 'identified';
    const finding = async () => credentialFinding(await requestAsOthers(context, first), isIdentified);
    findings.push(await runTest('credential', signal, finding));
  }
  return findings;
}

/** The first page and the one after it. Where the scan is cut short, it has no end, but its numbers are tried. */
async function* twoPages(context: RequestContext): AsyncGenerator<Page> {
  const scan = { ...listingScan(context, 'incremental', sampleQuery(context)), numbering: { isVerified: false } };
  let pages = 0;
  let isCut = false;
  const isEnough: ScanOptions['isEnough'] = () => (page) => (isCut = (pages += 1) === 2 && page.next !== null);
  for await (const page of scanPages({ ...scan, isEnough })) yield isCut ? { ...page, end: null } : page;
}

const NO_PARENT = warn('listing', 'the service lists no record of the parent, so there is no listing to ask for');

/** Runs one test; what it throws becomes its finding. */
async function runTest(check: string, signal: AbortSignal, test: () => Promise<CheckFinding>): Promise<CheckFinding> {
  try {
    return await test();
  } catch (error) {
    signal.throwIfAborted();
    return failure(check, error);
  }
}

/** Pages of a window that are read at most: more say nothing else. */
const MAX_PAGES = 5;
/** Days back to a window that is over in any zone, and of which a service has its figures. */
const DAYS_BACK = 2;

/** A window that has ended (`one`), and that one with the next (`two`). */
function sampleRanges({ granularity, zone }: ReportWindows, now: number): { one: ReportRange; two: ReportRange } {
  const today = localDay(now, timeZone(zone));
  const second = windowAt(addDays(today, -DAYS_BACK), granularity);
  const first = windowAt(addDays(second.start, -1), granularity);
  return {
    one: { windows: [first], from: first.start, to: first.end },
    two: { windows: [first, second], from: first.start, to: second.end },
  };
}

/** The parameters of a sample: of reports two windows, of other resources the listing. */
function sampleQuery({ profile, clock }: RequestContext): ExtraQuery {
  const { windows } = profile;
  if (windows === null) return {};
  const { one, two } = sampleRanges(windows, clock.now());
  const hasEnd = sendsRangeEnd(profile);
  return rangeQuery(windows, hasEnd ? two : one, hasEnd);
}

/**
 * Whether a range lists records of its days only, and those of its last day. Throws what scanning throws, and
 * `window_outside`. What totals tell, and windows that are as large as the service lists, are seen by every run.
 */
async function windowsFinding(context: RequestContext, windows: ReportWindows): Promise<CheckFinding> {
  const { profile, clock } = context;
  const { one, two } = sampleRanges(windows, clock.now());
  const hasEnd = sendsRangeEnd(profile);
  const reading = dayReading(profile, windows);
  const recordsOf = async (range: ReportRange) => {
    const found = { records: [] as SourceRecord[], isReadToEnd: false };
    let pages = 0;
    for await (const page of scanPages(listingScan(context, 'incremental', rangeQuery(windows, range, hasEnd)))) {
      found.records.push(...page.records);
      found.isReadToEnd = page.next === null;
      if ((pages += 1) === MAX_PAGES) break;
    }
    refuseOutside(found.records, range, windows, reading);
    return found;
  };
  const { records, isReadToEnd } = await recordsOf(one);
  const wider = hasEnd ? (await recordsOf(two)).records : [];
  const last = addDays(one.to, -1);
  const days = one.from === last ? one.from : `${one.from} to ${last}`;
  const ofOne = wider.filter(({ value }) => (dayOf(fieldAt(value, windows.field), reading) ?? '') < one.to).length;
  const check = 'windows';
  if (isReadToEnd && records.length < ofOne) {
    const detail = `asked for ${days} the service lists ${records.length} rows, and ${ofOne} of the same days where more is asked for: it does not count the end of a range in`;
    const hint = windows.to_inclusive
      ? 'set windows.to_inclusive: false, or windows.zone'
      : 'set windows.zone, or windows.format with the time of day';
    return fail(check, detail, hint);
  }
  if (records.length > 0) return ok(check, `${records.length} rows for ${days}, all of these days`);
  const hint = 'an empty report proves nothing: check windows.field, from_param, to_param, format and zone';
  return warn(check, `nothing is listed for ${days}`, hint);
}
