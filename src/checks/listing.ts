// Findings of `content-sync check` about a listing: pages, page size, fields, clock, and what other callers get.
import { filterName } from '../config/profile/incremental.ts';
import type { ResourceProfile } from '../config/profile/profile.ts';
import type { OtherCaller } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import { DeferredError, SyncError } from '../model/errors.ts';
import type { JsonValue, SourceRecord } from '../model/json.ts';
import { firstPosition, requestAt, type RequestTemplates } from '../pagination/page-styles/listing-request.ts';
import type { PlaceValues } from '../pagination/page-styles/page-position.ts';
import { openPageStyle } from '../pagination/page-styles/page-styles.ts';
import type { Page } from '../pagination/page.ts';
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
  type ExtraQuery,
  fail,
  filterQuery,
  type ListedPage,
  listingScan,
  ok,
  type RequestContext,
  toListed,
  warn,
} from './listing-scan.ts';

/** What an empty listing shows without the parameters of its page and its filter. */
type UnfilteredListing =
  /** There are records, which these parameters hide. */
  | { is: 'hidden'; records: number; by: readonly string[] }
  /** There are records without `query` of the profile, which may be meant to leave them out. */
  | { is: 'filtered'; records: number; by: readonly string[] }
  | { is: 'empty' }
  /** The service refuses such a request, or none can be made. */
  | { is: 'unknown' };

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
  const omitted = { ...filterQuery(profile, null).extraQuery, ...openPageStyle(profile.page).first };
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
  const names = Object.keys(omitted);
  const records = names.length === 0 ? 0 : await count({});
  if (records === null) return { is: 'unknown' };
  if (records === 0) {
    const query = profile.partitions === null ? Object.keys(profile.query) : [];
    const all = query.length === 0 ? 0 : ((await count({}, { ...resource, query: {} })) ?? 0);
    return all === 0 ? { is: 'empty' } : { is: 'filtered', records: all, by: query };
  }
  const by: string[] = [];
  for (const [name, value] of Object.entries(omitted)) if (!(await count({ [name]: value }))) by.push(name);
  return { is: 'hidden', records, by: by.length === 0 ? names : by };
}

/** The message that parameters hide the records of a listing, and what to do. */
export function describeHidden({ is, records, by }: Extract<UnfilteredListing, { by: unknown }>): {
  message: string;
  hint: string;
} {
  const names = by.join(' and ');
  const message = `the listing is empty with ${names}, and has ${records} records without`;
  if (is === 'filtered') {
    return {
      message,
      hint: 'take out of query what the service takes for a filter by mistake; if it is meant so, this ends with the first record',
    };
  }
  return {
    message: `${message}: the service takes ${names} for a filter`,
    hint: 'set page and incremental in the profile to the parameters that the service reads; page.size_param: null sends no size',
  };
}

/**
 * Whether the listing can be read and its end be known, from its first page and the one after it. `bare`: what an empty
 * one shows without parameters.
 */
export function listingFinding(
  pages: readonly Page[],
  profile: ResourceProfile,
  bare: UnfilteredListing = { is: 'unknown' },
): CheckFinding {
  const check = 'listing';
  const [first, second] = pages;
  const stated = first?.total ?? null;
  const total = stated === null ? '' : `, ${stated} in all by the service's word`;
  const count = first?.records.length ?? 0;
  const more = second === undefined ? 'one page' : `a second page with ${second.records.length}`;
  const detail = `page style ${profile.page.style}: ${count} records, ${more}${total}`;
  if (count === 0 && 'by' in bare) {
    const { message, hint } = describeHidden(bare);
    return (bare.is === 'hidden' ? fail : warn)(check, message, hint);
  }
  if (count === 0) {
    return warn(check, detail, 'an empty listing proves nothing: check that the credential may see this resource');
  }
  const [reason] = pages.at(-1)?.end?.incompleteReasons ?? [];
  if (reason === undefined) return ok(check, detail);
  return (profile.accept.includes('end') ? warn : fail)(check, `${detail}; ${reason.message}`, reason.hint);
}

export function pageSizeFindings(
  [first, second]: readonly Page[],
  { page: { size, size_param } }: ResourceProfile,
): CheckFinding[] {
  const received = first?.records.length ?? 0;
  const continues = first !== undefined && first.next !== null && second?.records.length !== 0;
  if (size_param === null || received === 0 || (continues ? received === size : received <= size)) return [];
  const detail = `${size} records were asked for with ${size_param}, and the first page held ${received}`;
  const hint =
    'set page.size to what the service gives, and page.size_param to the parameter that it reads (null for none)';
  return [warn('page size', detail, hint)];
}

/** Whether the records have the id and the time of change that the profile names. */
export function fieldFindings(records: readonly SourceRecord[], profile: ResourceProfile): CheckFinding[] {
  if (records.length === 0) return [];
  const id = idFinding(records, profile);
  return profile.updated === null ? [id] : [id, updatedFinding(records, profile)];
}

function idFinding(records: readonly SourceRecord[], profile: ResourceProfile): CheckFinding {
  const keys = records.map((record) => recordKey(record.value, profile.id));
  const bad = keys.find((key) => 'reject' in key);
  const distinct = new Set(keys.map((key) => ('key' in key ? key.key : key)));
  const name = [profile.id].flat().join(', ');
  if (bad !== undefined && 'reject' in bad) {
    const hint = `the fields there are: ${fieldNames(records[0])}; name the right one as \`id\` in the profile`;
    return fail('id', bad.reject.detail, hint);
  }
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

/** Beyond this the service's clock and ours differ by more than a slow answer explains. */
const CLOCK_SKEW_MS = 30_000;

/** Whether the service's clock, by the answer's `Date`, agrees with ours. */
export function clockFinding(page: Page, clock: Clock): CheckFinding {
  const check = 'clock';
  if (page.serverDate === null) {
    const detail = "the answers have no Date within a day of this machine's clock, so the service's is not known";
    return warn(check, detail, "see that this machine's clock is right");
  }
  const skew = Math.round((page.serverDate - clock.now()) / 1_000);
  if (Math.abs(skew) * 1_000 <= CLOCK_SKEW_MS) return ok(check, `within ${Math.abs(skew) + 1} s`);
  const detail = `the service's clock is ${Math.abs(skew)} s ${skew > 0 ? 'ahead of' : 'behind'} this machine's`;
  return warn(check, detail, "cursors follow the service's clock, so nothing is lost by it");
}

/** Whether the records of a page have the fields that the profile describes, and the field of their state. */
export function describedFields(
  records: readonly SourceRecord[],
  { fields, state, unwrap }: ResourceProfile,
): CheckFinding[] {
  if (records.length === 0) return [];
  // As columns and masks know it, before anything was hidden.
  const values = records.map(({ value, asSent }) =>
    asSent === undefined ? value : unwrapRecord(parseJson(asSent.toString()), unwrap),
  );
  const missing = Object.entries(fields).filter(([path]) => !values.some((value) => hasPath(value, keysOfText(path))));
  const named = missing.map(([path, { hash, exclude }]) => {
    const harm = hash || exclude ? '; under another name it is copied as it is' : '';
    const hint = `name it as the path that leads to it, such as author.email${harm}`;
    return warn('fields', `fields names ${path}, which no record on the page has`, hint);
  });
  return state === null ? named : [...named, stateFinding(values, state)];
}

function hasPath(value: JsonValue, keys: readonly string[]): boolean {
  if (Array.isArray(value)) return value.some((element) => hasPath(element, keys));
  const [key, ...rest] = keys;
  if (key === undefined) return true;
  return isObject(value) && Object.hasOwn(value, key) && hasPath(value[key] ?? null, rest);
}

function stateFinding(
  values: readonly JsonValue[],
  { field, published }: NonNullable<ResourceProfile['state']>,
): CheckFinding {
  const check = 'state';
  const states = values.flatMap((value) => valuesAt(value, keysOfText(field)));
  const hint =
    'set state to the field that holds it, with its values in which a record is published; `state: null` where there is none';
  if (states.length === 0) return warn(check, `no record on the page has the field ${field}`, hint);
  const texts = states.map((state) => (typeof state === 'string' ? state : JSON.stringify(state)));
  const shown = texts.filter((text) => published.some((one) => String(one) === text)).length;
  const detail = `${shown} of ${values.length} records on the page are published, by ${field}`;
  if (shown > 0) return ok(check, detail);
  const others = [...new Set(states.map((state) => JSON.stringify(state)))].slice(0, 5).join(', ');
  return warn(check, `${detail}, which is ${others}`, hint);
}

function valuesAt(value: JsonValue, keys: readonly string[]): JsonValue[] {
  const [key, ...rest] = keys;
  if (key === undefined) return value === null ? [] : [value];
  return isObject(value) && Object.hasOwn(value, key) ? valuesAt(value[key] ?? null, rest) : [];
}

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
