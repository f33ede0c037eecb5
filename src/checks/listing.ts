// Findings of `content-sync check` about a listing: pages, fields, and what other callers get. Example: `fail posts id:
// id repeats within a page`.
import { filterName } from '../config/profile/incremental.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { OtherCaller } from '../http/client.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import type { JsonValue, SourceRecord } from '../model/json.ts';
import { firstPosition, requestAt, type RequestTemplates } from '../pagination/page-styles/listing-request.ts';
import type { PlaceValues } from '../pagination/page-styles/page-position.ts';
import { openPageStyle } from '../pagination/page-styles/page-styles.ts';
import type { Page } from '../pagination/page.ts';
import { type ExtraQuery, filterQuery } from '../pagination/requests/filter-query.ts';
import { countIn } from '../pagination/requests/listing-signals.ts';
import { recordsOf } from '../pagination/requests/read-page.ts';
import { keysOfText } from '../rows/columns/column-name.ts';
import { updatedPaths, updatedTime } from '../rows/columns/updated-time.ts';
import { parseJson } from '../rows/json/parse-json.ts';
import { isObject, unwrapRecord } from '../rows/records/as-record.ts';
import { recordKey } from '../rows/records/record-key.ts';
import { type CallerView, type CallerViews, isRequestRefused } from './credential.ts';
import {
  type CheckFinding,
  fail,
  type ListedPage,
  listingScan,
  ok,
  type RequestContext,
  toListed,
  warn,
} from './listing-scan.ts';

/** What an empty listing shows without the parameters of its page and its filter. */
type UnfilteredListing =
  /** `hidden`: these parameters hide records. `filtered`: `query` of the profile does, which may be meant so. */
  | { is: 'hidden' | 'filtered'; message: string; hint: string }
  /** `unknown`: the service refuses such a request, or none can be made. */
  | { is: 'empty' | 'unknown' };

/**
 * Requests an empty listing again without the parameters of its page and filter: some services take an unknown parameter
 * for a filter by equality, and list nothing. `sentAnyway` is sent in any case. Throws what a request throws.
 */
export async function requestWithoutParameters(
  context: RequestContext,
  sentAnyway: ExtraQuery = {},
): Promise<UnfilteredListing> {
  const { client, listing, profile, meter, signal } = context;
  const { resource, values = {}, extraQuery = {} } = listingScan(context, 'incremental', sentAnyway);
  const count = async (sent: PlaceValues, templates: RequestTemplates = resource): Promise<number | null> => {
    const parts = { target: listing, templates, values };
    try {
      const request = requestAt(parts, firstPosition(parts, { ...extraQuery, ...sent }));
      return recordsOf(await client.get({ ...request, lane: 'incremental', meter, signal }), resource)?.length ?? null;
    } catch (error) {
      signal.throwIfAborted();
      // The listing itself was read: without this response it only stays unknown why it is empty.
      if (!(error instanceof SyncError) || error instanceof DeferredError) throw error;
      return null;
    }
  };
  const omitted = { ...filterQuery(profile, null).extraQuery, ...openPageStyle(profile.page).first };
  const names = Object.keys(omitted);
  const records = names.length === 0 ? 0 : await count({});
  if (records === null) return { is: 'unknown' };
  if (records > 0) {
    const by: string[] = [];
    for (const [name, value] of Object.entries(omitted)) if (!(await count({ [name]: value }))) by.push(name);
    const hiding = (by.length === 0 ? names : by).join(' and ');
    const message = `the listing is empty with ${hiding}, and has ${records} records without: the service takes ${hiding} for a filter`;
    const hint =
      'set page and incremental in the profile to the parameters that the service reads; page.size_param: null sends no size';
    return { is: 'hidden', message, hint };
  }
  const query = profile.partitions === null ? Object.keys(profile.query) : [];
  const all = query.length === 0 ? null : await count({}, { ...resource, query: {} });
  if (all === null || all === 0) return { is: 'empty' };
  const message = `the listing is empty with ${query.join(' and ')}, and has ${all} records without`;
  const hint =
    'take out of query what the service takes for a filter by mistake; if it is meant so, this ends with the first record';
  return { is: 'filtered', message, hint };
}

/**
 * Whether the listing can be read and its end be known, from its first page and the one after it. `bare`: what an empty
 * one shows without parameters.
 */
export function listingFinding(
  [first, ...others]: readonly Page[],
  profile: ResourceProfile,
  bare: UnfilteredListing = { is: 'unknown' },
): CheckFinding {
  const check = 'listing';
  const [second] = others;
  const { records: { length: count } = [], total = null } = first ?? {};
  const more = second === undefined ? 'one page' : `a second page with ${second.records.length}`;
  const stated = total === null ? '' : `, ${total} in all by the service's word`;
  const detail = `page style ${profile.page.style}: ${count} records, ${more}${stated}`;
  if (count === 0 && 'message' in bare) return (bare.is === 'hidden' ? fail : warn)(check, bare.message, bare.hint);
  const hint = 'an empty listing proves nothing: check that the credential may see this resource';
  if (count === 0) return warn(check, detail, hint);
  const [reason] = (others.at(-1) ?? first)?.end?.incompleteReasons ?? [];
  if (reason === undefined) return ok(check, detail);
  return (profile.accept.includes('end') ? warn : fail)(check, `${detail}; ${reason.message}`, reason.hint);
}

/** Whether the records have the id and the time of change that the profile names. */
export function fieldFindings(records: readonly SourceRecord[], profile: ResourceProfile): CheckFinding[] {
  if (records.length === 0) return [];
  const id = idFinding(records, profile);
  return profile.updated === null ? [id] : [id, updatedFinding(records, profile)];
}

function idFinding(records: readonly SourceRecord[], profile: ResourceProfile): CheckFinding {
  const keys = records.map((record) => recordKey(record.value, profile.id));
  const [rejection] = keys.flatMap((key) => ('reject' in key ? [key.reject] : []));
  if (rejection !== undefined) {
    const hint = `the fields there are: ${fieldNames(records[0])}; name the right one as \`id\` in the profile`;
    return fail('id', rejection.detail, hint);
  }
  const distinct = new Set(keys.map((key) => ('key' in key ? key.key : key)));
  const name = [profile.id].flat().join(', ');
  if (distinct.size === records.length) return ok('id', `${name} is there and unique on the page`);
  const hint = 'records that share an id become one row: name the fields that tell them apart as `id`';
  return fail('id', `${name} repeats within a page`, hint);
}

function updatedFinding(records: readonly SourceRecord[], profile: ResourceProfile): CheckFinding {
  const check = 'updated';
  const readable = records.filter(({ value }) => updatedTime(value, profile) !== null).length;
  const detail = `${updatedPaths(profile).join(', else ')} is a time in ${readable} of ${records.length} records`;
  if (readable === records.length) return ok(check, detail);
  const without = `${detail}; the fields are ${fieldNames(records[0])}`;
  const other = 'if another field holds the time of change, name it as `updated`';
  if (profile.incremental === null) return warn(check, without, `a change is then known by the body alone; ${other}`);
  return (profile.accept.includes('filter') ? warn : fail)(
    check,
    `${without}; ${records.length - readable} of them can never be found by ${filterName(profile.incremental)}`,
    `${other}; else set \`incremental: null\`: as long as such records exist, every sync is a full scan`,
  );
}

function fieldNames(record: SourceRecord | undefined): string {
  const value = record?.value;
  return typeof value === 'object' && value !== null ? Object.keys(value).slice(0, 20).join(', ') : 'none';
}

/** Whether the fields that the profile hides are there: under another name they would be copied as they are. */
export function hiddenFields(records: readonly SourceRecord[], { fields, unwrap }: ResourceProfile): CheckFinding[] {
  if (records.length === 0) return [];
  // As masks know the records, before anything was hidden.
  const values = records.map(({ value, asSent }) =>
    asSent === undefined ? value : unwrapRecord(parseJson(asSent.toString()), unwrap),
  );
  return Object.entries(fields).flatMap(([path, { hash, exclude }]) => {
    const isThere = values.some((value) => hasPath(value, keysOfText(path)));
    if (isThere || !(hash || exclude)) return [];
    const hint = 'name it as the path that leads to it, such as author.email; under another name it is copied as it is';
    return [warn('fields', `fields names ${path}, which no record on the page has`, hint)];
  });
}

function hasPath(value: JsonValue, [key, ...rest]: readonly string[]): boolean {
  if (Array.isArray(value)) return value.some((element) => hasPath(element, key === undefined ? [] : [key, ...rest]));
  return key === undefined || (isObject(value) && Object.hasOwn(value, key) && hasPath(value[key] ?? null, rest));
}

/** Requests the page once more without a credential and with a false one, to see whether the service looks at it. */
export async function requestAsOthers(context: RequestContext, page: Page): Promise<CallerViews> {
  const own = toView(toListed(page, context.profile));
  const nobody = await requestAs(context, page, 'nobody');
  return { own, nobody, stranger: await requestAs(context, page, 'stranger') };
}

async function requestAs(context: RequestContext, { position }: Page, as: OtherCaller): Promise<CallerView> {
  const { client, listing, profile, meter, signal } = context;
  const { resource, values = {} } = listingScan(context, 'incremental');
  const request = requestAt({ target: listing, templates: profile, values }, position);
  try {
    const answer = await client.get({ ...request, lane: 'incremental', meter, signal, as });
    const records = recordsOf(answer, resource);
    // A response that is no listing counts as a refusal.
    if (records === null) return null;
    return toView(toListed({ records, total: countIn(answer, profile.page.total ?? null), next: null }, profile));
  } catch (error) {
    if (isRequestRefused(error)) return null;
    throw error;
  }
}

function toView({ records, total }: ListedPage): CallerView {
  const size = total === null ? `${records.length} records on the first page` : `${total} records`;
  return { size, content: [total, ...records.map(({ key }) => key)].join('\n') };
}
