// Finds how a listing is split into pages, and how its end is known.
import type { JsonObject } from '../model/json.ts';
import { fieldAt } from '../rows/records/as-record.ts';
import { findSize, findSizeParam, keepRecords, SMALL_PAGE } from './page-size.ts';
import { describeResponse, isRefusal, type ProbeResponse, type QueryParams } from './probe-client.ts';
import { isSamePage, type ProbedListing, recordKeyText, requestPage } from './probed-listing.ts';
import { recordsIn } from './record-lists.ts';
import { countsIn, nextSigns, plainValues } from './response-signs.ts';

/** Parameters for a page's number or offset that go with a parameter for the size; others go with any. */
const NUMBER_PARAMS: Readonly<Record<string, readonly string[]>> = {
  'pagination[pageSize]': ['pagination[page]'],
  'pagination[limit]': ['pagination[start]', 'pagination[offset]'],
  'page[size]': ['page[number]'],
  'page[limit]': ['page[offset]'],
  $top: ['$skip'],
  $limit: ['$skip'],
  _limit: ['_page', '_start'],
  _per_page: ['_page'],
  take: ['skip', 'page'],
  rows: ['start', 'page'],
  limit: ['page', 'offset', 'skip', 'start'],
  count: ['offset', 'page', 'startIndex'],
};
const USUAL_NUMBER_PARAMS = ['page', 'offset', 'skip', 'start', 'p'];
const OFFSET = /offset|skip|start/i;

/** Parameters that take a cursor of a response, with `{field}` for the name of its field; as many are tried at most. */
const CURSOR_PARAMS =
  'cursor after {field} page_token pageToken starting_after next page[after] page[cursor] continuation token marker offset';
const MAX_CURSOR_PARAMS = 9;

const KEY_PARAMS = ['starting_after', 'after', 'after_id', 'since_id', 'last_id', 'min_id', 'cursor', 'start_after'];

/** Sizes that services return by default: that number of records may be all, or only a page. */
const USUAL_SIZES: ReadonlySet<number> = new Set([10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 100, 200, 250, 500, 1_000]);

type PageFields = Readonly<Record<string, unknown>>;

export async function probePages(listing: ProbedListing): Promise<void> {
  const { findings, conventions, first, recordsPath } = listing;
  const totals = countsIn(first, recordsPath).totals.filter(({ value }) => value >= listing.records.length);
  if (totals.length > 0) listing.total = Math.max(...totals.map(({ value }) => value));
  if (await probeLikeBefore(listing)) return;
  const sizeParam = await findSizeParam(listing);
  if (sizeParam === null) return reportOnlyPage(listing);
  const { name } = sizeParam;
  const { size, evidence } = await findSize(listing, name);
  const step = await findStep(listing, name);
  if (step === null) return reportOnlyPage(listing);
  for (const [key, value] of Object.entries(step.page)) findings.proved(['page', key], value, step.evidence);
  findings.proved(['page', 'size_param'], name, sizeParam.evidence);
  findings.proved(['page', 'size'], size, evidence);
  await probeCounts(listing, name);
  const { style, first_cursor: firstCursor } = step.page;
  if (style === 'cursor' || style === 'next-url') await probeLastPage(listing, step.page);
  else if (style === 'page' || style === 'offset') await probePastEnd(listing, step.page, name, size);
  if (firstCursor === undefined) keepStarter(listing);
  conventions.parameters.add(name);
  conventions.page = { fields: { ...step.page, size_param: name }, size };
}

/** Tries the pages of an earlier resource first: if they work here as well, nothing else is tried. */
async function probeLikeBefore(listing: ProbedListing): Promise<boolean> {
  const { conventions, findings } = listing;
  if (conventions.page === null) return false;
  const { fields, size } = conventions.page;
  const sizeParam = String(fields['size_param']);
  const firstPage = { [sizeParam]: String(size) };
  const { response, records } = await requestPage(listing, firstPage);
  if (records === null || (records.length === 0 && listing.records.length > 0)) return false;
  keepRecords(listing, records, firstPage);
  const small = await requestPage(listing, { [sizeParam]: '1' });
  if (!isSamePage(small.records ?? [], records.slice(0, 1), listing.id)) return false;
  const evidence = `as in the resource before; ${describeResponse(response)}, ${records.length} records; ${describeResponse(small.response)}, ${small.records?.length ?? 0}`;
  const add = records.length > 1 ? findings.proved : findings.guessed;
  for (const [key, value] of Object.entries({ ...fields, size })) add(['page', key], value, evidence);
  await probeCounts(listing, sizeParam);
  return true;
}

/** Without a size or a next page: the whole listing in one response, as far as can be seen. */
function reportOnlyPage(listing: ProbedListing): void {
  keepStarter(listing);
  const { findings, records, total, first } = listing;
  const count = records.length;
  const { saysMore } = nextSigns(first, listing.recordsPath);
  const evidence = `${describeResponse(first)}, ${count} records, and no parameter makes it fewer`;
  if (!saysMore && total === count && count > 2) {
    findings.proved(['page', 'style'], 'single', `${evidence}; the total says as many`);
    listing.isWhole = true;
  } else if (saysMore || USUAL_SIZES.has(count) || (total !== null && total > count)) {
    // Numbered pages that do not exist return the first page again, so that a scan fails instead of missing records.
    const why = `${evidence}; as many may be just a page: name its parameters, or set \`style: single\` if there is no more`;
    findings.guessed(['page', 'style'], 'page', why);
    findings.guessed(['page', 'size_param'], null, why);
  } else {
    const few = count > 2 ? '' : ': too few records to see pages';
    findings.guessed(['page', 'style'], 'single', evidence + few);
  }
}

/** A parameter without which the first page is refused is sent with all pages, unless it is a cursor. */
function keepStarter(listing: ProbedListing): void {
  if (Object.keys(listing.starter).length === 0) return;
  listing.query = { ...listing.query, ...listing.starter };
  listing.findings.proved(['query'], listing.query, `${describeResponse(listing.first)}, and refused without it`);
}

/** The total and the number of pages, if the same path states them on a small and on a large page. */
async function probeCounts(listing: ProbedListing, sizeParam: string): Promise<void> {
  const { recordsPath, findings, firstPage } = listing;
  const small = await requestPage(listing, { [sizeParam]: String(SMALL_PAGE) });
  const large = await requestPage(listing, firstPage);
  if (small.records === null || large.records === null) return;
  const [few, many] = [countsIn(small.response, recordsPath), countsIn(large.response, recordsPath)];
  const count = listing.records.length;
  const total = few.totals.find(
    ({ path, value }) => value >= count && many.totals.some((other) => other.path === path && other.value === value),
  );
  if (total === undefined) {
    const { saysMore, cursors } = nextSigns(large.response, recordsPath);
    const isShort = count < Number(firstPage[sizeParam] ?? 0);
    listing.isWhole = !saysMore && cursors.length === 0 && isShort ? true : null;
    return;
  }
  listing.total = total.value;
  listing.isWhole = total.value === count;
  if (total.value !== small.records.length || count > SMALL_PAGE) {
    const evidence = `${total.value} on a page of ${small.records.length} and on one of ${count}`;
    findings.proved(['page', 'total'], total.path, evidence);
  }
  const pages = few.pages.find(({ value }) => value > 1 && value === Math.ceil(total.value / SMALL_PAGE));
  if (pages === undefined) return;
  const evidence = `${pages.value} pages of ${SMALL_PAGE} for ${total.value} records`;
  findings.proved(['page', 'pages'], pages.path, evidence);
}

/** What the service returns past the end of numbered pages. */
async function probePastEnd(
  listing: ProbedListing,
  { style, page_param: pageParam, offset_param: offsetParam }: PageFields,
  sizeParam: string,
  size: number,
): Promise<void> {
  const { findings, total } = listing;
  const page = total === null ? 9_999 : Math.ceil(total / size) + 2;
  const number = style === 'page' ? page : page * size;
  const query = { [sizeParam]: String(size), [String(pageParam ?? offsetParam)]: String(number) };
  const { response, records } = await requestPage(listing, query);
  const evidence = `past the end: ${describeResponse(response)}`;
  if (isRefusal(response)) {
    findings.proved(['page', 'end', 'status'], [response.status], evidence);
    // The first short code or name in the body distinguishes this refusal from others.
    const texts = plainValues(response.json ?? null, '').flatMap(({ path, value }) =>
      typeof value === 'string' && value.length > 3 && value.length <= 80 ? [{ path, contains: value }] : [],
    );
    const mark = texts.find(({ path }) => /(?:code|type|name|error)$/i.test(path)) ?? texts[0];
    if (mark !== undefined) findings.proved(['page', 'end', 'body'], mark, evidence);
  } else if (response.status >= 500) findings.proved(['page', 'end', 'short_page'], true, evidence);
  else if (records !== null && records.length > 0) {
    findings.proved(['page', 'end', 'repeated_page'], true, `${evidence}, ${records.length} records`);
  }
}

/** Whether the last page names no next one, or itself: seen if one page holds all. */
async function probeLastPage(
  listing: ProbedListing,
  { next_cursor: nextCursor, next_url: nextUrl, cursor_param: param }: PageFields,
): Promise<void> {
  const { findings, firstPage, recordsPath, starter } = listing;
  const path = String(nextCursor ?? nextUrl);
  const { response, records } = await requestPage(listing, firstPage);
  if (records === null) return;
  const cursorIn = (page: ProbeResponse): string | undefined => {
    const { cursors, urls } = nextSigns(page, recordsPath);
    return [...cursors, ...urls].find((sign) => sign.path === path)?.value;
  };
  const next = cursorIn(response);
  if (next === undefined) {
    if (fieldAt(response.json ?? null, path) !== undefined) return;
    const evidence = `${describeResponse(response)}, the last page has no ${path}`;
    return findings.proved(['page', 'absent_is_end'], true, evidence);
  }
  if (typeof param !== 'string' || listing.isWhole === false) return;
  let evidence = `on the page that holds all, ${path} is the one that was sent`;
  if (next !== starter[param]) {
    const after = await requestPage(listing, { ...firstPage, [param]: next });
    if (after.records?.length !== 0 || cursorIn(after.response) !== next) return;
    evidence = `${describeResponse(after.response)}, after the last record ${path} is the one that was sent`;
  }
  findings.proved(['page', 'end', 'unchanged_cursor'], true, evidence);
  // Such an end is accepted only after another page, so that pages must be smaller than the listing.
  const count = listing.records.length;
  if (count < 2 || count > 200) return;
  const why = `half of the ${count} records: its end is believed behind another page`;
  findings.proved(['page', 'size'], Math.floor(count / 2), why);
}

/** A page of a few records, from which the step to the second page is tried. */
interface SmallPage {
  response: ProbeResponse;
  records: JsonObject[];
  /** The request for it. */
  sizeParam: string;
  size: number;
}

/** A step that may lead to the second page: by a parameter, or by an address that the response names. */
interface Step {
  page: PageFields;
  query?: QueryParams;
  address?: string;
}

/** The first step that leads from a small page to the second one. */
async function findStep(
  listing: ProbedListing,
  sizeParam: string,
): Promise<{ page: PageFields; evidence: string } | null> {
  const size = listing.records.length > SMALL_PAGE ? SMALL_PAGE : 1;
  const { response, records } = await requestPage(listing, { [sizeParam]: String(size) });
  if (records === null || records.length === 0) return null;
  const small = { response, records, sizeParam, size };
  for (const step of possibleSteps(listing, small)) {
    const next = await followStep(listing, small, step);
    const page = next === null ? null : await pageReached(listing, small, step, next.records ?? []);
    if (next === null || page === null) continue;
    return { page, evidence: `${describeResponse(next.response)}, ${next.records?.length} further records` };
  }
  return null;
}

/** In the order in which they are tried: what the response names, then numbers, then the key of the last record. */
function* possibleSteps(listing: ProbedListing, { response, records, sizeParam, size }: SmallPage): Generator<Step> {
  const { starter, conventions, id } = listing;
  const { urls, cursors, link, hasMore } = nextSigns(response, listing.recordsPath);
  const more = hasMore === null ? {} : { has_more: hasMore };
  for (const { path, value } of urls) yield { page: { style: 'next-url', next_url: path }, address: value };
  for (const { path, value } of cursors) {
    // A number is the next page's, or an offset: these styles can tell the end of a listing by more than its absence.
    if (/^\d+$/.test(value) && !/cursor|token|after|key|id|marker/i.test(path)) continue;
    for (const name of cursorParams(path, starter)) {
      const first = starter[name];
      const begins = first === undefined ? {} : { first_cursor: first };
      const page = { style: 'cursor', cursor_param: name, ...begins, next_cursor: path, ...more };
      yield { page, query: { [name]: value } };
    }
  }
  if (link !== null) yield { page: { style: 'link' }, address: link };
  const isDocumented = (name: string): number => Number(conventions.parameters.has(name));
  const numbers = NUMBER_PARAMS[sizeParam] ?? USUAL_NUMBER_PARAMS;
  for (const name of numbers.toSorted((a, b) => isDocumented(b) - isDocumented(a))) {
    if (OFFSET.test(name)) yield { page: { style: 'offset', offset_param: name }, query: { [name]: String(size) } };
    else yield { page: { style: 'page', page_param: name }, query: { [name]: '2' } };
  }
  const last = records.at(-1);
  if (id === '' || last === undefined) return;
  const key = recordKeyText(last, id).replaceAll('"', '');
  for (const name of KEY_PARAMS) {
    yield { page: { style: 'keyset', cursor_param: name, cursor_field: id, ...more }, query: { [name]: key } };
  }
}

/** Names that may take a cursor, by the path of the field that holds it. */
function cursorParams(path: string, starter: QueryParams): string[] {
  const field = path.split('.').at(-1) ?? '';
  const bare = field.replace(/^next_?/i, '').replace(/^end_?/i, '');
  const own = bare === '' ? [] : [bare.charAt(0).toLowerCase() + bare.slice(1)];
  const usual = CURSOR_PARAMS.replace('{field}', field).split(' ');
  return [...new Set([...Object.keys(starter), ...own, ...usual])].slice(0, MAX_CURSOR_PARAMS);
}

/** Requests the second page; null for an address that is not followed. */
async function followStep(
  listing: ProbedListing,
  { response: { url: smallUrl }, sizeParam, size }: SmallPage,
  { query, address = '' }: Step,
): Promise<{ response: ProbeResponse; records: JsonObject[] | null } | null> {
  if (query !== undefined) return requestPage(listing, { [sizeParam]: String(size), ...query });
  const { client, path, recordsPath, unwrap } = listing;
  const url = URL.parse(address, smallUrl.href);
  // Paths are requested below the base URL, with which the first page's address begins.
  const base = smallUrl.pathname.slice(0, smallUrl.pathname.length - path.length);
  if (url === null || url.origin !== smallUrl.origin || !url.pathname.startsWith(base)) return null;
  const params = Object.fromEntries([...url.searchParams].filter(([, value]) => value !== ''));
  const response = await client.get({ path: url.pathname.slice(base.length), query: params });
  return { response, records: recordsIn(response, recordsPath, unwrap) };
}

/** The page section if the records follow those of the first page, as far as the listing is known; else null. */
async function pageReached(
  listing: ProbedListing,
  { records: first, size, sizeParam }: SmallPage,
  { page }: Step,
  records: readonly JsonObject[],
): Promise<PageFields | null> {
  const { id, records: known } = listing;
  const { style, page_param: param } = page;
  const isNumbered = style === 'page' || style === 'offset';
  const keys = new Set(first.map((record) => recordKeyText(record, id)));
  const isRepeated = isNumbered
    ? isSamePage(first, records, id)
    : records.some((record) => keys.has(recordKeyText(record, id)));
  if (records.length === 0 || isRepeated) return null;
  const key = recordKeyText(records[0] ?? {}, id);
  const position = known.findIndex((record) => recordKeyText(record, id) === key);
  const fromZero = { ...page, first: 0 };
  if (position === first.length) return page;
  if (style === 'page' && position === 2 * size) return fromZero;
  if (position !== -1 || (!isNumbered && known.length > first.length)) return null;
  if (style !== 'page') return page;
  // After the known records it may be the third page as well: the page with the number 1 decides.
  const one = await requestPage(listing, { [sizeParam]: String(size), [String(param)]: '1' });
  return isSamePage(first, one.records ?? [], id) ? page : fromZero;
}
