// `content-sync check`: tests what the profile says of one resource against the live service. A wrong `records` or `id`
// would stop every sync, and a filter that the service ignores would miss changes; here both are findings with a hint.
import { keyIn } from '../rows/records/record-key.ts';
import { credentialFinding } from '../checks/credential.ts';
import { filterFinding, orderFinding } from '../checks/filter.ts';
import { itemFinding } from '../checks/item.ts';
import {
  type CheckFinding,
  fail,
  failure,
  firstPage,
  listingScan,
  ok,
  type RequestContext,
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
import { findParent } from '../config/profile/request-fields.ts';
import { sendsRangeEnd } from '../config/profile/resource.ts';
import type { SourceRecord } from '../model/json.ts';
import { timeZone } from '../model/time-zone.ts';
import type { Page } from '../pagination/page.ts';
import { keyParts } from '../pagination/read-item.ts';
import type { ExtraQuery } from '../pagination/requests/filter-query.ts';
import { type ScanOptions, scanPages } from '../pagination/scan-pages.ts';
import { fieldAt, recordsPassingFilter } from '../rows/records/as-record.ts';
import { refuseOutside } from './reports/read-range.ts';
import {
  addDays,
  dayReading,
  localDay,
  rangeQuery,
  type ReportRange,
  toDay,
  windowAt,
} from './reports/report-windows.ts';

/**
 * Tests a resource with about ten requests: two pages of its listing, the filter, report windows, single records, and
 * requests without the credential. `credential` is `identified` if a request has shown that the service accepts it,
 * `unproved` if not, and `none` if none is sent. An error of the service becomes a finding; only an interruption throws.
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
    const unfiltered = isEmpty ? await requestWithoutParameters(context, sampleQuery(context)) : undefined;
    return listingFinding(pages, profile, unfiltered);
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

/** Yields the first two pages, with the checks of a scan. A second page that is not the last one has no `end`. */
async function* twoPages(context: RequestContext): AsyncGenerator<Page> {
  const scan = { ...listingScan(context, 'incremental', sampleQuery(context)), numbering: { isVerified: false } };
  let pages = 0;
  let isStopped = false;
  const isEnough: ScanOptions['isEnough'] = () => (page) => {
    pages += 1;
    isStopped = pages === 2 && page.next !== null;
    return isStopped;
  };
  for await (const page of scanPages({ ...scan, isEnough })) yield isStopped ? { ...page, end: null } : page;
}

const NO_PARENT = warn('listing', 'the service lists no record of the parent, so there is no listing to ask for');

/** Runs one test; its error becomes a finding. */
async function runTest(check: string, signal: AbortSignal, test: () => Promise<CheckFinding>): Promise<CheckFinding> {
  try {
    return await test();
  } catch (error) {
    signal.throwIfAborted();
    return failure(check, error);
  }
}

/** Further pages of a sample would show nothing else. */
const MAX_PAGES = 5;
/** A window that ended this many days ago is over in every time zone, and the service has counted it. */
const DAYS_BACK = 2;

/** The range of a window that has ended (`one`), and of that window and the next (`two`). */
function sampleRanges({ granularity, zone }: ReportWindows, now: number): { one: ReportRange; two: ReportRange } {
  const today = localDay(now, timeZone(zone));
  const second = windowAt(addDays(today, -DAYS_BACK), granularity);
  const first = windowAt(addDays(second.start, -1), granularity);
  return {
    one: { windows: [first], from: first.start, to: first.end },
    two: { windows: [first, second], from: first.start, to: second.end },
  };
}

/** The parameters for a sample of the listing: reports are requested for two windows. */
function sampleQuery({ profile, clock }: RequestContext): ExtraQuery {
  const { windows } = profile;
  if (windows === null) return {};
  const { one, two } = sampleRanges(windows, clock.now());
  const hasEnd = sendsRangeEnd(profile);
  return rangeQuery(windows, hasEnd ? two : one, hasEnd);
}

/**
 * Tests that the service lists the records of the requested days, including those of the last day: a range may end before
 * its last day or after it, and a wrong profile would miss that day. Throws errors of the scan, and `window_outside`.
 */
async function windowsFinding(context: RequestContext, windows: ReportWindows): Promise<CheckFinding> {
  const { profile, clock } = context;
  const { one, two } = sampleRanges(windows, clock.now());
  const hasEnd = sendsRangeEnd(profile);
  const reading = dayReading(profile, windows);
  const readSample = async (range: ReportRange) => {
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
  const { records, isReadToEnd } = await readSample(one);
  const wider = hasEnd ? (await readSample(two)).records : [];
  const last = addDays(one.to, -1);
  const days = one.from === last ? one.from : `${one.from} to ${last}`;
  // In the wider range the last day of the first window is not at the end.
  const inWider = wider.filter(({ value }) => (toDay(fieldAt(value, windows.field), reading) ?? '') < one.to).length;
  const check = 'windows';
  if (isReadToEnd && records.length < inWider) {
    const detail = `asked for ${days} the service lists ${records.length} rows, and ${inWider} of the same days where more is asked for: it does not count the end of a range in`;
    const hint = windows.to_inclusive
      ? 'set windows.to_inclusive: false, or windows.zone'
      : 'set windows.zone, or windows.format with the time of day';
    return fail(check, detail, hint);
  }
  if (records.length > 0) return ok(check, `${records.length} rows for ${days}, all of these days`);
  const hint = 'an empty report proves nothing: check windows.field, from_param, to_param, format and zone';
  return warn(check, `nothing is listed for ${days}`, hint);
}

/**
 * One of the listings of a resource that has several: that of the first value, or of the first record that the service
 * lists of its parent. Null if none exists, or the resource has one listing. Throws what a scan throws.
 */
async function samplePartition(context: RequestContext, resources: Profile['resources']): Promise<string | null> {
  const { partitions } = context.profile;
  if (partitions !== null && 'values' in partitions) return partitions.values[0] ?? null;
  const parent = resources[findParent(context.profile) ?? ''];
  if (partitions === null || parent === undefined) return null;
  const above = { ...context, profile: parent };
  const page = await firstPage({ ...above, partition: await samplePartition(above, resources) }, 'incremental', {});
  const [record] = recordsPassingFilter(page?.records ?? []);
  if (record === undefined) return null;
  const { parent_id: path } = partitions;
  const id = path === null ? keyIn(record.value, parent) : fieldAt(record.value, path);
  if (typeof id !== 'string' && typeof id !== 'number') return null;
  return path === null ? keyParts(parent, String(id)).id : String(id);
}
