// Scans a resource's listing, or only its first page, for the experiments of this folder, and makes the findings that `check`
// reports.
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { Clock } from '../model/clock.ts';
import { errorReport, type ErrorReport, SyncError } from '../model/errors.ts';
import type { Lane } from '../model/vocabulary.ts';
import type { Page } from '../pagination/page.ts';
import type { ItemSource } from '../pagination/read-item.ts';
import type { ExtraQuery } from '../pagination/requests/filter-query.ts';
import { type ScanOptions, scanPages } from '../pagination/scan-pages.ts';
import { inPartition } from '../pagination/scan-partitions.ts';
import { updatedTime } from '../rows/columns/updated-time.ts';
import { keyIn } from '../rows/records/record-key.ts';

/** Context of requests for the records of one resource. */
export interface RequestContext extends ItemSource {
  clock: Clock;
  /** The listing that is requested, if the resource has several and nothing else says which. */
  partition?: string | null;
}

/** A scan over the resource's listing from its beginning, one page after the other. */
export function listingScan(
  { client, profile, listing, meter, signal, clock, partition }: RequestContext,
  lane: Lane,
  extraQuery: ExtraQuery = {},
): ScanOptions {
  const acceptsEnd = profile.accept.includes('end');
  const acceptsStates = profile.accept.includes('states');
  const isFiltered = extraQuery.values?.['since'] !== undefined;
  const request = { client, resource: profile, listing, meter, signal, clock, lane, ...extraQuery };
  const value = extraQuery.values?.['partition'] ?? partition ?? null;
  const maxPageAgeMs = profile.incremental?.lookback;
  const options = { ...request, runAhead: 0, acceptsEnd, acceptsStates, isFiltered, maxPageAgeMs };
  return profile.partitions === null || value === null ? options : inPartition(options, profile.partitions, value);
}

/** The first page of a listing; null if it has none. Throws what a scan throws. */
export async function firstPage(context: RequestContext, lane: Lane, extraQuery: ExtraQuery): Promise<Page | null> {
  for await (const page of scanPages({ ...listingScan(context, lane, extraQuery), acceptsEnd: false })) return page;
  return null;
}

/** A listed record as the tests of a filter compare it: its key (empty without a usable id) and its time of change. */
export interface ListedRecord {
  key: string;
  /** As the service writes it, and in epoch milliseconds (-Infinity if that cannot be read). */
  text: string;
  at: number;
}

/** One page of a listing as the tests of a filter compare it. */
export interface ListedPage {
  records: readonly ListedRecord[];
  total: number | null;
  isComplete: boolean;
}

/** The keys and times of a page's records. */
export function toListed(
  { records, total, next }: Pick<Page, 'records' | 'total' | 'next'>,
  profile: ResourceProfile,
): ListedPage {
  const listed = records.map(({ value }) => {
    const { text, at } = updatedTime(value, profile) ?? { text: '', at: -Infinity };
    return { key: keyIn(value, profile) ?? '', text, at };
  });
  return { records: listed, total, isComplete: next === null };
}

/** The first page of the listing with these parameters; `refused` if the service refuses the request. */
export async function requestFirstPage(
  context: RequestContext,
  extraQuery: ExtraQuery,
): Promise<ListedPage | 'refused'> {
  try {
    const page = await firstPage(context, 'incremental', extraQuery);
    return page === null ? { records: [], total: null, isComplete: true } : toListed(page, context.profile);
  } catch (error) {
    if (error instanceof SyncError && REFUSALS.has(error.code)) return 'refused';
    throw error;
  }
}

/** Codes of errors by which a service refuses a request for what is in it. */
const REFUSALS: ReadonlySet<string> = new Set(['bad_request', 'forbidden', 'not_found', 'error_in_body']);

/** One thing that was tested against the live service. */
export interface CheckFinding {
  check: string;
  status: 'ok' | 'warn' | 'fail';
  detail: string;
  hint?: string | undefined;
  error?: ErrorReport;
}

const newFinding =
  (status: CheckFinding['status']) =>
  (check: string, detail: string, hint?: string): CheckFinding => ({ check, status, detail, hint });

export const ok = newFinding('ok');
export const warn = newFinding('warn');
export const fail = newFinding('fail');

/** The finding of a test that threw. */
export function failure(check: string, error: unknown): CheckFinding {
  const report = errorReport(error);
  return { check, status: 'fail', detail: report.message, hint: report.hint, error: report };
}
