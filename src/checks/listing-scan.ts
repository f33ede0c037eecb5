// Builds the requests for a resource's listing, with or without its filter, and the findings that `check` reports.
// Example: with the filter `param: since`, what changed since noon is requested as `/posts?since=2026-01-05T12:00:00Z`.
import { fillTemplate, parsePlace, type TemplateValues } from '../config/profile/basic-fields.ts';
import { filterName, filterTemplates, type IncrementalProfile } from '../config/profile/incremental.ts';
import type { Profile, ResourceProfile } from '../config/profile/profile.ts';
import { findParent } from '../config/profile/request-fields.ts';
import type { Clock } from '../model/clock.ts';
import { errorReport, type ErrorReport, SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import type { Lane } from '../model/vocabulary.ts';
import { formatPlaceValue, type PlaceValue, type PlaceValues } from '../pagination/page-styles/page-position.ts';
import type { Page } from '../pagination/page.ts';
import { type ItemSource, keyParts } from '../pagination/read-item.ts';
import { type ScanOptions, scanPages } from '../pagination/scan-pages.ts';
import { inPartition } from '../pagination/scan-partitions.ts';
import { updatedTime, updatedZone } from '../rows/columns/updated-time.ts';
import { fieldAt, recordsPassingFilter } from '../rows/records/as-record.ts';
import { recordKey } from '../rows/records/record-key.ts';
import { formatSince } from '../pagination/requests/since.ts';

/** Context of requests for the records of one resource. */
export interface RequestContext extends ItemSource {
  clock: Clock;
  /** The listing that is requested, if the resource has several and nothing else says which. */
  partition?: string | null;
}

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

/** The query for the partition that the record with this key comes from. */
export function withPartition(profile: ResourceProfile, key: string, query: ExtraQuery): ExtraQuery {
  const { partition } = keyParts(profile, key);
  return partition === null ? query : { ...query, values: { ...query.values, partition } };
}

/** The first page of a listing; null if it has none. Throws what a scan throws. */
export async function firstPage(context: RequestContext, lane: Lane, extraQuery: ExtraQuery): Promise<Page | null> {
  for await (const page of scanPages({ ...listingScan(context, lane, extraQuery), acceptsEnd: false })) return page;
  return null;
}

export function keyIn(value: JsonValue, { id }: { id: ResourceProfile['id'] }): string | null {
  const found = recordKey(value, id);
  return 'key' in found ? found.key : null;
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

/**
 * One of the listings of a resource that has several: that of the first value, or of the first record that the service
 * lists of its parent. Null if none exists, or the resource has one listing. Throws what a scan throws.
 */
export async function samplePartition(
  context: RequestContext,
  resources: Profile['resources'],
): Promise<string | null> {
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
